//! Bytes as a stored block.
//!
//! An even first byte: a length `[4]` little-endian, a message of that length, and the companion. An odd one: a place `[4]` and a wrong
//! byte for it, then a block, whose stored form gets that byte.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lightship_chain::{
    Height, PoolSet, RawBlock, TreeSizes,
    compact::{
        compact,
        project::{self, FRAME_PREFIX_BYTES, Malformed, NullifierView, Stored},
    },
    parse::{Block, merkle_root},
};

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else {
        return;
    };
    let Some((place, rest)) = rest.split_first_chunk() else {
        return;
    };
    let place = u32::from_le_bytes(*place) as usize;
    if kind % 2 == 0 {
        let (message, transparent) = rest.split_at(place.min(rest.len()));
        check(Stored {
            message,
            transparent,
        });
        return;
    }
    let Some((&wrong, raw)) = rest.split_first() else {
        return;
    };
    let mut raw = raw.to_vec();
    let Ok(block) = Block::parse(&raw) else {
        return;
    };
    let ids: Vec<_> = block.transactions().map(|each| each.id()).collect();
    raw.splice(36..68, merkle_root(&ids));
    let Ok(block) = compact(Height::GENESIS, RawBlock::Whole(&raw)) else {
        return;
    };
    let mut encoded = block.after(TreeSizes::ZERO).expect("the first notes fit");
    let mut message = encoded.frame.split_off(FRAME_PREFIX_BYTES);
    let count = message.len() + encoded.transparent.len();
    let mut all = message.iter_mut().chain(&mut encoded.transparent);
    if let Some(byte) = all.nth(place % count) {
        *byte ^= wrong;
    }
    check(Stored {
        message: &message,
        transparent: &encoded.transparent,
    });
});

fn check(block: Stored<'_>) {
    run(|out| project::whole(block, out));
    run(|out| project::nullifiers(block, NullifierView::Whole, out));
    for pools in PoolSet::subsets() {
        run(|out| project::nullifiers(block, NullifierView::Pools(pools), out));
        run(|out| project::pools(block, pools, out));
    }
    if let Some(once) = run(|out| project::pools(block, PoolSet::SHIELDED, out)) {
        let again = Stored {
            message: &once,
            transparent: &[],
        };
        let twice = run(|out| project::pools(again, PoolSet::SHIELDED, out));
        assert_eq!(twice.expect("what was projected decodes"), once);
    }
}

/// The message that `write` gives; it must leave nothing behind when it fails.
fn run(write: impl FnOnce(&mut Vec<u8>) -> Result<(), Malformed>) -> Option<Vec<u8>> {
    let mut out = vec![0xee];
    if write(&mut out).is_err() {
        assert_eq!(out, [0xee]);
        return None;
    }
    let message = out.split_off(1 + FRAME_PREFIX_BYTES);
    assert_eq!(
        out.get(2..),
        Some(&(message.len() as u32).to_be_bytes()[..])
    );
    Some(message)
}
