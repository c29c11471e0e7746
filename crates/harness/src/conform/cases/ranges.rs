//! `GetBlockRange`.

use anyhow::Result;
use prost::Message;
use tonic::Code;

use super::{ABOVE, Cases, HUGE, INVALID, World, at, reversed};
use crate::{
    conform::{
        case::{Case, Expectation, all, call, call_bytes},
        chain::{
            Chain,
            view::{Pools, ranged},
        },
        wire::Outcome,
    },
    proto::{BlockId, BlockRange, CompactBlock},
};

/// A message that wallets with default settings still take.
const MOST_BYTES: usize = 4 << 20;

pub(super) fn cases(world: &World) -> Result<Vec<Case>> {
    let mut list = Vec::new();
    let mut cases = Cases {
        method: "GetBlockRange",
        list: &mut list,
    };
    pools(world, &mut cases);
    ends(world, &mut cases);
    above(world, &mut cases);
    whole(world, &mut cases);
    pool_numbers(world, &mut cases);
    bad_ends(world, "GetBlockRange", &mut cases);
    Ok(list)
}

pub(super) fn request(start: u64, end: u64, pool_types: Vec<i32>) -> BlockRange {
    BlockRange {
        start: Some(at(start)),
        end: Some(at(end)),
        pool_types,
    }
}

fn blocks(chain: &Chain, start: u32, end: u32, pools: Pools) -> Vec<CompactBlock> {
    let range = chain.range(start, end).unwrap_or_default();
    range
        .into_iter()
        .map(|block| ranged(&block.compact, pools.meant()))
        .collect()
}

fn pools(world: &World, cases: &mut Cases<'_>) {
    let chain = &world.chain;
    let richest = chain.richest();
    let mut ranges = vec![(chain.window(richest, 60), "a mixed range")];
    for upgrade in &chain.upgrades {
        let opens_a_pool = matches!(&upgrade.branch[..], "c2d6d0b4" | "37a5165b");
        if opens_a_pool && upgrade.height <= chain.settled {
            ranges.push((chain.window(upgrade.height, 30), "around a new pool"));
        }
    }
    for (nth, ((low, high), what)) in ranges.into_iter().enumerate() {
        for bits in 0..16 {
            let pools = Pools::from_bits(bits);
            for (start, end, way) in [(low, high, "upwards"), (high, low, "downwards")] {
                // Beside the mixed range, every second one says enough.
                if nth > 0 && (bits + u8::from(way == "upwards")) % 2 == 0 {
                    continue;
                }
                cases.add(
                    "RANGE-2",
                    format!(
                        "{what}, {start} to {end}, pools {:?}, {way}",
                        pools.numbers()
                    ),
                    call(
                        "GetBlockRange",
                        &request(start.into(), end.into(), pools.numbers()),
                    ),
                    Expectation::messages(&blocks(chain, start, end, pools)),
                );
            }
        }
    }
}

fn ends(world: &World, cases: &mut Cases<'_>) {
    let chain = &world.chain;
    let default = Pools::from_bits(0);
    let mut add = |rule, name: String, start: u32, end: u32| {
        if chain.range(start, end).is_some() {
            cases.add(
                rule,
                name,
                call(
                    "GetBlockRange",
                    &request(start.into(), end.into(), Vec::new()),
                ),
                Expectation::messages(&blocks(chain, start, end, default)),
            );
        }
    };
    add("RANGE-3", "0 to 0".into(), 0, 0);
    add("RANGE-3", "0 to 5".into(), 0, 5);
    add("RANGE-3", "5 to 0".into(), 5, 0);
    for (height, why) in world.heights(4, "single blocks") {
        add("RANGE-1", format!("only {why}"), height, height);
    }
    let tip = chain.tip;
    add("RANGE-1", "only the tip".into(), tip, tip);
    add("RANGE-1", "to the tip".into(), tip.saturating_sub(20), tip);
    add(
        "RANGE-1",
        "down from the tip".into(),
        tip,
        tip.saturating_sub(20),
    );
    let mut random = world.random("ranges");
    for nth in 0..8 {
        let center = random.below(u64::from(chain.settled) + 1) as u32;
        let (low, high) = chain.window(center, 150);
        let (start, end) = if nth % 2 == 0 {
            (low, high)
        } else {
            (high, low)
        };
        add(
            "RANGE-1",
            format!("by chance, {start} to {end}"),
            start,
            end,
        );
    }
    // An index that keeps ranges of a power of two in one file changes files here.
    for boundary in [64, 1_024, 2_048, 4_096] {
        if boundary + 2 <= chain.settled {
            add(
                "RANGE-1",
                format!("over {boundary}"),
                boundary - 2,
                boundary + 2,
            );
            add(
                "RANGE-1",
                format!("down over {boundary}"),
                boundary + 2,
                boundary - 2,
            );
        }
    }
    let (low, high) = chain.window(chain.richest(), 4);
    let with = |height: u32, hash: Vec<u8>| {
        Some(BlockId {
            height: height.into(),
            hash,
        })
    };
    let right = |height| {
        chain
            .at(height)
            .map(|block| block.compact.hash.clone())
            .unwrap_or_default()
    };
    for (name, first, last) in [
        ("right hashes beside the heights", right(low), right(high)),
        (
            "wrong hashes beside the heights",
            right(high),
            reversed(&right(low)),
        ),
        (
            "hashes of a wrong length beside the heights",
            vec![1; 5],
            vec![2; 40],
        ),
    ] {
        let request = BlockRange {
            start: with(low.max(1), first),
            end: with(high, last),
            pool_types: Vec::new(),
        };
        cases.add(
            "RANGE-5",
            name,
            call("GetBlockRange", &request),
            Expectation::messages(&blocks(chain, low.max(1), high, default)),
        );
    }
}

fn above(world: &World, cases: &mut Cases<'_>) {
    let chain = &world.chain;
    let tip = chain.tip;
    for pool_types in [vec![], vec![1, 2, 3, 4]] {
        let pools = Pools::from_bits(if pool_types.is_empty() { 0 } else { 15 });
        for (above, from) in [(1, 5), (10, 5), (1_000_000, 0), (1, 0)] {
            let start = tip.saturating_sub(from);
            let end = u64::from(tip) + above;
            cases.add(
                "RANGE-8",
                format!("tip - {from} to tip + {above}, pools {pool_types:?}"),
                call(
                    "GetBlockRange",
                    &request(start.into(), end, pool_types.clone()),
                ),
                Expectation::messages_then(&blocks(chain, start, tip, pools), Code::OutOfRange),
            );
        }
        for (start, end, name) in [
            (1, Some(1), "tip + 1 to tip + 1"),
            (1, Some(10), "tip + 1 to tip + 10"),
            (10, Some(5), "tip + 10 to tip + 5"),
            (10, None, "tip + 10 down to 1"),
        ] {
            let end = end.map_or(1, |above| u64::from(tip) + above);
            cases.add(
                "RANGE-8",
                format!("{name}, pools {pool_types:?}"),
                call(
                    "GetBlockRange",
                    &request(u64::from(tip) + start, end, pool_types.clone()),
                ),
                Expectation::refused(ABOVE),
            );
        }
    }
}

/// The chain in one call, and what must hold over all of it.
fn whole(world: &World, cases: &mut Cases<'_>) {
    let chain = &world.chain;
    let (first, last) = if chain.complete {
        (0, chain.tip)
    } else {
        chain.window(chain.settled, 1_000)
    };
    let ask = |start: u32, end: u32, pools: Vec<i32>| {
        call("GetBlockRange", &request(start.into(), end.into(), pools))
    };
    let all_pools = Pools::from_bits(15);
    for (start, end, pools, name) in [
        (
            first,
            last,
            Pools::SHIELDED,
            "the whole chain, default pools",
        ),
        (
            last,
            first,
            Pools::SHIELDED,
            "the whole chain downwards, default pools",
        ),
        (first, last, all_pools, "the whole chain, all pools"),
    ] {
        let numbers = if pools == all_pools {
            pools.numbers()
        } else {
            Vec::new()
        };
        cases.add(
            "RANGE-1",
            name,
            ask(start, end, numbers),
            Expectation::messages(&blocks(chain, start, end, pools)),
        );
    }
    let count = last.abs_diff(first) as usize + 1;
    cases.add(
        "RANGE-9",
        "every block links to the one below",
        ask(first, last, Vec::new()),
        Expectation::that(
            "prevHash is the hash before, heights rise by one",
            move |outcome| links(&these_many(outcome, count)?),
        ),
    );
    cases.add(
        "RANGE-9",
        "tree sizes grow by what the blocks hold",
        ask(first, last, vec![1, 2, 3, 4]),
        Expectation::that("sizes are those before plus the outputs", move |outcome| {
            sizes_chain(&these_many(outcome, count)?)
        }),
    );
    cases.add(
        "LIMIT-2",
        "no block is larger than wallets take",
        ask(first, last, vec![1, 2, 3, 4]),
        Expectation::that("every message below 4 MiB", move |outcome| {
            these_many(outcome, count)?;
            match outcome.messages.iter().map(Vec::len).max() {
                Some(most) if most > MOST_BYTES => Err(format!("a message of {most} bytes")),
                _ => Ok(()),
            }
        }),
    );
}

/// So many blocks, and OK: of none of them all could be said.
fn these_many(outcome: &Outcome, count: usize) -> Result<Vec<CompactBlock>, String> {
    let blocks: Vec<CompactBlock> = all(outcome)?;
    if blocks.len() == count {
        Ok(blocks)
    } else {
        Err(format!("{} blocks, not {count}", blocks.len()))
    }
}

fn links(blocks: &[CompactBlock]) -> Result<(), String> {
    for pair in blocks.windows(2) {
        if pair[1].prev_hash != pair[0].hash || pair[1].height != pair[0].height + 1 {
            return Err(format!("block {} does not follow", pair[1].height));
        }
    }
    if blocks
        .iter()
        .any(|block| block.hash.len() != 32 || !block.header.is_empty())
    {
        return Err("a hash of another length, or a header".into());
    }
    Ok(())
}

fn sizes_chain(blocks: &[CompactBlock]) -> Result<(), String> {
    let sizes = |block: &CompactBlock| {
        let sizes = block.chain_metadata.ok_or("no chainMetadata")?;
        Ok::<_, String>([
            sizes.sapling_commitment_tree_size as usize,
            sizes.orchard_commitment_tree_size as usize,
            sizes.ironwood_commitment_tree_size as usize,
        ])
    };
    for pair in blocks.windows(2) {
        let mut expected = sizes(&pair[0])?;
        for transaction in &pair[1].vtx {
            expected[0] += transaction.outputs.len();
            expected[1] += transaction.actions.len();
            expected[2] += transaction.ironwood_actions.len();
        }
        if sizes(&pair[1])? != expected {
            return Err(format!("block {}: not {expected:?}", pair[1].height));
        }
    }
    Ok(())
}

fn pool_numbers(world: &World, cases: &mut Cases<'_>) {
    let (low, high) = world.chain.window(world.chain.richest(), 10);
    let ask = |numbers: &[i32]| {
        call(
            "GetBlockRange",
            &request(low.into(), high.into(), numbers.to_vec()),
        )
    };
    for numbers in [
        &[0][..],
        &[0, 2],
        &[2, 0],
        &[5],
        &[2, 5],
        &[15],
        &[2, 50],
        &[-1, 2],
        &[50, 50],
    ] {
        let name = format!("pools {numbers:?}");
        cases.add("RANGE-6", name, ask(numbers), Expectation::refused(INVALID));
    }
    let expected = |pools| Expectation::messages(&blocks(&world.chain, low, high, pools));
    for number in [50, 16, 1_000_000, i32::MAX, -1, i32::MIN] {
        cases.add(
            "RANGE-7",
            format!("field 3 holds only {number}"),
            ask(&[number]),
            expected(Pools::SHIELDED),
        );
    }
    for (numbers, bits) in [
        (&[2, 2][..], 0b0010),
        (&[4, 3, 2], 0b1110),
        (&[1, 1, 4, 1], 0b1001),
        (&[4, 3, 2, 1, 2, 3, 4], 0b1111),
    ] {
        cases.add(
            "RANGE-6",
            format!("pools {numbers:?}"),
            ask(numbers),
            expected(Pools::from_bits(bits)),
        );
    }
    // The same list, one number a field, as encoders before proto3 wrote it.
    let mut bytes = request(low.into(), high.into(), Vec::new()).encode_to_vec();
    bytes.extend([0x18, 1, 0x18, 3]);
    cases.add(
        "RANGE-6",
        "pools [1, 3], not packed",
        call_bytes("GetBlockRange", bytes),
        expected(Pools::from_bits(0b0101)),
    );
    let mut bytes = request(low.into(), high.into(), Vec::new()).encode_to_vec();
    bytes.extend([0xf8, 0x07, 0x01]);
    cases.add(
        "RANGE-1",
        "a field nobody knows",
        call_bytes("GetBlockRange", bytes),
        expected(Pools::SHIELDED),
    );
}

/// What is refused alike by both range methods.
pub(super) fn bad_ends(world: &World, method: &'static str, cases: &mut Cases<'_>) {
    let id = |height| Some(at(height));
    let mut refuse = |rule, name: String, start: Option<BlockId>, end: Option<BlockId>| {
        let request = BlockRange {
            start,
            end,
            pool_types: Vec::new(),
        };
        cases.add(
            rule,
            name,
            call(method, &request),
            Expectation::refused(INVALID),
        );
    };
    refuse("RANGE-4", "no start".into(), None, id(1));
    refuse("RANGE-4", "no end".into(), id(1), None);
    refuse("RANGE-4", "no ends".into(), None, None);
    let hash = world
        .chain
        .at(1)
        .map(|block| block.compact.hash.clone())
        .unwrap_or_default();
    let only = || {
        Some(BlockId {
            height: 0,
            hash: hash.clone(),
        })
    };
    refuse("RANGE-5", "start is a hash".into(), only(), id(2));
    refuse("RANGE-5", "end is a hash".into(), id(2), only());
    refuse("RANGE-5", "both ends are hashes".into(), only(), only());
    for (height, name) in HUGE {
        refuse("RANGE-10", format!("start {name}"), id(height), id(1));
        refuse("RANGE-10", format!("end {name}"), id(1), id(height));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_blocks_are_not_good_ones() {
        let outcome = |count: usize| Outcome {
            messages: vec![CompactBlock::default().encode_to_vec(); count],
            end: Some((Code::Ok, String::new())),
            headers_after: Duration::ZERO,
        };
        assert!(these_many(&outcome(2), 2).is_ok());
        assert!(these_many(&outcome(0), 2).is_err() && these_many(&outcome(3), 2).is_err());
    }
}
