//! One consistent picture of the trees, to read from.

use std::{cmp::Ordering, sync::Arc};

use lightship_chain::{
    BlockHash, BlockId, Height, ShieldedPool, TreeSizes,
    compact::project::{self, FRAME_PREFIX_BYTES},
    tree::{Frontier, SUBTREE_LEVEL, TreeHash, TreeNode},
};

use super::{
    SubtreeEnd, TreesAt,
    range::RangeTrees,
    span::{Hasher, LOWEST_LEVEL, Ommers, Span},
};
use crate::{Error, Result, View, format::trees::Active};

/// Notes that are hashed together; bounds the memory that a range takes while its nodes are made.
const BATCH_NOTES: usize = 1 << 15;

/// What is known of the trees: the nodes of sealed ranges from genesis on, then those of blocks that may still be replaced.
#[derive(Clone)]
pub(crate) struct Grown {
    pub(crate) ranges: Vec<Arc<RangeTrees>>,
    pub(crate) tail: Arc<TailTrees>,
}

/// The nodes that blocks behind the ranges complete, in memory.
#[derive(Clone)]
pub(crate) struct TailTrees {
    /// The height of the first of the blocks.
    pub(crate) first: Height,
    /// The blocks, and the sizes at the end of each.
    pub(crate) blocks: Vec<(BlockHash, TreeSizes)>,
    pub(crate) span: Span,
    pub(crate) active: Active,
}

impl TailTrees {
    pub(crate) fn new(first: Height, before: TreeSizes, active: Active) -> TailTrees {
        TailTrees {
            first,
            blocks: Vec::new(),
            span: Span::new(before),
            active,
        }
    }

    /// The first height behind the blocks.
    pub(crate) fn end(&self) -> Height {
        let blocks = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        self.first.checked_add(blocks).unwrap_or(Height::MAX)
    }

    /// Takes the blocks of `view` behind those that are there, up to `last`. Their nodes are in the span already.
    pub(crate) fn push_blocks(&mut self, view: &View, last: Height) {
        for height in self.end().get()..=last.get() {
            let row = Height::try_from(height)
                .ok()
                .and_then(|height| view.row(height));
            let row = row.expect("the notes of the block were read from the view");
            self.blocks.push((row.hash, row.sizes));
        }
    }

    pub(crate) fn get(&self, height: Height) -> Option<&(BlockHash, TreeSizes)> {
        let place = height.get().checked_sub(self.first.get())?;
        self.blocks.get(place as usize)
    }

    /// The last block.
    pub(crate) fn tip(&self) -> Option<BlockId> {
        let (hash, _) = self.blocks.last()?;
        let above = u32::try_from(self.blocks.len()).ok()?.checked_sub(1)?;
        Some(BlockId {
            height: self.first.checked_add(above)?,
            hash: *hash,
        })
    }
}

impl Grown {
    pub(crate) fn empty() -> Grown {
        Grown {
            ranges: Vec::new(),
            tail: Arc::new(TailTrees::new(Height::GENESIS, TreeSizes::ZERO, [None; 3])),
        }
    }

    /// The last block that these trees are made of.
    pub(crate) fn tip(&self) -> Option<BlockId> {
        self.tail.tip().or_else(|| Some(self.ranges.last()?.tip))
    }

    /// From which height on each pool is active, as far as is known at the end of the ranges.
    pub(crate) fn tail_base_active(&self) -> Active {
        self.ranges
            .last()
            .map_or([None; 3], |range| range.header.active)
    }

    /// Where the ranges end: the next height, and the sizes.
    fn end_of_ranges(&self) -> (Height, TreeSizes) {
        match self.ranges.last() {
            Some(range) => (
                range.tip.height.next().unwrap_or(Height::MAX),
                range.header.sizes,
            ),
            None => (Height::GENESIS, TreeSizes::ZERO),
        }
    }

    /// Empties the tail.
    pub(crate) fn forget_tail(&mut self) {
        let (first, before) = self.end_of_ranges();
        self.tail = Arc::new(TailTrees::new(first, before, self.tail_base_active()));
    }

    /// Makes the tail begin where the ranges end, and keeps of it what is in `view`. Whether anything changed.
    pub(crate) fn fit_tail(&mut self, view: &View) -> bool {
        let (first, before) = self.end_of_ranges();
        let tail = &self.tail;
        let kept = (tail.first.get()..)
            .zip(&tail.blocks)
            .take_while(|(height, (hash, _))| {
                let height = Height::try_from(*height).ok();
                height.and_then(|height| view.hash_at(height)) == Some(*hash)
            })
            .count();
        if tail.first == first && kept == tail.blocks.len() {
            return false;
        }
        let below = (first.get().checked_sub(tail.first.get()))
            .map(|below| below as usize)
            .filter(|below| *below <= kept);
        let base_active = self.tail_base_active();
        self.tail = Arc::new(match below {
            Some(below) if kept > 0 => {
                let mut tail = TailTrees::clone(tail);
                tail.blocks.truncate(kept);
                tail.span.truncate(tail.blocks[kept - 1].1);
                tail.blocks.drain(..below);
                tail.span.drop_front(before);
                tail.first = first;
                let end = tail.end();
                for (active, base) in tail.active.iter_mut().zip(base_active) {
                    *active = base.or(active.filter(|active| *active < end));
                }
                tail
            }
            _ => TailTrees::new(first, before, base_active),
        });
        true
    }

    /// Whether the block at `height` of `view` is one of those these trees are made of. Then so are all below it.
    pub(crate) fn reaches(&self, view: &View, height: Height) -> bool {
        let same_range = view.sealed.find(height).is_some_and(|(range, _)| {
            let number = (height.get() / range.blocks()) as usize;
            let ours = self.ranges.get(number);
            ours.is_some_and(|ours| ours.header.columns_digest == range.entry.columns_digest)
        });
        same_range
            || self
                .tail
                .get(height)
                .is_some_and(|(hash, _)| view.hash_at(height) == Some(*hash))
    }

    /// From which height on each pool is active, as far as is known at `height`, which these trees reach.
    pub(crate) fn active(&self, view: &View, height: Height) -> Active {
        let range = view
            .sealed
            .find(height)
            .and_then(|(range, _)| self.ranges.get((height.get() / range.blocks()) as usize));
        range.map_or(self.tail.active, |range| range.header.active)
    }

    /// A node from [`LOWEST_LEVEL`] up that is complete in these trees.
    pub(crate) fn node(&self, pool: ShieldedPool, level: u8, index: u32) -> Result<TreeNode> {
        if let Some(node) = self.tail.span.node(pool, level, index) {
            return Ok(node);
        }
        let number = self
            .ranges
            .partition_point(|range| range.header.sizes.of(pool) >> level <= index);
        let node = match self.ranges.get(number) {
            Some(range) => range.node(pool, level, index)?,
            None => None,
        };
        Ok(node.expect("ranges follow each other, and the tail follows them"))
    }

    /// A complete subtree, and which block up to `height` completes it.
    pub(crate) fn subtree(
        &self,
        view: &View,
        pool: ShieldedPool,
        index: u32,
        height: Height,
    ) -> Result<SubtreeEnd> {
        let last = (index << SUBTREE_LEVEL) | ((1 << SUBTREE_LEVEL) - 1);
        let root = self.node(pool, SUBTREE_LEVEL, index)?;
        Ok((root, block_of_note(view, pool, last, height)))
    }

    /// The trees at the end of the block at `height` of `view`; `None` if these trees do not reach it.
    pub(crate) fn at(
        &self,
        view: &View,
        hash: &dyn TreeHash,
        height: Height,
    ) -> Result<Option<TreesAt>> {
        if !self.reaches(view, height) {
            return Ok(None);
        }
        let active = self.active(view, height);
        let mut trees = [None, None, None];
        for (tree, (pool, active)) in trees
            .iter_mut()
            .zip(ShieldedPool::ALL.into_iter().zip(active))
        {
            if active.is_some_and(|active| active <= height) {
                *tree = Some(self.frontier(view, hash, height, pool)?);
            }
        }
        Ok(Some(trees))
    }

    /// The tree at the end of the block at `height`, which these trees reach.
    pub(crate) fn frontier(
        &self,
        view: &View,
        hash: &dyn TreeHash,
        height: Height,
        pool: ShieldedPool,
    ) -> Result<Frontier> {
        let row = view.row(height).expect("the trees reach the block");
        self.frontier_of(view, hash, height, row.sizes.of(pool), pool)
    }

    fn frontier_of(
        &self,
        view: &View,
        hash: &dyn TreeHash,
        height: Height,
        size: u32,
        pool: ShieldedPool,
    ) -> Result<Frontier> {
        let Some(last) = size.checked_sub(1) else {
            return Ok(Frontier::default());
        };
        let first = last >> LOWEST_LEVEL << LOWEST_LEVEL;
        let notes = notes(view, pool, first, size, height)?;
        Frontier::of_nodes(size, |level, index| {
            if level >= LOWEST_LEVEL {
                return self.node(pool, level, index);
            }
            let from = ((index << level) - first) as usize;
            let mut nodes = notes[from..from + (1 << level)].to_vec();
            for level in 0..level {
                let mut parents = Vec::with_capacity(nodes.len() / 2);
                hash.combine_pairs(pool, level, &nodes, &mut parents);
                nodes = parents;
            }
            Ok(nodes[0])
        })
    }

    /// The ommers at the end of the block below `height`.
    fn ommers_below(
        &self,
        view: &View,
        hash: &dyn TreeHash,
        height: Height,
        pool: ShieldedPool,
    ) -> Result<Ommers> {
        let Some(below) = height.get().checked_sub(1) else {
            return Ok([None; 32]);
        };
        let below = Height::try_from(below).expect("it is below a height");
        Ok(self.frontier(view, hash, below, pool)?.ommers(hash, pool))
    }

    /// Puts the blocks of `view` from `first` to `last`, which follow these trees, into `span`.
    pub(crate) fn extend(
        &self,
        view: &View,
        hasher: Hasher<'_>,
        (first, last): (Height, Height),
        span: &mut Span,
    ) -> Result<()> {
        for pool in ShieldedPool::ALL {
            let end = view.row(last).map_or(0, |row| row.sizes.of(pool));
            let mut size = span.sizes().of(pool);
            if size == end {
                continue;
            }
            let mut ommers = self.ommers_below(view, hasher.hash, first, pool)?;
            let mut height = first;
            let mut batch = Vec::new();
            loop {
                put_notes(view, height, pool, &mut batch)?;
                if batch.len() >= BATCH_NOTES || height == last {
                    size = size.wrapping_add(batch.len() as u32);
                    span.extend(hasher, pool, &batch, &mut ommers)
                        .filter(|()| height < last || size == end)
                        .ok_or_else(|| miscounted(last))?;
                    batch.clear();
                }
                match height.next() {
                    Some(next) if height < last => height = next,
                    _ => break,
                }
            }
        }
        Ok(())
    }
}

fn miscounted(height: Height) -> Error {
    Error::Block {
        height,
        why: "its sizes are not those of its notes",
    }
}

/// The notes of one tree that the block at `height` adds.
fn put_notes(
    view: &View,
    height: Height,
    pool: ShieldedPool,
    notes: &mut Vec<TreeNode>,
) -> Result<()> {
    let undecodable = |why| Error::Block { height, why };
    let frame = view
        .frame(height)?
        .ok_or_else(|| undecodable("it is not in the index"))?;
    let message = frame.get(FRAME_PREFIX_BYTES..).unwrap_or_default();
    project::notes(message, pool, notes)
        .map_err(|_| undecodable("its frame does not decode, so its notes cannot be read"))
}

/// The notes from `first` to below `end` of one tree, all of them in blocks up to `height`. At most a few.
fn notes(
    view: &View,
    pool: ShieldedPool,
    first: u32,
    end: u32,
    height: Height,
) -> Result<Vec<TreeNode>> {
    let mut notes = Vec::with_capacity((end - first) as usize);
    let mut next = first;
    while next < end {
        let block = block_of_note(view, pool, next, height);
        let before = block
            .get()
            .checked_sub(1)
            .and_then(|below| view.row(Height::try_from(below).ok()?))
            .map_or(0, |row| row.sizes.of(pool));
        let mut all = Vec::new();
        put_notes(view, block, pool, &mut all)?;
        let wanted = all
            .get((next - before) as usize..)
            .filter(|notes| !notes.is_empty())
            .ok_or_else(|| miscounted(block))?;
        notes.extend(wanted.iter().take((end - next) as usize));
        next = first + notes.len() as u32;
    }
    Ok(notes)
}

/// The block up to `height` that holds note `index`.
fn block_of_note(view: &View, pool: ShieldedPool, index: u32, height: Height) -> Height {
    let size = |height: u32| {
        let row = Height::try_from(height)
            .ok()
            .and_then(|height| view.row(height));
        row.map_or(0, |row| row.sizes.of(pool))
    };
    // Usually it is not far below: the distance is doubled until the note is passed.
    let (mut low, mut high, mut step) = (0, height.get(), 1);
    while let Some(below) = high.checked_sub(step) {
        if size(below) <= index {
            low = below + 1;
            break;
        }
        high = below;
        step *= 2;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        match size(middle).cmp(&index) {
            Ordering::Greater => high = middle,
            Ordering::Equal | Ordering::Less => low = middle + 1,
        }
    }
    Height::try_from(low).unwrap_or(height)
}
