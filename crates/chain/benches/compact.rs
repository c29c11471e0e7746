//! Parsing, compacting and encoding the vendored blocks, and cutting views from what was encoded.
//!
//! Run with `cargo bench -p lightship-chain`. "Hashed" computes every transaction id from the bytes, "told" takes them from the source, as
//! with a node's database. A sample is one pass over all blocks of its set; the counters are blocks and consensus bytes.

#![allow(clippy::unwrap_used, reason = "a benchmark fails like a test")]

use std::{fs, path::Path};

use divan::{
    Bencher,
    counter::{BytesCount, ItemsCount},
};
use lightship_chain::{
    Height, PoolSet, RawBlock, RawTransaction, TreeSizes, TxId,
    compact::{
        EncodedBlock, compact,
        project::{self, FRAME_PREFIX_BYTES, NullifierView, Stored},
    },
    parse::Block,
};

fn main() {
    divan::main();
}

/// Which of the vendored blocks.
#[derive(Clone, Copy, Debug)]
enum Blocks {
    All,
    /// With shielded parts.
    Shielded,
    /// Without.
    Transparent,
}

const SETS: [Blocks; 3] = [Blocks::All, Blocks::Shielded, Blocks::Transparent];

struct Loaded {
    bytes: Vec<u8>,
    ids: Vec<TxId>,
}

fn load(set: Blocks) -> Vec<Loaded> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/blocks");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .filter(|file| file.extension().is_some_and(|kind| kind == "block"))
        .map(|file| fs::read(file).unwrap())
        .filter(|bytes| {
            let notes = compact(Height::GENESIS, RawBlock::Whole(bytes)).unwrap();
            let shielded = notes.notes != TreeSizes::ZERO;
            match set {
                Blocks::All => true,
                Blocks::Shielded => shielded,
                Blocks::Transparent => !shielded,
            }
        })
        .map(|bytes| {
            let block = Block::parse(&bytes).unwrap();
            let ids = block.transactions().map(|each| each.id()).collect();
            Loaded { bytes, ids }
        })
        .collect()
}

fn counted<'a, 'b>(bencher: Bencher<'a, 'b>, blocks: &[Loaded]) -> Bencher<'a, 'b> {
    let bytes: usize = blocks.iter().map(|block| block.bytes.len()).sum();
    bencher
        .counter(BytesCount::new(bytes))
        .counter(ItemsCount::new(blocks.len()))
}

#[divan::bench(args = SETS)]
fn parse(bencher: Bencher<'_, '_>, set: Blocks) {
    let blocks = load(set);
    counted(bencher, &blocks).bench_local(|| {
        for block in &blocks {
            divan::black_box(Block::parse(&block.bytes).unwrap());
        }
    });
}

#[divan::bench(args = SETS)]
fn compact_hashed(bencher: Bencher<'_, '_>, set: Blocks) {
    let blocks = load(set);
    counted(bencher, &blocks).bench_local(|| {
        for block in &blocks {
            let block = compact(Height::GENESIS, RawBlock::Whole(&block.bytes)).unwrap();
            divan::black_box(block.after(TreeSizes::ZERO));
        }
    });
}

#[divan::bench(args = SETS)]
fn compact_told(bencher: Bencher<'_, '_>, set: Blocks) {
    let blocks = load(set);
    let parts: Vec<_> = blocks.iter().map(pieces).collect();
    counted(bencher, &blocks).bench_local(|| {
        for (header, transactions) in &parts {
            let parts = RawBlock::Parts {
                header,
                transactions,
            };
            let block = compact(Height::GENESIS, parts).unwrap();
            divan::black_box(block.after(TreeSizes::ZERO));
        }
    });
}

fn pieces(block: &Loaded) -> (&[u8], Vec<RawTransaction<'_>>) {
    let parsed = Block::parse(&block.bytes).unwrap();
    let transactions = parsed
        .transactions()
        .zip(&block.ids)
        .map(|(each, &id)| RawTransaction {
            id: Some(id),
            bytes: each.bytes(),
        });
    (parsed.header().bytes(), transactions.collect())
}

#[divan::bench(args = SETS)]
fn ids_only(bencher: Bencher<'_, '_>, set: Blocks) {
    let blocks = load(set);
    let parsed: Vec<_> = blocks
        .iter()
        .map(|block| Block::parse(&block.bytes).unwrap())
        .collect();
    counted(bencher, &blocks).bench_local(|| {
        for block in &parsed {
            for transaction in block.transactions() {
                divan::black_box(transaction.id());
            }
        }
    });
}

fn projected(bencher: Bencher<'_, '_>, project: impl Fn(Stored<'_>, &mut Vec<u8>)) {
    let encoded: Vec<EncodedBlock> = load(Blocks::All)
        .iter()
        .map(|block| {
            let block = compact(Height::GENESIS, RawBlock::Whole(&block.bytes)).unwrap();
            block.after(TreeSizes::ZERO).unwrap()
        })
        .collect();
    let bytes: usize = encoded
        .iter()
        .map(|block| block.frame.len() + block.transparent.len())
        .sum();
    let mut out = Vec::with_capacity(2 * bytes);
    bencher
        .counter(BytesCount::new(bytes))
        .counter(ItemsCount::new(encoded.len()))
        .bench_local(|| {
            out.clear();
            for block in &encoded {
                let (_, message) = block.frame.split_at(FRAME_PREFIX_BYTES);
                project(
                    Stored {
                        message,
                        transparent: &block.transparent,
                    },
                    &mut out,
                );
            }
            divan::black_box(&out);
        });
}

#[divan::bench]
fn project_whole(bencher: Bencher<'_, '_>) {
    projected(bencher, |block, out| project::whole(block, out).unwrap());
}

#[divan::bench]
fn project_all_pools(bencher: Bencher<'_, '_>) {
    projected(bencher, |block, out| {
        project::pools(block, PoolSet::ALL, out).unwrap()
    });
}

#[divan::bench]
fn project_sapling(bencher: Bencher<'_, '_>) {
    let pools = [lightship_chain::Pool::Sapling].into_iter().collect();
    projected(bencher, |block, out| {
        project::pools(block, pools, out).unwrap()
    });
}

#[divan::bench]
fn project_nullifiers(bencher: Bencher<'_, '_>) {
    projected(bencher, |block, out| {
        project::nullifiers(block, NullifierView::Pools(PoolSet::SHIELDED), out).unwrap();
    });
}
