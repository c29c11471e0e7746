//! The nodes that a span of blocks completes.
//!
//! In: the notes of consecutive blocks, and the ommers of the trees before them. Out: every node from [`LOWEST_LEVEL`] up whose last note
//! is among them. Where the notes come from and where the nodes go is left to others.
//!
//! # Invariants
//!
//! A span from size `a` to size `b` holds, at each level, the nodes with indices from `a >> level` to below `b >> level`: the place of a node
//! follows from the two sizes.

use std::{num::NonZeroUsize, thread};

use lightship_chain::{
    ShieldedPool, TreeSizes,
    tree::{TreeHash, TreeNode},
};

/// The lowest level that is kept; what lies below is hashed again from the notes, fewer than 2^LOWEST_LEVEL of them.
pub(crate) const LOWEST_LEVEL: u8 = 3;
/// Levels at which a tree of fewer than 2^32 notes completes nodes.
pub(crate) const LEVELS: u8 = 32;
/// Parents that are worth a thread.
const PARENTS_PER_THREAD: usize = 1024;

/// The complete trees of different sizes that a tree falls into, by level.
pub(crate) type Ommers = [Option<TreeNode>; LEVELS as usize];

/// Hashes, on how many threads.
#[derive(Clone, Copy)]
pub(crate) struct Hasher<'a> {
    pub(crate) hash: &'a dyn TreeHash,
    pub(crate) threads: NonZeroUsize,
}

impl Hasher<'_> {
    /// The parents of neighbours, as [`TreeHash::combine_pairs`].
    fn combine_pairs(self, pool: ShieldedPool, level: u8, children: &[TreeNode]) -> Vec<TreeNode> {
        let parents = children.len() / 2;
        let threads = self.threads.get().min(parents.div_ceil(PARENTS_PER_THREAD));
        let combine = |children: &[TreeNode]| {
            let mut parents = Vec::with_capacity(children.len() / 2);
            self.hash.combine_pairs(pool, level, children, &mut parents);
            parents
        };
        if threads < 2 {
            return combine(children);
        }
        thread::scope(|scope| {
            let parts: Vec<_> = children
                .chunks(2 * parents.div_ceil(threads))
                .map(|children| scope.spawn(move || combine(children)))
                .collect();
            parts
                .into_iter()
                .flat_map(|part| part.join().expect("hashing does not panic"))
                .collect()
        })
    }
}

/// What a span adds to one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PoolSpan {
    before: u32,
    size: u32,
    /// From [`LOWEST_LEVEL`] up.
    levels: Vec<Vec<TreeNode>>,
}

impl PoolSpan {
    fn new(before: u32) -> PoolSpan {
        PoolSpan {
            before,
            size: before,
            levels: vec![Vec::new(); usize::from(LEVELS - LOWEST_LEVEL)],
        }
    }

    fn node(&self, level: u8, index: u32) -> Option<TreeNode> {
        let place = index.checked_sub(self.before >> level)?;
        let nodes = &self.levels[usize::from(level.checked_sub(LOWEST_LEVEL)?)];
        nodes.get(place as usize).copied()
    }

    fn extend(
        &mut self,
        hasher: Hasher<'_>,
        pool: ShieldedPool,
        notes: &[TreeNode],
        ommers: &mut Ommers,
    ) -> Option<()> {
        self.size = self.size.checked_add(u32::try_from(notes.len()).ok()?)?;
        let mut nodes = notes.to_vec();
        for (level, ommer) in (0..LEVELS).zip(ommers) {
            // Where a level completes nothing, the ommers above stay.
            if nodes.is_empty() {
                break;
            }
            if let Some(place) = level.checked_sub(LOWEST_LEVEL) {
                self.levels[usize::from(place)].extend_from_slice(&nodes);
            }
            // Behind the ommer, if there is one, the nodes begin with a left child.
            if let Some(left) = ommer.take() {
                nodes.insert(0, left);
            }
            if nodes.len() % 2 == 1 {
                *ommer = nodes.last().copied();
            }
            nodes = hasher.combine_pairs(pool, level, &nodes);
        }
        Some(())
    }

    fn truncate(&mut self, size: u32) {
        self.size = size;
        for (level, nodes) in (LOWEST_LEVEL..).zip(&mut self.levels) {
            nodes.truncate(((size >> level) - (self.before >> level)) as usize);
        }
    }

    fn drop_front(&mut self, before: u32) {
        for (level, nodes) in (LOWEST_LEVEL..).zip(&mut self.levels) {
            nodes.drain(..((before >> level) - (self.before >> level)) as usize);
        }
        self.before = before;
    }
}

/// What a span of blocks adds to the three trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pools: [PoolSpan; 3],
}

impl Span {
    /// A span without a note, behind trees of these sizes.
    pub(crate) fn new(before: TreeSizes) -> Span {
        Span {
            pools: ShieldedPool::ALL.map(|pool| PoolSpan::new(before.of(pool))),
        }
    }

    fn sizes_of(&self, size: impl Fn(&PoolSpan) -> u32) -> TreeSizes {
        let [sapling, orchard, ironwood] = &self.pools;
        TreeSizes {
            sapling: size(sapling),
            orchard: size(orchard),
            ironwood: size(ironwood),
        }
    }

    pub(crate) fn before(&self) -> TreeSizes {
        self.sizes_of(|pool| pool.before)
    }

    pub(crate) fn sizes(&self) -> TreeSizes {
        self.sizes_of(|pool| pool.size)
    }

    /// A node, if the span completes it.
    pub(crate) fn node(&self, pool: ShieldedPool, level: u8, index: u32) -> Option<TreeNode> {
        self.pools[pool as usize].node(level, index)
    }

    /// Every node: pool by pool, level by level, in order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &TreeNode> {
        self.pools
            .iter()
            .flat_map(|pool| pool.levels.iter().flatten())
    }

    /// Takes the next notes of one tree. `ommers` are those of the tree as it is, and become those of the tree as it will be.
    ///
    /// `None` if the tree would hold 2^32 notes.
    pub(crate) fn extend(
        &mut self,
        hasher: Hasher<'_>,
        pool: ShieldedPool,
        notes: &[TreeNode],
        ommers: &mut Ommers,
    ) -> Option<()> {
        self.pools[pool as usize].extend(hasher, pool, notes, ommers)
    }

    /// Forgets what was completed above `sizes`, which lie within the span.
    pub(crate) fn truncate(&mut self, sizes: TreeSizes) {
        for pool in ShieldedPool::ALL {
            self.pools[pool as usize].truncate(sizes.of(pool));
        }
    }

    /// Forgets what was completed up to `before`, which lies within the span.
    pub(crate) fn drop_front(&mut self, before: TreeSizes) {
        for pool in ShieldedPool::ALL {
            self.pools[pool as usize].drop_front(before.of(pool));
        }
    }
}
