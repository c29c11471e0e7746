//! Bytes as a block.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lightship_chain::{
    Height, PoolSet, RawBlock, RawTransaction, TreeSizes,
    compact::{
        compact,
        project::{self, FRAME_PREFIX_BYTES, NullifierView, Stored},
    },
    parse::{Block, merkle_root},
};

fuzz_target!(|bytes: &[u8]| {
    let compacted = compact(Height::MAX, RawBlock::Whole(bytes));
    let block = match Block::parse(bytes) {
        Ok(block) => block,
        Err(error) => {
            assert_eq!(compacted, Err(error));
            return;
        }
    };
    let compacted = compacted.expect("what parses compacts");
    let header = block.header();
    let transactions: Vec<_> = block
        .transactions()
        .map(|each| RawTransaction {
            id: Some(each.id()),
            bytes: each.bytes(),
        })
        .collect();
    let ids: Vec<_> = transactions.iter().flat_map(|each| each.id).collect();
    let _ = merkle_root(&ids);
    let size: usize = transactions.iter().map(|each| each.bytes.len()).sum();
    assert!(size < bytes.len());
    let parts = RawBlock::Parts {
        header: header.bytes(),
        transactions: &transactions,
    };
    assert_eq!(
        compact(Height::MAX, parts).expect("the same in pieces"),
        compacted
    );

    assert_eq!(compacted.size_bytes as usize, bytes.len());
    let encoded = compacted
        .after(TreeSizes::ZERO)
        .expect("the first notes fit");
    let (_, message) = encoded.frame.split_at(FRAME_PREFIX_BYTES);
    let stored = Stored {
        message,
        transparent: &encoded.transparent,
    };
    let mut out = Vec::new();
    project::whole(stored, &mut out).expect("what was encoded decodes");
    for pools in PoolSet::subsets() {
        out.clear();
        project::pools(stored, pools, &mut out).expect("what was encoded decodes");
        if pools == PoolSet::SHIELDED {
            assert_eq!(out, encoded.frame);
        }
        project::nullifiers(stored, NullifierView::Pools(pools), &mut out).expect("it decodes");
    }
    project::nullifiers(stored, NullifierView::Whole, &mut out).expect("it decodes");
});
