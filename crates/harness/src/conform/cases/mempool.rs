//! `GetMempoolTx` and `GetMempoolStream`.

use std::time::Duration;

use anyhow::Result;
use prost::Message;
use tonic::Code;

use super::{Cases, INVALID, World};
use crate::{
    conform::{
        case::{Case, Expectation, all, call},
        chain::{
            view::{Pools, filtered},
            waiting,
        },
        wire::Outcome,
    },
    proto::{CompactTx, Empty, GetMempoolTxRequest, RawTransaction},
};

/// Suffixes that one request may hold.
const MOST_SUFFIXES: usize = 20_000;
/// How long a stream is watched; shorter than any block.
const WATCH: Duration = Duration::from_millis(1_500);
/// Headers must not wait for the first transaction.
const HEADERS: Duration = Duration::from_millis(1_000);

pub(super) fn cases(world: &World) -> Result<Vec<Case>> {
    let mut list = Vec::new();
    compact(world, &mut list)?;
    stream(world, &mut list);
    Ok(list)
}

fn ask(suffixes: Vec<Vec<u8>>, pool_types: Vec<i32>) -> GetMempoolTxRequest {
    GetMempoolTxRequest {
        exclude_txid_suffixes: suffixes,
        pool_types,
    }
}

/// These, in any order.
fn these(expected: Vec<CompactTx>) -> Expectation {
    let mut expected: Vec<Vec<u8>> = expected.iter().map(Message::encode_to_vec).collect();
    expected.sort();
    Expectation::that(
        format!("{} transactions, in any order", expected.len()),
        move |outcome| {
            all::<CompactTx>(outcome)?;
            let mut found = outcome.messages.clone();
            found.sort();
            if found == expected {
                return Ok(());
            }
            let unknown = found.iter().filter(|tx| !expected.contains(tx)).count();
            Err(format!(
                "{} transactions instead of {}, {unknown} of them other ones",
                found.len(),
                expected.len()
            ))
        },
    )
}

fn compact(world: &World, list: &mut Vec<Case>) -> Result<()> {
    let method = "GetMempoolTx";
    let mut cases = Cases { method, list };
    let mut present: Vec<CompactTx> = Vec::new();
    for each in &world.mempool {
        let mut tx = waiting(&each.bytes)?;
        tx.txid = each.id.clone();
        present.push(tx);
    }
    let left = |suffixes: &[Vec<u8>], pools: Pools| -> Vec<CompactTx> {
        let excluded = |tx: &CompactTx| {
            suffixes
                .iter()
                .filter(|suffix| !suffix.is_empty())
                .any(|suffix| {
                    let matches = present.iter().filter(|other| other.txid.ends_with(suffix));
                    tx.txid.ends_with(suffix) && matches.count() == 1
                })
        };
        present
            .iter()
            .filter(|tx| !excluded(tx))
            .filter_map(|tx| filtered(tx, pools.meant()))
            .collect()
    };
    for bits in 0..16 {
        let pools = Pools::from_bits(bits);
        cases.add(
            "MEMPOOL-1",
            format!("pools {:?}", pools.numbers()),
            call(method, &ask(Vec::new(), pools.numbers())),
            these(left(&[], pools)),
        );
    }
    let mut random = world.random(method);
    let unknown = random.hash().to_vec();
    let first = present.first().map(|tx| tx.txid.clone());
    let first = first.unwrap_or(unknown.clone());
    let tail = |length: usize| first[32 - length..].to_vec();
    let lists: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("an unknown id", vec![unknown.clone()]),
        ("a whole id", vec![first.clone()]),
        ("a suffix of 16 bytes", vec![tail(16)]),
        ("a suffix of 4 bytes", vec![tail(4)]),
        ("a suffix of 1 byte", vec![tail(1)]),
        ("an empty suffix", vec![Vec::new()]),
        (
            "an empty suffix and a whole id",
            vec![Vec::new(), first.clone()],
        ),
        ("one suffix of another", vec![tail(8), tail(16)]),
        ("the same twice", vec![first.clone(), first.clone()]),
        (
            "all ids",
            present.iter().map(|tx| tx.txid.clone()).collect(),
        ),
        ("the beginning of an id", vec![first[..8].to_vec()]),
        (
            "20000 unknown suffixes",
            vec![unknown[..20].to_vec(); MOST_SUFFIXES],
        ),
    ];
    let everything = Pools::from_bits(15);
    for (name, suffixes) in lists {
        let expected = these(left(&suffixes, everything));
        let request = ask(suffixes, everything.numbers());
        cases.add(
            "MEMPOOL-2",
            format!("without {name}"),
            call(method, &request),
            expected,
        );
    }
    let mut refuse = |rule, name: &str, request: GetMempoolTxRequest| {
        cases.add(
            rule,
            name,
            call(method, &request),
            Expectation::refused(INVALID),
        );
    };
    refuse(
        "MEMPOOL-3",
        "a suffix of 33 bytes",
        ask(vec![vec![1; 33]], Vec::new()),
    );
    refuse(
        "MEMPOOL-3",
        "20001 suffixes",
        ask(vec![vec![1; 20]; MOST_SUFFIXES + 1], Vec::new()),
    );
    for numbers in [vec![0], vec![5], vec![2, 0], vec![2, 5]] {
        refuse(
            "RANGE-6",
            &format!("pools {numbers:?}"),
            ask(Vec::new(), numbers),
        );
    }
    Ok(())
}

/// A refusal comes fast too, and has no transactions, as an empty mempool.
fn accepted(outcome: &Outcome) -> Result<(), String> {
    match &outcome.end {
        None | Some((Code::Ok, _)) => Ok(()),
        Some(end) => Err(format!("{end:?}")),
    }
}

fn stream(world: &World, list: &mut Vec<Case>) {
    let method = "GetMempoolStream";
    let mut cases = Cases { method, list };
    let mut request = call(method, &Empty {});
    request.patience = Some(WATCH);
    cases.add(
        "MEMPOOL-4",
        "headers come at once",
        request.clone(),
        Expectation::that("headers within a second", |outcome| {
            accepted(outcome)?;
            if outcome.headers_after < HEADERS {
                Ok(())
            } else {
                Err(format!("after {:?}", outcome.headers_after))
            }
        }),
    );
    cases.add(
        "MEMPOOL-5",
        "it stays open while the tip stays",
        request.clone(),
        Expectation::that("no end", |outcome| match &outcome.end {
            None => Ok(()),
            Some(end) => Err(format!("{end:?}")),
        }),
    );
    let mut expected: Vec<Vec<u8>> = world
        .mempool
        .iter()
        .map(|waiting| {
            let message = RawTransaction {
                data: waiting.bytes.clone(),
                height: 0,
            };
            message.encode_to_vec()
        })
        .collect();
    expected.sort();
    let text = format!("the {} that wait, at height 0, once each", expected.len());
    cases.add(
        "MEMPOOL-4",
        "what waits comes first",
        request,
        Expectation::that(text, move |outcome| {
            accepted(outcome)?;
            let mut found = outcome.messages.clone();
            found.sort();
            if found == expected {
                Ok(())
            } else {
                Err(format!(
                    "{} messages instead of {}, or others",
                    found.len(),
                    expected.len()
                ))
            }
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_stream_is_no_stream_of_an_empty_mempool() {
        let outcome = |end: Option<Code>| Outcome {
            messages: Vec::new(),
            end: end.map(|code| (code, String::new())),
            headers_after: Duration::ZERO,
        };
        assert!(accepted(&outcome(None)).is_ok() && accepted(&outcome(Some(Code::Ok))).is_ok());
        assert!(accepted(&outcome(Some(Code::Unavailable))).is_err());
    }
}
