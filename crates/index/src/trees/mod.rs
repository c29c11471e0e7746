//! The note commitment trees, as arrays of their nodes.
//!
//! In: views of the chain, whose frames hold the notes. Out: the tree at the end of any block, and the roots of subtrees, from a few look-ups and
//! a few hashes. The nodes of sealed ranges are in files of their own (`docs/format.md`), those of newer blocks in memory, from where they
//! are made again when a process starts. Hashing is behind a trait, and whether the trees are those that the node has is left to whoever lets
//! them grow: nothing is answered from, and no file is written, before a [`Growth`] is accepted.
//!
//! # Invariants
//!
//! What is readable was accepted for its last block. A frontier commits to every note below it, so all that is below was accepted with it.

mod grown;
mod mark;
mod range;
mod replaced;
mod span;
mod verify;

use std::{
    num::NonZeroUsize,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use lightship_chain::{
    BlockHash, BlockId, Height, ShieldedPool,
    tree::{Frontier, SUBTREE_LEVEL, TreeHash, TreeNode},
};

use crate::{Disk, Error, Files, Result, View, layout::Layout};
use grown::{Grown, TailTrees};
use range::RangeTrees;
use replaced::Replaced;
pub use replaced::ReplacedTrees;
use span::{Hasher, Span};
pub(crate) use span::{LEVELS, LOWEST_LEVEL};
pub use verify::{TreesSummary, verify_trees};

/// The trees of one store. Any thread reads; one at a time lets them grow.
pub struct Trees {
    layout: Layout,
    hash: Arc<dyn TreeHash>,
    threads: NonZeroUsize,
    grown: ArcSwap<Grown>,
    /// Held while what is readable is exchanged.
    exchanging: Mutex<()>,
    /// The view that `grown` was accepted with: of its blocks, those that a reorg takes away can still be read there.
    accepted_of: Mutex<Option<Arc<View>>>,
    replaced: ArcSwap<Replaced>,
}

/// The trees at the end of a block, pool by pool as in [`ShieldedPool::ALL`]; `None` where the pool is not active.
pub type TreesAt = [Option<Frontier>; 3];

/// The root of a complete subtree of 2^16 notes, and the block that holds its last note.
pub type SubtreeEnd = (TreeNode, Height);

impl Trees {
    /// The trees of the store in `dir`. Nothing is read before they grow for the first time.
    pub fn open(dir: &Path, hash: Arc<dyn TreeHash>, threads: NonZeroUsize) -> Trees {
        Trees::open_on(Arc::new(Files), dir, hash, threads)
    }

    /// The same on a disk of one's own.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        hash: Arc<dyn TreeHash>,
        threads: NonZeroUsize,
    ) -> Trees {
        Trees {
            layout: Layout {
                disk,
                dir: dir.to_owned(),
            },
            hash,
            threads,
            grown: ArcSwap::from_pointee(Grown::empty()),
            exchanging: Mutex::new(()),
            accepted_of: Mutex::new(None),
            replaced: ArcSwap::default(),
        }
    }

    /// The trees at the end of the block at `height` of `view`; `None` if they have not grown so far, or were of another branch.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the disk has lost or changed what it is made from.
    pub fn at(&self, view: &View, height: Height) -> Result<Option<TreesAt>> {
        let grown = self.grown.load();
        grown
            .at(view, &*self.hash, height)
            .map_err(|error| self.forget_damaged(error))
    }

    /// The trees at the end of a block that was replaced while these trees grew; `None` if that is too long ago, was before a restart, or never.
    pub fn replaced(&self, hash: &BlockHash) -> Option<Arc<ReplacedTrees>> {
        self.replaced.load().get(hash)
    }

    /// Complete subtrees of `view`'s chain from index `start` on, at most `limit`; `None` if the trees have not grown so far.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the disk has lost or changed what they are made from.
    pub fn subtrees(
        &self,
        view: &View,
        pool: ShieldedPool,
        start: u32,
        limit: u32,
    ) -> Result<Option<Vec<SubtreeEnd>>> {
        let grown = self.grown.load();
        let Some(tip) = view.tip() else {
            return Ok(None);
        };
        let complete = view.tip_sizes().of(pool) >> SUBTREE_LEVEL;
        // The trees may be a few blocks behind; that matters only if those blocks complete a subtree.
        let through = grown.tip().map(|tip| tip.height);
        let reached = through.filter(|height| grown.reaches(view, *height));
        let known = reached
            .and_then(|height| view.row(height))
            .is_some_and(|row| row.sizes.of(pool) >> SUBTREE_LEVEL >= complete);
        if !known {
            return Ok(if complete <= start {
                Some(Vec::new())
            } else {
                None
            });
        }
        (start..complete.min(start.saturating_add(limit)))
            .map(|index| grown.subtree(view, pool, index, tip.height))
            .collect::<Result<_>>()
            .map(Some)
            .map_err(|error| self.forget_damaged(error))
    }

    /// If `error` tells of a file of nodes, removes it and forgets what was grown from it on: it is made anew. Gives the error back.
    fn forget_damaged(&self, error: Error) -> Error {
        let Error::Corrupt { path, .. } = &error else {
            return error;
        };
        let _exchanging = self
            .exchanging
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut grown = Grown::clone(&self.grown.load());
        if let Some(damaged) = grown.ranges.iter().position(|range| range.path() == path) {
            // If it cannot be removed it is damaged when it is read again, too.
            let _ = self.layout.remove(path);
            grown.ranges.truncate(damaged);
            grown.forget_tail();
            self.grown.store(Arc::new(grown));
        }
        error
    }

    /// The block up to which the trees have grown.
    pub fn through(&self) -> Option<BlockId> {
        self.grown.load().tip()
    }

    /// Makes readable what an earlier process has left and had accepted, as far as it is of `view`: files of sealed ranges, and behind them the blocks up to
    /// its last one, whose trees are made again and must come out the same.
    ///
    /// # Errors
    ///
    /// As [`Trees::next`].
    pub fn take_up(&self, view: &Arc<View>) -> Result<()> {
        self.take_up_step(view)
            .map_err(|error| self.forget_damaged(error))
    }

    fn take_up_step(&self, view: &Arc<View>) -> Result<()> {
        let mut grown = self.fitted_to(view)?;
        let hasher = Hasher {
            hash: &*self.hash,
            threads: self.threads,
        };
        if grown.follow_mark(&self.layout, view, hasher)? {
            self.exchange(grown);
            self.accepted(view);
        }
        Ok(())
    }

    /// The next step towards the tip of `view`: one sealed range, or all of the tail. `None` if there is nothing to do. Takes back at once what
    /// is no longer in `view`, and takes up what an earlier process has left.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::Block`] if the notes cannot be read. [`Error::Corrupt`] once if a file of nodes is damaged, which is then
    /// made anew. [`Error::Io`].
    pub fn next(&self, view: &Arc<View>) -> Result<Option<Growth<'_>>> {
        self.next_step(view)
            .map_err(|error| self.forget_damaged(error))
    }

    fn next_step(&self, view: &Arc<View>) -> Result<Option<Growth<'_>>> {
        let mut grown = self.fitted_to(view)?;
        let joined = view.sealed.joined_count();
        let hasher = Hasher {
            hash: &*self.hash,
            threads: self.threads,
        };
        if let Some(range) = view.sealed.ranges()[..joined].get(grown.ranges.len()) {
            let before = range.header.before;
            let mut span = Span::new(before);
            let ended = TailTrees::get(&grown.tail, range.last());
            if ended.is_some_and(|(hash, _)| *hash == range.tip().hash) {
                // All of its nodes were made while it was in the tail.
                span = grown.tail.span.clone();
                span.truncate(range.tip_sizes());
            } else {
                grown.extend(view, hasher, (range.first(), range.last()), &mut span)?;
            }
            let mut tail = TailTrees::new(range.first(), before, grown.tail_base_active());
            tail.span = span;
            tail.push_blocks(view, range.last());
            let after = std::mem::replace(&mut grown.tail, Arc::new(tail));
            return Ok(Some(Growth {
                trees: self,
                view: Arc::clone(view),
                first: range.first(),
                through: range.tip(),
                range: Some(after),
                grown,
            }));
        }
        let (Some(tip), first) = (view.tip(), grown.tail.end()) else {
            return Ok(None);
        };
        if first > tip.height {
            return Ok(None);
        }
        let mut tail = TailTrees::clone(&grown.tail);
        grown.extend(view, hasher, (first, tip.height), &mut tail.span)?;
        tail.push_blocks(view, tip.height);
        grown.tail = Arc::new(tail);
        Ok(Some(Growth {
            trees: self,
            view: Arc::clone(view),
            first,
            through: tip,
            range: None,
            grown,
        }))
    }

    /// What is readable, without what is not in `view`, and with the ranges whose files are there.
    fn fitted_to(&self, view: &View) -> Result<Grown> {
        let mut grown = Grown::clone(&self.grown.load());
        self.remember_replaced(&grown, view);
        let sealed = &view.sealed.ranges()[..view.sealed.joined_count()];
        let same = grown
            .ranges
            .iter()
            .zip(sealed)
            .take_while(|(ours, theirs)| ours.header.columns_digest == theirs.entry.columns_digest)
            .count();
        let mut changed = same < grown.ranges.len();
        for lost in grown.ranges.drain(same..) {
            // The writer takes away what is left, at the latest when it opens; no range is taken for another, since its digest is in its name.
            let _ = self.layout.remove(lost.path());
        }
        while let Some(range) = sealed.get(grown.ranges.len()) {
            match RangeTrees::open(&self.layout, range) {
                Ok(Some(trees)) => grown.ranges.push(Arc::new(trees)),
                // A damaged file is made anew, as a missing one is.
                Ok(None) | Err(Error::Corrupt { .. }) => break,
                Err(error) => return Err(error),
            }
            changed = true;
        }
        changed |= grown.fit_tail(view);
        if changed {
            self.exchange(grown.clone());
        }
        Ok(grown)
    }

    /// Before `grown` loses what is not in `view`.
    fn remember_replaced(&self, grown: &Grown, view: &View) {
        let tip = grown.tip();
        if tip.is_none_or(|tip| view.hash_at(tip.height) == Some(tip.hash)) {
            return;
        }
        let before = self
            .accepted_of
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(before) = before {
            let mut replaced = Replaced::clone(&self.replaced.load());
            replaced.remember(grown, &before, view, &*self.hash);
            self.replaced.store(Arc::new(replaced));
        }
    }

    fn accepted(&self, view: &Arc<View>) {
        *self
            .accepted_of
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(view));
    }

    fn exchange(&self, grown: Grown) {
        let _exchanging = self
            .exchanging
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.grown.store(Arc::new(grown));
    }
}

/// A step that is made and not yet readable: to be compared with what the node says of its last block.
pub struct Growth<'a> {
    trees: &'a Trees,
    view: Arc<View>,
    first: Height,
    through: BlockId,
    /// For a sealed range: the tail that was readable beside it.
    range: Option<Arc<TailTrees>>,
    grown: Grown,
}

impl Growth<'_> {
    /// Its first block.
    pub fn first(&self) -> Height {
        self.first
    }

    /// Its last block.
    pub fn through(&self) -> BlockId {
        self.through
    }

    /// One of its blocks by height.
    pub fn hash_at(&self, height: Height) -> Option<BlockHash> {
        self.view.hash_at(height)
    }

    /// From which height on a pool is active, if that was known before this step.
    pub fn active(&self, pool: ShieldedPool) -> Option<Height> {
        self.grown.tail.active[pool as usize]
    }

    /// The subtrees of 2^16 notes that it completes: the index of the first, and the root and the block of each.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if nodes cannot be read.
    pub fn subtrees(&self, pool: ShieldedPool) -> Result<(u32, Vec<SubtreeEnd>)> {
        let size = |height: Option<Height>| {
            let row = height.and_then(|height| self.view.row(height));
            row.map_or(0, |row| row.sizes.of(pool))
        };
        let below = self.first.get().checked_sub(1);
        let before = size(below.and_then(|below| Height::try_from(below).ok())) >> SUBTREE_LEVEL;
        let after = size(Some(self.through.height)) >> SUBTREE_LEVEL;
        let ends = (before..after)
            .map(|index| {
                self.grown
                    .subtree(&self.view, pool, index, self.through.height)
            })
            .collect::<Result<_>>()?;
        Ok((before, ends))
    }

    /// Whether it is a sealed range, which no ordinary reorg reaches.
    pub fn is_sealed(&self) -> bool {
        self.range.is_some()
    }

    /// The tree at the end of its last block.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] or [`Error::Block`] if the notes cannot be read.
    pub fn frontier(&self, pool: ShieldedPool) -> Result<Frontier> {
        self.grown
            .frontier(&self.view, &*self.trees.hash, self.through.height, pool)
    }

    /// Makes the step readable: what the node says of its last block was found to be the same. `active` says from which height on each pool is
    /// active, in the order of [`ShieldedPool::ALL`]; `None` if it is not at the last block. A sealed range is written to its file; of newer
    /// blocks it is noted which were accepted.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn accept(self, active: [Option<Height>; 3]) -> Result<()> {
        let mut grown = self.grown;
        let mut tail = TailTrees::clone(&grown.tail);
        tail.active = active;
        if let Some(readable) = self.range {
            let (range, _) = self
                .view
                .sealed
                .find(self.first)
                .expect("the step is a range of this view");
            let written = RangeTrees::write(&self.trees.layout, range, &tail.span, active)?;
            grown.ranges.push(Arc::new(written));
            grown.tail = readable;
            grown.fit_tail(&self.view);
        } else {
            grown.tail = Arc::new(tail);
        }
        self.trees.exchange(grown.clone());
        self.trees.accepted(&self.view);
        grown.write_mark(&self.trees.layout, &self.view, &*self.trees.hash)
    }
}

#[cfg(test)]
mod tests;
