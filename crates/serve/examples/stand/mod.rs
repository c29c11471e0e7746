//! What measurements stand on: an index of made-up blocks, a server of it in a process of its own, and a client that only drains.

#![allow(
    dead_code,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "shared by programs for the desk, of which none needs all: they print, and stop at the first thing that goes wrong"
)]

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    num::NonZeroU32,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
};

use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, Network, TreeSizes, compact::EncodedBlock,
};
use lightship_index::{Reader, StoreId, Trees, Writer};
use lightship_serve::{Backend, NodeHealth, Settings, proto, serve};
use lightship_source::{Node, simulated::SimulatedNode};
use prost::Message as _;

/// Blocks of a sealed range.
pub(crate) const RANGE_BLOCKS: u32 = 2_048;
const PIECE_BYTES: usize = 64 << 10;
const BUFFER_BYTES: usize = 256 << 10;

/// The name of the synthetic block at `height`.
pub(crate) fn name(height: u32) -> BlockHash {
    let mut bytes = [0x5a; 32];
    bytes[..4].copy_from_slice(&height.to_le_bytes());
    BlockHash::from_internal(bytes)
}

/// An index of whole sealed ranges, `bytes` in all; gives the number of blocks.
pub(crate) fn build(folder: &Path, bytes: usize, block_bytes: usize) -> u32 {
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
pub(crate) fn server(folder: &Path) {
    let activations = lightship_chain::build::Activations::new(&[]);
    let node = SimulatedNode::new(activations);
    serve_with(Reader::open(folder).unwrap(), None, node);
}

/// Like [`server`], with trees and a node of the caller's.
pub(crate) fn serve_with(reader: Reader, trees: Option<Arc<Trees>>, node: SimulatedNode) {
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let cores = thread::available_parallelism().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.get() + 1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let grpc = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", grpc.local_addr().unwrap());
        println!("{}", plain.local_addr().unwrap());
        let frames = reader.clone();
        thread::spawn(move || {
            for stream in plain.incoming() {
                let reader = frames.clone();
                thread::spawn(move || write_all(&reader, stream.unwrap()));
            }
        });
        let backend = Backend {
            trees,
            reader,
            node: Arc::new(node) as Arc<dyn Node>,
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
pub(crate) struct Served {
    child: Child,
    /// Where it answers wallets.
    pub(crate) grpc: SocketAddr,
    /// Where it writes all frames to whoever connects.
    pub(crate) plain: SocketAddr,
}

impl Served {
    /// Starts this very program again, with `--serve`.
    pub(crate) fn start(folder: &Path) -> Served {
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

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// User and system time of the server so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(&self.child.id().to_string())
    }
}

/// User and system time of a process (its number, or `self`) so far. Linux counts them in hundredths of a second.
pub(crate) fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to a server of which nothing but the length of its answers is looked at. Its windows never close.
///
/// Spec: RFC 9113 §4.1 "Frame Format", RFC 7541.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
    next: u32,
    /// DATA bytes since the windows were opened.
    taken: u32,
    /// Those of the call that goes on.
    of_call: u32,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const MAX_WINDOW: u32 = (1 << 31) - 1;

impl Wire {
    /// Connects.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Wire> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut window = vec![0, 4];
        window.extend_from_slice(&MAX_WINDOW.to_be_bytes());
        opening.extend(frame(SETTINGS, 0, 0, &window));
        let more = (MAX_WINDOW - 65_535).to_be_bytes();
        opening.extend(frame(WINDOW_UPDATE, 0, 0, &more));
        stream.write_all(&opening)?;
        Ok(Wire {
            stream: BufReader::with_capacity(BUFFER_BYTES, stream),
            next: 1,
            taken: 0,
            of_call: 0,
        })
    }

    /// One call; `took` is told of DATA bytes as they are taken. The sum of them, once the call has ended.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        message: &[u8],
        mut took: impl FnMut(usize),
    ) -> io::Result<usize> {
        let id = self.next;
        self.next += 2;
        self.of_call = 0;
        // The names that are indexed are in RFC 7541, appendix A.
        let mut headers = vec![0x83, 0x86];
        let mut literal = |name: &[u8], value: &str| {
            headers.extend_from_slice(name);
            headers.push(value.len() as u8);
            headers.extend_from_slice(value.as_bytes());
        };
        literal(&[0x04], &format!("/{}/{method}", proto::SERVICE));
        literal(&[0x01], "localhost");
        literal(&[0x0f, 0x10], "application/grpc");
        literal(&[0x00, 2, b't', b'e'], "trailers");
        let mut framed = vec![0];
        framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
        framed.extend_from_slice(message);
        let mut out = frame(HEADERS, END_HEADERS, id, &headers);
        out.extend(frame(DATA, END_STREAM, id, &framed));
        self.stream.get_mut().write_all(&out)?;
        let mut sum = 0;
        loop {
            let mut header = [0; 9];
            self.stream.read_exact(&mut header)?;
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
            let (kind, flags) = (header[3], header[4]);
            if kind == DATA {
                let mut left = length as usize;
                while left > 0 {
                    let read = self.stream.fill_buf()?.len().min(left);
                    if read == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.stream.consume(read);
                    left -= read;
                    took(read);
                }
                sum += length as usize;
                self.open_windows(id, length)?;
                continue;
            }
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload)?;
            match (kind, flags) {
                (HEADERS, flags) if flags & END_STREAM != 0 => return Ok(sum),
                (RST_STREAM | GOAWAY, _) => {
                    return Err(io::Error::other(format!("the server gave up: {header:?}")));
                }
                (SETTINGS | PING, 0) => {
                    let payload = if kind == PING { &payload[..] } else { &[] };
                    let answer = frame(kind, ACK, 0, payload);
                    self.stream.get_mut().write_all(&answer)?;
                }
                _ => {}
            }
        }
    }

    fn open_windows(&mut self, id: u32, taken: u32) -> io::Result<()> {
        self.taken += taken;
        self.of_call += taken;
        if self.taken > 256 << 20 {
            // A stream's window is as far open as it may be, less what came on that stream.
            for (stream, taken) in [(id, self.of_call), (0, self.taken)] {
                let update = frame(WINDOW_UPDATE, 0, stream, &taken.to_be_bytes());
                self.stream.get_mut().write_all(&update)?;
            }
            (self.taken, self.of_call) = (0, 0);
        }
        Ok(())
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The message that asks for blocks `first` to `last`.
pub(crate) fn range(first: u32, last: u32) -> Vec<u8> {
    let id = |height: u32| {
        Some(proto::BlockId {
            height: height.into(),
            ..Default::default()
        })
    };
    let range = proto::BlockRange {
        start: id(first),
        end: id(last),
        ..Default::default()
    };
    range.encode_to_vec()
}

/// The middle of `values`.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
