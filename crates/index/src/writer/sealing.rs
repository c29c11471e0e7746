//! Sealing: ranges from the tail or from builders become part of the store, and islands are joined.

use std::sync::{Arc, atomic::Ordering};

use lightship_chain::{BlockHash, BlockId, Height, TreeSizes};

use super::{Writer, entries};
use crate::{
    Error, RangeBuilder, Result,
    format::manifest,
    layout::{Layout, Part},
    range::Incoming,
    recover,
    sealed::{SealedRange, SealedSet},
    view,
};

/// Ranges of the tail that become part of the store together, so that their syncs count once.
const SEALED_TOGETHER: u32 = 8;

impl Writer {
    /// Seals each complete range of the tail whose last height is at most `height`; returns how many.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::Corrupt`], [`Error::Poisoned`]. [`Error::Gap`] if an island above does not follow the range.
    pub fn seal_through(&mut self, height: Height) -> Result<u32> {
        self.writable()?;
        let blocks = self.manifest.store.range_blocks.get();
        let complete = self.tail.len() as u32 / blocks;
        let below = (height.get() + 1).saturating_sub(self.tail.first().get()) / blocks;
        let count = complete.min(below);
        let mut sealed = 0;
        while sealed < count {
            let together = (count - sealed).min(SEALED_TOGETHER);
            let mut builders = Vec::new();
            for range in 0..together {
                builders.push(self.build_from_tail(range * blocks, blocks)?);
            }
            self.install(builders, true)?;
            sealed += together;
        }
        Ok(sealed)
    }

    /// Builds the range of the tail's blocks behind the first `skip`.
    pub(super) fn build_from_tail(&self, skip: u32, blocks: u32) -> Result<RangeBuilder> {
        let tail = &self.tail;
        let mut entries = tail.iter().skip(skip as usize).take(blocks as usize);
        let (first, lowest) = entries.clone().next().ok_or(Error::Range {
            first: tail.first(),
            why: "it is not in the tail",
        })?;
        let before = match first.previous() {
            Some(below) if skip > 0 => tail.get(below).map(|entry| entry.columns.sizes),
            _ => self.sealed.joined().map(|range| range.tip_sizes()),
        };
        let before = before.unwrap_or(TreeSizes::ZERO);
        let mut builder = self.begin_range(first, before, lowest.previous)?;
        entries.try_for_each(|(height, entry)| {
            let (frame, transparent) = tail.payload(entry);
            builder.push(&Incoming {
                id: BlockId {
                    height,
                    hash: entry.columns.hash,
                },
                previous: entry.previous,
                columns: entry.columns,
                frame: &frame,
                transparent: &transparent,
            })
        })?;
        Ok(builder)
    }

    /// Begins one complete range, written straight to its sealed files. `before` and `previous` are the trees' sizes and the block below it;
    /// they are compared with that block's once both are in the store.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] if `first` is no multiple of the store's range size, or the range passes the last height. [`Error::Io`].
    pub fn begin_range(
        &self,
        first: Height,
        before: TreeSizes,
        previous: BlockHash,
    ) -> Result<RangeBuilder> {
        let blocks = self.manifest.store.range_blocks.get();
        if !first.get().is_multiple_of(blocks) || first.checked_add(blocks - 1).is_none() {
            return Err(Error::Range {
                first,
                why: "ranges begin at multiples of the store's range size",
            });
        }
        let number = self.builders.fetch_add(1, Ordering::Relaxed);
        RangeBuilder::create(&self.layout, number, (first, blocks), before, previous)
    }

    /// Makes a complete range part of the store, durably, and publishes. If it is next after what is sealed, the chain grows by it, and by the
    /// islands that now adjoin; above that it is an island until the gap closes.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] if the range is not complete, is of another store, is sealed already, or has blocks in the tail or the head.
    /// [`Error::Gap`] if it does not link to its neighbours. Its files are removed in all these cases. [`Error::Io`], after which the writer
    /// is of no more use. [`Error::Poisoned`].
    pub fn seal(&mut self, range: RangeBuilder) -> Result<()> {
        self.seal_all(vec![range])
    }

    /// Seals several ranges, in any order, with as many syncs as one takes: all of them or, if one is refused, none.
    ///
    /// # Errors
    ///
    /// As [`Writer::seal`].
    pub fn seal_all(&mut self, ranges: Vec<RangeBuilder>) -> Result<()> {
        self.writable()?;
        let next = self.tip().map_or(0, |tip| tip.height.get() + 1);
        for (index, range) in ranges.iter().enumerate() {
            let first = range.first();
            let refuse = |why| Err(Error::Range { first, why });
            if !range.is_complete() {
                return refuse("it is not complete");
            }
            if !range.is_of(&self.layout) {
                return refuse("it was begun for another store");
            }
            let twice = ranges[..index].iter().any(|other| other.first() == first);
            let sealed = first.get() < self.sealed.joined_blocks();
            if twice || sealed || self.sealed.find(first).is_some() {
                return refuse("it is sealed already");
            }
            if next > first.get() {
                return refuse("blocks of it are in the tail or the head");
            }
        }
        self.install(ranges, false)?;
        self.join()
    }

    /// Names the files of complete ranges, makes them part of the manifest, and publishes. The blocks of ranges from the tail leave it.
    pub(super) fn install(&mut self, builders: Vec<RangeBuilder>, from_tail: bool) -> Result<()> {
        if builders.is_empty() {
            return Ok(());
        }
        let named = self.name(builders);
        let named = self.or_poison(named)?;
        let genesis = self.manifest.store.genesis;
        let blocks = self.manifest.store.range_blocks.get();
        let ranges: Result<Vec<_>> = named
            .iter()
            .map(|entry| SealedRange::open(&self.layout, *entry, blocks).map(Arc::new))
            .collect();
        let linked = ranges.and_then(|ranges| Ok((self.sealed.with(&ranges, genesis)?, ranges)));
        let (sealed, ranges) = match linked {
            Ok(linked) => linked,
            Err(error) => {
                named.iter().for_each(|entry| self.remove_range(entry));
                return Err(error);
            }
        };
        let mut tail = self.tail.clone();
        tail.drop_front(sealed.joined_blocks().saturating_sub(tail.first().get()) as usize);
        if tail.is_empty() {
            tail.begin(Height::try_from(sealed.joined_blocks()).unwrap_or(Height::MAX));
        }
        let mut manifest = self.manifest.clone();
        manifest.sealed = entries(&sealed);
        let mut dropped = Vec::new();
        let close = from_tail || tail.is_empty();
        if close {
            // The blocks that come next go to a segment of their own, so that this one can go when they are sealed.
            self.close_active(&mut manifest);
            let lowest = tail.lowest_segment().unwrap_or(u64::MAX);
            dropped.extend(manifest.segments.iter().map(|segment| segment.sequence));
            dropped.retain(|sequence| *sequence < lowest);
            manifest
                .segments
                .retain(|segment| segment.sequence >= lowest);
            tail.forget_below(lowest);
        }
        let written = self.write_manifest(manifest);
        self.or_poison(written)?;
        if close {
            self.active = None;
        }
        if !from_tail {
            self.make_room(blocks as usize * ranges.len());
            for range in &ranges {
                recover::add_range(&self.lookup, range);
            }
        }
        self.sealed = Arc::new(sealed);
        self.tail = tail;
        self.publish();
        self.remove_segments(dropped);
        Ok(())
    }

    /// Gives the files of ranges their final names, durably.
    pub(super) fn name(&self, builders: Vec<RangeBuilder>) -> Result<Vec<manifest::Sealed>> {
        let mut named = Vec::with_capacity(builders.len());
        for builder in builders {
            let first = builder.first();
            let columns_digest = builder.name()?.ok_or(Error::Range {
                first,
                why: "it is not complete",
            })?;
            named.push(manifest::Sealed {
                first,
                columns_digest,
            });
        }
        self.layout.sync_dir(&self.layout.sealed())?;
        Ok(named)
    }

    /// If the tail ends where an island begins, seals the blocks between.
    pub(super) fn join(&mut self) -> Result<()> {
        let Some(tip) = self.tail.tip() else {
            return Ok(());
        };
        let above = tip.height.next().and_then(|next| self.sealed.find(next));
        let Some((island, _)) = above else {
            return Ok(());
        };
        let sizes = view::chain_tip_sizes(&self.sealed, &self.tail);
        island.follows(Some(tip), sizes, self.manifest.store.genesis)?;
        self.seal_through(tip.height).map(drop)
    }

    /// Removes the files of those of `before` that are no longer part of the store.
    pub(super) fn remove_ranges(&self, before: &SealedSet) {
        for range in before.ranges() {
            if !self.manifest.sealed.contains(&range.entry) {
                self.remove_range(&range.entry);
            }
        }
    }

    /// What cannot be removed now is removed when the store is opened; nothing depends on it.
    pub(super) fn remove_range(&self, entry: &manifest::Sealed) {
        let stem = self.layout.range(entry.first, &entry.columns_digest);
        for part in Part::ALL {
            let _ = self.layout.remove(&Layout::part(&stem, part));
        }
        let _ = self.layout.sync_dir(&self.layout.sealed());
    }

    pub(super) fn remove_segments(&self, segments: Vec<u64>) {
        if segments.is_empty() {
            return;
        }
        for sequence in segments {
            let _ = self.layout.remove(&self.layout.segment(sequence));
        }
        let _ = self.layout.sync_dir(&self.layout.tail());
    }
}
