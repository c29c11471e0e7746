//! What can be read without waiting for the disk.
//!
//! In: heights. Out: how many of their blocks lie in memory and were checked before, so that a thread that must not wait may read them. Where to
//! read the others is left to who asks. Only Linux tells; elsewhere nothing is at hand.

use std::{path::Path, sync::LazyLock};

use lightship_chain::{BlockHash, Height, HeightRange};

use crate::{View, format::columns::ROW_BYTES, layout::Part, sealed::SealedRange};

/// What a look covers at most, in pages: one question to the system.
const MAX_PAGES: usize = 257;

impl View {
    /// How many blocks of `range`, from its first on, are at hand: what is known of them and their frames lie in memory, and those were found right
    /// before; so do their companions if `companions` are wanted. Looks at some `max_bytes` at most, and no further than where the frames cease to lie side by
    /// side. 0 also for a block that is longer than `max_bytes`, and where the system does not tell.
    ///
    /// What is at hand now may be gone when it is read, but only when memory is so short that everything waits.
    pub fn at_hand(&self, range: HeightRange, max_bytes: usize, companions: bool) -> u32 {
        if let Some((sealed, index)) = self.sealed.find(range.first()) {
            let last = (range.last().get() - range.first().get())
                .saturating_add(index)
                .min(sealed.blocks() - 1);
            let Some(last) = rows_at_hand(sealed, index, last) else {
                return 0;
            };
            let blocks = sealed_at_hand(sealed, index, last, max_bytes);
            return if companions && blocks > 0 {
                companions_at_hand(sealed, index, blocks, max_bytes)
            } else {
                blocks
            };
        }
        self.tail_at_hand(range, max_bytes)
    }

    /// Whether what [`View::row`] says of the block at `height` can be read without waiting. Also true if there is no such block.
    pub fn row_at_hand(&self, height: Height) -> bool {
        self.sealed
            .find(height)
            .is_none_or(|(sealed, index)| rows_at_hand(sealed, index, index).is_some())
    }

    /// The same of [`View::height_of`].
    pub fn height_at_hand(&self, hash: &BlockHash) -> bool {
        self.lookup
            .candidates(hash)
            .all(|height| self.row_at_hand(height))
    }

    /// Records of the tail hold frame and companion side by side.
    fn tail_at_hand(&self, range: HeightRange, max_bytes: usize) -> u32 {
        let first = range.first();
        let Some(from) = self.tail.get(first) else {
            return 0;
        };
        let (mut blocks, mut end) = (0, from.at);
        while let Some(height) = first.checked_add(blocks)
            && height <= range.last()
            && let Some(entry) = self.tail.get(height)
            && entry.segment == from.segment
            && entry.at >= end
            && entry.payload_end() - from.at <= max_bytes as u64
        {
            end = entry.payload_end();
            blocks += 1;
        }
        let records = self.tail.segment(from.segment);
        match records.get(from.at as usize..end as usize) {
            Some(bytes) if resident(bytes) == bytes.len() => blocks,
            _ => 0,
        }
    }
}

/// Up to which of the blocks `index` to `last` all rows lie in memory that are read for them: their own, and one on either side, which says where the
/// last one's frame ends, and who the first one's parent is.
fn rows_at_hand(sealed: &SealedRange, index: u32, last: u32) -> Option<u32> {
    if !sealed.residency_is_told() {
        return None;
    }
    let from = index.saturating_sub(1);
    let to = (last + 1).min(sealed.blocks() - 1);
    let resident = resident(sealed.rows_bytes(from, to)) / ROW_BYTES;
    let behind = from + u32::try_from(resident).ok()?;
    if behind > to {
        return Some(last);
    }
    behind.checked_sub(2).filter(|last| *last >= index)
}

/// Frames of a sealed range, from block `index` to at most `last`.
fn sealed_at_hand(sealed: &SealedRange, index: u32, last: u32, max_bytes: usize) -> u32 {
    let checked = sealed.frames_checked(index, last);
    let Some(last) = (index + checked)
        .checked_sub(1)
        .filter(|last| *last >= index)
    else {
        return 0;
    };
    let bytes = sealed.bytes(Part::Blocks);
    let most = max_bytes.min(MAX_PAGES * 4_096);
    let blocks = sealed.blocks_within(index, last, most as u64);
    let frames = |blocks| {
        let (start, end) = sealed.frames_at(index, blocks);
        bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    };
    let Some(wanted) = frames(blocks).filter(|frames| frames.len() <= most) else {
        return 0;
    };
    let resident = resident(wanted);
    if resident == wanted.len() {
        return blocks;
    }
    let blocks = sealed.blocks_within(index, last, resident as u64);
    match frames(blocks) {
        Some(frames) if frames.len() <= resident => blocks,
        _ => 0,
    }
}

/// All of the companions, or nothing.
fn companions_at_hand(sealed: &SealedRange, index: u32, blocks: u32, max_bytes: usize) -> u32 {
    let (start, end) = sealed.companions_at(index, blocks);
    let place = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let bytes = place.and_then(|(start, end)| sealed.bytes(Part::Transparent).get(start..end));
    let at_hand = sealed.companions_checked(index, blocks)
        && bytes.is_some_and(|bytes| bytes.len() <= max_bytes && resident(bytes) == bytes.len());
    if at_hand { blocks } else { 0 }
}

/// How many of `bytes`, from the first on, lie in memory; looks at [`MAX_PAGES`] pages at most.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "asking about pages has no safe form in the crates we use"
)]
fn resident(bytes: &[u8]) -> usize {
    let page_bytes = page_bytes();
    if page_bytes == 0 || bytes.is_empty() {
        return 0;
    }
    let skew = bytes.as_ptr().addr() % page_bytes;
    let mut pages = [0; MAX_PAGES];
    let asked = (skew + bytes.len()).div_ceil(page_bytes).min(MAX_PAGES);
    let start = bytes.as_ptr().wrapping_byte_sub(skew);
    // SAFETY: `mincore` reads no memory of ours and writes a byte for each page asked about, for which `pages` has room. The address is that
    // of a page's beginning.
    let told = unsafe {
        libc::mincore(
            start.cast_mut().cast(),
            asked * page_bytes,
            pages.as_mut_ptr(),
        )
    };
    if told != 0 {
        return 0;
    }
    let resident = pages[..asked].iter().take_while(|page| **page & 1 == 1);
    (resident.count() * page_bytes)
        .saturating_sub(skew)
        .min(bytes.len())
}

/// 0 if the system does not tell.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "asking about pages has no safe form in the crates we use"
)]
fn page_bytes() -> usize {
    static PAGE_BYTES: LazyLock<usize> = LazyLock::new(|| {
        // SAFETY: reads a constant of the system.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0)
    });
    *PAGE_BYTES
}

#[cfg(not(target_os = "linux"))]
fn resident(_: &[u8]) -> usize {
    0
}

/// Whether the system tells this process which pages of a file are in memory. Of files that it neither owns nor may write it says that all are.
pub(crate) fn is_told(file: &Path) -> bool {
    static OURSELVES: LazyLock<Option<u32>> = LazyLock::new(|| owner(Path::new("/proc/self")));
    let Some(ourselves) = *OURSELVES else {
        return false;
    };
    ourselves == 0 || owner(file) == Some(ourselves)
}

#[cfg(unix)]
fn owner(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;

    Some(std::fs::metadata(path).ok()?.uid())
}

#[cfg(not(unix))]
fn owner(_: &Path) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has the system take back a page of a mapped file.
    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "the system is told about a page")]
    fn take_back(page: &[u8]) {
        // SAFETY: the page is that of a file, so what is taken back comes again when it is read.
        let told = unsafe {
            let start = page.as_ptr().cast_mut().cast();
            libc::madvise(start, page.len(), libc::MADV_PAGEOUT)
        };
        assert_eq!(told, 0, "{}", std::io::Error::last_os_error());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn blocks_whose_rows_the_system_has_taken_back_are_not_at_hand() {
        use crate::{Writer, format::columns::HEADER_BYTES, testing::TestChain};

        let rows_in_a_page = (page_bytes() - HEADER_BYTES) / ROW_BYTES;
        let rows = u32::try_from(3 * rows_in_a_page).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut chain = TestChain::new(1);
        let mut writer = Writer::open(dir.path(), chain.store(rows)).unwrap();
        for block in chain.take_blocks(rows) {
            writer.append(block).unwrap();
        }
        writer.commit().unwrap();
        let last = Height::new(rows - 1);
        writer.seal_through(last).unwrap();
        let view = writer.reader().view();
        let range = HeightRange::new(Height::new(3), last).unwrap();
        for piece in view.frames(range, 1 << 20) {
            piece.unwrap();
        }
        let middle = Height::new(rows / 2);
        let hash = view.hash_at(middle).unwrap();
        assert_eq!(view.at_hand(range, 1 << 20, false), rows - 3);
        assert!(view.row_at_hand(middle) && view.height_at_hand(&hash));
        let columns = view.sealed.ranges()[0].bytes(Part::Columns);
        take_back(&columns[page_bytes()..2 * page_bytes()]);
        if resident(columns) == columns.len() {
            eprintln!("skipped: the temporary folder's file system takes nothing back");
            return;
        }
        assert!(!view.row_at_hand(middle) && !view.height_at_hand(&hash));
        assert!(view.row_at_hand(Height::new(3)));
        // The last row of the first page says where the frame of the one before it ends.
        let left = u32::try_from(rows_in_a_page - 1).unwrap() - 3;
        assert_eq!(view.at_hand(range, 1 << 20, false), left);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_was_written_is_resident_from_any_byte_on() {
        let bytes = vec![1u8; 300_000];
        assert_eq!(resident(&bytes), bytes.len());
        assert_eq!(resident(&bytes[4_095..4_097]), 2);
        assert_eq!(resident(&[]), 0);
        let large = vec![1u8; 3 << 20];
        let seen = resident(&large[1..]);
        assert!(
            (1 << 20..large.len()).contains(&seen),
            "a look has a bound: {seen}"
        );
    }
}
