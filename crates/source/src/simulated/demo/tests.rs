use std::collections::BTreeSet;

use lightship_chain::{HeightRange, ShieldedPool, build::coinbase_height, parse::Block};

use super::*;

const NOW: u32 = 1_800_000_000;

fn demo(blocks: u32) -> DemoChain {
    DemoChain::new(Settings {
        seed: 1,
        blocks,
        now: NOW,
        spacing_seconds: 75,
    })
    .unwrap()
}

#[test]
fn every_pool_and_kind_is_there() {
    let demo = demo(1_500);
    let chain = demo.node.chain();
    let tip = chain.tip().unwrap();
    assert_eq!(tip.id.height.get(), 1_500);
    assert_eq!(tip.time, NOW);
    for pool in ShieldedPool::ALL {
        assert!(tip.sizes.of(pool) > 100, "{pool}: {:?}", tip.sizes);
    }
    let hints = demo.hints();
    let kinds: BTreeSet<_> = hints.transactions.iter().map(|hint| hint.kind).collect();
    assert_eq!(kinds.len(), 7, "{kinds:?}");
    for hint in hints.transactions {
        let (block, _) = chain.find(&hint.id).unwrap();
        assert!(chain.is_best(&block));
        assert_eq!(block.id.height, hint.height);
    }
    let ever = HeightRange::new(Height::GENESIS, Height::MAX).unwrap();
    let busy = chain.ledger.history(&demo.people[1].address, ever).count();
    let quiet = chain.ledger.history(&demo.people[8].address, ever).count();
    assert!(busy > 20 * quiet.max(1) && quiet > 0, "{busy} and {quiet}");
}

#[test]
fn the_same_seed_makes_the_same_chain() {
    let mut one = demo(120);
    let mut other = demo(120);
    for _ in 0..30 {
        assert_eq!(one.tick(NOW).unwrap(), other.tick(NOW).unwrap());
    }
    assert_eq!(one.node.best(), other.node.best());
}

#[test]
fn ticks_grow_the_chain_and_now_and_then_change_the_branch() {
    let mut demo = demo(200);
    let mut depths = BTreeSet::new();
    let mut mempool_seen = false;
    for tick in 0..400 {
        let before = demo.node.best().unwrap().height.get();
        let tip = match demo.tick(NOW + 5 * tick).unwrap() {
            Event::Grew { tip } => tip,
            Event::Reorganized { depth, tip } => {
                depths.insert(depth);
                tip
            }
        };
        assert_eq!(tip.height.get(), before + 1);
        assert_eq!(demo.node.best(), Some(tip));
        mempool_seen |= !demo.node.mempool_ids().is_empty();
    }
    assert_eq!(depths, BTreeSet::from([1, 2, 3]));
    assert!(mempool_seen);
    nothing_is_spent_twice_and_links_hold(&demo);
    for hint in demo.hints().transactions {
        let chain = demo.node.chain();
        let (block, _) = chain.find(&hint.id).unwrap();
        assert!(chain.is_best(&block) && block.id.height == hint.height);
    }
}

fn nothing_is_spent_twice_and_links_hold(demo: &DemoChain) {
    let chain = demo.node.chain();
    let mut there: HashSet<OutPoint> = HashSet::new();
    let mut previous = lightship_chain::BlockHash::ZERO;
    let mut time = 0;
    for height in 0..chain.len() as u32 {
        let block = chain.at(Height::new(height)).unwrap();
        let read = Block::parse(&block.bytes).unwrap();
        assert_eq!(read.header().previous(), previous);
        assert!(
            read.header().time() > time || height == 1,
            "time at {height}"
        );
        (previous, time) = (block.id.hash, read.header().time());
        for (nth, (id, transaction)) in block.transactions().enumerate() {
            assert_eq!(transaction.is_coinbase(), nth == 0);
            if nth == 0 && height > 0 {
                let script = transaction.inputs().next().unwrap().script();
                assert!(script.starts_with(&coinbase_height(Height::new(height))));
            }
            for outpoint in crate::simulated::chain::outpoints(&transaction) {
                assert!(there.remove(&outpoint), "{outpoint:?} at {height}");
            }
            for index in 0..transaction.outputs().len() as u32 {
                there.insert((id, index));
            }
        }
    }
}
