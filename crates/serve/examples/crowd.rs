//! Whether a crowd of wallets, fast and slow, on a cold page cache, holds up short calls.
//!
//! `cargo run --release -p lightship-serve --example crowd -- [seconds=300] [megabytes=2000] [fast=192] [slow=64] [memory_cgroup]`
//!
//! Builds an index of small synthetic blocks in a temporary folder (`TMPDIR` says where; it should lie on a disk), has the system forget its pages,
//! and starts itself again as a server of it. Fast clients drain ranges of 1,000 blocks anywhere; slow ones take 64 KiB of one long range, wait for
//! 200 ms, and so on; four others ask `GetLatestBlock` every 20 ms. Every answer's bytes are counted. With a folder of a memory cgroup whose limit is
//! below the size of the index, the server is put there, so that pages stay cold: the system takes them away again as fast as they come.
//!
//! The clients that load the server run at a lower priority than server and `GetLatestBlock`, for on a machine without cores to spare it is otherwise the
//! load that is measured.
//!
//! Printed are errors, the latencies of `GetLatestBlock`, the server's anonymous memory every ten seconds, and its reads from the disk, which
//! tell whether the pages were cold.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for the desk: it prints, and stops at the first thing that goes wrong"
)]

mod stand;

use std::{
    fs::{self, File},
    io,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use stand::{Served, Wire};

const BLOCK_BYTES: usize = 359;
const FAST_BLOCKS: u32 = 1_000;
const SLOW_BYTES: usize = 64 << 10;
const SLOW_PAUSE: Duration = Duration::from_millis(200);
const LOAD_PRIORITY: i32 = 19;
const PROBES: usize = 4;
const PROBE_PAUSE: Duration = Duration::from_millis(20);

/// What all clients write down.
#[derive(Default)]
struct Counts {
    over: AtomicBool,
    fast_ranges: AtomicU64,
    slow_ranges: AtomicU64,
    bytes: AtomicU64,
    errors: Mutex<Vec<String>>,
    latencies: Mutex<Vec<f64>>,
}

impl Counts {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// What a client does again and again. An error ends it, for its connection is gone.
    fn client(&self, name: &str, mut turn: impl FnMut() -> io::Result<()>) {
        while !self.is_over() {
            if let Err(error) = turn() {
                if !self.is_over() {
                    self.errors.lock().unwrap().push(format!("{name}: {error}"));
                }
                return;
            }
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--serve") {
        return stand::server(Path::new(&arguments[1]));
    }
    let number = |place: usize, default: usize| {
        arguments
            .get(place)
            .map_or(default, |text| text.parse().unwrap())
    };
    let time = Duration::from_secs(number(0, 300) as u64);
    let megabytes = number(1, 2_000);
    let (fast, slow) = (number(2, 192), number(3, 64));
    let folder = tempfile::tempdir().unwrap();
    let blocks = stand::build(folder.path(), megabytes << 20, BLOCK_BYTES);
    forget_pages(folder.path());
    println!("{blocks} blocks, {megabytes} MiB, {fast} fast and {slow} slow clients, {time:?}");
    let served = Served::start(folder.path());
    if let Some(group) = arguments.get(4) {
        let members = Path::new(group).join("cgroup.procs");
        fs::write(members, served.id().to_string()).unwrap();
    }
    let counts = Counts::default();
    let cpu = served.cpu_seconds();
    let read = disk_reads(&served);
    thread::scope(|scope| {
        for client in 0..fast {
            let (counts, served) = (&counts, &served);
            scope.spawn(move || fast_client(counts, served, client, blocks));
        }
        for client in 0..slow {
            let (counts, served) = (&counts, &served);
            scope.spawn(move || slow_client(counts, served, client, blocks));
        }
        for _ in 0..PROBES {
            let (counts, served) = (&counts, &served);
            scope.spawn(move || probe(counts, served));
        }
        let began = Instant::now();
        while began.elapsed() < time {
            thread::sleep((time - began.elapsed()).min(Duration::from_secs(10)));
            println!(
                "{:4.0} s: {:.1} MiB of anonymous memory, {:.2} GB sent, {:.2} GB from the disk",
                began.elapsed().as_secs_f64(),
                anonymous_kib(&served) as f64 / 1024.0,
                counts.bytes.load(Ordering::Relaxed) as f64 / 1e9,
                (disk_reads(&served) - read) as f64 / 1e9,
            );
        }
        counts.over.store(true, Ordering::Relaxed);
    });
    let cpu = served.cpu_seconds() - cpu;
    report(&counts, time, cpu);
}

fn report(counts: &Counts, time: Duration, cpu: f64) {
    let mut latencies = counts.latencies.lock().unwrap();
    latencies.sort_by(f64::total_cmp);
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    println!(
        "{} ranges by fast clients, {} by slow ones, {:.0} MB/s, {cpu:.1} CPU seconds",
        counts.fast_ranges.load(Ordering::Relaxed),
        counts.slow_ranges.load(Ordering::Relaxed),
        counts.bytes.load(Ordering::Relaxed) as f64 / 1e6 / time.as_secs_f64(),
    );
    println!(
        "GetLatestBlock: {} calls, p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, longest {:.2} ms",
        latencies.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    let errors = counts.errors.lock().unwrap();
    println!("{} errors", errors.len());
    for error in errors.iter().take(10) {
        println!("  {error}");
    }
}

/// Numbers that look random and are the same in every run.
fn numbers(seed: usize) -> impl Iterator<Item = u32> {
    let mut state = seed as u64 + 1;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u32
    })
}

fn fast_client(counts: &Counts, served: &Served, client: usize, blocks: u32) {
    step_back();
    let mut wire = Wire::connect(served.grpc).unwrap();
    let mut heights = numbers(client).map(|number| number % (blocks - FAST_BLOCKS));
    counts.client("a fast client", || {
        let first = heights.next().unwrap();
        let message = stand::range(first, first + FAST_BLOCKS - 1);
        let bytes = wire.ask("GetBlockRange", &message, |bytes| {
            counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        })?;
        counts.fast_ranges.fetch_add(1, Ordering::Relaxed);
        demand(bytes == FAST_BLOCKS as usize * BLOCK_BYTES)
    });
}

fn slow_client(counts: &Counts, served: &Served, client: usize, blocks: u32) {
    step_back();
    let mut heights = numbers(client + 1_000_000).map(|number| number % (blocks / 2));
    counts.client("a slow client", || {
        let mut wire = Wire::connect(served.grpc)?;
        let first = heights.next().unwrap();
        // Some ten MB, for which it takes half a minute.
        let last = first + 10_000_000 / BLOCK_BYTES as u32;
        let mut taken = 0;
        let bytes = wire.ask("GetBlockRange", &stand::range(first, last), |bytes| {
            counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            taken += bytes;
            if taken >= SLOW_BYTES && !counts.is_over() {
                taken = 0;
                thread::sleep(SLOW_PAUSE);
            }
        })?;
        counts.slow_ranges.fetch_add(1, Ordering::Relaxed);
        demand(bytes == (last - first + 1) as usize * BLOCK_BYTES)
    });
}

/// Lets server and short calls go first. On Linux a priority is a thread's own.
fn step_back() {
    rustix::process::setpriority_process(None, LOAD_PRIORITY).unwrap();
}

fn probe(counts: &Counts, served: &Served) {
    let mut wire = Wire::connect(served.grpc).unwrap();
    counts.client("GetLatestBlock", || {
        let asked = Instant::now();
        let bytes = wire.ask("GetLatestBlock", &[], |_| {})?;
        let took = asked.elapsed();
        counts
            .latencies
            .lock()
            .unwrap()
            .push(took.as_secs_f64() * 1e3);
        thread::sleep(PROBE_PAUSE.saturating_sub(took));
        demand(bytes > 0)
    });
}

fn demand(right: bool) -> io::Result<()> {
    if right {
        Ok(())
    } else {
        Err(io::Error::other("an answer of another length"))
    }
}

/// Has the system write the files of `folder` to the disk and forget them.
fn forget_pages(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            forget_pages(&path);
            continue;
        }
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

/// Bytes that the server had from the disk.
fn disk_reads(served: &Served) -> u64 {
    number_in(served, "io", "read_bytes:")
}

fn anonymous_kib(served: &Served) -> u64 {
    number_in(served, "status", "RssAnon:")
}

fn number_in(served: &Served, file: &str, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/{file}", served.id())).unwrap();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap();
    value.split_whitespace().next().unwrap().parse().unwrap()
}
