//! How fast blocks come out of a Zebra node's state, against a bare scan of the tables that they lie in.
//!
//! `cargo run --release -p lightship-source --features zebra-state --example state_scan -- DATABASE [rounds=5] [workers=cores]`
//!
//! DATABASE is the database's own folder, `.../state/v29/mainnet` say; nothing is written in it. Three sides take turns, each on as many
//! threads, which take slices of 256 blocks as a build of the index does:
//!
//! - `scan`: a RocksDB iterator over each of the three tables, opened and set as the source's, and nothing else;
//! - `source`: `ZebraStateSource`, which puts whole blocks together and lends them;
//! - `compact`: the same, and each block is parsed, held against its merkle root and compacted, and dropped.
//!
//! The first two add up every byte that they are given and must agree; ids of heights that the source leaves to the parser to hash are left
//! out. The third must find as many blocks. A round of a short chain repeats it for half a second. Everything is read once before, so a chain that
//! fits into memory is read from there.
//!
//! `... -- once DATABASE WORKERS` scans once and prints what `lightship-harness bench-build --scanner` reads.
//!
//! `... -- make NODE FOLDER` makes a database of the blocks of the node at URL NODE (`lightship-harness stub` with a forged chain, say), as Zebra's
//! lies on the disk: its keys, its block size and compression, compacted. It has the tables that are read here, no trees.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for the desk: it prints, and stops at the first thing that goes wrong"
)]

mod make;

use std::{
    fs,
    ops::ControlFlow,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Instant,
};

use lightship_chain::{Height, HeightRange, RawBlock, compact::compact};
use lightship_source::{BlockSource, zebra_state::ZebraStateSource};
use rocksdb::{DB, Options, ReadOptions};

const HEADERS: &str = "block_header_by_height";
const TRANSACTIONS: &str = "tx_by_loc";
const IDS: &str = "hash_by_tx_loc";

/// What a worker of a build fetches in one go.
const SLICE_BLOCKS: u32 = 256;
/// What the source's iterators read ahead.
const READ_AHEAD_BYTES: usize = 1 << 20;
/// At such heights the source tells no ids.
const HASHED_EVERY: u32 = 64;
const SHORTEST_ROUND_SECONDS: f64 = 0.5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match given[..] {
        ["make", node, folder] => make::database(node, Path::new(folder)),
        ["once", database, workers] => {
            let open = Opened::new(Path::new(database));
            let began = Instant::now();
            let sum = open.pass(Side::Scan, workers.parse().unwrap());
            let seconds = began.elapsed().as_secs_f64();
            let (blocks, bytes) = (sum.blocks, sum.bytes);
            println!(r#"{{"blocks":{blocks},"bytes":{bytes},"seconds":{seconds}}}"#);
        }
        [database, ref rest @ ..] if rest.len() <= 2 => {
            let rounds = rest.first().map_or(5, |text| text.parse().unwrap());
            let cores = thread::available_parallelism().unwrap().get();
            let workers = rest.get(1).map_or(cores, |text| text.parse().unwrap());
            measure(Path::new(database), rounds, workers);
        }
        _ => println!(
            "state_scan DATABASE [rounds] [workers] | once DATABASE WORKERS | make NODE FOLDER"
        ),
    }
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Scan,
    Source,
    Compact,
}

const SIDES: [Side; 3] = [Side::Scan, Side::Source, Side::Compact];

fn measure(database: &Path, rounds: usize, workers: usize) {
    let open = Opened::new(database);
    let began = Instant::now();
    let read = open.pass(Side::Scan, workers);
    let passes = (SHORTEST_ROUND_SECONDS / began.elapsed().as_secs_f64()).ceil();
    println!(
        "{} blocks, {} bytes in {HEADERS}, {TRANSACTIONS} and {IDS}, {:.0} a block; {workers} workers, {rounds} rounds of {passes} passes",
        read.blocks,
        read.bytes,
        read.bytes as f64 / read.blocks as f64
    );
    let mut figures: [Vec<Figures>; 3] = Default::default();
    for round in 0..rounds {
        for turn in 0..SIDES.len() {
            let at = (round + turn) % SIDES.len();
            let (cpu, began) = (cpu_seconds(), Instant::now());
            for _ in 0..passes as u32 {
                let found = open.pass(SIDES[at], workers);
                match SIDES[at] {
                    Side::Scan | Side::Source => assert_eq!(found, read, "the same bytes"),
                    Side::Compact => assert_eq!(found.blocks, read.blocks, "every block"),
                }
            }
            figures[at].push(Figures {
                seconds: began.elapsed().as_secs_f64() / passes,
                cpu_seconds: (cpu_seconds() - cpu) / passes,
            });
        }
    }
    println!("checksum of scan and source {:016x}", read.words);
    println!(
        "| side | blocks/s (least to most) | MB/s | CPU s a pass | rate to scan | CPU to scan |"
    );
    println!("|---|---|---|---|---|---|");
    let medians = figures.each_ref().map(|all| Figures {
        seconds: median(all.iter().map(|each| each.seconds)),
        cpu_seconds: median(all.iter().map(|each| each.cpu_seconds)),
    });
    for ((side, all), median) in SIDES.iter().zip(&figures).zip(&medians) {
        let rates = all.iter().map(|each| read.blocks as f64 / each.seconds);
        println!(
            "| {side:?} | {:.0} ({:.0} to {:.0}) | {:.0} | {:.3} | {:.3} | {:.2} |",
            read.blocks as f64 / median.seconds,
            rates.clone().fold(f64::INFINITY, f64::min),
            rates.fold(0.0, f64::max),
            read.bytes as f64 / 1e6 / median.seconds,
            median.cpu_seconds,
            medians[0].seconds / median.seconds,
            median.cpu_seconds / medians[0].cpu_seconds,
        );
    }
}

/// One pass.
#[derive(Clone, Copy)]
struct Figures {
    seconds: f64,
    cpu_seconds: f64,
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// User and system time of this process so far. Linux counts them in hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// What was read, whatever the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    blocks: u64,
    bytes: u64,
    /// Of all values, each as little-endian words, the last filled up with zeros.
    words: u64,
}

impl Sum {
    fn add(&mut self, value: &[u8]) {
        self.bytes += value.len() as u64;
        let (words, rest) = value.as_chunks::<8>();
        for word in words {
            self.words = self.words.wrapping_add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.words = self.words.wrapping_add(u64::from_le_bytes(last));
    }

    fn and(self, other: Sum) -> Sum {
        Sum {
            blocks: self.blocks + other.blocks,
            bytes: self.bytes + other.bytes,
            words: self.words.wrapping_add(other.words),
        }
    }
}

/// The database twice: bare, and as a source.
struct Opened {
    bare: DB,
    source: ZebraStateSource,
    end: u32,
}

impl Opened {
    fn new(database: &Path) -> Opened {
        let source = ZebraStateSource::open(database, None, None).unwrap();
        let end = source.tip().unwrap().unwrap().height.get();
        let mut options = Options::default();
        options.set_max_open_files(-1);
        let own = tempfile::tempdir().unwrap();
        let tables = ["default", HEADERS, TRANSACTIONS, IDS];
        let bare = DB::open_cf_as_secondary(&options, database, own.path(), tables).unwrap();
        bare.try_catch_up_with_primary().unwrap();
        Opened { bare, source, end }
    }

    /// The whole chain once.
    fn pass(&self, side: Side, workers: usize) -> Sum {
        let next = AtomicU32::new(0);
        let work = || {
            let mut sum = Sum::default();
            loop {
                let first = next.fetch_add(SLICE_BLOCKS, Ordering::Relaxed);
                if first > self.end {
                    return sum;
                }
                let last = self.end.min(first + SLICE_BLOCKS - 1);
                match side {
                    Side::Scan => self.scan(first, last, &mut sum),
                    Side::Source => self.lend(first, last, &mut sum, |_, block, sum| {
                        let RawBlock::Parts {
                            header,
                            transactions,
                        } = block
                        else {
                            panic!("whole blocks do not lie in a state");
                        };
                        sum.add(header);
                        for transaction in transactions {
                            sum.add(transaction.bytes);
                            if let Some(id) = transaction.id {
                                sum.add(id.as_internal());
                            }
                        }
                    }),
                    Side::Compact => self.lend(first, last, &mut sum, |height, block, sum| {
                        sum.bytes += compact(height, block).unwrap().size_bytes as u64;
                    }),
                }
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let sums = threads.into_iter().map(|each| each.join().unwrap());
            sums.fold(Sum::default(), Sum::and)
        })
    }

    fn scan(&self, first: u32, last: u32, sum: &mut Sum) {
        for table in [HEADERS, TRANSACTIONS, IDS] {
            let mut options = ReadOptions::default();
            options.set_iterate_range(key(first)..key(last + 1));
            options.fill_cache(false);
            options.set_readahead_size(READ_AHEAD_BYTES);
            let table_handle = self.bare.cf_handle(table).unwrap();
            let mut rows = self.bare.raw_iterator_cf_opt(table_handle, options);
            rows.seek_to_first();
            while let Some((at, value)) = rows.item() {
                let height = u32::from_be_bytes([0, at[0], at[1], at[2]]);
                if table != IDS || !height.is_multiple_of(HASHED_EVERY) {
                    sum.add(value);
                }
                sum.blocks += u64::from(table == HEADERS);
                rows.next();
            }
            rows.status().unwrap();
        }
    }

    fn lend(
        &self,
        first: u32,
        last: u32,
        sum: &mut Sum,
        mut visit: impl FnMut(Height, RawBlock<'_>, &mut Sum),
    ) {
        let range = HeightRange::new(Height::new(first), Height::new(last)).unwrap();
        self.source
            .blocks(range, &mut |height, block| {
                visit(height, block, sum);
                sum.blocks += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
    }
}

fn key(height: u32) -> Vec<u8> {
    height.to_be_bytes()[1..].to_vec()
}
