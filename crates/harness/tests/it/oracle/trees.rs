//! The trees of a running server against those of the protocols' own crates, note by note, as a wallet reads them: over random blocks,
//! reorgs and restarts, with the node silent on trees when it is asked.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

use incrementalmerkletree::{Hashable, frontier::CommitmentTree};
use lightship_chain::{
    Height, RawBlock, ShieldedPool, TreeSizes, Upgrade,
    build::{Activations, BuiltBlock, ChainBuilder, Coinbase, Recipe, regtest_genesis},
    compact::{compact, project},
};
use lightship_harness::{
    forge::file::Trees,
    grpc::Client,
    lightship::{Lightship, Options},
    proto::{BlockId, GetSubtreeRootsArg, SubtreeRoot, TreeState},
};
use lightship_source::simulated::{Fault, Rule, SimulatedNode, http};
use orchard::tree::MerkleHashOrchard;
use prost::Message;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use sapling_crypto::Node;
use zcash_primitives::merkle_tree::{HashSer, read_commitment_tree};

const PATIENCE: Duration = Duration::from_secs(60);
/// Blocks below those that may still be replaced, so that there are sealed ranges.
const SETTLED: u32 = 1_040;

/// The three trees at the end of a block.
#[derive(Clone, Debug, PartialEq)]
struct Oracle {
    sapling: CommitmentTree<Node, 32>,
    orchard: CommitmentTree<MerkleHashOrchard, 32>,
    ironwood: CommitmentTree<MerkleHashOrchard, 32>,
}

impl Oracle {
    fn empty() -> Oracle {
        Oracle {
            sapling: CommitmentTree::empty(),
            orchard: CommitmentTree::empty(),
            ironwood: CommitmentTree::empty(),
        }
    }

    /// With the notes of one more block, leaf by leaf.
    fn after(&self, frame: &[u8]) -> Oracle {
        let mut trees = self.clone();
        let notes = |pool| {
            let mut notes = Vec::new();
            project::notes(&frame[project::FRAME_PREFIX_BYTES..], pool, &mut notes).unwrap();
            notes
        };
        for note in notes(ShieldedPool::Sapling) {
            let node = Node::from_bytes(note).unwrap();
            trees.sapling.append(node).unwrap();
        }
        for (pool, tree) in [
            (ShieldedPool::Orchard, &mut trees.orchard),
            (ShieldedPool::Ironwood, &mut trees.ironwood),
        ] {
            for note in notes(pool) {
                let node = MerkleHashOrchard::from_bytes(&note).unwrap();
                tree.append(node).unwrap();
            }
        }
        trees
    }
}

/// The text as a wallet reads it; an inactive pool has none.
fn assert_tree<N>(text: &str, expected: &CommitmentTree<N, 32>, active: bool)
where
    N: HashSer + Hashable + Clone + PartialEq + Debug,
{
    if !active {
        assert_eq!(text, "");
        return;
    }
    let bytes = const_hex::decode(text).unwrap();
    let found: CommitmentTree<N, 32> = read_commitment_tree(&bytes[..]).unwrap();
    // Nodes pad the text with levels that hold nothing; a frontier has none of them. Equal frontiers have equal roots, and hashing those costs 10 ms a block.
    assert_eq!(found.to_frontier(), expected.to_frontier());
}

struct Run {
    rng: ChaCha8Rng,
    node: SimulatedNode,
    chain: ChainBuilder,
    server: Lightship,
    _port: http::Running,
    /// The best chain, and the trees at the end of each block.
    blocks: Vec<(BuiltBlock, Oracle)>,
}

impl Run {
    fn start(seed: u64) -> Run {
        let activations = Activations::new(&[
            (Upgrade::Overwinter, 1),
            (Upgrade::Sapling, 3),
            (Upgrade::Blossom, 4),
            (Upgrade::Heartwood, 5),
            (Upgrade::Canopy, 6),
            (Upgrade::Nu5, 20),
            (Upgrade::Nu6, 25),
            (Upgrade::Nu6_3, 40),
        ]);
        let hash = Trees::Consensus.hash().unwrap();
        let node = SimulatedNode::with_hash(activations.clone(), hash);
        let port = http::Running::start(node.clone(), http::Settings::default()).unwrap();
        let genesis = regtest_genesis();
        node.extend(genesis.bytes.clone()).unwrap();
        let server = Lightship::start(Options {
            node_url: port.url(),
            node_cookie: None,
            range_blocks: Some(16),
            zebra_state: None,
            zebra_indexer: None,
            poll: None,
        })
        .unwrap();
        let mut run = Run {
            rng: ChaCha8Rng::seed_from_u64(seed),
            node,
            chain: ChainBuilder::on_regtest(seed, activations),
            server,
            _port: port,
            blocks: vec![(genesis, Oracle::empty())],
        };
        run.append(SETTLED, 2);
        run
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.rng.next_u32() % bound
    }

    /// The next block on `chain`, with up to `most` notes of each active pool.
    fn block(&mut self, most: usize) -> BuiltBlock {
        let height = self.chain.next_height();
        let version = self.chain.newest_version();
        let mut transactions = Vec::new();
        let active = |pool| self.chain.activations().has_pool(pool, height);
        let active = ShieldedPool::ALL.map(active);
        for (pool, active) in ShieldedPool::ALL.into_iter().zip(active) {
            let notes = self.rng.next_u32() as usize % (most + 1);
            if !active || notes == 0 {
                continue;
            }
            let recipe = Recipe::new(version);
            let recipe = match pool {
                ShieldedPool::Sapling => recipe.with_sapling(0, notes),
                ShieldedPool::Orchard => recipe.with_orchard(notes),
                ShieldedPool::Ironwood => recipe.with_ironwood(notes),
            };
            transactions.push(self.chain.transaction(recipe).unwrap());
        }
        self.chain
            .next_block(Coinbase::default(), &transactions)
            .unwrap()
    }

    fn push(&mut self, block: BuiltBlock) {
        let compacted = compact(block.id.height, RawBlock::Whole(&block.bytes)).unwrap();
        let frame = compacted.after(TreeSizes::ZERO).unwrap().frame;
        let oracle = self.blocks.last().unwrap().1.after(&frame);
        self.blocks.push((block, oracle));
    }

    fn append(&mut self, count: u32, most: usize) {
        for _ in 0..count {
            let block = self.block(most);
            self.node.extend(block.bytes.clone()).unwrap();
            self.push(block);
        }
    }

    /// Gives the block that was the tip, and its trees.
    fn reorg(&mut self, depth: usize, count: u32, most: usize) -> (BuiltBlock, Oracle) {
        let old = self.blocks.last().unwrap().clone();
        self.blocks.truncate(self.blocks.len() - depth);
        let (parent, _) = self.blocks.last().unwrap();
        let seed = u64::from(self.rng.next_u32());
        self.chain = self.chain.branch(parent.id, parent.time, seed);
        let branch: Vec<BuiltBlock> = (0..count).map(|_| self.block(most)).collect();
        let bytes = branch.iter().map(|block| block.bytes.clone());
        self.node.reorg(depth as u32, bytes).unwrap();
        for block in branch {
            self.push(block);
        }
        old
    }

    async fn client(&mut self) -> Client {
        let start = Instant::now();
        loop {
            self.server.check_running().unwrap();
            match Client::connect(&self.server.grpc_url()).await {
                Ok(client) => return client,
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error:#}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the state at the tip comes without the node, then compares every height that `step` leads to and the last ones.
    async fn check(&mut self, step: usize) {
        let mut client = self.client().await;
        let tip = self.blocks.last().unwrap().0.id;
        let wanted = format!("lightship_trees_height {}", tip.height);
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < PATIENCE, "{}", self.server.log_tail());
            tokio::time::sleep(Duration::from_millis(200)).await;
            let text = self.server.metrics().unwrap();
            if !text.lines().any(|line| line == wanted) {
                continue;
            }
            // A branch of the same height may not have been followed yet: then the node is asked, and says nothing.
            let silent = Rule::new(Fault::Status(503)).of_method("z_gettreestate");
            self.node.faults().add(silent);
            match tree_state(&mut client, tip.height).await {
                Ok(state) if state.hash == tip.hash.to_string() => break,
                _ => self.node.faults().clear(),
            }
        }
        let recent = self.blocks.len().saturating_sub(60);
        for (height, (block, oracle)) in self.blocks.iter().enumerate() {
            if height % step != 0 && height < recent {
                continue;
            }
            let height = Height::try_from(height as u32).unwrap();
            let found = tree_state(&mut client, height).await.unwrap();
            assert_eq!(found.hash, block.id.hash.to_string());
            self.assert_trees(&found, height, oracle);
        }
        self.node.faults().clear();
    }

    fn assert_trees(&self, found: &TreeState, height: Height, oracle: &Oracle) {
        let active = |pool| self.chain.activations().has_pool(pool, height);
        let [sapling, orchard, ironwood] = ShieldedPool::ALL.map(active);
        assert_tree(&found.sapling_tree, &oracle.sapling, sapling);
        assert_tree(&found.orchard_tree, &oracle.orchard, orchard);
        assert_tree(&found.ironwood_tree, &oracle.ironwood, ironwood);
    }
}

async fn tree_state(client: &mut Client, height: Height) -> Result<TreeState, tonic::Status> {
    let id = BlockId {
        height: height.into(),
        hash: Vec::new(),
    };
    let bytes = client.unary("GetTreeState", id).await?;
    Ok(TreeState::decode(&bytes[..]).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_trees_are_those_of_the_protocols_crates_through_reorgs_and_restarts() {
    for seed in 1..=2 {
        let mut run = Run::start(seed);
        run.check(1).await;
        for _ in 0..8 {
            match run.below(5) {
                0 | 1 => {
                    let (count, most) = (1 + run.below(20), run.below(40));
                    run.append(count, most as usize);
                }
                2 | 3 => {
                    let depth = 1 + run.below(30);
                    let (count, most) = (run.below(6) + depth, run.below(40));
                    let (old, trees) = run.reorg(depth as usize, count, most as usize);
                    run.check(50).await;
                    let mut client = run.client().await;
                    let id = BlockId {
                        height: 0,
                        hash: old.id.hash.as_internal().to_vec(),
                    };
                    // The node does not know it any more.
                    let kept = client.unary("GetTreeState", id).await.unwrap();
                    let kept = TreeState::decode(&kept[..]).unwrap();
                    assert_eq!(kept.hash, old.id.hash.to_string());
                    run.assert_trees(&kept, old.id.height, &trees);
                }
                _ => {
                    run.server.kill();
                    let count = run.below(40);
                    run.append(count, 3);
                    run.server.resume().unwrap();
                }
            }
            run.check(50).await;
        }
        run.check(1).await;
        let (status, findings) = run.server.verify_trees().unwrap();
        assert!(status.success(), "{findings}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subtrees_root_is_that_of_the_protocols_crate() {
    let mut run = Run::start(9);
    // 65,536 notes, all but the first blocks' of one pool.
    for _ in 0..12 {
        let recipe = Recipe::new(run.chain.newest_version()).with_sapling(0, 6_000);
        let transaction = run.chain.transaction(recipe).unwrap();
        let block = run.chain.next_block(Coinbase::default(), &[transaction]);
        let block = block.unwrap();
        run.node.extend(block.bytes.clone()).unwrap();
        run.push(block);
    }
    run.append(3, 2);
    run.check(50).await;
    let complete = |(_, trees): &(BuiltBlock, Oracle)| trees.sapling.size() >= 1 << 16;
    let (block, _) = run.blocks.iter().find(|block| complete(block)).unwrap();
    let block = block.clone();
    let expected = run.node.answer(
        "z_getsubtreesbyindex",
        &serde_json::json!(["sapling", 0, 1]),
    );
    let expected = expected.unwrap()["subtrees"][0]["root"]
        .as_str()
        .unwrap()
        .to_owned();
    run.node.faults().add(Fault::Refuse);
    let mut client = run.client().await;
    let asked = GetSubtreeRootsArg::default();
    let mut roots = client.stream("GetSubtreeRoots", asked).await.unwrap();
    let root = roots.message().await.unwrap().unwrap();
    let root = SubtreeRoot::decode(&root[..]).unwrap();
    assert_eq!(const_hex::encode(&root.root_hash), expected);
    assert_eq!(root.completing_block_height, u64::from(block.id.height));
    assert_eq!(root.completing_block_hash, block.id.hash.to_display_order());
    assert!(roots.message().await.unwrap().is_none());
}
