//! Note commitment trees: what a node of one is, how two become the one above them, and the right edge of a tree.
//!
//! In: hashes of notes in chain order, or the text that nodes print. Out: a [`Frontier`], which can be appended to, printed as nodes do, and
//! named by its root. The hash is behind [`TreeHash`]: consensus uses Pedersen (Sapling) and Sinsemilla (Orchard, Ironwood), whose curve
//! arithmetic this room does not carry.
//!
//! Spec: protocol §3.8 "Note Commitment Trees"; the encoding is zcashd's `IncrementalMerkleTree` (wallets call it `CommitmentTree`).

use crate::ShieldedPool;

/// A tree node: `[32]`, in the order in which it is hashed.
pub type TreeNode = [u8; 32];

/// Levels above the leaves.
pub const DEPTH: u8 = 32;
/// The level of subtree roots: 2^16 notes below each.
pub const SUBTREE_LEVEL: u8 = 16;

/// How two nodes become the one above them.
pub trait TreeHash: Send + Sync {
    /// The parent of `left` and `right`, which lie `level` levels above the leaves (leaves: 0).
    fn combine(&self, pool: ShieldedPool, level: u8, left: &TreeNode, right: &TreeNode)
    -> TreeNode;

    /// Appends the parents of neighbours to `parents`: of the first and second of `children`, the third and fourth, and so on. All
    /// children lie at `level`; one without a neighbour is left out. An implementation can make many parents cheaper than one by one.
    fn combine_pairs(
        &self,
        pool: ShieldedPool,
        level: u8,
        children: &[TreeNode],
        parents: &mut Vec<TreeNode>,
    ) {
        let (pairs, _) = children.as_chunks::<2>();
        parents.extend(
            pairs
                .iter()
                .map(|[left, right]| self.combine(pool, level, left, right)),
        );
    }

    /// What stands in a leaf without a note: 1 in Sapling, 2 in the others, little-endian.
    fn empty_leaf(&self, pool: ShieldedPool) -> TreeNode {
        let mut leaf = [0; 32];
        leaf[0] = match pool {
            ShieldedPool::Sapling => 1,
            ShieldedPool::Orchard | ShieldedPool::Ironwood => 2,
        };
        leaf
    }
}

/// The right edge of a tree: the last pair of leaves, and the finished left siblings above it. All that is needed to append, to print and to name
/// the root.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u32,
    left: Option<TreeNode>,
    right: Option<TreeNode>,
    /// From level 1 up; the last one is present.
    parents: Vec<Option<TreeNode>>,
}

/// Text that is not a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a note commitment tree: expected {expected} at byte {offset}")]
pub struct NotATree {
    /// Where in the decoded bytes.
    pub offset: usize,
    /// What should have been there.
    pub expected: &'static str,
}

impl Frontier {
    /// The frontier of the first `size` notes, put together from the nodes that it consists of, which `node` finds by level and index.
    ///
    /// # Errors
    ///
    /// What `node` gives.
    pub fn of_nodes<E>(
        size: u32,
        mut node: impl FnMut(u8, u32) -> Result<TreeNode, E>,
    ) -> Result<Frontier, E> {
        let Some(last) = size.checked_sub(1) else {
            return Ok(Frontier::default());
        };
        // The last leaf, or the last two, are `left` and `right`; each bit of the number of pairs below them is a parent.
        let pairs = last / 2;
        let left = Some(node(0, 2 * pairs)?);
        let right = if last % 2 == 1 {
            Some(node(0, last)?)
        } else {
            None
        };
        let parents = (0..pairs.checked_ilog2().map_or(0, |high| high + 1))
            .map(|bit| {
                let complete = pairs >> bit;
                if complete & 1 == 0 {
                    return Ok(None);
                }
                node(bit as u8 + 1, complete - 1).map(Some)
            })
            .collect::<Result<_, E>>()?;
        Ok(Frontier {
            size,
            left,
            right,
            parents,
        })
    }

    /// How many notes the tree holds.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The node `index` of `level` if it is part of this frontier. Indices count from the left.
    pub fn node(&self, level: u8, index: u32) -> Option<TreeNode> {
        let pairs = self.size.checked_sub(1)? / 2;
        if level == 0 {
            return match index.checked_sub(2 * pairs)? {
                0 => self.left,
                1 => self.right,
                _ => None,
            };
        }
        let complete = pairs.checked_shr(u32::from(level) - 1)?;
        if complete.checked_sub(1) != Some(index) {
            return None;
        }
        *self.parents.get(usize::from(level) - 1)?
    }

    /// The complete trees of different sizes that the notes fall into: at each level where the size has a bit, the root of 2^level notes, and
    /// the higher the further to the left.
    pub fn ommers(&self, hash: &dyn TreeHash, pool: ShieldedPool) -> [Option<TreeNode>; 32] {
        let mut ommers = [None; 32];
        for (ommer, parent) in ommers[1..].iter_mut().zip(&self.parents) {
            *ommer = *parent;
        }
        let (Some(left), Some(right)) = (self.left, self.right) else {
            ommers[0] = self.left;
            return ommers;
        };
        let mut node = hash.combine(pool, 0, &left, &right);
        for (level, ommer) in (1..).zip(&mut ommers[1..]) {
            match ommer.take() {
                Some(sibling) => node = hash.combine(pool, level, &sibling, &node),
                None => {
                    *ommer = Some(node);
                    break;
                }
            }
        }
        ommers
    }

    /// Appends a note; `None`, with nothing changed, if the tree holds 2^32 - 1 already, as many as are counted.
    pub fn append(
        &mut self,
        hash: &dyn TreeHash,
        pool: ShieldedPool,
        note: TreeNode,
    ) -> Option<()> {
        self.size = self.size.checked_add(1)?;
        let Some(left) = self.left else {
            self.left = Some(note);
            return Some(());
        };
        let Some(right) = self.right else {
            self.right = Some(note);
            return Some(());
        };
        let mut node = hash.combine(pool, 0, &left, &right);
        self.left = Some(note);
        self.right = None;
        for (level, parent) in (1..).zip(self.parents.iter_mut()) {
            match parent.take() {
                Some(sibling) => node = hash.combine(pool, level, &sibling, &node),
                None => {
                    *parent = Some(node);
                    return Some(());
                }
            }
        }
        self.parents.push(Some(node));
        Some(())
    }

    /// The root of the whole tree, empty leaves included.
    pub fn root(&self, hash: &dyn TreeHash, pool: ShieldedPool) -> TreeNode {
        let mut empty = hash.empty_leaf(pool);
        let left = self.left.unwrap_or(empty);
        let right = self.right.unwrap_or(empty);
        let mut node = hash.combine(pool, 0, &left, &right);
        for level in 1..DEPTH {
            empty = hash.combine(pool, level - 1, &empty, &empty);
            node = match self.parents.get(usize::from(level) - 1) {
                Some(Some(sibling)) => hash.combine(pool, level, sibling, &node),
                _ => hash.combine(pool, level, &node, &empty),
            };
        }
        node
    }

    /// The encoding as Zebra prints it, before it is made hexadecimal: left, right, the count of parents, the parents padded to 31; three
    /// zeros for the empty tree.
    pub fn to_bytes(&self) -> Vec<u8> {
        if self.left.is_none() {
            return vec![0; 3];
        }
        let parents = usize::from(DEPTH) - 1;
        let mut bytes = Vec::with_capacity((2 + parents) + 1 + 32 * (2 + self.parents.len()));
        let optional = |bytes: &mut Vec<u8>, node: Option<&TreeNode>| match node {
            Some(node) => {
                bytes.push(1);
                bytes.extend_from_slice(node);
            }
            None => bytes.push(0),
        };
        optional(&mut bytes, self.left.as_ref());
        optional(&mut bytes, self.right.as_ref());
        bytes.push(DEPTH - 1);
        for level in 0..parents {
            optional(&mut bytes, self.parents.get(level).and_then(Option::as_ref));
        }
        bytes
    }

    /// Reads the encoding, padded as Zebra prints it or without trailing empty parents as zcashd does.
    ///
    /// # Errors
    ///
    /// [`NotATree`] for anything that no tree of at most 2^32 - 1 notes is encoded as.
    pub fn from_bytes(bytes: &[u8]) -> Result<Frontier, NotATree> {
        let mut rest = bytes;
        let wrong = |rest: &[u8], expected| NotATree {
            offset: bytes.len() - rest.len(),
            expected,
        };
        let optional = |rest: &mut &[u8]| -> Result<Option<TreeNode>, NotATree> {
            match rest.split_first() {
                Some((0, after)) => {
                    *rest = after;
                    Ok(None)
                }
                Some((1, after)) => {
                    let (node, after) = after
                        .split_first_chunk()
                        .ok_or_else(|| wrong(rest, "a node of 32 bytes"))?;
                    *rest = after;
                    Ok(Some(*node))
                }
                _ => Err(wrong(rest, "00 or 01")),
            }
        };
        let left = optional(&mut rest)?;
        let right = optional(&mut rest)?;
        let (&count, after) = rest
            .split_first()
            .filter(|(count, _)| **count < DEPTH)
            .ok_or_else(|| wrong(rest, "at most 31 parents"))?;
        rest = after;
        let mut parents = (0..count)
            .map(|_| optional(&mut rest))
            .collect::<Result<Vec<_>, _>>()?;
        if !rest.is_empty() {
            return Err(wrong(rest, "the end"));
        }
        while parents.last() == Some(&None) {
            parents.pop();
        }
        let size = match (&left, &right) {
            (None, None) if parents.is_empty() => 0,
            (Some(_), _) => {
                let pairs = (0..)
                    .zip(&parents)
                    .filter(|(_, parent)| parent.is_some())
                    .fold(0_u32, |pairs, (bit, _)| pairs | 1 << bit);
                // 31 bits of pairs and the last pair: overflows only for the full tree.
                pairs
                    .checked_mul(2)
                    .and_then(|leaves| leaves.checked_add(1 + u32::from(right.is_some())))
                    .ok_or_else(|| wrong(rest, "fewer than 2^32 notes"))?
            }
            _ => return Err(wrong(bytes, "a left leaf")),
        };
        Ok(Frontier {
            size,
            left,
            right,
            parents,
        })
    }
}

#[cfg(test)]
mod tests;
