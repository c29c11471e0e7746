//! The root over a block's transaction ids.
//!
//! In: ids, one after another. Out: the root that the block's header commits to. Keeps one hash a level, not the ids.
//!
//! Spec: protocol §7.6 `hashMerkleRoot`; the tree is Bitcoin's.

use crate::{TxId, hash::sha256d};

/// The root that a block's header names: SHA-256d of pairs, the last one doubled where a level is odd. `[32]`, internal order.
/// Zeros for no ids.
pub fn merkle_root(ids: &[TxId]) -> [u8; 32] {
    let mut tree = MerkleTree::default();
    for &id in ids {
        tree.push(id);
    }
    tree.root()
}

/// A tree that grows leaf by leaf.
#[derive(Clone, Debug)]
pub(crate) struct MerkleTree {
    /// At each level the root of a full subtree that waits for its right sibling.
    waiting: [Option<[u8; 32]>; LEVELS],
    twins: bool,
}

/// More than 2^32 leaves, each of 10 bytes or more, do not come.
const LEVELS: usize = 33;

impl Default for MerkleTree {
    fn default() -> MerkleTree {
        MerkleTree {
            waiting: [None; LEVELS],
            twins: false,
        }
    }
}

impl MerkleTree {
    /// Adds the next transaction's id.
    pub(crate) fn push(&mut self, id: TxId) {
        let mut subtree = *id.as_internal();
        for waiting in &mut self.waiting {
            match waiting.take() {
                None => {
                    *waiting = Some(subtree);
                    return;
                }
                Some(left) => {
                    self.twins |= left == subtree;
                    subtree = parent(&left, &subtree);
                }
            }
        }
    }

    /// The root over all that was added. Zeros for nothing.
    pub(crate) fn root(&self) -> [u8; 32] {
        let Some(top) = self.waiting.iter().rposition(Option::is_some) else {
            return [0; 32];
        };
        let mut right: Option<[u8; 32]> = None;
        for &left in self.waiting.iter().take(top) {
            right = match (left, right) {
                (Some(left), Some(right)) => Some(parent(&left, &right)),
                (Some(single), None) | (None, Some(single)) => Some(parent(&single, &single)),
                (None, None) => None,
            };
        }
        match (self.waiting.get(top).copied().flatten(), right) {
            (Some(left), Some(right)) => parent(&left, &right),
            (left, right) => left.or(right).unwrap_or_default(),
        }
    }

    /// Whether this is the one list of transactions with `root`. Doubling is also how an odd level is made even, so a list with its end
    /// repeated has the root of the list without; two siblings alike give that away, for no two transactions of a block have one id.
    pub(crate) fn is_exactly(&self, root: [u8; 32]) -> bool {
        !self.twins && self.root() == root
    }
}

fn parent(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let mut both = [0; 64];
    let (first, second) = both.split_at_mut(32);
    first.copy_from_slice(left);
    second.copy_from_slice(right);
    sha256d(&both)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: u8) -> Vec<TxId> {
        (0..count)
            .map(|first| TxId::from_internal([first; 32]))
            .collect()
    }

    /// Level by level, as the specification has it.
    fn by_levels(ids: &[TxId]) -> [u8; 32] {
        let mut level: Vec<[u8; 32]> = ids.iter().map(|id| *id.as_internal()).collect();
        while level.len() > 1 {
            level = level
                .chunks(2)
                .map(|pair| parent(pair.first().unwrap(), pair.last().unwrap()))
                .collect();
        }
        level.pop().unwrap_or_default()
    }

    #[test]
    fn growing_leaf_by_leaf_gives_the_root_made_level_by_level() {
        for count in 0..=130 {
            let ids = ids(count);
            assert_eq!(merkle_root(&ids), by_levels(&ids), "{count} leaves");
        }
    }

    #[test]
    fn a_list_with_its_end_repeated_is_not_taken_for_the_list() {
        let honest = ids(6);
        let root = merkle_root(&honest);
        let tree = |ids: &[TxId]| {
            let mut tree = MerkleTree::default();
            ids.iter().for_each(|&id| tree.push(id));
            tree
        };
        assert!(tree(&honest).is_exactly(root));
        let repeated = [&honest[..], honest.get(4..).unwrap()].concat();
        assert_eq!(merkle_root(&repeated), root);
        assert!(!tree(&repeated).is_exactly(root));
        assert!(tree(&[]).is_exactly([0; 32]));
    }
}
