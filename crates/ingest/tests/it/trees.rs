//! The trees behind an index, against the node that the index follows.

use std::{
    num::NonZeroUsize,
    ops::ControlFlow,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, Network, RawBlock, ShieldedPool, TreeSizes, Upgrade,
    build::{Activations, ChainBuilder, Coinbase, Recipe},
    compact::compact,
    tree::{TreeHash, TreeNode},
};
use lightship_index::{StoreId, Trees, Writer};
use lightship_ingest::{Stop, TreesError, TreesProgress, grow_trees};
use lightship_source::{
    BlockSource, Error as SourceError, SubtreeRoot, TreeState,
    simulated::{Fault, SimulatedNode, StandIn},
};

const RANGE_BLOCKS: u32 = 16;

fn mine(chain: &mut ChainBuilder, node: &SimulatedNode, writer: &mut Writer) {
    let height = chain.next_height();
    let after = |upgrade| chain.activations().is_active(upgrade, height);
    let coinbase = Coinbase {
        sapling_outputs: if after(Upgrade::Heartwood) { 3 } else { 0 },
        orchard_actions: usize::from(after(Upgrade::Nu5) && height.get() > 40),
        ironwood_actions: usize::from(after(Upgrade::Nu6_3)) * 2,
        ..Coinbase::default()
    };
    let bytes = chain.next_block(coinbase, &[]).unwrap().bytes;
    node.extend(bytes.clone()).unwrap();
    append(writer, &bytes);
}

fn append(writer: &mut Writer, bytes: &[u8]) {
    let height = writer.tip().map_or(0, |tip| tip.height.get() + 1);
    let block = compact(Height::new(height), RawBlock::Whole(bytes)).unwrap();
    writer
        .append(block.after(writer.tip_sizes()).unwrap())
        .unwrap();
    writer.commit().unwrap();
    writer.announce(writer.tip());
}

/// A hash that is not the node's.
struct Other;

impl TreeHash for Other {
    fn combine(
        &self,
        pool: ShieldedPool,
        level: u8,
        left: &TreeNode,
        right: &TreeNode,
    ) -> TreeNode {
        StandIn.combine(pool, level ^ 1, left, right)
    }
}

/// A node and an index of `blocks` blocks.
fn stage(dir: &std::path::Path, blocks: u32) -> (ChainBuilder, SimulatedNode, Writer) {
    let activations = Activations::staggered(Upgrade::Nu6_3, 7);
    let node = SimulatedNode::new(activations.clone());
    let genesis = lightship_chain::build::regtest_genesis();
    node.extend(genesis.bytes.clone()).unwrap();
    let id = StoreId {
        range_blocks: RANGE_BLOCKS.try_into().unwrap(),
        ..StoreId::new(Network::Regtest, genesis.id.hash)
    };
    let mut writer = Writer::open(dir, id).unwrap();
    append(&mut writer, &genesis.bytes);
    let mut chain = ChainBuilder::on_regtest(1, activations);
    for _ in 1..blocks {
        mine(&mut chain, &node, &mut writer);
    }
    (chain, node, writer)
}

/// Waits until the trees have grown to the writer's tip, then compares every height with the node.
fn check(node: &SimulatedNode, writer: &Writer, trees: &Trees) {
    let end = Instant::now() + Duration::from_secs(30);
    while trees.through() != writer.tip() {
        assert!(Instant::now() < end, "the trees do not grow");
        thread::sleep(Duration::from_millis(5));
    }
    let view = writer.reader().view();
    for height in 0..=view.tip().unwrap().height.get() {
        let height = Height::new(height);
        let hash = view.hash_at(height).unwrap();
        let theirs = BlockSource::tree_state(node, hash).unwrap().unwrap();
        let ours = trees.at(&view, height).unwrap().unwrap();
        let texts = ours.map(|tree| tree.map(|tree| const_hex::encode(tree.to_bytes())));
        assert_eq!(
            texts,
            [theirs.sapling, theirs.orchard, theirs.ironwood],
            "{height}"
        );
    }
}

#[test]
fn the_trees_are_the_nodes_at_every_height_through_seals_and_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let (mut chain, node, mut writer) = stage(dir.path(), 90);
    for round in 0..3 {
        let trees = Trees::open(dir.path(), Arc::new(StandIn), NonZeroUsize::MIN);
        let stop = Stop::new();
        thread::scope(|scope| {
            let reader = writer.reader();
            let grown = scope.spawn({
                let (node, trees, stop) = (&node, &trees, &stop);
                move || grow_trees(node, &reader, trees, &TreesProgress::new(), stop)
            });
            check(&node, &writer, &trees);
            for _ in 0..10 {
                mine(&mut chain, &node, &mut writer);
            }
            check(&node, &writer, &trees);
            writer.seal_through(Height::new(40 + 20 * round)).unwrap();
            check(&node, &writer, &trees);
            stop.stop();
            grown.join().unwrap().unwrap();
        });
    }
    assert!(writer.tip_sizes() != TreeSizes::ZERO);
    // The next process finds all of it, though the node is away from the start.
    node.faults().add(Fault::Refuse);
    let trees = Trees::open(dir.path(), Arc::new(StandIn), NonZeroUsize::MIN);
    let (progress, stop) = (TreesProgress::new(), Stop::new());
    thread::scope(|scope| {
        let reader = writer.reader();
        let grown = scope.spawn({
            let (node, trees, progress, stop) = (&node, &trees, &progress, &stop);
            move || grow_trees(node, &reader, trees, progress, stop)
        });
        let end = Instant::now() + Duration::from_secs(30);
        while trees.through() != writer.tip() {
            assert!(Instant::now() < end, "what was kept is not taken up");
            thread::sleep(Duration::from_millis(5));
        }
        stop.stop();
        grown.join().unwrap().unwrap();
    });
    node.faults().clear();
    check(&node, &writer, &trees);
}

#[test]
fn trees_that_are_not_the_nodes_are_never_readable() {
    let dir = tempfile::tempdir().unwrap();
    let (_, node, writer) = stage(dir.path(), 90);
    let trees = Trees::open(dir.path(), Arc::new(Other), NonZeroUsize::MIN);
    let progress = TreesProgress::new();
    let ended = grow_trees(&node, &writer.reader(), &trees, &progress, &Stop::new());
    assert!(
        matches!(ended, Err(TreesError::Differs { .. })),
        "{ended:?}"
    );
    assert_eq!(progress.steps(), 0);
    let why = progress.differs().unwrap();
    assert!(why.contains("is not the source's"), "{why}");
    let view = writer.reader().view();
    assert_eq!(trees.through(), None);
    assert!(trees.at(&view, Height::new(80)).unwrap().is_none());
    assert!(!dir.path().join("trees").exists());
}

/// A node that tells one subtree's root wrongly.
struct Liar(SimulatedNode);

impl BlockSource for Liar {
    fn genesis(&self) -> Result<BlockHash, SourceError> {
        self.0.genesis()
    }

    fn tip(&self) -> Result<Option<BlockId>, SourceError> {
        BlockSource::tip(&self.0)
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, SourceError> {
        BlockSource::hash_at(&self.0, height)
    }

    fn blocks(
        &self,
        range: HeightRange,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        self.0.blocks(range, visit)
    }

    fn block(
        &self,
        hash: BlockHash,
        visit: &mut dyn FnMut(RawBlock<'_>),
    ) -> Result<bool, SourceError> {
        BlockSource::block(&self.0, hash, visit)
    }

    fn tree_sizes(&self, hash: BlockHash) -> Result<Option<TreeSizes>, SourceError> {
        BlockSource::tree_sizes(&self.0, hash)
    }

    fn tree_state(&self, hash: BlockHash) -> Result<Option<TreeState>, SourceError> {
        BlockSource::tree_state(&self.0, hash)
    }

    fn subtree_roots(
        &self,
        pool: ShieldedPool,
        start: u32,
        limit: u32,
    ) -> Result<Vec<SubtreeRoot>, SourceError> {
        let mut roots = BlockSource::subtree_roots(&self.0, pool, start, limit)?;
        if let Some(root) = roots.first_mut() {
            root.root[7] ^= 1;
        }
        Ok(roots)
    }

    fn wait(&self, seen: Option<BlockId>, patience: Duration) -> Result<(), SourceError> {
        self.0.wait(seen, patience)
    }
}

#[test]
fn a_subtree_root_that_is_not_the_nodes_ends_the_growing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut chain, node, mut writer) = stage(dir.path(), 20);
    // 65,536 notes make a subtree.
    for _ in 0..10 {
        let recipe = Recipe::new(chain.newest_version()).with_sapling(0, 7_000);
        let transaction = chain.transaction(recipe).unwrap();
        let coinbase = Coinbase::default();
        let bytes = chain.next_block(coinbase, &[transaction]).unwrap().bytes;
        node.extend(bytes.clone()).unwrap();
        append(&mut writer, &bytes);
    }
    for _ in 0..20 {
        mine(&mut chain, &node, &mut writer);
    }
    writer.seal_through(Height::new(32)).unwrap();
    let ranges = |source: &dyn BlockSource, trees: &Trees| {
        let (progress, stop) = (TreesProgress::new(), Stop::new());
        thread::scope(|scope| {
            let grown =
                scope.spawn(|| grow_trees(source, &writer.reader(), trees, &progress, &stop));
            let end = Instant::now() + Duration::from_secs(30);
            while !grown.is_finished() && trees.through() != writer.tip() {
                assert!(Instant::now() < end, "the trees do not grow");
                thread::sleep(Duration::from_millis(5));
            }
            stop.stop();
            let ended = grown.join().unwrap();
            (ended, progress.subtrees(), progress.differs())
        })
    };
    let trees = Trees::open(dir.path(), Arc::new(StandIn), NonZeroUsize::MIN);
    let (ended, _, differs) = ranges(&Liar(node.clone()), &trees);
    assert!(
        matches!(ended, Err(TreesError::Differs { .. })),
        "{ended:?}"
    );
    let differs = differs.unwrap();
    assert!(differs.contains("subtree 0 of 2^16"), "{differs}");
    // What was found right before stays.
    let through = trees.through().unwrap().height;
    assert_eq!(through, Height::new(RANGE_BLOCKS - 1));
    let trees = Trees::open(dir.path(), Arc::new(StandIn), NonZeroUsize::MIN);
    let (ended, subtrees, differs) = ranges(&node, &trees);
    assert!(ended.is_ok() && differs.is_none(), "{ended:?}");
    assert_eq!(subtrees, 1);
}
