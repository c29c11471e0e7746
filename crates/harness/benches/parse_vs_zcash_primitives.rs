//! How much faster the skip parser is than `zcash_primitives` on the same blocks.
//!
//! Theirs reads the header and every transaction of a block (`BlockHeader::read`, `Transaction::read`, which compute hash and ids). Ours parses, compacts and encodes the block, once
//! with the ids hashed and once with the ids told, as a node's database tells them. Both on one thread, turn by turn, over the vendored blocks
//! and, if `LIGHTSHIP_SHARED` names it, the wider collection; the ids of both must agree. Prints medians and ratios a set of blocks.
//!
//! Run with `cargo bench -p lightship-harness --bench parse_vs_zcash_primitives`; `-- --out DIR` leaves the figures as `report` and `targets` read them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark fails like a test and prints its result"
)]

use std::{
    collections::BTreeMap,
    fs::{self, File},
    hint::black_box,
    io::{BufRead, BufReader},
    path::Path,
    time::Instant,
};

use lightship_chain::{
    Height, RawBlock, RawTransaction, TreeSizes, TxId, compact::compact, parse::Block,
};
use lightship_harness::bench::{
    machine,
    record::{ChainInfo, Machine, Measurement, Run, RunFolder, ServerInfo},
};
use zcash_primitives::{block::BlockHeader, transaction::Transaction};
use zcash_protocol::consensus::BranchId;

/// Repeats of each side; the median is kept.
const ROUNDS: usize = 11;

struct Loaded {
    bytes: Vec<u8>,
    ids: Vec<TxId>,
}

const OURS: &str = "lightship";
const THEIRS: &str = "zcash_primitives";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let out = arguments.iter().position(|word| word == "--out");
    let out = out.map(|at| RunFolder::create(Path::new(&arguments[at + 1])).unwrap());
    let mut run = Run {
        name: "parse_vs_zcash_primitives".into(),
        started: machine::now(),
        machine: Machine::look(),
        command: vec!["cargo".into(), "bench".into()],
        servers: [OURS, THEIRS]
            .map(|name| ServerInfo {
                name: name.into(),
                version: "of this checkout".into(),
                ..ServerInfo::default()
            })
            .into(),
        ..Run::default()
    };
    let mut lines = Vec::new();
    measure(&mut lines);
    if let Some(out) = out {
        let sets: std::collections::BTreeSet<String> =
            lines.iter().map(|line| line.chain.clone()).collect();
        let chain = |name| ChainInfo {
            name,
            ..ChainInfo::default()
        };
        run.chains = sets.into_iter().map(chain).collect();
        run.finished = machine::now();
        run.machine.load_after = machine::load();
        out.append(&lines).unwrap();
        out.write_run(&run).unwrap();
    }
}

fn measure(lines: &mut Vec<Measurement>) {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/blocks");
    for file in fs::read_dir(vectors).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|kind| kind == "block") {
            blocks.push(fs::read(file).unwrap());
        }
    }
    report("vendored", &blocks, lines);
    let Some(shared) = std::env::var_os("LIGHTSHIP_SHARED") else {
        println!(
            "LIGHTSHIP_SHARED does not name the wider collection: only vendored blocks were measured"
        );
        return;
    };
    let mut files: Vec<_> = fs::read_dir(Path::new(&shared).join("data/blocks"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|file| file.to_string_lossy().contains("net_"))
        .collect();
    files.sort();
    for file in files {
        let reader = BufReader::new(flate2::read::MultiGzDecoder::new(
            File::open(&file).unwrap(),
        ));
        let blocks: Vec<Vec<u8>> = reader
            .lines()
            .map(|line| {
                let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
                const_hex::decode(line["raw"].as_str().unwrap()).unwrap()
            })
            .collect();
        let name = file.file_name().unwrap().to_string_lossy();
        report(name.split('.').next().unwrap(), &blocks, lines);
    }
}

fn report(name: &str, blocks: &[Vec<u8>], lines: &mut Vec<Measurement>) {
    println!("\n{name}");
    println!(
        "| blocks | count | MB | theirs, us a block | ours, hashed | ratio | ours, told | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut sets: BTreeMap<&str, Vec<Loaded>> = BTreeMap::new();
    for bytes in blocks {
        let (set, loaded) = load(bytes);
        sets.entry(set).or_default().push(loaded);
    }
    for (set, blocks) in &sets {
        let parts: Vec<_> = blocks.iter().map(pieces).collect();
        let (mut theirs, mut hashed, mut told) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.push(seconds(|| blocks.iter().for_each(read_theirs)));
            hashed.push(seconds(|| {
                for block in blocks {
                    let block = compact(Height::GENESIS, RawBlock::Whole(&block.bytes)).unwrap();
                    black_box(block.after(TreeSizes::ZERO));
                }
            }));
            told.push(seconds(|| {
                for (header, transactions) in &parts {
                    let parts = RawBlock::Parts {
                        header,
                        transactions,
                    };
                    let block = compact(Height::GENESIS, parts).unwrap();
                    black_box(block.after(TreeSizes::ZERO));
                }
            }));
        }
        for (words, ours) in [("ids hashed", &hashed), ("ids told", &told)] {
            for (server, times) in [(OURS, ours), (THEIRS, &theirs)] {
                lines.extend(times.iter().zip(1..).map(|(seconds, round)| Measurement {
                    suite: "parse-1".into(),
                    chain: name.into(),
                    server: server.into(),
                    case: format!("{set}, {words}"),
                    round,
                    metric: "throughput".into(),
                    unit: "blocks/s".into(),
                    value: Some(blocks.len() as f64 / seconds),
                    count: blocks.len() as u64,
                    ..Measurement::default()
                }));
            }
        }
        let (theirs, hashed, told) = (median(theirs), median(hashed), median(told));
        let bytes: usize = blocks.iter().map(|block| block.bytes.len()).sum();
        let each = |seconds: f64| seconds * 1e6 / blocks.len() as f64;
        println!(
            "| {set} | {} | {:.2} | {:.1} | {:.2} | {:.0} | {:.2} | {:.0} |",
            blocks.len(),
            bytes as f64 / 1e6,
            each(theirs),
            each(hashed),
            theirs / hashed,
            each(told),
            theirs / told,
        );
    }
}

/// The block and the set it belongs to. Both sides must have read the same ids from it.
fn load(bytes: &[u8]) -> (&'static str, Loaded) {
    let block = Block::parse(bytes).unwrap();
    let ids: Vec<TxId> = block.transactions().map(|each| each.id()).collect();
    let shielded = block.transactions().any(|each| {
        each.sapling_spends().len() + each.sapling_outputs().len() > 0
            || each.orchard_actions().len() + each.ironwood_actions().len() > 0
    });
    let sprout = block.transactions().any(|each| each.joinsplits() > 0);
    let set = match (shielded, sprout) {
        (true, _) => "shielded",
        (false, true) => "transparent and Sprout",
        (false, false) => "transparent",
    };
    let loaded = Loaded {
        bytes: bytes.to_vec(),
        ids,
    };
    let theirs: Vec<_> = theirs(&loaded).map(|each| each.txid()).collect();
    assert!(
        theirs
            .iter()
            .map(|id| id.as_ref())
            .eq(loaded.ids.iter().map(TxId::as_internal))
    );
    (set, loaded)
}

fn pieces(block: &Loaded) -> (&[u8], Vec<RawTransaction<'_>>) {
    let parsed = Block::parse(&block.bytes).unwrap();
    let transactions = parsed
        .transactions()
        .zip(&block.ids)
        .map(|(each, &id)| RawTransaction {
            id: Some(id),
            bytes: each.bytes(),
        })
        .collect();
    (parsed.header().bytes(), transactions)
}

fn read_theirs(block: &Loaded) {
    theirs(block).for_each(|transaction| {
        black_box(transaction);
    });
}

fn theirs(block: &Loaded) -> impl Iterator<Item = Transaction> {
    let mut rest = &block.bytes[..];
    black_box(BlockHeader::read(&mut rest).unwrap());
    let count = match rest {
        [0xfd, low, high, after @ ..] => {
            rest = after;
            usize::from(u16::from_le_bytes([*low, *high]))
        }
        [count, after @ ..] => {
            rest = after;
            usize::from(*count)
        }
        [] => 0,
    };
    // The branch matters only up to version 4, which keeps none, and there decides nothing that is read here.
    (0..count).map(move |_| Transaction::read(&mut rest, BranchId::Nu5).unwrap())
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.swap_remove(seconds.len() / 2)
}
