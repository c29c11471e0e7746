//! Counts that lie allocate nothing.

#![expect(
    unsafe_code,
    reason = "an allocator that counts cannot be written without"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use lightship_chain::{
    Height, RawBlock,
    compact::compact,
    parse::{Block, Error, Transaction},
};

use crate::samples::vectors;

struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is handed to the system's allocator as it is; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more.
        let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn allocated<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let done = work();
    (done, ALLOCATED.get() - before)
}

#[test]
fn parsing_allocates_nothing() {
    for sample in vectors() {
        let (_, bytes) = allocated(|| {
            let block = Block::parse(&sample.bytes).unwrap();
            block
                .transactions()
                .map(|each| each.outputs().count())
                .sum::<usize>()
        });
        assert_eq!(bytes, 0, "{}", sample.record.name());
    }
}

/// Every place of a transaction that holds a count, for each layout, with all counts before it zero.
fn bombs() -> impl Iterator<Item = (Vec<u8>, &'static str)> {
    let v4: &[u8] = &[4, 0, 0, 0x80, 0x85, 0x20, 0x2f, 0x89];
    let v5: &[u8] = &[5, 0, 0, 0x80, 0x0a, 0x27, 0xa7, 0x26];
    let v6: &[u8] = &[6, 0, 0, 0x80, 0x98, 0xb6, 0x84, 0xd8];
    let zeros = |head: &[u8], zeros: usize| [head, &vec![0; zeros][..]].concat();
    [
        (zeros(&[1, 0, 0, 0], 0), "transparent inputs"),
        (zeros(&[1, 0, 0, 0], 1), "transparent outputs"),
        (zeros(&[2, 0, 0, 0], 6), "JoinSplits"),
        (zeros(v4, 0), "transparent inputs"),
        (zeros(v4, 1), "transparent outputs"),
        (zeros(v4, 18), "Sapling spends"),
        (zeros(v4, 19), "Sapling outputs"),
        (zeros(v4, 20), "JoinSplits"),
        (zeros(v5, 12), "transparent inputs"),
        (zeros(v5, 13), "transparent outputs"),
        (zeros(v5, 14), "Sapling spends"),
        (zeros(v5, 15), "Sapling outputs"),
        (zeros(v5, 16), "Orchard actions"),
        (zeros(v6, 17), "Ironwood actions"),
    ]
    .into_iter()
}

#[test]
fn a_count_that_the_bytes_cannot_hold_allocates_nothing() {
    let header = vectors()[0].bytes[..1487].to_vec();
    let huge = [
        u64::MAX,
        1 << 62,
        u64::MAX / 820,
        u64::from(u32::MAX),
        1_000_000,
    ];
    for (start, elements) in bombs() {
        for count in huge {
            let size: &[u8] = match u32::try_from(count) {
                Ok(count) => &[&[0xfe][..], &count.to_le_bytes()].concat(),
                Err(_) => &[&[0xff][..], &count.to_le_bytes()].concat(),
            };
            let bomb = [&start[..], size, &[0; 2000]].concat();
            let (result, bytes) = allocated(|| Transaction::parse(&bomb).map(|_| ()));
            let left = 2000;
            let offset = start.len();
            assert_eq!(
                result,
                Err(Error::Count {
                    offset,
                    expected: elements,
                    count,
                    left
                })
            );
            assert_eq!(bytes, 0);

            let block = [&header[..], &[1], &bomb].concat();
            let (result, bytes) = allocated(|| compact(Height::GENESIS, RawBlock::Whole(&block)));
            assert!(matches!(result, Err(Error::Count { .. })));
            assert!(bytes < 1024, "only what was read before");
        }
    }
    for count in huge {
        let block = [&header[..], &[0xff], &count.to_le_bytes(), &[0; 100]].concat();
        let (result, bytes) = allocated(|| Block::parse(&block).map(|_| ()));
        assert!(result.is_err());
        assert_eq!(bytes, 0);
    }
}
