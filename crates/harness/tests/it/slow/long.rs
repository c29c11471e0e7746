//! A long chain, a process that is killed again and again, and then many readers of the whole chain at once.
//!
//! The size that the gate affords is small; `LIGHTSHIP_LONG=1` makes it 200,000 blocks, 200 kills and 200 readers, for some minutes.

use std::{
    env,
    error::Error as _,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lightship_chain::{
    Height, RawBlock, TreeSizes,
    compact::{compact, project::FRAME_PREFIX_BYTES},
};
use lightship_harness::{
    forge::{
        Settings, command,
        file::{ChainFile, Trees},
        profile::Profile,
    },
    grpc::{self, Client, Window},
    lightship::{Lightship, Options},
    stub::Stub,
};
use lightship_source::simulated::http;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tonic::Code;

use super::PATIENCE;
use crate::e2e::alone;

/// Blocks of the file above the stub's first tip: what it mines comes from there.
const SPARE_BLOCKS: u32 = 300;
/// No reorg of this test reaches deeper.
const DEEPEST: u32 = 6;
/// Read after a kill, somewhere in the chain.
const LOOKED_AT: u64 = 500;
/// What a reader may cost: as `slow::memory` has it.
const MOST_EACH: u64 = 1 << 20;

struct Size {
    blocks: u32,
    kills: u32,
    readers: u64,
    range_blocks: Option<u32>,
}

fn size() -> Size {
    if env::var_os("LIGHTSHIP_LONG").is_some() {
        return Size {
            blocks: 200_000,
            kills: 200,
            readers: 200,
            range_blocks: None,
        };
    }
    Size {
        blocks: 5_000,
        kills: 10,
        readers: 30,
        range_blocks: Some(64),
    }
}

/// A stub over a forged chain, and the program beside it.
struct Scene {
    stub: Stub,
    file: ChainFile,
    server: Lightship,
    _port: http::Running,
    _folder: TempDir,
}

impl Scene {
    fn new(size: &Size) -> Scene {
        let folder = TempDir::with_prefix("lightship-long-").unwrap();
        let path = folder.path().join("chain");
        let settings = Settings::new(Profile::Testnet, size.blocks + SPARE_BLOCKS, 1);
        command::write(settings, &path, Trees::StandIn).unwrap();
        let stub = Stub::open(&path, Some(Height::new(size.blocks))).unwrap();
        let port = http::Running::start(stub.node().clone(), http::Settings::default()).unwrap();
        let server = Lightship::start(Options {
            node_url: port.url(),
            node_cookie: None,
            zebra_state: None,
            zebra_indexer: None,
            poll: Some(50),
            range_blocks: size.range_blocks,
        })
        .unwrap();
        Scene {
            stub,
            file: ChainFile::open(&path).unwrap(),
            server,
            _port: port,
            _folder: folder,
        }
    }

    /// The default view of every block of the best chain, made from the node's blocks.
    fn expected(&self) -> Vec<Vec<u8>> {
        let tip = self.stub.node().best().unwrap().height.get();
        let mut sizes = TreeSizes::ZERO;
        let blocks = (0..=tip).map(Height::new).map(|height| {
            let newest = self.stub.node().best_at(height);
            let bytes = newest.or_else(|| self.file.block(height)).unwrap();
            let block = compact(height, RawBlock::Whole(&bytes)).unwrap();
            let block = block.after(sizes).unwrap();
            sizes = block.sizes;
            block.frame[FRAME_PREFIX_BYTES..].to_vec()
        });
        blocks.collect()
    }

    /// The chain goes on: a block more, or others in place of the newest.
    fn change(&self, round: u32) {
        if round % 3 == 2 {
            let depth = round % DEEPEST + 1;
            self.stub.reorg(depth, depth + round % 2).unwrap();
        } else {
            self.stub.mine().unwrap();
        }
    }

    /// A client, once the server listens.
    async fn client(&mut self) -> Client {
        let begun = Instant::now();
        loop {
            self.server.check_running().unwrap();
            match Client::connect(&self.server.grpc_url()).await {
                Ok(client) => return client,
                Err(error) if begun.elapsed() > PATIENCE => panic!("{error:#}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// A client, once the index is whole and has the node's tip.
    async fn client_of_all(&mut self) -> Client {
        let mut client = self.client().await;
        let tip = self.stub.node().best().unwrap();
        let begun = Instant::now();
        loop {
            self.server.check_running().unwrap();
            let found = client.latest_block().await;
            if found.is_ok_and(|found| found.hash == tip.hash.as_internal())
                && self.indexed() == Some(u64::from(tip.height))
            {
                return client;
            }
            assert!(begun.elapsed() < PATIENCE, "{}", self.server.log_tail());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Where the index ends, if the server says so.
    fn indexed(&self) -> Option<u64> {
        let text = self.server.metrics().ok()?;
        let line = |line: &str| {
            line.strip_prefix("lightship_ingest_indexed_height ")?
                .parse()
                .ok()
        };
        text.lines().find_map(line)
    }

    /// Whatever a kill left must be whole.
    fn verify(&self, round: u32) {
        let (status, findings) = self.server.verify().unwrap();
        let nothing = !self.server.data_dir().join("manifest").exists();
        assert!(
            status.success() || nothing,
            "after kill {round}: {findings}"
        );
    }

    /// Anonymous resident memory of the program, in bytes.
    fn anonymous(&self) -> u64 {
        let id = self.server.id().unwrap();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:"));
        let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
        kilobytes.parse::<u64>().unwrap() << 10
    }
}

/// The blocks from `first` on, of a server that started a moment ago: it may not have heard of its node. Nothing else is wrong with it: a connection
/// that it takes while it opens its index is never broken off.
async fn looked_at(client: &mut Client, first: u64) -> Vec<Vec<u8>> {
    let begun = Instant::now();
    loop {
        match client.blocks(first, first + LOOKED_AT - 1).await {
            // One with a source comes of the connection, not from the server.
            Err(status)
                if status.code() == Code::Unavailable
                    && status.source().is_none()
                    && begun.elapsed() < PATIENCE =>
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            found => return found.unwrap(),
        }
    }
}

/// Reads the whole chain; each second reader stops now and then, and takes little ahead.
async fn reads_all(url: String, reader: u64, expected: Arc<Vec<Vec<u8>>>) {
    let window = match reader % 2 {
        0 => Window::Wide,
        _ => Window::Narrow,
    };
    let mut client = Client::new(grpc::connect(&url, window).await.unwrap());
    let last = expected.len() as u64 - 1;
    let mut stream = client.block_range(0, last).await.unwrap();
    for (height, block) in expected.iter().enumerate() {
        let next = tokio::time::timeout(PATIENCE, stream.message()).await;
        let next = next.expect("a block comes in time").unwrap();
        assert!(
            next.as_ref() == Some(block),
            "reader {reader}, block {height}"
        );
        if reader % 2 == 1 && height as u64 % 5_000 == reader {
            tokio::time::sleep(Duration::from_millis(20 * (reader % 10))).await;
        }
    }
    assert_eq!(stream.message().await.unwrap(), None, "reader {reader}");
}

/// Asks until it is over; how long each call took.
fn asks_for_the_tip(url: &str, over: &AtomicBool) -> Vec<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut client = Client::connect(url).await.unwrap();
        let mut took = Vec::new();
        while !over.load(Ordering::Relaxed) || took.is_empty() {
            let asked = Instant::now();
            client.latest_block().await.unwrap();
            took.push(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        took
    })
}

/// The store was damaged, wiped, or begun anew by a kill; and readers of long ranges cost memory by their length and starved the others.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_long_chain_outlives_kills_and_is_read_by_many_at_once() {
    let _turn = alone().await;
    let size = size();
    let mut scene = Scene::new(&size);
    let settled = scene.expected();
    // The tip only rises, so nothing below this is ever replaced.
    let lowest_change = u64::from(size.blocks - DEEPEST);
    let begun = Instant::now();
    let mut in_build = 0;
    for round in 0..size.kills {
        let life = Duration::from_millis(20 + u64::from(round) * 137 % 900);
        tokio::time::sleep(life / 2).await;
        scene.change(round);
        tokio::time::sleep(life / 2).await;
        scene.server.check_running().unwrap();
        let indexed = scene.indexed();
        in_build += u32::from(indexed.is_none_or(|height| height < lowest_change));
        scene.server.kill();
        if round % 10 < 2 {
            scene.verify(round);
        }
        scene.server.resume().unwrap();
        if round % 4 == 3 {
            let mut client = scene.client().await;
            let first = u64::from(round) * 7_919 % (lowest_change - LOOKED_AT);
            let blocks = looked_at(&mut client, first).await;
            let meant = &settled[first as usize..][..LOOKED_AT as usize];
            assert!(blocks == meant, "after kill {round}, from {first}");
        }
        if round % 25 == 24 {
            scene.client_of_all().await;
        }
    }
    let took = begun.elapsed();
    let mut client = scene.client_of_all().await;
    let expected = Arc::new(scene.expected());
    let last = expected.len() as u64 - 1;
    assert!(client.blocks(0, last).await.unwrap() == *expected);
    eprintln!(
        "{} blocks, {} kills in {took:?}, {in_build} of them at the start or during the first build",
        last + 1,
        size.kills
    );

    let before = scene.anonymous();
    let begun = Instant::now();
    let mut readers = JoinSet::new();
    for reader in 0..size.readers {
        readers.spawn(reads_all(
            scene.server.grpc_url(),
            reader,
            Arc::clone(&expected),
        ));
    }
    // On a thread of its own: among the readers it would wait for them, not for the server.
    let over = Arc::new(AtomicBool::new(false));
    let url = scene.server.grpc_url();
    let asker = thread::spawn({
        let over = Arc::clone(&over);
        move || asks_for_the_tip(&url, &over)
    });
    let mut most = before;
    while !readers.is_empty() {
        most = most.max(scene.anonymous());
        let pause = tokio::time::sleep(Duration::from_millis(10));
        tokio::select! {
            Some(read) = readers.join_next() => read.unwrap(),
            () = pause => {}
        }
    }
    over.store(true, Ordering::Relaxed);
    let mut took = asker.join().unwrap();
    took.sort();
    let part = |thousandths: usize| took[(took.len() - 1) * thousandths / 1_000];
    eprintln!(
        "{} readers of all blocks at once in {:?}; GetLatestBlock meanwhile: {} calls, p50 {:?}, p99 {:?}, the slowest {:?}; anonymous memory {} MB before, {} MB at most",
        size.readers,
        begun.elapsed(),
        took.len(),
        part(500),
        part(990),
        part(1_000),
        before >> 20,
        most >> 20,
    );
    let grown = most - before;
    assert!(grown < size.readers * MOST_EACH, "{grown} bytes");
    scene.server.stop().unwrap();
    scene.verify(size.kills);
}
