//! What the tests stand on: a chain with every kind of transaction, a simulated node that has it, an index of a part of it, a server.

use std::{
    future::Future,
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lightship_chain::{
    BlockId, Height, Network, Pool, PoolSet, RawBlock, TreeSizes, Upgrade,
    build::{
        Activations, Built, BuiltBlock, ChainBuilder, Coinbase, Input, Output, Recipe,
        regtest_genesis,
    },
    compact::{EncodedBlock, compact, project},
};
use lightship_index::{StoreId, Trees, Writer};
use lightship_serve::{
    Backend, NodeHealth, Settings,
    proto::{BlockId as WireBlockId, BlockRange, CompactTxStreamerClient},
    serve,
};
use lightship_source::simulated::{Address, SimulatedNode, StandIn};
use prost::Message;
use tokio::{
    net::TcpListener,
    sync::{Notify, oneshot},
    task::JoinHandle,
};
use tonic::{Code, Response, Status, Streaming, transport::Channel};

pub(crate) type Client = CompactTxStreamerClient<Channel>;

/// Heights in a sealed range of the tests' index.
const RANGE_BLOCKS: u32 = 16;
/// From here on every block holds something of each pool.
pub(crate) const ALL_POOLS_FROM: u32 = 10;
/// Whom each coinbase pays.
pub(crate) const MINER: [u8; 20] = [7; 20];
/// Whom the transparent transactions pay.
pub(crate) const PAYEE: [u8; 20] = [8; 20];
/// Long enough for anything that ends by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Stage {
    pub(crate) node: SimulatedNode,
    pub(crate) chain: ChainBuilder,
    /// The node's best chain, genesis first.
    pub(crate) blocks: Vec<BuiltBlock>,
    pub(crate) writer: Writer,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    /// How often the follower was asked to look at the tip.
    pub(crate) looks: Arc<AtomicU64>,
    /// Rung when the node's mempool has changed.
    pub(crate) mempool_changed: Arc<Notify>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<Result<(), lightship_serve::Error>>,
    pub(crate) folder: tempfile::TempDir,
    trees: Option<Arc<Trees>>,
}

/// What the server finds when it starts.
pub(crate) struct Setup {
    /// The node's tip.
    pub(crate) tip: u32,
    /// The index holds heights 0 to this; `None`: nothing.
    pub(crate) indexed: Option<u32>,
    /// Of which whole ranges up to this height are sealed.
    pub(crate) sealed: u32,
    /// Whether the node's tip is announced.
    pub(crate) announced: bool,
    /// Whether the index's note commitment trees have grown to its tip.
    pub(crate) trees: bool,
    /// What somebody has to look at.
    pub(crate) differs: Option<&'static str>,
    /// Why the index cannot grow.
    pub(crate) standstill: Option<&'static str>,
    pub(crate) settings: Settings,
}

impl Setup {
    /// Everything indexed, half of it sealed.
    pub(crate) fn whole(tip: u32) -> Setup {
        Setup {
            tip,
            indexed: Some(tip),
            sealed: tip / 2,
            announced: true,
            trees: false,
            differs: None,
            standstill: None,
            settings: Settings {
                mempool_poll: Duration::from_millis(50),
                ..Settings::default()
            },
        }
    }
}

impl Stage {
    pub(crate) async fn new(tip: u32) -> Stage {
        Stage::with(Setup::whole(tip)).await
    }

    pub(crate) async fn with(setup: Setup) -> Stage {
        let activations = Activations::new(&[
            (Upgrade::Overwinter, 1),
            (Upgrade::Sapling, 2),
            (Upgrade::Blossom, 3),
            (Upgrade::Heartwood, 4),
            (Upgrade::Canopy, 5),
            (Upgrade::Nu5, 6),
            (Upgrade::Nu6, 7),
            (Upgrade::Nu6_3, 9),
            (Upgrade::Nu7, 200),
        ]);
        let genesis = regtest_genesis();
        let node = SimulatedNode::new(activations.clone());
        node.extend(genesis.bytes.clone()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let id = StoreId {
            range_blocks: NonZeroU32::new(RANGE_BLOCKS).unwrap(),
            ..StoreId::new(Network::Regtest, genesis.id.hash)
        };
        let grpc = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut stage = Stage {
            chain: ChainBuilder::on_regtest(1, activations),
            blocks: vec![genesis],
            writer: Writer::open(folder.path(), id).unwrap(),
            grpc: grpc.local_addr().unwrap(),
            http: http.local_addr().unwrap(),
            looks: Arc::default(),
            mempool_changed: Arc::default(),
            stop: Some(stop),
            server: tokio::spawn(async { Ok(()) }),
            node,
            folder,
            trees: None,
        };
        for _ in 0..setup.tip {
            stage.mine();
        }
        if let Some(indexed) = setup.indexed {
            stage.index_through(indexed);
            stage
                .writer
                .seal_through(Height::new(setup.sealed))
                .unwrap();
        }
        if setup.announced {
            stage.writer.announce(stage.node.best());
        }
        stage.trees = setup.trees.then(|| {
            let trees = Trees::open(stage.folder.path(), Arc::new(StandIn), NonZeroUsize::MIN);
            Arc::new(trees)
        });
        stage.grow_trees();
        let backend = Backend {
            trees: stage.trees.clone(),
            reader: stage.writer.reader(),
            node: Arc::new(stage.node.clone()),
            health: Arc::new(move || NodeHealth {
                differs: setup.differs.map(Into::into),
                standstill: setup.standstill.map(Into::into),
                ..NodeHealth::default()
            }),
            mempool_changed: Arc::clone(&stage.mempool_changed),
            look: {
                let looks = Arc::clone(&stage.looks);
                Arc::new(move || {
                    looks.fetch_add(1, Ordering::Relaxed);
                })
            },
        };
        stage.server = tokio::spawn(serve(grpc, http, backend, setup.settings, async {
            let _ = stopped.await;
        }));
        stage
    }

    pub(crate) async fn client(&self) -> Client {
        let endpoint = Channel::from_shared(format!("http://{}", self.grpc)).unwrap();
        let client = CompactTxStreamerClient::connect(endpoint).await.unwrap();
        client.max_decoding_message_size(16 << 20)
    }

    pub(crate) fn tip(&self) -> BlockId {
        self.blocks.last().unwrap().id
    }

    /// Puts a block with every kind of transaction on the node.
    pub(crate) fn mine(&mut self) -> BlockId {
        let transactions = self.mixed();
        self.mine_of(&transactions)
    }

    /// Puts a block with these transactions on the node.
    pub(crate) fn mine_of(&mut self, transactions: &[Built]) -> BlockId {
        let block = next_block(&mut self.chain, transactions);
        self.node.extend(block.bytes.clone()).unwrap();
        let id = block.id;
        self.blocks.push(block);
        id
    }

    /// One transaction of each kind that the next block may hold.
    fn mixed(&mut self) -> Vec<Built> {
        let chain = &mut self.chain;
        let height = chain.next_height().get();
        if height < ALL_POOLS_FROM {
            return Vec::new();
        }
        let version = chain.newest_version();
        let coinbase = self.blocks[height as usize - 1].transactions[0];
        let payment = || {
            Recipe::new(version)
                .with_input(Input::spend(coinbase, 0))
                .with_output(Output::to_public_key_hash(u64::from(height), &PAYEE))
                .with_output(Output::to_public_key_hash(1, &PAYEE))
        };
        let recipes = [
            payment(),
            Recipe::new(version).with_sapling(1, 2),
            Recipe::new(version).with_orchard(2),
            Recipe::new(version).with_ironwood(1),
            Recipe::new(version).with_sapling(0, 1),
            Recipe::new(version)
                .with_output(Output::of_data(b"data"))
                .with_sapling(2, 1)
                .with_orchard(1)
                .with_ironwood(2),
        ];
        recipes
            .into_iter()
            .map(|recipe| chain.transaction(recipe).unwrap())
            .collect()
    }

    /// Takes `depth` blocks off and puts `count` others on, at the node only.
    pub(crate) fn reorg(&mut self, depth: usize, count: usize, seed: u64) {
        self.reorg_with(depth, count, seed, &[]);
    }

    /// [`Stage::reorg`]; the first of the new blocks holds `more` too.
    pub(crate) fn reorg_with(&mut self, depth: usize, count: usize, seed: u64, more: &[Built]) {
        self.blocks.truncate(self.blocks.len() - depth);
        let parent = self.blocks.last().unwrap();
        self.chain = self.chain.branch(parent.id, parent.time, seed);
        let branch: Vec<BuiltBlock> = (0..count)
            .map(|nth| {
                let mut transactions = self.mixed();
                if nth == 0 {
                    transactions.extend_from_slice(more);
                }
                let block = next_block(&mut self.chain, &transactions);
                self.blocks.push(block.clone());
                block
            })
            .collect();
        let bytes = branch.into_iter().map(|block| block.bytes);
        self.node.reorg(depth as u32, bytes).unwrap();
    }

    /// Indexes the node's blocks up to `height`.
    pub(crate) fn index_through(&mut self, height: u32) {
        let from = self.writer.tip().map_or(0, |tip| tip.height.get() + 1);
        for height in from..=height {
            let sizes = self.writer.tip_sizes();
            let block = encode(&self.blocks[height as usize], sizes);
            self.writer.append(block).unwrap();
        }
        self.writer.commit().unwrap();
    }

    /// Seals the node's blocks of a whole range above what is indexed.
    pub(crate) fn index_ahead(&mut self, first: u32) {
        let encoded = self.encoded();
        let below = &encoded[first as usize - 1];
        let mut range = self
            .writer
            .begin_range(Height::new(first), below.sizes, below.id.hash)
            .unwrap();
        for block in &encoded[first as usize..(first + RANGE_BLOCKS) as usize] {
            range.append(block).unwrap();
        }
        self.writer.seal(range).unwrap();
    }

    /// Makes the index equal to the node's best chain, and announces its tip.
    pub(crate) fn follow(&mut self) {
        let ancestor = self
            .blocks
            .iter()
            .rev()
            .find(|block| self.writer.hash_at(block.id.height) == Some(block.id.hash))
            .map(|block| block.id.height);
        self.writer.announce(self.node.best());
        if self.writer.tip().map(|tip| tip.height) != ancestor {
            self.writer.truncate_above(ancestor).unwrap();
        }
        self.index_through(self.tip().height.get());
    }

    /// Lets the trees, if there are any, grow to the index's tip.
    pub(crate) fn grow_trees(&self) {
        let Some(trees) = &self.trees else { return };
        let view = self.writer.reader().view();
        while let Some(growth) = trees.next(&view).unwrap() {
            let last = growth.through().height;
            let active = [2, 6, 9].map(|height| Some(Height::new(height)));
            growth
                .accept(active.map(|height| height.filter(|height| *height <= last)))
                .unwrap();
        }
    }

    /// The best chain as it should be stored.
    pub(crate) fn encoded(&self) -> Vec<EncodedBlock> {
        let mut sizes = TreeSizes::ZERO;
        self.blocks
            .iter()
            .map(|block| {
                let block = encode(block, sizes);
                sizes = block.sizes;
                block
            })
            .collect()
    }

    /// Tells the server to stop, and waits until it has.
    pub(crate) async fn stop(mut self) -> Duration {
        let began = Instant::now();
        drop(self.stop.take());
        within(&mut self.server).await.unwrap().unwrap();
        began.elapsed()
    }

    /// Tells the server to stop.
    pub(crate) fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    /// What the HTTP listener answers: status and body.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(self.http).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer[9..12].parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, body.to_owned())
    }
}

fn next_block(chain: &mut ChainBuilder, transactions: &[Built]) -> BuiltBlock {
    let shielded = usize::from(chain.next_height().get() >= ALL_POOLS_FROM);
    let coinbase = Coinbase {
        outputs: vec![Output::to_public_key_hash(1_000, &MINER)],
        sapling_outputs: shielded,
        ironwood_actions: shielded,
        ..Coinbase::default()
    };
    chain.next_block(coinbase, transactions).unwrap()
}

pub(crate) fn encode(block: &BuiltBlock, before: TreeSizes) -> EncodedBlock {
    compact(block.id.height, RawBlock::Whole(&block.bytes))
        .unwrap()
        .after(before)
        .unwrap()
}

/// One message as `put` projects it.
pub(crate) fn projected(
    block: &EncodedBlock,
    put: impl FnOnce(project::Stored<'_>, &mut Vec<u8>) -> Result<(), project::Malformed>,
) -> Vec<u8> {
    let mut out = Vec::new();
    let stored = project::Stored {
        message: &block.frame[5..],
        transparent: &block.transparent,
    };
    put(stored, &mut out).unwrap();
    out.split_off(5)
}

pub(crate) fn id(height: u64) -> WireBlockId {
    WireBlockId {
        height,
        hash: Default::default(),
    }
}

pub(crate) fn range(start: u64, end: u64) -> BlockRange {
    BlockRange {
        start: Some(id(start)),
        end: Some(id(end)),
        pool_types: Vec::new(),
    }
}

/// The protocol's numbers of a set's pools.
pub(crate) fn numbers(pools: PoolSet) -> Vec<i32> {
    [
        Pool::Transparent,
        Pool::Sapling,
        Pool::Orchard,
        Pool::Ironwood,
    ]
    .into_iter()
    .zip(1..)
    .filter(|(pool, _)| pools.contains(*pool))
    .map(|(_, number)| number)
    .collect()
}

pub(crate) fn address(hash: [u8; 20]) -> String {
    Address::PublicKeyHash(hash).encode(Network::Regtest)
}

/// The end of what must end.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("this ends in time")
}

/// Everything a stream sends, and how it ends.
pub(crate) async fn collect<T>(answer: Result<Response<Streaming<T>>, Status>) -> (Vec<T>, Code) {
    let mut stream = match answer {
        Ok(response) => response.into_inner(),
        Err(status) => return (Vec::new(), status.code()),
    };
    let mut messages = Vec::new();
    loop {
        match within(stream.message()).await {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => return (messages, Code::Ok),
            Err(status) => return (messages, status.code()),
        }
    }
}

/// The code of a unary answer.
pub(crate) fn code<T>(answer: Result<Response<T>, Status>) -> Code {
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// The messages' bytes. (Equal messages have equal bytes: fields ascending, nothing unknown.)
pub(crate) fn bytes_of<M: Message>(messages: &[M]) -> Vec<Vec<u8>> {
    messages.iter().map(Message::encode_to_vec).collect()
}

/// Tries until `done` says so.
pub(crate) async fn until<F: Future<Output = bool>>(mut done: impl FnMut() -> F) {
    within(async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
