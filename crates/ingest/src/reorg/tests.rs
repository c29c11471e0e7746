use std::{cell::Cell, collections::HashMap, convert::Infallible};

use proptest::prelude::*;

use super::*;

/// A block's hash from its branch and height: no two are equal.
fn hash(branch: u8, height: u32) -> BlockHash {
    let mut bytes = [0xee; 32];
    bytes[0] = branch;
    bytes[1..5].copy_from_slice(&height.to_le_bytes());
    BlockHash::from_internal(bytes)
}

/// `length` blocks, of branch 0 up to `fork` (excluded), then of `branch`.
fn chain(length: u32, fork: u32, branch: u8) -> Vec<BlockHash> {
    (0..length)
        .map(|height| hash(if height < fork { 0 } else { branch }, height))
        .collect()
}

fn at(chain: &[BlockHash], height: Height) -> Option<BlockHash> {
    chain.get(height.get() as usize).copied()
}

fn tip(chain: &[BlockHash]) -> BlockId {
    let height = chain.len() as u32 - 1;
    BlockId {
        height: Height::new(height),
        hash: chain[height as usize],
    }
}

fn by_height(ours: &[BlockHash], theirs: &[BlockHash]) -> (Option<Height>, u32) {
    let asked = Cell::new(0);
    let found = common_ancestor::<Infallible>(
        tip(ours).height,
        |height| at(ours, height),
        |height| {
            asked.set(asked.get() + 1);
            Ok(at(theirs, height))
        },
    )
    .unwrap();
    (found, asked.get())
}

fn by_hash(ours: &[BlockHash], theirs: &[BlockHash], limit: usize) -> Walk {
    let parents: HashMap<BlockHash, BlockHash> = theirs
        .iter()
        .enumerate()
        .map(|(height, hash)| {
            (
                *hash,
                height.checked_sub(1).map_or(BlockHash::ZERO, |h| theirs[h]),
            )
        })
        .collect();
    walk_back::<Infallible>(
        tip(theirs),
        hash(0, 0),
        limit,
        |height| at(ours, height),
        |block| Ok(parents.get(&block.hash).copied()),
    )
    .unwrap()
}

fn joined(ancestor: u32, theirs: &[BlockHash]) -> Walk {
    Walk::Joined {
        ancestor: Some(Height::new(ancestor)),
        branch: (ancestor + 1..theirs.len() as u32)
            .map(|height| BlockId {
                height: Height::new(height),
                hash: theirs[height as usize],
            })
            .collect(),
    }
}

#[test]
fn the_same_tip_is_a_reorg_of_depth_zero() {
    let ours = chain(50, 50, 0);
    assert_eq!(by_height(&ours, &ours), (Some(Height::new(49)), 1));
    assert_eq!(by_hash(&ours, &ours, 0), joined(49, &ours));
}

#[test]
fn a_longer_chain_of_theirs_parts_at_our_tip() {
    let ours = chain(50, 50, 0);
    let theirs = chain(60, 60, 0);
    assert_eq!(by_height(&ours, &theirs).0, Some(Height::new(49)));
    assert_eq!(by_hash(&ours, &theirs, 10), joined(49, &theirs));
}

#[test]
fn a_rollback_without_replacement_parts_at_their_tip() {
    let ours = chain(60, 60, 0);
    for length in 1..60 {
        let theirs = chain(length, length, 0);
        assert_eq!(by_height(&ours, &theirs).0, Some(Height::new(length - 1)));
        assert_eq!(by_hash(&ours, &theirs, 0), joined(length - 1, &theirs));
    }
}

#[test]
fn a_heavier_but_shorter_branch_parts_at_the_fork() {
    let ours = chain(101, 101, 0);
    let theirs = chain(98, 90, 1);
    assert_eq!(by_height(&ours, &theirs).0, Some(Height::new(89)));
    assert_eq!(by_hash(&ours, &theirs, 8), joined(89, &theirs));
}

#[test]
fn a_deep_fork_is_found_by_height_in_a_few_questions() {
    let ours = chain(100_000, 100_000, 0);
    let theirs = chain(100_050, 1_234, 1);
    let (found, asked) = by_height(&ours, &theirs);
    assert_eq!(found, Some(Height::new(1_233)));
    assert!(asked <= 36, "asked {asked} times");
    assert_eq!(by_hash(&ours, &theirs, 2_000), Walk::TooLong);
}

#[test]
fn chains_with_nothing_but_genesis_in_common_part_there() {
    let ours = chain(20, 1, 1);
    let theirs = chain(25, 1, 2);
    assert_eq!(by_height(&ours, &theirs).0, Some(Height::GENESIS));
    assert_eq!(by_hash(&ours, &theirs, 100), joined(0, &theirs));
}

#[test]
fn another_genesis_has_no_ancestor() {
    let ours = chain(20, 20, 0);
    let theirs = chain(25, 0, 2);
    assert_eq!(by_height(&ours, &theirs).0, None);
    assert_eq!(
        by_hash(&ours, &theirs, 100),
        Walk::ForeignGenesis(hash(2, 0))
    );
}

#[test]
fn an_empty_chain_of_ours_takes_all_of_theirs() {
    let theirs = chain(5, 5, 0);
    let walk = by_hash(&[], &theirs, 5);
    let Walk::Joined { ancestor, branch } = walk else {
        panic!("{walk:?}");
    };
    assert_eq!(ancestor, None);
    assert_eq!(branch.iter().map(|id| id.hash).collect::<Vec<_>>(), theirs);
}

#[test]
fn a_tip_with_a_height_that_is_not_its_own_is_no_foreign_genesis() {
    let theirs = chain(50, 50, 0);
    let ours = chain(20, 20, 0);
    for lie in [5, 48, 50, 70] {
        let walk = walk_back::<Infallible>(
            BlockId {
                height: Height::new(lie),
                hash: theirs[49],
            },
            hash(0, 0),
            1_000,
            |height| at(&ours, height),
            |block| {
                let height = theirs.iter().position(|hash| *hash == block.hash).unwrap();
                Ok(Some(
                    height
                        .checked_sub(1)
                        .map_or(BlockHash::ZERO, |below| theirs[below]),
                ))
            },
        )
        .unwrap();
        assert!(matches!(walk, Walk::WrongHeight(_)), "{lie}: {walk:?}");
    }
}

#[test]
fn a_block_that_vanishes_during_the_walk_is_named() {
    let ours = chain(20, 20, 0);
    let theirs = chain(25, 10, 1);
    let walk = walk_back::<Infallible>(
        tip(&theirs),
        hash(0, 0),
        100,
        |height| at(&ours, height),
        |block| {
            let height = block.height.get();
            Ok((height > 15).then(|| theirs[height as usize - 1]))
        },
    )
    .unwrap();
    assert_eq!(
        walk,
        Walk::Unknown(BlockId {
            height: Height::new(15),
            hash: theirs[15]
        })
    );
}

proptest! {
    #[test]
    fn both_ways_find_the_naive_ancestor(
        ours in 1u32..200, theirs in 1u32..200, fork in 1u32..200,
    ) {
        let ours = chain(ours, fork, 1);
        let theirs = chain(theirs, fork, 2);
        let naive = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count() as u32 - 1;
        prop_assert_eq!(by_height(&ours, &theirs).0, Some(Height::new(naive)));
        prop_assert_eq!(by_hash(&ours, &theirs, 200), joined(naive, &theirs));
    }
}
