//! Bulk reading over JSON-RPC, beside the least that could be done: fetching the same answers and decoding their hexadecimal text.
//!
//! `cargo bench -p lightship-source --bench bulk`. The node is a thread that writes prepared text, some hundred times faster than a
//! real one, so that the reading side is what is measured. Timed: 2,048 blocks, in batches, from request to decoded bytes; one
//! thread. Both sides check the count and the size of what they read.

use std::{
    hint::black_box,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    ops::ControlFlow,
    thread,
};

use divan::{Bencher, counter::BytesCount, counter::ItemsCount};
use lightship_chain::{Height, HeightRange, RawBlock};
use lightship_source::{
    BlockSource,
    rpc::{Credentials, Endpoint, RpcSource},
};

const BLOCKS: u32 = 2_048;
const BATCH: u32 = 512;
/// Testnet's usual block, and a busy one.
const SIZES: [usize; 2] = [1_650, 20_000];

fn main() {
    divan::main();
}

#[divan::bench(args = SIZES)]
fn plain(bencher: Bencher<'_, '_>, block_bytes: usize) {
    let address = node(block_bytes);
    let mut stream =
        BufReader::with_capacity(128 * 1024, TcpStream::connect(address).expect("it listens"));
    let (mut body, mut block) = (Vec::new(), vec![0; block_bytes]);
    bencher
        .counter(ItemsCount::new(BLOCKS))
        .counter(BytesCount::new(BLOCKS as usize * block_bytes))
        .bench_local(|| {
            // The same batches as the source settles on.
            let batch = (4 * 1024 * 1024 / (2 * block_bytes + 43)).min(BATCH as usize) as u32;
            let mut left = BLOCKS;
            while left > 0 {
                let count = batch.min(left);
                ask(stream.get_mut(), count);
                read_message(&mut stream, &mut body).expect("an answer");
                let mut rest = &body[..];
                for _ in 0..count {
                    let start = find(rest, b"\"result\":\"") + 10;
                    const_hex::decode_to_slice(&rest[start..start + 2 * block_bytes], &mut block)
                        .expect("hexadecimal");
                    black_box(&block);
                    rest = &rest[start + 2 * block_bytes..];
                }
                left -= count;
            }
        });
}

#[divan::bench(args = SIZES)]
fn rpc_source(bencher: Bencher<'_, '_>, block_bytes: usize) {
    let address = node(block_bytes).to_string();
    let source = RpcSource::new(Endpoint::new(&address, Credentials::None).expect("an address"));
    let range = HeightRange::new(Height::GENESIS, Height::new(BLOCKS - 1)).expect("not empty");
    bencher
        .counter(ItemsCount::new(BLOCKS))
        .counter(BytesCount::new(BLOCKS as usize * block_bytes))
        .bench_local(|| {
            let mut blocks = 0;
            source
                .blocks(range, &mut |_, block| {
                    assert!(matches!(block, RawBlock::Whole(bytes) if bytes.len() == block_bytes));
                    black_box(&block);
                    blocks += 1;
                    ControlFlow::Continue(())
                })
                .expect("the node answers");
            assert_eq!(blocks, BLOCKS);
        });
}

/// A node that answers any batch with as many copies of one block.
fn node(block_bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let hex = const_hex::encode((0..block_bytes).map(|n| (n * 31) as u8).collect::<Vec<_>>());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let hex = hex.clone();
            thread::spawn(move || answer(stream.expect("accepted"), &hex));
        }
    });
    address
}

fn answer(stream: TcpStream, hex: &str) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    let (mut body, mut out) = (Vec::new(), Vec::new());
    loop {
        read_message(&mut reader, &mut body)?;
        let count = body.windows(8).filter(|part| part == b"\"method\"").count();
        let digits = &body[find(&body, b"\"id\":") + 5..];
        let digits = &digits[..digits.iter().position(|digit| !digit.is_ascii_digit())?];
        let first: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
        out.clear();
        for n in 0..count {
            let open = if n == 0 { '[' } else { ',' };
            write!(
                out,
                r#"{open}{{"jsonrpc":"2.0","id":{},"result":"{hex}"}}"#,
                first + n
            )
            .ok()?;
        }
        out.push(b']');
        write!(
            writer,
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
            out.len()
        )
        .ok()?;
        writer.write_all(&out).ok()?;
    }
}

fn ask(stream: &mut TcpStream, count: u32) {
    let question =
        |n| format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"getblock","params":["{n}",0]}}"#);
    let body = format!(
        "[{}]",
        (0..count).map(question).collect::<Vec<_>>().join(",")
    );
    let head = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).expect("sent");
}

/// Head and body of one message, of which only the length counts.
fn read_message(reader: &mut impl BufRead, body: &mut Vec<u8>) -> Option<()> {
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    body.resize(length, 0);
    reader.read_exact(body).ok()
}

fn find(text: &[u8], part: &[u8]) -> usize {
    text.windows(part.len())
        .position(|window| window == part)
        .expect("it is there")
}
