//! Chains to write, and what a view must answer about them.

use std::sync::Arc;

use lightship_chain::{Height, HeightRange, TreeSizes, compact::EncodedBlock};
use lightship_index::{RangeBuilder, View, Writer};

pub(crate) fn height(height: u32) -> Height {
    Height::new(height)
}

pub(crate) fn heights(first: u32, last: u32) -> HeightRange {
    HeightRange::new(height(first), height(last)).unwrap()
}

/// Appends and commits, `batch` blocks at a time.
pub(crate) fn write(writer: &mut Writer, blocks: &[EncodedBlock], batch: usize) {
    for blocks in blocks.chunks(batch) {
        for block in blocks {
            writer.append(block.clone()).unwrap();
        }
        writer.commit().unwrap();
    }
}

/// Demands that a view answers with exactly these blocks, by every way of asking.
pub(crate) fn assert_holds(view: &Arc<View>, blocks: &[EncodedBlock]) {
    assert_eq!(view.tip(), blocks.last().map(|block| block.id));
    let sizes = blocks.last().map_or(TreeSizes::ZERO, |block| block.sizes);
    assert_eq!(view.tip_sizes(), sizes);
    for block in blocks {
        let at = block.id.height;
        let stored = view.block(at).unwrap().unwrap();
        assert!(view.covers(at));
        assert_eq!(stored.frame, block.frame);
        assert_eq!(stored.transparent, block.transparent);
        assert_eq!(Some(stored.row), view.row(at));
        assert_eq!(stored.row.hash, block.id.hash);
        if at > Height::GENESIS {
            assert_eq!(stored.row.previous, block.previous);
        }
        assert_eq!(stored.row.time, block.time);
        assert_eq!(stored.row.sizes, block.sizes);
        assert_eq!(stored.row.transactions, block.transactions);
        assert_eq!(stored.row.size_bytes, block.size_bytes);
        assert_eq!(view.height_of(&block.id.hash), Some(at));
        assert_eq!(view.hash_at(at), Some(block.id.hash));
    }
    let Some(last) = blocks.last() else {
        return;
    };
    for max_bytes in [1, 3000, 1 << 20] {
        let mut next = Height::GENESIS;
        let mut bytes = Vec::new();
        for piece in view.frames(HeightRange::new(next, last.id.height).unwrap(), max_bytes) {
            let piece = piece.unwrap();
            assert_eq!(piece.range.first(), next);
            assert!(piece.bytes.len() <= max_bytes || piece.range.len() == 1);
            bytes.extend_from_slice(&piece.bytes);
            next = piece.range.last().next().unwrap();
        }
        assert_eq!(Some(next), last.id.height.next());
        let expected: Vec<u8> = blocks
            .iter()
            .flat_map(|block| block.frame.clone())
            .collect();
        assert!(bytes == expected);
    }
}

/// A complete range of these blocks, which need not begin the chain.
pub(crate) fn build(writer: &Writer, before: TreeSizes, blocks: &[EncodedBlock]) -> RangeBuilder {
    let first = &blocks[0];
    let mut range = writer
        .begin_range(first.id.height, before, first.previous)
        .unwrap();
    for block in blocks {
        range.append(block).unwrap();
    }
    range
}
