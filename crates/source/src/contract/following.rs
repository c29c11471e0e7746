//! A source on a chain that changes.

use std::time::{Duration, Instant};

use lightship_chain::{BlockId, Height, Upgrade, build::Activations};

use super::{Fixture, chain::height};
use crate::{BlockSource, simulated::SimulatedNode};

const LONG: Duration = Duration::from_secs(60);

pub(super) fn a_node_without_a_block_has_no_tip<S: BlockSource>(
    make: &impl Fn(&SimulatedNode) -> S,
) {
    let fixture = Fixture::empty(Activations::all_at(Upgrade::Nu7, 1));
    let source = make(&fixture.node);
    assert_eq!(source.tip().expect("tip"), None, "tip without a block");
    let hash = source.hash_at(Height::GENESIS).expect("hash_at");
    assert_eq!(hash, None, "hash at 0 without a block");
    let error = source
        .genesis()
        .expect_err("genesis without a block is an error");
    assert!(error.is_transient(), "a block may come yet: {error}");
    source
        .wait(None, Duration::from_millis(30))
        .expect("waiting for a first block");
}

pub(super) fn waiting_ends_when_the_tip_moves<S: BlockSource>(make: &impl Fn(&SimulatedNode) -> S) {
    let mut fixture = Fixture::new();
    let source = make(&fixture.node);
    let seen = source.tip().expect("tip");
    let node = fixture.node.clone();
    let wait_through = |change: &mut dyn FnMut()| {
        let started = Instant::now();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| source.wait(seen, LONG));
            std::thread::sleep(Duration::from_millis(30));
            change();
            waiter.join().expect("waiting does not panic")
        })
        .expect("waiting for a change");
        assert!(started.elapsed() < LONG / 2, "the change was not seen");
    };
    wait_through(&mut || {
        fixture.mine(Vec::new());
    });
    node.rollback(1);
    wait_through(&mut || {
        node.rollback(1);
    });
}

/// The hashes of the best chain are those of `expected`, which begins at `first`, and there is none above.
fn holds(source: &dyn BlockSource, expected: &[BlockId]) {
    let tip = expected.last().copied();
    assert_eq!(source.tip().expect("tip"), tip, "tip");
    for id in expected {
        let hash = source.hash_at(id.height).expect("hash_at");
        assert_eq!(hash, Some(id.hash), "hash at {}", id.height);
    }
    if let Some(above) = tip.and_then(|tip| tip.height.next()) {
        assert_eq!(
            source.hash_at(above).expect("hash_at"),
            None,
            "above the tip"
        );
    }
}

fn ids<'a>(
    blocks: impl IntoIterator<Item = &'a lightship_chain::build::BuiltBlock>,
) -> Vec<BlockId> {
    blocks.into_iter().map(|block| block.id).collect()
}

pub(super) fn a_reorg_moves_the_hashes_and_keeps_the_old_blocks<S: BlockSource>(
    make: &impl Fn(&SimulatedNode) -> S,
) {
    let fixture = Fixture::new();
    let source = make(&fixture.node);
    holds(&source, &ids(&fixture.blocks));
    let branch = fixture.branch(21, 4, 5);
    fixture
        .node
        .reorg(3, branch.iter().map(|block| block.bytes.clone()))
        .expect("the branch stands on block 21");
    holds(&source, &ids(fixture.blocks[..22].iter().chain(&branch)));
    for old in &fixture.blocks[22..] {
        let known = source.block(old.id.hash, &mut |_| ()).expect("block");
        assert!(known, "{} fell aside and is still known", old.id);
        let sizes = source.tree_sizes(old.id.hash).expect("tree sizes");
        assert!(sizes.is_some(), "sizes of {} that fell aside", old.id);
    }
}

pub(super) fn a_tip_may_fall_without_replacement_and_vanish<S: BlockSource>(
    make: &impl Fn(&SimulatedNode) -> S,
) {
    let fixture = Fixture::new();
    let source = make(&fixture.node);
    fixture.node.rollback(7);
    holds(&source, &ids(&fixture.blocks[..18]));
    fixture.node.rollback(u32::MAX);
    assert_eq!(source.tip().expect("tip"), None, "the tip has vanished");
    assert_eq!(source.hash_at(height(1)).expect("hash_at"), None);
}

pub(super) fn a_shorter_branch_may_be_the_best<S: BlockSource>(
    make: &impl Fn(&SimulatedNode) -> S,
) {
    let fixture = Fixture::new();
    let source = make(&fixture.node);
    let branch = fixture.branch(15, 2, 6);
    fixture
        .node
        .reorg(9, branch.iter().map(|block| block.bytes.clone()))
        .expect("the branch stands on block 15");
    holds(&source, &ids(fixture.blocks[..16].iter().chain(&branch)));
    fixture
        .node
        .switch_to(fixture.tip().hash)
        .expect("the old branch is known");
    holds(&source, &ids(&fixture.blocks));
}
