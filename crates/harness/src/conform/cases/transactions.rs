//! `GetTransaction` and `SendTransaction`.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::json;
use tonic::Code;

use super::{Cases, INVALID, TOO_LARGE, UNKNOWN, World, at, reversed};
use crate::{
    conform::case::{Case, Expectation, call, ended, only},
    json_rpc::Refused,
    proto::{RawTransaction, SendResponse, TxFilter},
};

/// No transaction is larger, for no block is.
const MOST_BYTES: usize = 2_000_000;

pub(super) fn cases(world: &World) -> Result<Vec<Case>> {
    let mut list = Vec::new();
    mined(world, &mut list);
    waiting(world, &mut list);
    refused(world, &mut list);
    sending(world, &mut list)?;
    Ok(list)
}

fn filter(hash: Vec<u8>) -> TxFilter {
    TxFilter {
        block: None,
        index: 0,
        hash,
    }
}

fn mined(world: &World, list: &mut Vec<Case>) {
    let method = "GetTransaction";
    let mut cases = Cases { method, list };
    let answer = |height: u32, index: usize| {
        world.chain.at(height).map(|block| RawTransaction {
            data: block.raw[index].clone(),
            height: height.into(),
        })
    };
    // The first and the last of each combination of version and parts.
    let mut kinds: BTreeMap<_, [(u32, usize); 2]> = BTreeMap::new();
    for (block, index, tx) in world.chain.transactions() {
        let kind = (
            block.versions[index],
            index == 0,
            !tx.spends.is_empty() || !tx.outputs.is_empty(),
            !tx.actions.is_empty(),
            !tx.ironwood_actions.is_empty(),
        );
        let here = (block.height, index);
        kinds.entry(kind).or_insert([here, here])[1] = here;
    }
    for ((version, coinbase, sapling, orchard, ironwood), places) in kinds {
        let mut parts = vec!["v".to_owned() + &version.to_string()];
        for (has, part) in [
            (coinbase, "coinbase"),
            (sapling, "Sapling"),
            (orchard, "Orchard"),
            (ironwood, "Ironwood"),
        ] {
            parts.extend(has.then(|| part.to_owned()));
        }
        for ((height, index), which) in places.into_iter().zip(["first", "last"]) {
            let Some((block, answer)) = world.chain.at(height).zip(answer(height, index)) else {
                continue;
            };
            let id = block.compact.vtx[index].txid.clone();
            cases.add(
                "TX-1",
                format!("{which} of {}, {height}/{index}", parts.join(" ")),
                call(method, &filter(id)),
                Expectation::message(&answer),
            );
        }
    }
    let top = world.chain.top();
    cases.add(
        "TX-1",
        "the tip's coinbase",
        call(method, &filter(top.compact.vtx[0].txid.clone())),
        Expectation::message(&RawTransaction {
            data: top.raw[0].clone(),
            height: top.height.into(),
        }),
    );
    let places: Vec<(u32, usize)> = world
        .chain
        .transactions()
        .map(|(block, index, _)| (block.height, index))
        .collect();
    let mut random = world.random(method);
    for _ in 0..10 {
        let (height, index) = places[random.below(places.len() as u64) as usize];
        let Some((block, answer)) = world.chain.at(height).zip(answer(height, index)) else {
            continue;
        };
        let mut request = filter(block.compact.vtx[index].txid.clone());
        let name = format!("by chance, {height}/{index}");
        cases.add(
            "TX-1",
            name,
            call(method, &request),
            Expectation::message(&answer),
        );
        // The hash says which, whatever else is said.
        request.block = Some(at(u64::from(height) + 1));
        request.index = 7;
        let name = format!("by chance, {height}/{index}, beside another block and index");
        cases.add(
            "TX-2",
            name,
            call(method, &request),
            Expectation::message(&answer),
        );
    }
}

fn waiting(world: &World, list: &mut Vec<Case>) {
    let method = "GetTransaction";
    let mut cases = Cases { method, list };
    for (nth, waiting) in world.mempool.iter().take(3).enumerate() {
        cases.add(
            "TX-3",
            format!("waiting in the mempool, number {nth}"),
            call(method, &filter(waiting.id.clone())),
            Expectation::message(&RawTransaction {
                data: waiting.bytes.clone(),
                height: 0,
            }),
        );
    }
}

fn refused(world: &World, list: &mut Vec<Case>) {
    let method = "GetTransaction";
    let mut cases = Cases { method, list };
    let mut random = world.random("unknown transaction");
    let some = world
        .chain
        .at(1)
        .map(|block| block.compact.vtx[0].txid.clone())
        .unwrap_or_default();
    for (hash, name) in [
        (random.hash().to_vec(), "an unknown id"),
        (vec![0; 32], "an id of zeros"),
        (vec![0xff; 32], "an id of ones"),
        (reversed(&some), "a known id in display order"),
    ] {
        let request = call(method, &filter(hash));
        cases.add("TX-4", name, request.clone(), Expectation::refused(UNKNOWN));
        cases.add(
            "TX-5",
            format!("{name}, in words"),
            request,
            Expectation::that(
                "the message holds 'Transaction not found'",
                |outcome| match &outcome.end {
                    Some((_, message)) if message.contains("Transaction not found") => Ok(()),
                    other => Err(format!("{other:?}")),
                },
            ),
        );
    }
    let mut refuse = |name: String, request: &TxFilter| {
        cases.add(
            "TX-6",
            name,
            call(method, request),
            Expectation::refused(INVALID),
        );
    };
    refuse("nothing set".into(), &TxFilter::default());
    for length in [1, 31, 33, 64] {
        refuse(format!("an id of {length} bytes"), &filter(vec![7; length]));
    }
    for index in [0, 1] {
        let request = TxFilter {
            block: Some(at(1)),
            index,
            hash: Vec::new(),
        };
        refuse(format!("only a block and index {index}"), &request);
    }
}

fn sending(world: &World, list: &mut Vec<Case>) -> Result<()> {
    let method = "SendTransaction";
    let mut cases = Cases { method, list };
    let send = |data: Vec<u8>| call(method, &RawTransaction { data, height: 0 });
    cases.add(
        "SEND-1",
        "nothing",
        send(Vec::new()),
        Expectation::refused(INVALID),
    );
    let largest = (4 << 20) - 64;
    for length in [MOST_BYTES + 1, 3_000_000, largest] {
        let name = format!("{length} bytes");
        cases.add(
            "SEND-2",
            name,
            send(vec![0; length]),
            Expectation::refused(INVALID),
        );
    }
    cases.add(
        "LIMIT-1",
        "a request above 4 MiB",
        send(vec![0; (4 << 20) + 1]),
        Expectation::refused(TOO_LARGE),
    );
    let known = world.chain.at(1).map(|block| block.raw[0].clone());
    let known = known.unwrap_or_default();
    let mut garbage = vec![
        ("one byte", vec![0]),
        ("a hundred zeros", vec![0; 100]),
        (
            "hex text instead of bytes",
            const_hex::encode(&known).into_bytes(),
        ),
        ("a transaction and a byte more", [&known[..], &[0]].concat()),
        (
            "a transaction less a byte",
            known[..known.len().saturating_sub(1)].to_vec(),
        ),
        (
            "an unknown version",
            [&[9, 0, 0, 0x80][..], &[0; 60]].concat(),
        ),
        ("2000000 bytes", vec![0; MOST_BYTES]),
    ];
    let mut random = world.random(method);
    let noise: Vec<u8> = (0..20).flat_map(|_| random.hash()).collect();
    garbage.push(("noise", noise));
    for (name, bytes) in garbage {
        let verdict = world
            .node
            .ask("sendrawtransaction", json!([const_hex::encode(&bytes)]))?;
        let Err(refused) = verdict else {
            continue;
        };
        let garbled = refused.code == -22;
        cases.add("SEND-3", name, send(bytes.clone()), verdict_of(refused));
        // zebrad reads a transaction and ignores what follows it.
        if !garbled {
            continue;
        }
        let expectation = Expectation::that("errorCode -22", |outcome| {
            match only::<SendResponse>(outcome)? {
                answer if answer.error_code == -22 => Ok(()),
                answer => Err(format!("{answer:?}")),
            }
        });
        cases.add(
            "SEND-4",
            format!("{name}, by its code"),
            send(bytes),
            expectation,
        );
    }
    let top = world.chain.settled;
    let resent = [1, top / 2, top]
        .into_iter()
        .filter_map(|height| world.chain.at(height))
        .filter_map(|block| block.raw.last());
    for (nth, bytes) in resent.enumerate() {
        cases.add(
            "SEND-5",
            format!("one that is mined, number {nth}"),
            send(bytes.clone()),
            recognised(),
        );
    }
    for (nth, waiting) in world.mempool.iter().take(2).enumerate() {
        cases.add(
            "SEND-5",
            format!("one that waits, number {nth}"),
            send(waiting.bytes.clone()),
            recognised(),
        );
    }
    Ok(())
}

/// The node's own code and words, in a message.
fn verdict_of(refused: Refused) -> Expectation {
    let text = format!("OK: {} {:?}", refused.code, refused.message);
    Expectation::that(text, move |outcome| {
        let answer: SendResponse = only(outcome)?;
        let same =
            i64::from(answer.error_code) == refused.code && answer.error_message == refused.message;
        if same {
            Ok(())
        } else {
            Err(format!("{answer:?}"))
        }
    })
}

fn recognised() -> Expectation {
    Expectation::that("OK, with a code other than 0 and words", |outcome| {
        ended(outcome, &[Code::Ok])?;
        let answer: SendResponse = only(outcome)?;
        if answer.error_code != 0 && !answer.error_message.is_empty() {
            Ok(())
        } else {
            Err(format!("{answer:?}"))
        }
    })
}
