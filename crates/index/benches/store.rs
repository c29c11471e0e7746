//! How fast a store opens, grows and is read.
//!
//! The chain is made of small blocks (`testing::TestChain`: some 430 bytes a frame, near the testnet's mean of 359), so these figures are about the cost of a
//! block, not of a byte. Everything is in the page cache. `LIGHTSHIP_BENCH_BLOCKS` sets the size of the large store; 1,000,000 unless set.
//! Each timed part ends with a count that proves the answer right.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use divan::{
    Bencher,
    counter::{BytesCount, ItemsCount},
};
use lightship_chain::{BlockHash, Height, HeightRange, TreeSizes, compact::EncodedBlock};
use lightship_index::{Reader, StoreId, View, Writer, testing::TestChain};

fn main() {
    divan::main();
}

/// A large sealed store, made once.
struct Large {
    dir: tempfile::TempDir,
    store: StoreId,
    blocks: u32,
}

fn large() -> &'static Large {
    static LARGE: OnceLock<Large> = OnceLock::new();
    LARGE.get_or_init(|| {
        let wanted = std::env::var("LIGHTSHIP_BENCH_BLOCKS");
        let wanted: u32 = wanted.map_or(1_000_000, |blocks| blocks.parse().expect("a number"));
        let dir = tempfile::tempdir().expect("a folder for the store");
        let mut chain = TestChain::new(1);
        let store = StoreId::new(lightship_chain::Network::Regtest, chain.store(1).genesis);
        let mut writer = Writer::open(dir.path(), store).expect("an empty folder");
        let range_blocks = store.range_blocks.get();
        let ranges = wanted.div_ceil(range_blocks);
        for range in 0..ranges {
            let first = Height::new(range * range_blocks);
            let previous = chain.tip().map_or(BlockHash::ZERO, |tip| tip.hash);
            let range = writer.begin_range(first, chain.sizes(), previous);
            let mut range = range.expect("an aligned range");
            for _ in 0..range_blocks {
                range.append(&chain.next_block()).expect("a linked block");
            }
            writer.seal(range).expect("the next range");
        }
        Large {
            dir,
            store,
            blocks: ranges * range_blocks,
        }
    })
}

/// The private memory of this process, if the system tells it.
fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok())
        .unwrap_or(0)
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn open_to_write(bencher: Bencher<'_, '_>) {
    let large = large();
    let before = anonymous_kib();
    let writer = Writer::open(large.dir.path(), large.store).expect("a whole store");
    let after = anonymous_kib();
    eprintln!(
        "{} blocks: {} KiB of private memory",
        large.blocks,
        after - before.min(after)
    );
    drop(writer);
    bencher
        .counter(ItemsCount::new(large.blocks))
        .bench_local(|| {
            let writer = Writer::open(large.dir.path(), large.store).expect("a whole store");
            assert_eq!(
                writer.tip().map(|tip| tip.height.get() + 1),
                Some(large.blocks)
            );
            writer
        });
}

fn blocks(count: u32) -> &'static [EncodedBlock] {
    static BLOCKS: OnceLock<Vec<EncodedBlock>> = OnceLock::new();
    &BLOCKS.get_or_init(|| TestChain::new(1).take_blocks(40_000))[..count as usize]
}

fn empty() -> (tempfile::TempDir, Writer) {
    let dir = tempfile::tempdir().expect("a folder for the store");
    let writer = Writer::open(dir.path(), TestChain::new(1).store(2048)).expect("an empty folder");
    (dir, writer)
}

/// One sync a commit: the larger the batch, the less it counts.
#[divan::bench(args = [1, 10, 1000], sample_count = 5, sample_size = 1)]
fn append_and_commit(bencher: Bencher<'_, '_>, batch: u32) {
    let count = (batch * 200).min(40_000);
    bencher
        .counter(ItemsCount::new(count))
        .with_inputs(|| (empty(), blocks(count).to_vec()))
        .bench_local_values(|((dir, mut writer), blocks)| {
            for (index, block) in blocks.into_iter().enumerate() {
                writer.append(block).expect("a linked block");
                if (index + 1) % batch as usize == 0 {
                    writer.commit().expect("a disk");
                }
            }
            assert_eq!(
                writer.reader().view().tip().map(|tip| tip.height.get() + 1),
                Some(count)
            );
            (dir, writer)
        });
}

/// The bulk path: blocks straight to sealed files, syncs, digests and manifest included.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn build_ranges(bencher: Bencher<'_, '_>) {
    let blocks = blocks(16 * 2048);
    let bytes: usize = blocks
        .iter()
        .map(|block| block.frame.len() + block.transparent.len())
        .sum();
    bencher
        .counter(ItemsCount::new(blocks.len()))
        .counter(BytesCount::new(bytes))
        .with_inputs(empty)
        .bench_local_values(|(dir, mut writer)| {
            for range in blocks.chunks(2048) {
                let first = &range[0];
                let before = writer.tip_sizes();
                let mut builder = writer
                    .begin_range(first.id.height, before, first.previous)
                    .expect("an aligned range");
                for block in range {
                    builder.append(block).expect("a linked block");
                }
                writer.seal(builder).expect("the next range");
            }
            assert_eq!(writer.tip(), blocks.last().map(|block| block.id));
            (dir, writer)
        });
}

/// All frames in pieces of 64 KiB, touching one byte a page as a socket would; returns how many bytes there were.
fn drain(view: &Arc<View>, max_bytes: usize) -> usize {
    let tip = view.tip().expect("a chain");
    let range = HeightRange::new(Height::GENESIS, tip.height).expect("it starts at genesis");
    let (mut bytes, mut blocks, mut touched) = (0, 0, 0u64);
    for piece in view.frames(range, max_bytes) {
        let piece = piece.expect("a whole store");
        touched += piece
            .bytes
            .iter()
            .step_by(4096)
            .map(|byte| u64::from(*byte))
            .sum::<u64>();
        bytes += piece.bytes.len();
        blocks += piece.range.len();
    }
    divan::black_box(touched);
    assert_eq!(blocks, tip.height.get() + 1);
    bytes
}

#[divan::bench(args = [16 * 1024, 64 * 1024, 1024 * 1024], sample_count = 10, sample_size = 1)]
fn frames_read_again(bencher: Bencher<'_, '_>, max_bytes: usize) {
    let view = Reader::open(large().dir.path())
        .expect("a whole store")
        .view();
    let bytes = drain(&view, max_bytes);
    bencher
        .counter(BytesCount::new(bytes))
        .counter(ItemsCount::new(large().blocks))
        .bench_local(|| assert_eq!(drain(&view, max_bytes), bytes));
}

/// The first reading also checks every frame's checksum and brings the pages into the mapping.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn frames_read_first(bencher: Bencher<'_, '_>) {
    let fresh = || {
        Reader::open(large().dir.path())
            .expect("a whole store")
            .view()
    };
    let bytes = drain(&fresh(), 64 * 1024);
    bencher
        .counter(BytesCount::new(bytes))
        .counter(ItemsCount::new(large().blocks))
        .with_inputs(fresh)
        .bench_local_values(|view| assert_eq!(drain(&view, 64 * 1024), bytes));
}

/// What [`frames_read_first`] would cost without checks: mapping the same files and touching their pages.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn bare_mapping_read_first(bencher: Bencher<'_, '_>) {
    let paths: Vec<_> = std::fs::read_dir(large().dir.path().join("sealed"))
        .expect("a store")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension() == Some("blocks".as_ref()))
        .collect();
    let bytes: u64 = paths.iter().map(|path| size(path)).sum();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let mut touched = 0u64;
        for path in &paths {
            let mapped = lightship_index::Disk::map(&lightship_index::Files, path).expect("a file");
            touched += mapped
                .iter()
                .step_by(4096)
                .map(|byte| u64::from(*byte))
                .sum::<u64>();
        }
        touched
    });
}

fn size(path: &Path) -> u64 {
    path.metadata().expect("a file").len()
}

#[divan::bench(sample_count = 20)]
fn height_of_a_thousand_hashes(bencher: Bencher<'_, '_>) {
    let view = Reader::open(large().dir.path())
        .expect("a whole store")
        .view();
    let step = large().blocks / 1000;
    let hashes: Vec<_> = (0..1000)
        .map(|index| view.hash_at(Height::new(index * step)).expect("a block"))
        .collect();
    bencher.counter(ItemsCount::new(1000u32)).bench_local(|| {
        let found = hashes
            .iter()
            .filter_map(|hash| view.height_of(hash))
            .count();
        assert_eq!(found, 1000);
    });
}

#[divan::bench(sample_count = 20)]
fn a_thousand_rows(bencher: Bencher<'_, '_>) {
    let view = Reader::open(large().dir.path())
        .expect("a whole store")
        .view();
    let step = large().blocks / 1000;
    bencher.counter(ItemsCount::new(1000u32)).bench_local(|| {
        let rows = (0..1000).filter_map(|index| view.row(Height::new(index * step)));
        let notes: u64 = rows.map(|row| u64::from(row.sizes.sapling)).sum();
        assert!(notes > 0 || TreeSizes::ZERO == view.tip_sizes());
    });
}
