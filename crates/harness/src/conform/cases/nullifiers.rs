//! `GetBlockNullifiers` and `GetBlockRangeNullifiers`.

use anyhow::Result;
use tonic::Code;

use super::{
    ABOVE, Cases, INVALID, World, at,
    blocks::refusals,
    by_hash,
    ranges::{bad_ends, request},
    reversed,
};
use crate::{
    conform::{
        case::{Case, Expectation, call},
        chain::{
            Chain,
            view::{Pools, nullifiers, ranged},
        },
    },
    proto::{BlockId, CompactBlock},
};

pub(super) fn cases(world: &World) -> Result<Vec<Case>> {
    let mut list = Vec::new();
    one(world, &mut list);
    many(world, &mut list);
    Ok(list)
}

fn one(world: &World, list: &mut Vec<Case>) {
    let method = "GetBlockNullifiers";
    let mut cases = Cases { method, list };
    for (height, why) in world.heights(6, method) {
        let Some(block) = world.chain.at(height) else {
            continue;
        };
        let expected = || Expectation::message(&nullifiers(block.compact.clone()));
        let by_height = call(method, &at(height.into()));
        cases.add(
            "NULLIFIERS-1",
            format!("height {why}"),
            by_height,
            expected(),
        );
        if height % 3 == 0 {
            let id = by_hash(block);
            cases.add(
                "BLOCK-2",
                format!("hash of {why}"),
                call(method, &id),
                expected(),
            );
        }
        if height % 3 == 1 {
            let id = BlockId {
                height: 0,
                hash: reversed(&block.compact.hash),
            };
            let name = format!("hash in display order of {why}");
            cases.add("BLOCK-2", name, call(method, &id), expected());
        }
    }
    refusals(world, method, &mut cases, true);
}

fn pruned(chain: &Chain, start: u32, end: u32, pools: Pools) -> Vec<CompactBlock> {
    let pools = pools.shielded().meant();
    chain
        .range(start, end)
        .unwrap_or_default()
        .into_iter()
        .map(|block| nullifiers(ranged(&block.compact, pools)))
        .collect()
}

fn many(world: &World, list: &mut Vec<Case>) {
    let method = "GetBlockRangeNullifiers";
    let mut cases = Cases { method, list };
    let chain = &world.chain;
    let (low, high) = chain.window(chain.richest(), 40);
    for bits in 0..16 {
        let pools = Pools::from_bits(bits);
        let (start, end) = if bits % 3 == 1 {
            (high, low)
        } else {
            (low, high)
        };
        cases.add(
            "NULLIFIERS-2",
            format!("{start} to {end}, pools {:?}", pools.numbers()),
            call(method, &request(start.into(), end.into(), pools.numbers())),
            Expectation::messages(&pruned(chain, start, end, pools)),
        );
    }
    let tip = chain.tip;
    let default = Pools::SHIELDED;
    for (start, end, name) in [
        (0, 0, "0 to 0"),
        (0, 5.min(tip), "0 to 5"),
        (5.min(tip), 0, "5 to 0"),
        (tip, tip, "only the tip"),
    ] {
        cases.add(
            "NULLIFIERS-2",
            name,
            call(method, &request(start.into(), end.into(), Vec::new())),
            Expectation::messages(&pruned(chain, start, end, default)),
        );
    }
    if chain.complete {
        cases.add(
            "NULLIFIERS-2",
            "the whole chain",
            call(method, &request(0, tip.into(), Vec::new())),
            Expectation::messages(&pruned(chain, 0, tip, default)),
        );
    }
    let start = tip.saturating_sub(4);
    cases.add(
        "RANGE-8",
        "tip - 4 to tip + 3",
        call(
            method,
            &request(start.into(), u64::from(tip) + 3, Vec::new()),
        ),
        Expectation::messages_then(&pruned(chain, start, tip, default), Code::OutOfRange),
    );
    cases.add(
        "RANGE-8",
        "tip + 1 to tip + 3",
        call(
            method,
            &request(u64::from(tip) + 1, u64::from(tip) + 3, Vec::new()),
        ),
        Expectation::refused(ABOVE),
    );
    for numbers in [&[0][..], &[5], &[1, 5], &[2, 50]] {
        cases.add(
            "RANGE-6",
            format!("pools {numbers:?}"),
            call(method, &request(low.into(), high.into(), numbers.to_vec())),
            Expectation::refused(INVALID),
        );
    }
    for number in [50, -1] {
        cases.add(
            "RANGE-7",
            format!("field 3 holds only {number}"),
            call(method, &request(low.into(), high.into(), vec![number])),
            Expectation::messages(&pruned(chain, low, high, default)),
        );
    }
    bad_ends(world, method, &mut cases);
}
