//! What a range request means.

use lightship_chain::{Height, Pool, PoolSet};

use super::Projection;
use crate::{
    proto::{BlockId, BlockRange},
    status::Refusal,
};

/// A range to be answered: every height from `first` to `last`, upwards or downwards, then `ending`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The first block sent.
    pub(crate) first: Height,
    /// The last block sent; below `first` in a descending range.
    pub(crate) last: Height,
    /// Which parts of the blocks.
    pub(crate) projection: Projection,
    /// How the stream ends after the last block: `None` for well.
    pub(crate) ending: Option<Refusal>,
}

impl Plan {
    /// Reads a request for `GetBlockRange` (`nullifiers` false) or `GetBlockRangeNullifiers` against a served tip.
    ///
    /// # Errors
    ///
    /// What is wrong with the request; [`Refusal::AboveTip`] if its first block is above `tip`.
    pub(crate) fn new(
        request: &BlockRange,
        nullifiers: bool,
        strict_pools: bool,
        tip: Height,
    ) -> Result<Plan, Refusal> {
        let start = end_of_range("start", request.start.as_ref())?;
        let end = end_of_range("end", request.end.as_ref())?;
        let pools = pools_of(&request.pool_types, !strict_pools)?;
        let projection = if nullifiers {
            let shielded = pools.without(Pool::Transparent);
            Projection::Nullifiers(if shielded.is_empty() {
                PoolSet::SHIELDED
            } else {
                shielded
            })
        } else if pools == PoolSet::SHIELDED {
            Projection::Stored
        } else {
            Projection::Pools(pools)
        };
        if start > tip {
            return Err(Refusal::AboveTip { height: start, tip });
        }
        let (last, ending) = match tip.next() {
            Some(above) if end > tip => (tip, Some(Refusal::AboveTip { height: above, tip })),
            _ => (end, None),
        };
        Ok(Plan {
            first: start,
            last,
            projection,
            ending,
        })
    }
}

/// One end of a range. A hash beside a height is ignored, as other servers do.
pub(crate) fn end_of_range(field: &'static str, id: Option<&BlockId>) -> Result<Height, Refusal> {
    let id = id.ok_or(Refusal::Missing { field })?;
    if id.height == 0 && !id.hash.is_empty() {
        return Err(Refusal::RangeByHash { field });
    }
    Ok(Height::try_from(id.height)?)
}

/// The pools a list of numbers asks for; none means the shielded ones.
///
/// With `legacy`, a list of one element that is negative or at least 16 counts as empty: a fork of the protocol used this
/// field's number for a threshold, and wallets that speak it are still in use.
pub(crate) fn pools_of(numbers: &[i32], legacy: bool) -> Result<PoolSet, Refusal> {
    match numbers {
        [] => return Ok(PoolSet::SHIELDED),
        [only] if legacy && (*only < 0 || *only >= 16) => return Ok(PoolSet::SHIELDED),
        _ => {}
    }
    numbers
        .iter()
        .map(|&value| match value {
            1 => Ok(Pool::Transparent),
            2 => Ok(Pool::Sapling),
            3 => Ok(Pool::Orchard),
            4 => Ok(Pool::Ironwood),
            _ => Err(Refusal::UnknownPool { value }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIP: Height = Height::new(100);

    fn id(height: u64) -> Option<BlockId> {
        Some(BlockId {
            height,
            hash: Default::default(),
        })
    }

    fn plan(start: Option<BlockId>, end: Option<BlockId>, pools: &[i32]) -> Result<Plan, Refusal> {
        let request = BlockRange {
            start,
            end,
            pool_types: pools.to_vec(),
        };
        Plan::new(&request, false, false, TIP)
    }

    #[test]
    fn both_ends_are_needed_and_genesis_is_a_height() {
        assert_eq!(
            plan(None, id(1), &[]),
            Err(Refusal::Missing { field: "start" })
        );
        assert_eq!(
            plan(id(1), None, &[]),
            Err(Refusal::Missing { field: "end" })
        );
        let genesis = plan(id(0), id(0), &[]).unwrap();
        assert_eq!(
            (genesis.first, genesis.last, genesis.ending),
            (Height::GENESIS, Height::GENESIS, None)
        );
    }

    #[test]
    fn a_height_never_wraps() {
        for height in [1 << 31, (1 << 32) + 5, 1 << 63, u64::MAX] {
            assert_eq!(
                plan(id(height), id(1), &[]),
                Err(Refusal::HeightTooLarge { height })
            );
            assert_eq!(
                plan(id(1), id(height), &[]),
                Err(Refusal::HeightTooLarge { height })
            );
        }
    }

    #[test]
    fn a_hash_counts_only_where_no_height_is() {
        let by_hash = |height| {
            Some(BlockId {
                height,
                hash: vec![1; 5].into(),
            })
        };
        assert!(plan(by_hash(3), by_hash(4), &[]).is_ok());
        assert_eq!(
            plan(by_hash(0), id(4), &[]),
            Err(Refusal::RangeByHash { field: "start" })
        );
        assert_eq!(
            plan(id(4), by_hash(0), &[]),
            Err(Refusal::RangeByHash { field: "end" })
        );
    }

    #[test]
    fn only_the_tail_may_reach_above_the_tip() {
        let above = |height| Refusal::AboveTip {
            height: Height::new(height),
            tip: TIP,
        };
        let plan_of = |start, end| plan(id(start), id(end), &[]);
        assert_eq!(plan_of(95, 100).unwrap().ending, None);
        let tail = plan_of(95, 105).unwrap();
        assert_eq!((tail.last, tail.ending), (TIP, Some(above(101))));
        assert_eq!(plan_of(101, 101), Err(above(101)));
        assert_eq!(plan_of(110, 105), Err(above(110)));
        assert_eq!(plan_of(110, 5), Err(above(110)));
        let down = plan_of(100, 0).unwrap();
        assert_eq!((down.first, down.last), (TIP, Height::GENESIS));
    }

    #[test]
    fn pools_are_a_set_of_known_numbers() {
        let of = |numbers: &[i32]| plan(id(1), id(2), numbers).map(|plan| plan.projection);
        assert_eq!(of(&[]), Ok(Projection::Stored));
        assert_eq!(of(&[4, 2, 3, 2]), Ok(Projection::Stored));
        assert_eq!(
            of(&[2, 2]),
            Ok(Projection::Pools(PoolSet::EMPTY.with(Pool::Sapling)))
        );
        assert_eq!(of(&[1, 2, 3, 4]), Ok(Projection::Pools(PoolSet::ALL)));
        for (numbers, value) in [(&[0][..], 0), (&[5], 5), (&[2, 50], 50), (&[-1, 2], -1)] {
            assert_eq!(of(numbers), Err(Refusal::UnknownPool { value }));
        }
        // The threshold of an old fork, and the same where that is refused.
        assert_eq!(of(&[50]), Ok(Projection::Stored));
        assert_eq!(of(&[-1]), Ok(Projection::Stored));
        assert_eq!(
            pools_of(&[50], false),
            Err(Refusal::UnknownPool { value: 50 })
        );
    }

    #[test]
    fn nullifiers_know_no_transparent_pool() {
        let of = |numbers: &[i32]| {
            let request = BlockRange {
                start: id(1),
                end: id(2),
                pool_types: numbers.to_vec(),
            };
            Plan::new(&request, true, false, TIP).unwrap().projection
        };
        assert_eq!(of(&[1]), Projection::Nullifiers(PoolSet::SHIELDED));
        assert_eq!(
            of(&[1, 3]),
            Projection::Nullifiers(PoolSet::EMPTY.with(Pool::Orchard))
        );
    }
}
