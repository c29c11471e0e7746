//! One consistent picture of the chain, to read from.
//!
//! In: heights and hashes. Out: rows, blocks, and long runs of frames lent from the mapped files. A view is immutable; the writer publishes the
//! next one beside it and waits for nobody. What the bytes say to a wallet is left to others.

use std::sync::Arc;

use bytes::Bytes;
use lightship_chain::{BlockHash, BlockId, Height, HeightRange, TreeSizes};

use crate::{Result, Row, StoreId, lookup::Lookup, sealed::SealedSet, tail::Tail};

/// The most that is copied into one piece where frames do not lie side by side.
const GATHER_BYTES: usize = 64 * 1024;

/// One consistent picture. Immutable; lives as long as anyone holds it.
///
/// # Errors
///
/// What is read is checked when it is first read: [`Error::Corrupt`](crate::Error::Corrupt) if the disk has lost or changed it. No wrong byte is
/// ever answered.
pub struct View {
    pub(crate) generation: u64,
    pub(crate) store: StoreId,
    pub(crate) sealed: Arc<SealedSet>,
    pub(crate) tail: Tail,
    pub(crate) lookup: Arc<Lookup>,
    pub(crate) target: Option<BlockId>,
}

/// A block as stored; the bytes are lent from the mapping, not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// What is known without decoding.
    pub row: Row,
    /// The gRPC frame: `00`, length `[4]` big-endian, `CompactBlock` in its default view.
    pub frame: Bytes,
    /// The transparent companion: a field-7 `CompactTx` for every transaction of the block.
    pub transparent: Bytes,
}

/// Frames of consecutive heights in one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The heights.
    pub range: HeightRange,
    /// Their frames, one after the other.
    pub bytes: Bytes,
}

impl View {
    /// Grows with each publication.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What the store is.
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// The highest block of the contiguous chain from genesis.
    pub fn tip(&self) -> Option<BlockId> {
        chain_tip(&self.sealed, &self.tail)
    }

    /// The sizes of the trees at the tip.
    pub fn tip_sizes(&self) -> TreeSizes {
        chain_tip_sizes(&self.sealed, &self.tail)
    }

    /// The best tip known to the writer, maybe above what is indexed. It says so with
    /// [`Writer::announce`](crate::Writer::announce); `None` until it does.
    pub fn target(&self) -> Option<BlockId> {
        self.target
    }

    /// The last height of the contiguous sealed ranges.
    pub fn sealed_through(&self) -> Option<Height> {
        self.sealed.joined().map(|range| range.last())
    }

    /// Heights that are sealed above a gap, ascending: what a build from the newest ranges has already.
    pub fn islands(&self) -> Vec<HeightRange> {
        let mut islands: Vec<HeightRange> = Vec::new();
        let joined = self.sealed.joined_blocks();
        for range in self.sealed.ranges() {
            if range.first().get() < joined {
                continue;
            }
            let grown = islands
                .last()
                .filter(|island| island.last().next() == Some(range.first()))
                .and_then(|island| HeightRange::new(island.first(), range.last()));
            match grown {
                Some(grown) => *islands.last_mut().expect("it has just grown") = grown,
                None => islands.extend(HeightRange::new(range.first(), range.last())),
            }
        }
        islands
    }

    /// What readers in this process have found wrong with sealed blocks: the first of it, in words. It stays until the store is opened again,
    /// for bytes that have rotted do not heal.
    pub fn damage(&self) -> Option<String> {
        let ranges = self.sealed.ranges();
        let found = ranges.iter().find_map(|range| range.damage());
        found.map(str::to_owned)
    }

    /// The highest block in the index, islands included.
    pub fn top(&self) -> Option<BlockId> {
        let sealed = self.sealed.ranges().last().map(|range| range.tip());
        sealed
            .into_iter()
            .chain(self.tip())
            .max_by_key(|block| block.height)
    }

    /// The last height up to `to` that is reached from `from`, which is in the index, without a gap.
    pub fn reach(&self, from: Height, to: Height) -> Height {
        let mut reached = from;
        loop {
            // A range or the tail at a time.
            let last = match (self.sealed.find(reached), self.tip()) {
                (_, Some(tip)) if reached <= tip.height => tip.height,
                (Some((range, _)), _) => range.last(),
                (None, _) => return reached.min(to),
            };
            match last.next() {
                Some(next) if last < to && self.covers(next) => reached = next,
                _ => return last.min(to),
            }
        }
    }

    /// Whether the block at `height` is in the index, islands included.
    pub fn covers(&self, height: Height) -> bool {
        self.tail.get(height).is_some() || self.sealed.find(height).is_some()
    }

    /// What is known of the block at `height`.
    pub fn row(&self, height: Height) -> Option<Row> {
        match self.sealed.find(height) {
            Some((range, index)) => Some(range.row(index)),
            None => self.tail.row(height),
        }
    }

    /// The name of the block at `height`.
    pub fn hash_at(&self, height: Height) -> Option<BlockHash> {
        match self.sealed.find(height) {
            Some((range, index)) => Some(range.hash(index)),
            None => self.tail.get(height).map(|entry| entry.columns.hash),
        }
    }

    /// Where the block of that name is, if it is in this picture. Replaced blocks are not.
    pub fn height_of(&self, hash: &BlockHash) -> Option<Height> {
        self.lookup
            .candidates(hash)
            .find(|height| self.hash_at(*height) == Some(*hash))
    }

    /// The block at `height`, or `None` if it is not in the index.
    pub fn block(&self, height: Height) -> Result<Option<StoredBlock>> {
        if let Some((range, index)) = self.sealed.find(height) {
            return Ok(Some(StoredBlock {
                row: range.row(index),
                frame: range.frames(index, 1)?,
                transparent: range.transparent(index)?,
            }));
        }
        Ok(self.tail.get(height).map(|entry| {
            let (frame, transparent) = self.tail.payload(entry);
            StoredBlock {
                row: Row::new(&entry.columns, entry.previous),
                frame,
                transparent,
            }
        }))
    }

    /// The frame of the block at `height`.
    pub(crate) fn frame(&self, height: Height) -> Result<Option<Bytes>> {
        match self.sealed.find(height) {
            Some((range, index)) => range.frames(index, 1).map(Some),
            None => Ok(self
                .tail
                .get(height)
                .map(|entry| self.tail.payload(entry).0)),
        }
    }

    /// Default-view frames of consecutive heights as few large slices, each of at most `max_bytes`, but of one whole block at least.
    ///
    /// Sealed frames lie side by side and are lent as they lie. Those of the tail are gathered into pieces of some 64 KiB.
    pub fn frames(self: &Arc<View>, range: HeightRange, max_bytes: usize) -> Frames {
        Frames {
            view: Arc::clone(self),
            next: Some(range.first()),
            last: range.last(),
            max_bytes,
        }
    }
}

pub(crate) fn chain_tip(sealed: &SealedSet, tail: &Tail) -> Option<BlockId> {
    tail.tip().or_else(|| Some(sealed.joined()?.tip()))
}

pub(crate) fn chain_tip_sizes(sealed: &SealedSet, tail: &Tail) -> TreeSizes {
    tail.tip_sizes()
        .or_else(|| Some(sealed.joined()?.tip_sizes()))
        .unwrap_or(TreeSizes::ZERO)
}

/// The pieces of a range, lowest first; ends early at the first height that is not in the index, and after an error. Holds its view.
pub struct Frames {
    view: Arc<View>,
    next: Option<Height>,
    last: Height,
    max_bytes: usize,
}

impl Frames {
    /// The blocks of the next piece and their frames, from `first` on.
    fn piece(&self, first: Height) -> Result<Option<(u32, Bytes)>> {
        if let Some((range, index)) = self.view.sealed.find(first) {
            let last = index + (self.last.get() - first.get()).min(range.blocks() - 1 - index);
            let blocks = range.blocks_within(index, last, self.max_bytes as u64);
            return Ok(Some((blocks, range.frames(index, blocks)?)));
        }
        let tail = &self.view.tail;
        let Some(entry) = tail.get(first) else {
            return Ok(None);
        };
        let max_bytes = (self.max_bytes as u64).min(GATHER_BYTES as u64);
        // Measured first, so that the copy is allocated once and only for what is there.
        let (mut blocks, mut bytes) = (1, entry.columns.frame);
        while let Some(height) = first.checked_add(blocks)
            && height <= self.last
            && let Some(entry) = tail.get(height)
            && bytes + entry.columns.frame <= max_bytes
        {
            blocks += 1;
            bytes += entry.columns.frame;
        }
        let frames = (0..blocks).filter_map(|above| tail.get(first.checked_add(above)?));
        if blocks == 1 {
            return Ok(Some((1, tail.payload(entry).0)));
        }
        let mut gathered = Vec::with_capacity(bytes as usize);
        for entry in frames {
            gathered.extend_from_slice(&tail.payload(entry).0);
        }
        Ok(Some((blocks, gathered.into())))
    }
}

impl Iterator for Frames {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Result<Piece>> {
        let first = self.next.take()?;
        let (blocks, bytes) = match self.piece(first) {
            Ok(piece) => piece?,
            Err(error) => return Some(Err(error)),
        };
        let last = first.checked_add(blocks - 1)?;
        self.next = last.next().filter(|next| *next <= self.last);
        let range = HeightRange::new(first, last)?;
        Some(Ok(Piece { range, bytes }))
    }
}
