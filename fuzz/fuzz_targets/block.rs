//! Bytes as a block.

#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use lightship_chain::{
    Height, PoolSet, RawBlock, RawTransaction, TreeSizes,
    compact::{
        compact,
        project::{self, FRAME_PREFIX_BYTES, NullifierView, Stored},
    },
    parse::{Block, Error, merkle_root},
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
    let ids: Vec<_> = block.transactions().map(|each| each.id()).collect();
    let root = merkle_root(&ids);
    if compacted.is_err() {
        assert_eq!(compacted, Err(Error::MerkleRoot));
        if ids.iter().collect::<HashSet<_>>().len() == ids.len() {
            assert_ne!(root, block.header().merkle_root());
        }
    }
    // Go on with the root that the header should have.
    let mut bytes = bytes.to_vec();
    bytes.splice(36..68, root);
    let bytes = &bytes[..];
    let block = Block::parse(bytes).expect("the root is 32 bytes that may be anything");
    let Ok(compacted) = compact(Height::MAX, RawBlock::Whole(bytes)) else {
        let all = ids.len();
        assert!(
            ids.into_iter().collect::<HashSet<_>>().len() < all,
            "repeated at most"
        );
        return;
    };
    let header = block.header();
    let transactions: Vec<_> = block
        .transactions()
        .map(|each| RawTransaction {
            id: Some(each.id()),
            bytes: each.bytes(),
        })
        .collect();
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
