//! What one hash of a tree costs, alone and among many.
//!
//! Timed: hashing alone; the nodes are made before. Items are hashes.

use divan::{Bencher, counter::ItemsCount};
use lightship_chain::{
    ShieldedPool,
    tree::{TreeHash, TreeNode},
};
use lightship_merkle::Consensus;

fn main() {
    // The tables are made once in the life of a process.
    nodes(ShieldedPool::Sapling, 2);
    nodes(ShieldedPool::Orchard, 2);
    divan::main();
}

/// Nodes as the hash itself makes them.
fn nodes(pool: ShieldedPool, count: usize) -> Vec<TreeNode> {
    let mut node = Consensus.empty_leaf(pool);
    (0..count)
        .map(|_| {
            node = Consensus.combine(pool, 0, &node, &node);
            node
        })
        .collect()
}

#[divan::bench(args = [ShieldedPool::Sapling, ShieldedPool::Orchard], consts = [1, 4, 16, 64, 1024])]
fn pairs<const PAIRS: usize>(bencher: Bencher<'_, '_>, pool: ShieldedPool) {
    let children = nodes(pool, 2 * PAIRS);
    bencher.counter(ItemsCount::new(PAIRS)).bench(|| {
        let mut parents = Vec::with_capacity(PAIRS);
        Consensus.combine_pairs(pool, 3, &children, &mut parents);
        assert_eq!(parents.len(), PAIRS);
        parents
    });
}

#[divan::bench(args = [ShieldedPool::Sapling, ShieldedPool::Orchard])]
fn alone(bencher: Bencher<'_, '_>, pool: ShieldedPool) {
    let children = nodes(pool, 2);
    bencher
        .counter(ItemsCount::new(1_u32))
        .bench(|| Consensus.combine(pool, 3, &children[0], &children[1]));
}
