//! What tree states from the index cost: to fill, on disk, and to answer with the node switched off.
//!
//! `cargo run --release -p lightship-serve --example tree_states -- [thousands_of_notes=2400] [requests=20000] [clients=8] [threads=1]`
//!
//! Makes an index in a temporary folder whose blocks have as many notes as mainnet's had (the rates are those of `docs/laboratory.md`): one
//! part of six the Sapling spam of 2022, one the Orchard spam after it, four quiet. Commitments are random canonical field elements. Then: lets the
//! trees grow over it, with consensus's hashes; asks the index for the trees at random heights; starts itself again as a server whose node refuses every
//! connection, and asks it for `GetTreeState` at random heights, first one call after the other, then from many clients at once.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for the desk: it prints, and stops at the first thing that goes wrong"
)]

mod stand;

use std::{
    num::{NonZeroU32, NonZeroUsize},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use lightship_chain::{
    BlockHash, BlockId, Height, Network, ShieldedPool, TreeSizes, compact::EncodedBlock,
};
use lightship_index::{Reader, StoreId, Trees, Writer};
use lightship_merkle::Consensus;
use lightship_serve::proto;
use lightship_source::simulated::{Fault, SimulatedNode};
use prost::Message as _;
use stand::{RANGE_BLOCKS, Served, cpu_seconds, median, name};

/// Rounds of the timed parts; the median counts.
const ROUNDS: usize = 5;

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
    let (thousands, requests) = (number(0, 2_400), number(1, 20_000));
    let (clients, threads) = (number(2, 8), number(3, 1));
    let folder = tempfile::tempdir().unwrap();
    let (blocks, sizes) = build(folder.path(), thousands as u32 * 1_000);
    let notes = sizes.sapling + sizes.orchard + sizes.ironwood;
    let index_bytes = bytes_in(&folder.path().join("sealed"));
    println!(
        "{blocks} blocks, {notes} notes ({} Sapling, {} Orchard, {} Ironwood), {:.0} MB",
        sizes.sapling,
        sizes.orchard,
        sizes.ironwood,
        index_bytes as f64 / 1e6
    );
    fill(folder.path(), notes, threads);
    ask_the_index(folder.path(), blocks, requests);
    ask_the_server(folder.path(), blocks, requests, clients);
}

/// xorshift64*: the same numbers on every machine.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u32) -> u32 {
        (self.next() % u64::from(bound)) as u32
    }

    /// A number with that mean, in thousandths.
    fn about(&mut self, thousandths: u32) -> u32 {
        self.below(2 * thousandths + 1).div_ceil(1_000)
    }

    /// Below 2^254: canonical in the base field of either curve.
    fn element(&mut self) -> bytes::Bytes {
        let mut bytes = self.some_bytes(32);
        bytes[31] &= 0x3f;
        bytes.into()
    }

    fn some_bytes(&mut self, count: usize) -> Vec<u8> {
        let words = std::iter::repeat_with(|| self.next().to_le_bytes());
        words.flatten().take(count).collect()
    }
}

/// Notes a block in thousandths: Sapling, Orchard, Ironwood.
fn rates(range: u32) -> [u32; 3] {
    match range % 6 {
        0 => [694_130, 42_520, 0],
        3 => [6_960, 258_430, 0],
        _ => [640, 610, 11_500],
    }
}

/// An index of whole sealed ranges with at least so many notes; gives the number of blocks and the sizes at the end.
fn build(folder: &Path, notes: u32) -> (u32, TreeSizes) {
    let id = StoreId {
        range_blocks: NonZeroU32::new(RANGE_BLOCKS).unwrap(),
        ..StoreId::new(Network::Main, name(0))
    };
    let mut writer = Writer::open(folder, id).unwrap();
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    let (mut sizes, mut range) = (TreeSizes::ZERO, 0);
    while sizes.sapling + sizes.orchard + sizes.ironwood < notes {
        let first = range * RANGE_BLOCKS;
        let previous = first.checked_sub(1).map_or(BlockHash::ZERO, name);
        let mut builder = writer
            .begin_range(Height::new(first), sizes, previous)
            .unwrap();
        for height in first..first + RANGE_BLOCKS {
            let block = block(&mut draw, height, &mut sizes, rates(range));
            builder.append(&block).unwrap();
        }
        writer.seal(builder).unwrap();
        range += 1;
    }
    (range * RANGE_BLOCKS, sizes)
}

fn block(draw: &mut Draw, height: u32, sizes: &mut TreeSizes, rates: [u32; 3]) -> EncodedBlock {
    let [outputs, actions, ironwood] = rates.map(|rate| draw.about(rate));
    let mut output = |_| proto::CompactSaplingOutput {
        cmu: draw.element(),
        ephemeral_key: draw.some_bytes(32).into(),
        ciphertext: draw.some_bytes(52).into(),
    };
    let outputs: Vec<_> = (0..outputs).map(&mut output).collect();
    let mut action = |_| proto::CompactOrchardAction {
        nullifier: draw.element(),
        cmx: draw.element(),
        ephemeral_key: draw.some_bytes(32).into(),
        ciphertext: draw.some_bytes(52).into(),
    };
    let actions: Vec<_> = (0..actions).map(&mut action).collect();
    let ironwood_actions: Vec<_> = (0..ironwood).map(&mut action).collect();
    sizes.sapling += outputs.len() as u32;
    sizes.orchard += actions.len() as u32;
    sizes.ironwood += ironwood_actions.len() as u32;
    let previous = height.checked_sub(1).map_or(BlockHash::ZERO, name);
    let message = proto::CompactBlock {
        height: height.into(),
        hash: name(height).as_internal().to_vec().into(),
        prev_hash: previous.as_internal().to_vec().into(),
        time: 1_700_000_000 + height,
        chain_metadata: Some(proto::ChainMetadata {
            sapling_commitment_tree_size: sizes.sapling,
            orchard_commitment_tree_size: sizes.orchard,
            ironwood_commitment_tree_size: sizes.ironwood,
        }),
        vtx: vec![proto::CompactTx {
            index: 1,
            txid: draw.some_bytes(32).into(),
            outputs,
            actions,
            ironwood_actions,
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.encoded_len() as u32).to_be_bytes());
    message.encode(&mut frame).unwrap();
    EncodedBlock {
        id: BlockId {
            height: Height::new(height),
            hash: name(height),
        },
        previous,
        time: 1_700_000_000 + height,
        sizes: *sizes,
        transactions: 2,
        size_bytes: 2_000,
        frame,
        transparent: Vec::new(),
    }
}

fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap();
    files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum()
}

fn open_trees(folder: &Path, threads: usize) -> Trees {
    let threads = NonZeroUsize::new(threads).unwrap();
    Trees::open(folder, Arc::new(Consensus), threads)
}

/// Takes up what is there and makes what is not; gives how many steps were made.
fn grow(trees: &Trees, reader: &Reader) -> usize {
    let view = reader.view();
    let mut steps = 0;
    while let Some(growth) = trees.next(&view).unwrap() {
        // What a node would be asked to confirm.
        for pool in ShieldedPool::ALL {
            growth.frontier(pool).unwrap();
        }
        growth.accept([Some(Height::GENESIS); 3]).unwrap();
        steps += 1;
    }
    steps
}

fn fill(folder: &Path, notes: u32, threads: usize) {
    let reader = Reader::open(folder).unwrap();
    let trees = open_trees(folder, threads);
    let (began, before) = (Instant::now(), cpu_seconds("self"));
    let steps = grow(&trees, &reader);
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds("self") - before);
    let millions = f64::from(notes) / 1e6;
    let bytes = bytes_in(&folder.join("trees"));
    println!(
        "fill: {steps} ranges, {threads} threads: {wall:.1} s, {cpu:.1} CPU s; {:.1} CPU s and {:.2} MB a million notes; {:.0} notes a CPU second",
        cpu / millions,
        bytes as f64 / 1e6 / millions,
        f64::from(notes) / cpu,
    );
}

fn ask_the_index(folder: &Path, blocks: u32, requests: usize) {
    let reader = Reader::open(folder).unwrap();
    let trees = open_trees(folder, 1);
    let opened = Instant::now();
    assert_eq!(grow(&trees, &reader), 0, "every range is there");
    println!("open: {:.1} ms", opened.elapsed().as_secs_f64() * 1e3);
    let view = reader.view();
    let mut draw = Draw(7);
    // The first reading of a block checks its checksum; a running server has that behind it.
    for _ in 0..requests / 4 {
        trees
            .at(&view, Height::new(draw.below(blocks)))
            .unwrap()
            .unwrap();
    }
    let mut times: Vec<Duration> = (0..requests)
        .map(|_| {
            let height = Height::new(draw.below(blocks));
            let began = Instant::now();
            trees.at(&view, height).unwrap().unwrap();
            began.elapsed()
        })
        .collect();
    println!("index, one thread: {}", spread(&mut times));
}

/// Median, 99th percentile, mean, and what that is a second.
fn spread(times: &mut [Duration]) -> String {
    times.sort();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e3;
    let mean = times.iter().sum::<Duration>().as_secs_f64() / times.len() as f64;
    format!(
        "p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms; {:.0} a second",
        at(0.5),
        at(0.99),
        times[times.len() - 1].as_secs_f64() * 1e3,
        1.0 / mean
    )
}

fn ask_the_server(folder: &Path, blocks: u32, requests: usize, clients: usize) {
    let served = Served::start(folder);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let url = format!("http://{}", served.grpc);
        let connect = || proto::CompactTxStreamerClient::connect(url.clone());
        let mut client = connect().await.unwrap();
        ask(&mut client, blocks, requests / 4, 3).await;
        let mut times = ask(&mut client, blocks, requests, 4).await;
        println!("gRPC, one call after the other: {}", spread(&mut times));
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            let before = served.cpu_seconds();
            let began = Instant::now();
            let mut tasks = tokio::task::JoinSet::new();
            for number in 0..clients {
                let mut client = connect().await.unwrap();
                let seed = 100 + (round * clients + number) as u64;
                let share = requests / clients;
                tasks.spawn(async move { ask(&mut client, blocks, share, seed).await });
            }
            let mut times: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
            let wall = began.elapsed().as_secs_f64();
            let cpu = served.cpu_seconds() - before;
            let done = times.len() as f64;
            println!(
                "gRPC, {clients} clients: {}; in all {:.0} a second, {:.0} a second of the server's CPU",
                spread(&mut times),
                done / wall,
                done / cpu
            );
            rounds.push(done / cpu);
        }
        println!(
            "median of {ROUNDS} rounds: {:.0} GetTreeState a second and core",
            median(rounds)
        );
    });
}

/// Tree states at random heights, one after the other.
async fn ask(
    client: &mut proto::CompactTxStreamerClient<tonic::transport::Channel>,
    blocks: u32,
    requests: usize,
    seed: u64,
) -> Vec<Duration> {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut times = Vec::with_capacity(requests);
    for _ in 0..requests {
        let height = draw.below(blocks);
        let block = proto::BlockId {
            height: height.into(),
            ..Default::default()
        };
        let began = Instant::now();
        let state = client.get_tree_state(block).await.unwrap().into_inner();
        times.push(began.elapsed());
        assert_eq!(state.height, u64::from(height));
        assert!(!state.sapling_tree.is_empty());
    }
    times
}

/// The other process: a server of the folder whose node is switched off.
fn server(folder: &Path) {
    let reader = Reader::open(folder).unwrap();
    let trees = open_trees(folder, 1);
    grow(&trees, &reader);
    let node = SimulatedNode::new(lightship_chain::build::Activations::new(&[]));
    node.faults().add(Fault::Refuse);
    stand::serve_with(reader, Some(Arc::new(trees)), node);
}
