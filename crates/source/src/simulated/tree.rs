//! Note commitment trees as a node keeps them: chain's frontiers, and the root of each subtree as it is completed.
//!
//! In: note commitments in chain order. Out: `finalState` as nodes print it, the root, and the root of each subtree of 2^16 notes.
//!
//! The hash is behind [`TreeHash`]. Consensus hashes trees with Pedersen (Sapling) and Sinsemilla (Orchard, Ironwood), which need curve
//! arithmetic that this crate does not carry; [`StandIn`] takes their place. A tree state of a node made with it has the right shape,
//! size, leaves and byte order, and roots that no real chain has.
//!
//! Spec: protocol §3.8 "Note Commitment Trees"; the encoding is zcashd's `IncrementalMerkleTree` (wallets call it `CommitmentTree`).

use std::sync::Arc;

use lightship_chain::{ShieldedPool, TreeSizes, tree::Frontier};
use sha2::{Digest, Sha256};

pub use lightship_chain::tree::{DEPTH, SUBTREE_LEVEL, TreeHash, TreeNode};

/// Not a consensus hash: SHA-256 of the level `[1]` and both children, with the two top bits cleared so that the node is a canonical
/// field element of either curve. The same for every pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandIn;

impl TreeHash for StandIn {
    fn combine(
        &self,
        _pool: ShieldedPool,
        level: u8,
        left: &TreeNode,
        right: &TreeNode,
    ) -> TreeNode {
        let mut node: TreeNode = Sha256::new()
            .chain_update([level])
            .chain_update(left)
            .chain_update(right)
            .finalize()
            .into();
        node[31] &= 0x3f;
        node
    }
}

/// One pool's tree.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Tree(Frontier);

impl Tree {
    /// The tree of the first `size` notes, put together from nodes that are known: node `index` of `level`. Empty if one is not known.
    fn of_nodes(size: u32, node: impl Fn(u8, u32) -> Option<TreeNode>) -> Tree {
        let frontier = Frontier::of_nodes(size, |level, index| node(level, index).ok_or(()));
        Tree(frontier.unwrap_or_default())
    }

    /// Appends a note. Gives the root of the subtree that this note completes, if it is the last of 2^16.
    pub(super) fn append(
        &mut self,
        hash: &dyn TreeHash,
        pool: ShieldedPool,
        note: TreeNode,
    ) -> Option<TreeNode> {
        self.0.append(hash, pool, note)?;
        self.completed_subtree(hash, pool)
    }

    /// The root at [`SUBTREE_LEVEL`] if the tree ends where a subtree does.
    fn completed_subtree(&self, hash: &dyn TreeHash, pool: ShieldedPool) -> Option<TreeNode> {
        let size = self.0.size();
        if !size.is_multiple_of(1 << SUBTREE_LEVEL) {
            return None;
        }
        let last = size.checked_sub(1)?;
        let mut node = self.0.node(0, last)?;
        for level in 0..SUBTREE_LEVEL {
            let sibling = self.0.node(level, (last >> level) - 1)?;
            node = hash.combine(pool, level, &sibling, &node);
        }
        Some(node)
    }

    /// The root of the whole tree, empty leaves included.
    pub(super) fn root(&self, hash: &dyn TreeHash, pool: ShieldedPool) -> TreeNode {
        self.0.root(hash, pool)
    }

    /// As Zebra prints it: hexadecimal, the parents padded to 31; `000000` for the empty tree.
    pub(super) fn final_state(&self) -> String {
        const_hex::encode(self.0.to_bytes())
    }
}

/// The three trees at the end of a block; a tree that a block leaves alone is shared with the block below.
#[derive(Clone, Debug, Default)]
pub(super) struct Trees {
    trees: [Arc<Tree>; 3],
}

impl Trees {
    /// Trees of these sizes, put together from nodes that are known: node `index` of `level` of a pool.
    pub(super) fn of_nodes(
        sizes: TreeSizes,
        node: impl Fn(ShieldedPool, u8, u32) -> Option<TreeNode>,
    ) -> Trees {
        Trees {
            trees: ShieldedPool::ALL.map(|pool| {
                let tree = Tree::of_nodes(sizes.of(pool), |level, index| node(pool, level, index));
                Arc::new(tree)
            }),
        }
    }

    pub(super) fn of(&self, pool: ShieldedPool) -> &Tree {
        &self.trees[pool as usize]
    }

    pub(super) fn of_mut(&mut self, pool: ShieldedPool) -> &mut Tree {
        Arc::make_mut(&mut self.trees[pool as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: u32) -> TreeNode {
        let mut note = [0; 32];
        note[..4].copy_from_slice(&number.to_le_bytes());
        note
    }

    /// The root by definition: all leaves, level by level.
    fn naive_root(notes: u32, levels: u8) -> TreeNode {
        let pool = ShieldedPool::Orchard;
        let mut empty = StandIn.empty_leaf(pool);
        let mut level: Vec<_> = (0..notes).map(note).collect();
        for height in 0..levels {
            level = level
                .chunks(2)
                .map(|pair| StandIn.combine(pool, height, &pair[0], pair.get(1).unwrap_or(&empty)))
                .collect();
            empty = StandIn.combine(pool, height, &empty, &empty);
        }
        level.first().copied().unwrap_or(empty)
    }

    #[test]
    fn the_root_is_that_of_all_leaves() {
        let mut tree = Tree::default();
        for count in 0..70 {
            assert_eq!(
                tree.root(&StandIn, ShieldedPool::Orchard),
                naive_root(count, DEPTH),
                "{count} notes"
            );
            tree.append(&StandIn, ShieldedPool::Orchard, note(count));
        }
    }

    #[test]
    fn a_tree_is_put_together_from_its_nodes() {
        let pool = ShieldedPool::Orchard;
        let mut tree = Tree::default();
        for size in 0..70 {
            let node = |level, index: u32| {
                let mut nodes: Vec<_> = (index << level..(index + 1) << level).map(note).collect();
                assert!((index + 1) << level <= size, "all leaves are there");
                for below in 0..level {
                    nodes = nodes
                        .chunks(2)
                        .map(|pair| StandIn.combine(pool, below, &pair[0], &pair[1]))
                        .collect();
                }
                Some(nodes[0])
            };
            assert_eq!(Tree::of_nodes(size, node), tree, "{size} notes");
            tree.append(&StandIn, pool, note(size));
        }
    }

    #[test]
    fn a_subtree_ends_with_its_65536th_note() {
        let mut tree = Tree::default();
        for number in 0..(1 << 16) - 1 {
            assert_eq!(
                tree.append(&StandIn, ShieldedPool::Orchard, note(number)),
                None
            );
        }
        let root = tree.append(&StandIn, ShieldedPool::Orchard, note((1 << 16) - 1));
        assert_eq!(root, Some(naive_root(1 << 16, SUBTREE_LEVEL)));
        assert_eq!(
            tree.append(&StandIn, ShieldedPool::Orchard, note(1 << 16)),
            None
        );
    }

    #[test]
    fn the_text_is_padded_to_31_parents() {
        let mut tree = Tree::default();
        assert_eq!(tree.final_state(), "000000");
        for number in 0..5 {
            tree.append(&StandIn, ShieldedPool::Sapling, note(number));
        }
        let text = tree.final_state();
        let fifth = format!("01{}", const_hex::encode(note(4)));
        assert!(text.starts_with(&format!("{fifth}001f0001")), "{text}");
        // Left leaf, no right leaf, the count, 30 absent parents and the present one.
        assert_eq!(text.len(), 2 * (33 + 1 + 1 + 30 + 33));
    }
}
