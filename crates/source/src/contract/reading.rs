//! A source on a chain that does not change.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use lightship_chain::{BlockHash, Height, HeightRange, RawBlock};

use super::{Fixture, chain::height};
use crate::{BlockSource, Error};

const UNKNOWN: BlockHash = BlockHash::from_internal([0xab; 32]);

fn range(first: u32, last: u32) -> HeightRange {
    HeightRange::new(height(first), height(last)).expect("first is not above last")
}

/// The block's consensus serialization, however it is lent.
fn whole(block: RawBlock<'_>) -> Vec<u8> {
    match block {
        RawBlock::Whole(bytes) => bytes.to_vec(),
        RawBlock::Parts {
            header,
            transactions,
        } => {
            let mut bytes = header.to_vec();
            let count = u16::try_from(transactions.len()).expect("made blocks are small");
            match u8::try_from(count) {
                Ok(small @ ..0xfd) => bytes.push(small),
                _ => {
                    bytes.push(0xfd);
                    bytes.extend_from_slice(&count.to_le_bytes());
                }
            }
            for transaction in transactions {
                bytes.extend_from_slice(transaction.bytes);
            }
            bytes
        }
    }
}

pub(super) fn the_tip_is_the_highest_block_and_height_0_the_genesis(
    fixture: &Fixture,
    source: &dyn BlockSource,
) {
    assert_eq!(source.tip().expect("tip"), Some(fixture.tip()), "tip");
    let genesis = fixture.blocks[0].id.hash;
    assert_eq!(source.genesis().expect("genesis"), genesis, "genesis");
}

pub(super) fn heights_have_hashes_up_to_the_tip_and_none_above(
    fixture: &Fixture,
    source: &dyn BlockSource,
) {
    for block in &fixture.blocks {
        let hash = source.hash_at(block.id.height).expect("hash_at");
        assert_eq!(hash, Some(block.id.hash), "hash at {}", block.id.height);
    }
    let above = fixture.tip().height.next().expect("the chain is short");
    for height in [above, height(1_000_000), Height::MAX] {
        let hash = source.hash_at(height).expect("hash_at above the tip");
        assert_eq!(hash, None, "hash above the tip, at {height}");
    }
}

pub(super) fn blocks_are_lent_lowest_first_and_byte_for_byte(
    fixture: &Fixture,
    source: &dyn BlockSource,
) {
    let tip = fixture.tip().height.get();
    for (first, last) in [(0, tip), (0, 0), (tip, tip), (3, 11)] {
        let mut expected = first;
        source
            .blocks(range(first, last), &mut |height, block| {
                assert_eq!(height.get(), expected, "heights of blocks {first}-{last}");
                assert_eq!(
                    whole(block),
                    fixture.bytes(expected),
                    "bytes of block {height}"
                );
                expected += 1;
                ControlFlow::Continue(())
            })
            .expect("blocks");
        assert_eq!(expected, last + 1, "count of blocks {first}-{last}");
    }
}

pub(super) fn a_visitor_that_breaks_sees_no_more_blocks(
    fixture: &Fixture,
    source: &dyn BlockSource,
) {
    // Also where the range goes on above the tip, for nothing after the break matters.
    for last in [fixture.tip().height.get(), 1_000] {
        let mut seen = Vec::new();
        source
            .blocks(range(5, last), &mut |height, _| {
                seen.push(height.get());
                if seen.len() == 2 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .expect("breaking is success");
        assert_eq!(seen, [5, 6], "blocks seen before the break");
    }
}

pub(super) fn a_range_that_leaves_the_chain_lends_what_there_is_and_fails(
    fixture: &Fixture,
    source: &dyn BlockSource,
) {
    let tip = fixture.tip().height.get();
    for first in [tip - 2, tip + 1, tip + 5] {
        let mut seen = Vec::new();
        let result = source.blocks(range(first, tip + 10), &mut |height, _| {
            seen.push(height.get());
            ControlFlow::Continue(())
        });
        let lowest_missing = first.max(tip + 1);
        match result {
            Err(Error::AboveTip { height }) => {
                assert_eq!(height.get(), lowest_missing, "the lowest height not there");
            }
            other => panic!("blocks above the tip: expected AboveTip, got {other:?}"),
        }
        let expected: Vec<_> = (first..=tip).collect();
        assert_eq!(seen, expected, "blocks lent below the tip");
    }
}

pub(super) fn a_block_is_lent_by_hash_and_an_unknown_one_is_not(
    fixture: &Fixture,
    source: &dyn BlockSource,
) {
    for block in &fixture.blocks {
        let mut lent = None;
        let known = source
            .block(block.id.hash, &mut |block| lent = Some(whole(block)))
            .expect("block by hash");
        assert!(known, "block {} is known", block.id);
        let lent = lent.expect("a known block is lent");
        assert_eq!(lent, block.bytes, "bytes of block {}", block.id);
    }
    let known = source.block(UNKNOWN, &mut |_| panic!("an unknown block was lent"));
    assert!(!known.expect("block by unknown hash"), "unknown block");
}

pub(super) fn tree_sizes_are_those_at_the_end_of_the_block(
    fixture: &Fixture,
    source: &dyn BlockSource,
) {
    for (block, sizes) in fixture.blocks.iter().zip(fixture.sizes()) {
        let found = source.tree_sizes(block.id.hash).expect("tree sizes");
        assert_eq!(found, Some(sizes), "tree sizes at {}", block.id);
    }
    let found = source.tree_sizes(UNKNOWN).expect("tree sizes");
    assert_eq!(found, None, "tree sizes of an unknown block");
}

pub(super) fn waiting_ends_at_once_if_the_tip_is_another_and_after_patience_if_not(
    fixture: &Fixture,
    source: &dyn BlockSource,
) {
    let long = Duration::from_secs(60);
    let started = Instant::now();
    source.wait(None, long).expect("wait for a first block");
    let below = fixture.blocks[fixture.blocks.len() - 2].id;
    source.wait(Some(below), long).expect("wait for a new tip");
    assert!(started.elapsed() < long / 2, "waited for what was there");

    let short = Duration::from_millis(40);
    let started = Instant::now();
    source
        .wait(Some(fixture.tip()), short)
        .expect("wait in vain");
    let waited = started.elapsed();
    assert!(waited >= short, "gave up after {waited:?}");
    assert!(waited < long / 2, "waited {waited:?} in vain");
}

pub(super) fn many_threads_may_ask_at_once(fixture: &Fixture, source: &dyn BlockSource) {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                tree_sizes_are_those_at_the_end_of_the_block(fixture, source);
                blocks_are_lent_lowest_first_and_byte_for_byte(fixture, source);
            });
        }
    });
}
