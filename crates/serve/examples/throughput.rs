//! How fast a default-view range leaves, against plain `write` of the same bytes.
//!
//! `cargo run --release -p lightship-serve --example throughput -- [megabytes=600] [clients=1] [rounds=5] [block_bytes=359]`
//!
//! Builds an index of small synthetic blocks in a temporary folder and starts itself again as a server of it, which also
//! writes the same frames to whoever connects to a second port. Clients only drain: they read into one buffer and look at nothing
//! but HTTP/2 frame headers. Both sides alternate, and each round checks the count of bytes. Printed are medians over the
//! rounds, the server's CPU time, and the ratios. The machine should have nothing else to do.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for the desk: it prints, and stops at the first thing that goes wrong"
)]

mod stand;

use std::{
    io::Read as _,
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Instant,
};

use stand::{Served, Wire, median};

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
    let megabytes = number(0, 600);
    let (clients, rounds) = (number(1, 1), number(2, 5));
    let block_bytes = number(3, 359);
    let folder = tempfile::tempdir().unwrap();
    let blocks = stand::build(folder.path(), megabytes << 20, block_bytes);
    let bytes = blocks as usize * block_bytes;
    println!(
        "{blocks} blocks of {block_bytes} bytes, {:.0} MB, {clients} clients, {rounds} rounds",
        bytes as f64 / 1e6
    );
    let served = Served::start(folder.path());
    let mut results: [Vec<Round>; 2] = Default::default();
    for round in 0..rounds {
        for turn in 0..2 {
            let h2 = (round + turn) % 2 == 0;
            let result = drain_all(&served, h2, clients, bytes, blocks);
            println!(
                "{}: {:.0} MB/s, {:.2} CPU s/GB",
                if h2 { "grpc " } else { "plain" },
                result.megabytes_per_second,
                result.cpu_per_gigabyte
            );
            results[usize::from(h2)].push(result);
        }
    }
    let [plain, grpc] = results.map(|rounds| Round::median(&rounds));
    println!(
        "median: grpc {:.0} MB/s, {:.2} CPU s/GB, {:.2} M blocks/s, {:.2} M blocks a CPU second",
        grpc.megabytes_per_second,
        grpc.cpu_per_gigabyte,
        grpc.megabytes_per_second / block_bytes as f64,
        1e3 / grpc.cpu_per_gigabyte / block_bytes as f64,
    );
    println!(
        "median: plain {:.0} MB/s, {:.2} CPU s/GB",
        plain.megabytes_per_second, plain.cpu_per_gigabyte
    );
    println!(
        "ratio: throughput {:.3}, CPU {:.3}",
        grpc.megabytes_per_second / plain.megabytes_per_second,
        grpc.cpu_per_gigabyte / plain.cpu_per_gigabyte
    );
}

#[derive(Clone, Copy)]
struct Round {
    megabytes_per_second: f64,
    cpu_per_gigabyte: f64,
}

impl Round {
    fn median(rounds: &[Round]) -> Round {
        let median = |of: fn(&Round) -> f64| median(rounds.iter().map(of));
        Round {
            megabytes_per_second: median(|round| round.megabytes_per_second),
            cpu_per_gigabyte: median(|round| round.cpu_per_gigabyte),
        }
    }
}

/// Every client drains the whole index once.
fn drain_all(served: &Served, h2: bool, clients: usize, bytes: usize, blocks: u32) -> Round {
    let before = served.cpu_seconds();
    let began = Instant::now();
    let drained: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| {
                    if h2 {
                        drain_h2(served.grpc, blocks)
                    } else {
                        drain(served.plain)
                    }
                })
            })
            .collect();
        threads.into_iter().map(|each| each.join().unwrap()).sum()
    });
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!(drained, bytes * clients, "every byte came");
    let gigabytes = drained as f64 / 1e9;
    Round {
        megabytes_per_second: gigabytes * 1e3 / seconds,
        cpu_per_gigabyte: (served.cpu_seconds() - before) / gigabytes,
    }
}

fn drain(address: SocketAddr) -> usize {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut buffer = vec![0; 256 << 10];
    let mut drained = 0;
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return drained,
            read => drained += read,
        }
    }
}

/// One `GetBlockRange` over everything.
fn drain_h2(address: SocketAddr, blocks: u32) -> usize {
    let mut wire = Wire::connect(address).unwrap();
    let message = stand::range(0, blocks - 1);
    wire.ask("GetBlockRange", &message, |_| {}).unwrap()
}
