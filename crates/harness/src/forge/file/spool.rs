//! Records put aside in one temporary file, in 256 heaps, to be read back a heap at a time: sorting and joining in bounded memory.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
};

use anyhow::Result;

/// Before a heap's records go to disk.
const HEAP_BYTES: usize = 32 * 1024;

/// Records of one width.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    end: u64,
    width: usize,
    heaps: Vec<Heap>,
}

#[derive(Debug, Default)]
struct Heap {
    waiting: Vec<u8>,
    written: Vec<(u64, usize)>,
}

impl Spool {
    /// In a file without a name in the folder `near`.
    pub(super) fn new(width: usize, near: &std::path::Path) -> Result<Spool> {
        Ok(Spool {
            file: tempfile::tempfile_in(near)?,
            end: 0,
            width,
            heaps: std::iter::repeat_with(Heap::default).take(256).collect(),
        })
    }

    /// Puts a record on the heap numbered `heap`.
    pub(super) fn put(&mut self, heap: u8, record: &[u8]) -> Result<()> {
        debug_assert_eq!(record.len(), self.width);
        let heap = &mut self.heaps[usize::from(heap)];
        heap.waiting.extend_from_slice(record);
        if heap.waiting.len() >= HEAP_BYTES {
            self.file.write_all(&heap.waiting)?;
            heap.written.push((self.end, heap.waiting.len()));
            self.end += heap.waiting.len() as u64;
            heap.waiting.clear();
        }
        Ok(())
    }

    /// Takes all records of a heap, in the order in which they were put there. None may be put after that.
    pub(super) fn take(&mut self, heap: u8) -> Result<Vec<u8>> {
        let heap = std::mem::take(&mut self.heaps[usize::from(heap)]);
        let mut records = Vec::with_capacity(
            heap.written.iter().map(|(_, length)| length).sum::<usize>() + heap.waiting.len(),
        );
        for (offset, length) in heap.written {
            let start = records.len();
            records.resize(start + length, 0);
            self.file.seek(SeekFrom::Start(offset))?;
            self.file.read_exact(&mut records[start..])?;
        }
        records.extend_from_slice(&heap.waiting);
        Ok(records)
    }
}

/// Sorts records of a fixed width in place.
pub(super) fn sort_records<const WIDTH: usize, K: Ord>(
    records: &mut [u8],
    key: impl Fn(&[u8; WIDTH]) -> K,
) {
    let (records, _) = records.as_chunks_mut::<WIDTH>();
    records.sort_unstable_by_key(|record| key(record));
}
