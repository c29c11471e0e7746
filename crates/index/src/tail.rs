//! The tail: durable blocks that a reorg may still replace.
//!
//! In: records of the segment files. Out: rows and blocks lent from the segments' mappings. A tail is part of a view and immutable as that is;
//! the writer makes the next one from it, and both share all but what changed. Writing segments is left to [`crate::writer`].

use std::sync::Arc;

use bytes::Bytes;
use lightship_chain::{BlockHash, BlockId, Height, TreeSizes};

use crate::{
    Row,
    format::{columns::Columns, record},
};

/// One block of the tail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The two offsets are lengths.
    pub(crate) columns: Columns,
    pub(crate) previous: BlockHash,
    /// Which segment its record is in.
    pub(crate) segment: u64,
    /// Where its record begins.
    pub(crate) at: u64,
}

impl Entry {
    /// Where its frame and its companion end.
    pub(crate) fn payload_end(&self) -> u64 {
        self.at + record::BLOCK_BYTES as u64 + self.columns.frame + self.columns.transparent
    }
}

/// Blocks in a leaf: what is copied to add one block to a tail that a view holds.
const LEAF: usize = 64;

/// The tail of one picture.
#[derive(Clone)]
pub(crate) struct Tail {
    /// The height of the first block, whether it is there or not.
    first: Height,
    /// Entries at the start of the first leaf that are sealed by now.
    skip: usize,
    len: usize,
    /// All but the last hold [`LEAF`] entries.
    leaves: Vec<Arc<Vec<Entry>>>,
    /// The segments' mappings, ascending.
    segments: Vec<(u64, Bytes)>,
}

impl Tail {
    pub(crate) fn new(first: Height) -> Tail {
        Tail {
            first,
            skip: 0,
            len: 0,
            leaves: Vec::new(),
            segments: Vec::new(),
        }
    }

    pub(crate) fn first(&self) -> Height {
        self.first
    }

    /// Begins an empty tail at another height.
    pub(crate) fn begin(&mut self, first: Height) {
        self.truncate(0);
        self.first = first;
    }

    /// Every block with its height, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Height, &Entry)> + Clone {
        self.leaves
            .iter()
            .flat_map(|leaf| leaf.iter())
            .skip(self.skip)
            .zip(self.first.get()..)
            .filter_map(|(entry, height)| Some((Height::try_from(height).ok()?, entry)))
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, height: Height) -> Option<&Entry> {
        let index = height.get().checked_sub(self.first.get())? as usize;
        if index >= self.len {
            return None;
        }
        let index = self.skip + index;
        self.leaves.get(index / LEAF)?.get(index % LEAF)
    }

    pub(crate) fn last(&self) -> Option<&Entry> {
        self.leaves.last()?.last()
    }

    pub(crate) fn tip(&self) -> Option<BlockId> {
        let below = u32::try_from(self.len).ok()?.checked_sub(1)?;
        Some(BlockId {
            height: self.first.checked_add(below)?,
            hash: self.last()?.columns.hash,
        })
    }

    pub(crate) fn tip_sizes(&self) -> Option<TreeSizes> {
        self.last().map(|entry| entry.columns.sizes)
    }

    pub(crate) fn row(&self, height: Height) -> Option<Row> {
        self.get(height)
            .map(|entry| Row::new(&entry.columns, entry.previous))
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        match self.leaves.last_mut() {
            Some(leaf) if leaf.len() < LEAF => Arc::make_mut(leaf).push(entry),
            _ => {
                let mut leaf = Vec::with_capacity(LEAF);
                leaf.push(entry);
                self.leaves.push(Arc::new(leaf));
            }
        }
        self.len += 1;
    }

    /// Keeps the lowest `len` blocks.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len > self.len {
            return;
        }
        self.len = len;
        if len == 0 {
            self.skip = 0;
            self.leaves.clear();
            return;
        }
        let entries = self.skip + len;
        self.leaves.truncate(entries.div_ceil(LEAF));
        let last = entries - (self.leaves.len() - 1) * LEAF;
        if let Some(leaf) = self.leaves.last_mut()
            && leaf.len() > last
        {
            Arc::make_mut(leaf).truncate(last);
        }
    }

    /// Drops the lowest `blocks`, which are sealed by now.
    pub(crate) fn drop_front(&mut self, blocks: usize) {
        let blocks = blocks.min(self.len);
        self.first = u32::try_from(blocks)
            .ok()
            .and_then(|blocks| self.first.checked_add(blocks))
            .unwrap_or(Height::MAX);
        self.len -= blocks;
        if self.len == 0 {
            self.skip = 0;
            self.leaves.clear();
            return;
        }
        let skip = self.skip + blocks;
        self.leaves.drain(..skip / LEAF);
        self.skip = skip % LEAF;
    }

    /// Puts the newest mapping of a segment in place of an older one.
    pub(crate) fn map(&mut self, segment: u64, bytes: Bytes) {
        match self.segments.last_mut() {
            Some((sequence, mapped)) if *sequence == segment => *mapped = bytes,
            _ => self.segments.push((segment, bytes)),
        }
    }

    /// The numbers of the segments that are mapped.
    pub(crate) fn segments(&self) -> Vec<u64> {
        self.segments
            .iter()
            .map(|(sequence, _)| *sequence)
            .collect()
    }

    /// Lets go of the segments below `sequence`.
    pub(crate) fn forget_below(&mut self, sequence: u64) {
        self.segments.retain(|(segment, _)| *segment >= sequence);
    }

    /// The lowest segment with a block in it.
    pub(crate) fn lowest_segment(&self) -> Option<u64> {
        // Records are only ever appended, but a reorg makes low heights lie in later segments than they first did.
        self.iter().map(|(_, entry)| entry.segment).min()
    }

    /// The mapping of the segment that holds a block of this tail.
    ///
    /// # Panics
    ///
    /// If there is no such block.
    pub(crate) fn segment(&self, sequence: u64) -> &Bytes {
        let found = self
            .segments
            .iter()
            .rfind(|(number, _)| *number == sequence);
        &found.expect("a tail holds the segments of its blocks").1
    }

    /// The frame and the companion of an entry.
    ///
    /// # Panics
    ///
    /// If the entry is not of this tail.
    pub(crate) fn payload(&self, entry: &Entry) -> (Bytes, Bytes) {
        let segment = self.segment(entry.segment);
        // The record was read or written in whole before the entry was made.
        let frame = entry.at as usize + record::BLOCK_BYTES;
        let transparent = frame + entry.columns.frame as usize;
        let end = transparent + entry.columns.transparent as usize;
        (
            segment.slice(frame..transparent),
            segment.slice(transparent..end),
        )
    }
}
