//! Sealed ranges: files that never change again.
//!
//! In: three mapped files a range. Out: rows, blocks and long runs of frames, lent from the mappings. Making the files is
//! [`crate::range`]'s part, deciding which are part of the store the manifest's.
//!
//! The columns are checked whole when a range is opened. Frames and companions are checked block by block when they are first read, and
//! that is remembered: bytes that rot on disk are found before they are answered with, and a block that is read a million times is
//! checked once. What rots in memory afterwards is left to the memory.

use std::{
    ops::Range,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use lightship_chain::{BlockHash, BlockId, Height, TreeSizes};

use crate::{
    Error, Result, Row, at_hand,
    format::{
        Fields,
        columns::{Columns, HEADER_BYTES, Header, ROW_BYTES},
        hex, manifest,
    },
    layout::{Layout, Part},
};

/// One sealed range, open for reading.
pub(crate) struct SealedRange {
    pub(crate) header: Header,
    pub(crate) entry: manifest::Sealed,
    /// The files' path without their ending.
    stem: PathBuf,
    columns: Bytes,
    blocks: Bytes,
    transparent: Bytes,
    /// Which frames were found right, a bit a block.
    frames_checked: Checked,
    transparent_checked: Checked,
    /// The first thing that was found wrong since the range was opened.
    damage: OnceLock<String>,
    /// Whether the system says which pages of the files are in memory.
    residency_is_told: bool,
}

impl SealedRange {
    /// Maps the range's files and checks its columns.
    pub(crate) fn open(
        layout: &Layout,
        entry: manifest::Sealed,
        blocks: u32,
    ) -> Result<SealedRange> {
        let stem = layout.range(entry.first, &entry.columns_digest);
        let columns_path = Layout::part(&stem, Part::Columns);
        let columns = layout.map_named(&columns_path)?;
        let header = Header::of_file(&columns, entry.first, blocks)
            .map_err(|wrong| Error::corrupt(&columns_path, wrong))?;
        let open = |part, expected: u64| {
            let path = Layout::part(&stem, part);
            let bytes = layout.map_named(&path)?;
            if bytes.len() as u64 != expected {
                return Err(Error::Corrupt {
                    path,
                    offset: expected.min(bytes.len() as u64),
                    expected: format!("{expected} bytes in all"),
                    found: format!("{} bytes", bytes.len()),
                });
            }
            Ok(bytes)
        };
        Ok(SealedRange {
            blocks: open(Part::Blocks, header.blocks_bytes)?,
            transparent: open(Part::Transparent, header.transparent_bytes)?,
            header,
            entry,
            stem,
            columns,
            frames_checked: Checked::new(blocks),
            transparent_checked: Checked::new(blocks),
            residency_is_told: at_hand::is_told(&columns_path),
            damage: OnceLock::new(),
        })
    }

    pub(crate) fn path(&self, part: Part) -> PathBuf {
        Layout::part(&self.stem, part)
    }

    /// All of one file.
    pub(crate) fn bytes(&self, part: Part) -> &Bytes {
        match part {
            Part::Blocks => &self.blocks,
            Part::Transparent => &self.transparent,
            Part::Columns => &self.columns,
        }
    }

    pub(crate) fn first(&self) -> Height {
        self.header.first
    }

    pub(crate) fn last(&self) -> Height {
        self.header
            .first
            .checked_add(self.header.blocks - 1)
            .expect("a manifest names no range that passes the last height")
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.header.blocks
    }

    /// The block at the end of the range.
    pub(crate) fn tip(&self) -> BlockId {
        BlockId {
            height: self.last(),
            hash: self.hash(self.blocks() - 1),
        }
    }

    pub(crate) fn tip_sizes(&self) -> TreeSizes {
        self.columns_of(self.blocks() - 1).sizes
    }

    fn row_bytes(&self, index: u32) -> &[u8] {
        self.rows_bytes(index, index)
    }

    /// The rows of blocks `from` to `to`, as they lie.
    ///
    /// # Panics
    ///
    /// If the range has no such blocks.
    pub(crate) fn rows_bytes(&self, from: u32, to: u32) -> &[u8] {
        let place = |index| HEADER_BYTES + index as usize * ROW_BYTES;
        &self.columns[place(from)..place(to) + ROW_BYTES]
    }

    /// # Panics
    ///
    /// If the range has no such block.
    pub(crate) fn columns_of(&self, index: u32) -> Columns {
        Columns::read(&mut Fields(self.row_bytes(index))).expect("a row has all of its columns")
    }

    pub(crate) fn hash(&self, index: u32) -> BlockHash {
        let hash = self.row_bytes(index).first_chunk();
        BlockHash::from_internal(*hash.expect("a row begins with the hash"))
    }

    pub(crate) fn row(&self, index: u32) -> Row {
        let previous = match index.checked_sub(1) {
            Some(below) => self.hash(below),
            None => self.header.previous,
        };
        Row::new(&self.columns_of(index), previous)
    }

    /// Where the frame and the companion of block `index` begin; for the number of blocks, where the files end.
    fn offsets(&self, index: u32) -> (u64, u64) {
        if index == self.blocks() {
            return (self.header.blocks_bytes, self.header.transparent_bytes);
        }
        let mut fields = Fields(&self.row_bytes(index)[Columns::FRAME_AT..]);
        fields
            .u64()
            .zip(fields.u64())
            .expect("a row has all of its columns")
    }

    /// Whether the system says which pages of the files are in memory.
    pub(crate) fn residency_is_told(&self) -> bool {
        self.residency_is_told
    }

    /// Where the frames of `blocks` blocks from `index` on begin and end.
    pub(crate) fn frames_at(&self, index: u32, blocks: u32) -> (u64, u64) {
        (self.offsets(index).0, self.offsets(index + blocks).0)
    }

    /// Where their companions do.
    pub(crate) fn companions_at(&self, index: u32, blocks: u32) -> (u64, u64) {
        (self.offsets(index).1, self.offsets(index + blocks).1)
    }

    /// How many of the blocks from `index` to `last` follow each other whose frames were found right.
    pub(crate) fn frames_checked(&self, index: u32, last: u32) -> u32 {
        self.frames_checked.run(index, last - index + 1)
    }

    /// Whether the companions of `blocks` blocks from `index` on were found right.
    pub(crate) fn companions_checked(&self, index: u32, blocks: u32) -> bool {
        self.transparent_checked.run(index, blocks) == blocks
    }

    /// The frames of `blocks` blocks from `index` on.
    pub(crate) fn frames(&self, index: u32, blocks: u32) -> Result<Bytes> {
        let (start, end) = (self.offsets(index).0, self.offsets(index + blocks).0);
        self.frames_checked.each_new(index, blocks, |index| {
            let (start, end) = (self.offsets(index).0, self.offsets(index + 1).0);
            self.check(Part::Blocks, start, end, self.columns_of(index).frame_crc)
        })?;
        self.slice(Part::Blocks, start, end)
    }

    pub(crate) fn transparent(&self, index: u32) -> Result<Bytes> {
        let (start, end) = (self.offsets(index).1, self.offsets(index + 1).1);
        self.transparent_checked.each_new(index, 1, |index| {
            let expected = self.columns_of(index).transparent_crc;
            self.check(Part::Transparent, start, end, expected)
        })?;
        self.slice(Part::Transparent, start, end)
    }

    /// How many blocks from `index` to at most `last` have frames of together at most `max_bytes`; at least one.
    pub(crate) fn blocks_within(&self, index: u32, last: u32, max_bytes: u64) -> u32 {
        let end = self.offsets(index).0.saturating_add(max_bytes);
        // The least block behind the run: the offsets ascend, so it lies where the comparison turns.
        let (mut low, mut high) = (index + 1, last + 1);
        while low < high {
            let middle = high - (high - low) / 2;
            if self.offsets(middle).0 <= end {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low - index
    }

    fn slice(&self, part: Part, start: u64, end: u64) -> Result<Bytes> {
        let file = self.bytes(part);
        let place = self.place(file, start, end)?;
        Ok(file.slice(place))
    }

    /// Where in a file `start` to `end` is, if it is there.
    fn place(&self, file: &Bytes, start: u64, end: u64) -> Result<Range<usize>> {
        match (usize::try_from(start), usize::try_from(end)) {
            (Ok(start), Ok(end)) if start <= end && end <= file.len() => Ok(start..end),
            _ => Err(Error::Corrupt {
                path: self.path(Part::Columns),
                offset: 0,
                expected: format!("places within a file of {} bytes", file.len()),
                found: format!("{start} to {end}"),
            }),
        }
    }

    fn check(&self, part: Part, start: u64, end: u64, expected: u32) -> Result<()> {
        let file = self.bytes(part);
        let found = crc32c::crc32c(&file[self.place(file, start, end)?]);
        if found == expected {
            return Ok(());
        }
        let error = Error::Corrupt {
            path: self.path(part),
            offset: start,
            expected: format!("{} bytes with checksum {expected:08x}", end - start),
            found: format!("{found:08x}"),
        };
        self.damage.get_or_init(|| error.to_string());
        Err(error)
    }

    /// What was found wrong when blocks were read; `None` if nothing was yet.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Whether this range continues a chain that ends with `tip`.
    pub(crate) fn follows(
        &self,
        tip: Option<BlockId>,
        sizes: TreeSizes,
        genesis: BlockHash,
    ) -> Result<()> {
        let follows = match tip {
            Some(tip) => {
                tip.height.next() == Some(self.first())
                    && self.header.previous == tip.hash
                    && self.header.before == sizes
            }
            None => {
                self.first() == Height::GENESIS
                    && self.hash(0) == genesis
                    && self.header.before == TreeSizes::ZERO
            }
        };
        if follows {
            return Ok(());
        }
        Err(Error::Gap {
            height: self.first(),
            previous: self.header.previous,
            tip,
        })
    }
}

/// A bit a block: whether its bytes were found right.
struct Checked(Box<[AtomicU64]>);

impl Checked {
    fn new(blocks: u32) -> Checked {
        Checked(
            (0..blocks.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
        )
    }

    /// How many of `blocks` blocks from `first` on were found right before one that was not.
    fn run(&self, first: u32, blocks: u32) -> u32 {
        let mut run = 0;
        while run < blocks {
            let index = first + run;
            let word = self.0[(index / 64) as usize].load(Ordering::Relaxed) >> (index % 64);
            let right = word.trailing_ones();
            run += right;
            if right < 64 - index % 64 {
                break;
            }
        }
        run.min(blocks)
    }

    /// Runs `check` for each of the blocks that was not yet found right, and remembers those that are.
    ///
    /// Two threads may check one block at once; that costs time, not correctness, and so the order of memory does not matter.
    fn each_new(
        &self,
        first: u32,
        blocks: u32,
        mut check: impl FnMut(u32) -> Result<()>,
    ) -> Result<()> {
        let end = first + blocks;
        let mut index = first;
        while index < end {
            let word = &self.0[(index / 64) as usize];
            let in_word = (64 - index % 64).min(end - index);
            let mask = (u64::MAX >> (64 - in_word)) << (index % 64);
            let mut missing = mask & !word.load(Ordering::Relaxed);
            if missing != 0 {
                while missing != 0 {
                    check(index / 64 * 64 + missing.trailing_zeros())?;
                    missing &= missing - 1;
                }
                word.fetch_or(mask, Ordering::Relaxed);
            }
            index += in_word;
        }
        Ok(())
    }
}

/// All sealed ranges of one picture, ascending.
#[derive(Clone)]
pub(crate) struct SealedSet {
    range_blocks: u32,
    ranges: Vec<Arc<SealedRange>>,
    /// How many of them, from genesis on, leave no gap. The others are islands.
    joined: usize,
}

impl SealedSet {
    /// # Errors
    ///
    /// [`Error::Gap`] if neighbours do not link.
    pub(crate) fn new(
        range_blocks: u32,
        genesis: BlockHash,
        ranges: Vec<Arc<SealedRange>>,
    ) -> Result<SealedSet> {
        let mut joined = 0;
        for (index, range) in ranges.iter().enumerate() {
            let below = index.checked_sub(1).map(|below| &ranges[below]);
            let adjoins = match below {
                None => range.first() == Height::GENESIS,
                Some(below) => below.last().next() == Some(range.first()),
            };
            if adjoins {
                let tip = below.map(|below| below.tip());
                let sizes = below.map_or(TreeSizes::ZERO, |below| below.tip_sizes());
                range.follows(tip, sizes, genesis)?;
                if joined == index {
                    joined += 1;
                }
            }
        }
        Ok(SealedSet {
            range_blocks,
            ranges,
            joined,
        })
    }

    /// This set and more ranges.
    pub(crate) fn with(&self, more: &[Arc<SealedRange>], genesis: BlockHash) -> Result<SealedSet> {
        let mut ranges = self.ranges.clone();
        ranges.extend_from_slice(more);
        ranges.sort_by_key(|range| range.first());
        SealedSet::new(self.range_blocks, genesis, ranges)
    }

    /// The ranges that lie wholly at or below `keep`.
    pub(crate) fn below(&self, keep: Option<Height>, genesis: BlockHash) -> Result<SealedSet> {
        let ranges = self
            .ranges
            .iter()
            .filter(|range| keep.is_some_and(|keep| range.last() <= keep))
            .cloned()
            .collect();
        SealedSet::new(self.range_blocks, genesis, ranges)
    }

    pub(crate) fn ranges(&self) -> &[Arc<SealedRange>] {
        &self.ranges
    }

    /// How many blocks the contiguous ranges hold: the height at which the tail begins.
    pub(crate) fn joined_blocks(&self) -> u32 {
        match self.joined() {
            Some(range) => range.last().get() + 1,
            None => 0,
        }
    }

    /// How many ranges, from genesis on, leave no gap.
    pub(crate) fn joined_count(&self) -> usize {
        self.joined
    }

    /// The last of the contiguous ranges.
    pub(crate) fn joined(&self) -> Option<&Arc<SealedRange>> {
        self.joined.checked_sub(1).map(|last| &self.ranges[last])
    }

    /// The range that holds `height`, and the block's place in it.
    pub(crate) fn find(&self, height: Height) -> Option<(&Arc<SealedRange>, u32)> {
        let number = (height.get() / self.range_blocks) as usize;
        let range = if number < self.joined {
            &self.ranges[number]
        } else {
            let first = height.get() - height.get() % self.range_blocks;
            let islands = &self.ranges[self.joined..];
            let at = islands
                .binary_search_by_key(&first, |range| range.first().get())
                .ok()?;
            &islands[at]
        };
        Some((range, height.get() % self.range_blocks))
    }
}

impl std::fmt::Debug for SealedRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "SealedRange({}, {})",
            self.first(),
            hex(&self.entry.columns_digest)
        )
    }
}
