//! `GetBlock`.

use anyhow::Result;

use super::{ABOVE, Cases, HUGE, INVALID, TOO_LARGE, UNKNOWN, World, at, by_hash, reversed};
use crate::{
    conform::case::{Case, Expectation, call, call_bytes},
    proto::{BlockId, CompactBlock},
};

pub(super) fn cases(world: &World) -> Result<Vec<Case>> {
    let mut list = Vec::new();
    let method = "GetBlock";
    let mut cases = Cases {
        method,
        list: &mut list,
    };
    for (height, why) in world.heights(12, method) {
        let Some(block) = world.chain.at(height) else {
            continue;
        };
        let expected = || Expectation::message(&block.compact);
        cases.add(
            "BLOCK-1",
            format!("height {why}"),
            call(method, &at(height.into())),
            expected(),
        );
        cases.add(
            "BLOCK-2",
            format!("hash of {why}"),
            call(method, &by_hash(block)),
            expected(),
        );
    }
    for (height, why) in world.heights(4, "display order").into_iter().rev().take(6) {
        let Some(block) = world.chain.at(height) else {
            continue;
        };
        let id = BlockId {
            height: 0,
            hash: reversed(&block.compact.hash),
        };
        cases.add(
            "BLOCK-2",
            format!("hash in display order of {why}"),
            call(method, &id),
            Expectation::message(&block.compact),
        );
    }
    let top = world.chain.top();
    let tip = u64::from(world.chain.tip);
    cases.add(
        "BLOCK-1",
        "the tip by height",
        call(method, &at(tip)),
        Expectation::message(&top.compact),
    );
    cases.add(
        "BLOCK-2",
        "the tip by hash",
        call(method, &by_hash(top)),
        Expectation::message(&top.compact),
    );
    if let Some(genesis) = world.chain.at(0) {
        cases.add(
            "BLOCK-2",
            "genesis by hash",
            call(method, &by_hash(genesis)),
            Expectation::message(&genesis.compact),
        );
    }
    if let Some(other) = world.chain.at(1) {
        let id = |height| BlockId {
            height,
            hash: other.compact.hash.clone(),
        };
        for (height, name) in [
            (tip, "hash and another height"),
            (tip + 1_000, "hash and a height above the tip"),
            (1, "hash and its height"),
        ] {
            cases.add(
                "BLOCK-3",
                name,
                call(method, &id(height)),
                Expectation::message(&other.compact),
            );
        }
    }
    refusals(world, method, &mut cases, true);
    Ok(list)
}

/// What is refused alike by the methods that take one `BlockID`.
pub(super) fn refusals(
    world: &World,
    method: &'static str,
    cases: &mut Cases<'_>,
    zero_is_refused: bool,
) {
    let tip = u64::from(world.chain.tip);
    if zero_is_refused {
        let refused = || Expectation::refused(INVALID);
        cases.add(
            "BLOCK-4",
            "height 0 and no hash",
            call(method, &at(0)),
            refused(),
        );
    }
    for (height, name) in [
        (tip + 1, "tip + 1"),
        (tip + 1_000, "tip + 1000"),
        ((1 << 31) - 1, "2^31 - 1"),
    ] {
        let name = format!("height {name}");
        cases.add(
            "BLOCK-5",
            name,
            call(method, &at(height)),
            Expectation::refused(ABOVE),
        );
    }
    for (height, name) in HUGE {
        let name = format!("height {name}");
        cases.add(
            "BLOCK-6",
            name,
            call(method, &at(height)),
            Expectation::refused(INVALID),
        );
    }
    let mut random = world.random("unknown hash");
    for (hash, name) in [
        (random.hash(), "unknown hash"),
        ([0; 32], "hash of zeros"),
        ([0xff; 32], "hash of ones"),
    ] {
        for height in [0, 1] {
            let id = BlockId {
                height,
                hash: hash.to_vec(),
            };
            let name = format!("{name}, height {height}");
            cases.add(
                "BLOCK-7",
                name,
                call(method, &id),
                Expectation::refused(UNKNOWN),
            );
        }
    }
    for length in [1, 20, 31, 33, 64, 4_096] {
        let id = BlockId {
            height: 1,
            hash: vec![7; length],
        };
        let name = format!("hash of {length} bytes");
        cases.add(
            "BLOCK-8",
            name,
            call(method, &id),
            Expectation::refused(INVALID),
        );
    }
    let id = BlockId {
        height: 1,
        hash: vec![7; (4 << 20) + 1],
    };
    cases.add(
        "LIMIT-1",
        "a request above 4 MiB",
        call(method, &id),
        Expectation::refused(TOO_LARGE),
    );
    if let Some(block) = world.chain.at(1).filter(|_| method == "GetBlock") {
        let mut bytes = prost::Message::encode_to_vec(&at(1));
        bytes.extend([0xf8, 0x07, 0x01]);
        cases.add(
            "BLOCK-1",
            "a field nobody knows",
            call_bytes(method, bytes),
            Expectation::message::<CompactBlock>(&block.compact),
        );
    }
}
