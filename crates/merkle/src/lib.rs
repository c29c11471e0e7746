//! The hashes of note commitment trees, many at a time.
//!
//! In: neighbouring nodes of a tree. Out: the nodes above them ([`Consensus`], a [`TreeHash`]). Which nodes, and what becomes of them, is left to
//! others; this room only keeps curve arithmetic out of theirs.
//!
//! The protocols' own crates hash one pair at a time, in constant time, with small tables. Here nothing is secret, trees are hashed by the
//! million, and a root is compared with a node's before anyone is told of it. So the field arithmetic is theirs, and the way through it is ours:
//! tables for nine bits at a time (Sapling), one division for many additions (Orchard and Ironwood), and no regard for timing.
//!
//! Spec: protocol §5.4.1.3 "MerkleCRH^Sapling Hash Function" and "MerkleCRH^Orchard Hash Function".

mod bits;
mod pedersen;
mod sinsemilla;

use lightship_chain::{
    ShieldedPool,
    tree::{TreeHash, TreeNode},
};

/// The hashes that consensus prescribes: Pedersen over Jubjub for Sapling, Sinsemilla over Pallas for Orchard and Ironwood.
///
/// The first use makes tables: 3 MB for Sapling, 20 ms of one core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consensus;

impl TreeHash for Consensus {
    fn combine(
        &self,
        pool: ShieldedPool,
        level: u8,
        left: &TreeNode,
        right: &TreeNode,
    ) -> TreeNode {
        match pool {
            ShieldedPool::Sapling => pedersen::combine(level, left, right),
            ShieldedPool::Orchard | ShieldedPool::Ironwood => {
                sinsemilla::combine(level, left, right)
            }
        }
    }

    fn combine_pairs(
        &self,
        pool: ShieldedPool,
        level: u8,
        children: &[TreeNode],
        parents: &mut Vec<TreeNode>,
    ) {
        let (pairs, _) = children.as_chunks::<2>();
        match pool {
            ShieldedPool::Sapling => pedersen::combine_pairs(level, pairs, parents),
            ShieldedPool::Orchard | ShieldedPool::Ironwood => {
                sinsemilla::combine_pairs(level, pairs, parents);
            }
        }
    }
}

#[cfg(test)]
mod tests;
