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

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    num::NonZeroU32,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Instant,
};

use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, Network, TreeSizes, compact::EncodedBlock,
};
use lightship_index::{Reader, StoreId, Writer};
use lightship_serve::{Backend, NodeHealth, Settings, proto, serve};
use lightship_source::{Node, simulated::SimulatedNode};
use prost::Message as _;

const RANGE_BLOCKS: u32 = 2_048;
const PIECE_BYTES: usize = 64 << 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--serve") {
        return server(Path::new(&arguments[1]));
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
    let blocks = build(folder.path(), megabytes << 20, block_bytes);
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
            let result = served.round(h2, clients, bytes, blocks);
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
        let median = |of: fn(&Round) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Round {
            megabytes_per_second: median(|round| round.megabytes_per_second),
            cpu_per_gigabyte: median(|round| round.cpu_per_gigabyte),
        }
    }
}

/// The name of the synthetic block at `height`.
fn name(height: u32) -> BlockHash {
    let mut bytes = [0x5a; 32];
    bytes[..4].copy_from_slice(&height.to_le_bytes());
    BlockHash::from_internal(bytes)
}

/// An index of whole sealed ranges, `bytes` in all; gives the number of blocks.
fn build(folder: &Path, bytes: usize, block_bytes: usize) -> u32 {
    let ranges = (bytes / block_bytes) as u32 / RANGE_BLOCKS + 1;
    let id = StoreId {
        range_blocks: NonZeroU32::new(RANGE_BLOCKS).unwrap(),
        ..StoreId::new(Network::Regtest, name(0))
    };
    let mut writer = Writer::open(folder, id).unwrap();
    for range in 0..ranges {
        let first = range * RANGE_BLOCKS;
        let previous = match first.checked_sub(1) {
            Some(below) => name(below),
            None => BlockHash::ZERO,
        };
        let mut builder = writer
            .begin_range(Height::new(first), TreeSizes::ZERO, previous)
            .unwrap();
        for height in first..first + RANGE_BLOCKS {
            builder.append(&block(height, block_bytes)).unwrap();
        }
        writer.seal(builder).unwrap();
    }
    ranges * RANGE_BLOCKS
}

fn block(height: u32, bytes: usize) -> EncodedBlock {
    let previous = height.checked_sub(1).map_or(BlockHash::ZERO, name);
    let mut message = proto::CompactBlock {
        height: height.into(),
        hash: name(height).as_internal().to_vec().into(),
        prev_hash: previous.as_internal().to_vec().into(),
        time: 1_700_000_000,
        chain_metadata: Some(proto::ChainMetadata::default()),
        ..Default::default()
    };
    // Filled up with a field that real blocks leave empty; its tag and length take 2 bytes below 128, else 3.
    let missing = bytes - 5 - message.encoded_len();
    message.header = vec![0; missing - if missing < 130 { 2 } else { 3 }].into();
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.encoded_len() as u32).to_be_bytes());
    message.encode(&mut frame).unwrap();
    assert_eq!(frame.len(), bytes, "choose another size");
    EncodedBlock {
        id: BlockId {
            height: Height::new(height),
            hash: name(height),
        },
        previous,
        time: 1_700_000_000,
        sizes: TreeSizes::ZERO,
        transactions: 1,
        size_bytes: 2_000,
        frame,
        transparent: Vec::new(),
    }
}

/// The other process: serves the folder on one port, writes its frames on another.
fn server(folder: &Path) {
    let reader = Reader::open(folder).unwrap();
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let grpc = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", grpc.local_addr().unwrap());
        println!("{}", plain.local_addr().unwrap());
        let frames = reader.clone();
        std::thread::spawn(move || {
            for stream in plain.incoming() {
                let reader = frames.clone();
                std::thread::spawn(move || write_all(&reader, stream.unwrap()));
            }
        });
        let activations = lightship_chain::build::Activations::new(&[]);
        let backend = Backend {
            trees: None,
            reader,
            node: Arc::new(SimulatedNode::new(activations)) as Arc<dyn Node>,
            health: Arc::new(NodeHealth::default),
            look: Arc::new(|| {}),
            mempool_changed: Arc::default(),
        };
        serve(
            grpc,
            http,
            backend,
            Settings::default(),
            std::future::pending(),
        )
        .await
        .unwrap();
    });
}

fn write_all(reader: &Reader, mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let view = reader.view();
    let range = HeightRange::new(Height::GENESIS, view.tip().unwrap().height).unwrap();
    for piece in view.frames(range, PIECE_BYTES) {
        stream.write_all(&piece.unwrap().bytes).unwrap();
    }
}

/// The other process, seen from here.
struct Served {
    child: Child,
    grpc: SocketAddr,
    plain: SocketAddr,
}

impl Served {
    fn start(folder: &Path) -> Served {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--serve")
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = || lines.next().unwrap().unwrap().parse().unwrap();
        Served {
            grpc: address(),
            plain: address(),
            child,
        }
    }

    /// Every client drains the whole index once.
    fn round(&self, h2: bool, clients: usize, bytes: usize, blocks: u32) -> Round {
        let before = self.cpu_seconds();
        let began = Instant::now();
        let drained: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..clients)
                .map(|_| {
                    scope.spawn(|| {
                        if h2 {
                            drain_h2(self.grpc, blocks)
                        } else {
                            drain(self.plain)
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
            cpu_per_gigabyte: (self.cpu_seconds() - before) / gigabytes,
        }
    }

    /// User and system time of the server so far. Linux counts them in hundredths of a second.
    fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

/// One `GetBlockRange` over everything; looks only at the headers of HTTP/2 frames. Counts the bytes of DATA.
fn drain_h2(address: SocketAddr, blocks: u32) -> usize {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(&request(blocks)).unwrap();
    let mut buffer = vec![0; 256 << 10];
    let (mut header, mut have, mut inside) = ([0; 9], 0, 0);
    let (mut drained, mut window) = (0, 0u32);
    loop {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the server hung up");
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            if inside > 0 {
                let skipped = rest.len().min(inside);
                inside -= skipped;
                rest = &rest[skipped..];
                continue;
            }
            let taken = rest.len().min(9 - have);
            header[have..have + taken].copy_from_slice(&rest[..taken]);
            have += taken;
            rest = &rest[taken..];
            if have < 9 {
                continue;
            }
            have = 0;
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
            inside = length as usize;
            match (header[3], header[4]) {
                (DATA, _) => {
                    drained += length as usize;
                    window += length;
                }
                (HEADERS, flags) if flags & END_STREAM != 0 => return drained,
                (RST_STREAM | GOAWAY, _) => panic!("the server gave up: {header:?}"),
                (SETTINGS, 0) => stream.write_all(&frame(SETTINGS, 1, 0, &[])).unwrap(),
                _ => {}
            }
        }
        if window > 256 << 20 {
            for stream_id in [0, 1] {
                let update = frame(WINDOW_UPDATE, 0, stream_id, &window.to_be_bytes());
                stream.write_all(&update).unwrap();
            }
            window = 0;
        }
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const MAX_WINDOW: u32 = (1 << 31) - 1;

/// Spec: RFC 9113 §4.1 "Frame Format".
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Everything a client says for one `GetBlockRange` from 0 to the last block, with windows that never close.
fn request(blocks: u32) -> Vec<u8> {
    // Spec: RFC 7541, appendix A for the indexed names.
    let mut headers = vec![0x83, 0x86];
    let mut literal = |name: &[u8], value: &str| {
        headers.extend_from_slice(name);
        headers.push(value.len() as u8);
        headers.extend_from_slice(value.as_bytes());
    };
    literal(&[0x04], &format!("/{}/GetBlockRange", proto::SERVICE));
    literal(&[0x01], "localhost");
    literal(&[0x0f, 0x10], "application/grpc");
    literal(&[0x00, 2, b't', b'e'], "trailers");
    let range = proto::BlockRange {
        start: Some(proto::BlockId::default()),
        end: Some(proto::BlockId {
            height: u64::from(blocks - 1),
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut message = vec![0];
    message.extend_from_slice(&(range.encoded_len() as u32).to_be_bytes());
    range.encode(&mut message).unwrap();

    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut window = vec![0, 4];
    window.extend_from_slice(&MAX_WINDOW.to_be_bytes());
    out.extend(frame(SETTINGS, 0, 0, &window));
    out.extend(frame(
        WINDOW_UPDATE,
        0,
        0,
        &(MAX_WINDOW - 65_535).to_be_bytes(),
    ));
    out.extend(frame(HEADERS, END_HEADERS, 1, &headers));
    out.extend(frame(DATA, END_STREAM, 1, &message));
    out
}
