//! Batches of blocks.

use std::{collections::HashSet, ops::ControlFlow};

use lightship_chain::{Height, HeightRange, RawBlock};
use lightship_source::{
    BlockSource, Error, Result,
    rpc::{Endpoint, RpcSource},
};
use serde_json::{Value, json};

use crate::script::{Act, Reply, Script};

const LAST: u32 = 999;

/// What stands for the block of a height: told apart by content, and by length.
fn bytes(height: u32) -> Vec<u8> {
    [
        height.to_le_bytes().as_slice(),
        &vec![7; height as usize % 50],
    ]
    .concat()
}

fn height_of(params: &Value) -> u32 {
    params[0]
        .as_str()
        .expect("Zebra wants a string")
        .parse()
        .unwrap()
}

fn answer(question: &Value) -> Reply {
    match height_of(&question["params"]) {
        height if height > LAST => Reply::Error(-8, "block height not in best chain"),
        height => Reply::Result(json!(const_hex::encode(bytes(height)))),
    }
}

fn good() -> Act {
    Act::Answer(Box::new(answer))
}

fn range(first: u32, last: u32) -> HeightRange {
    HeightRange::new(Height::new(first), Height::new(last)).unwrap()
}

/// The heights that were lent, each with the bytes that belong to it.
fn lent(endpoint: Endpoint, range: HeightRange) -> (Vec<u32>, Result<()>) {
    let mut heights = Vec::new();
    let result = RpcSource::new(endpoint).blocks(range, &mut |height, block| {
        let RawBlock::Whole(found) = block else {
            panic!("JSON-RPC lends whole blocks");
        };
        assert_eq!(found, bytes(height.get()));
        heights.push(height.get());
        ControlFlow::Continue(())
    });
    (heights, result)
}

#[test]
fn every_block_is_lent_once_and_in_order() {
    let script = Script::new(|_| good());
    let (heights, result) = lent(script.endpoint(), range(3, 700));
    result.unwrap();
    assert_eq!(heights, Vec::from_iter(3..=700));
    // 16, 64, 256, and the rest: a batch grows fourfold at most.
    assert_eq!(script.asked(), 4);
    assert!(script.methods().iter().all(|method| method == "getblock"));
    let (heights, result) = lent(script.endpoint(), range(5, 5));
    result.unwrap();
    assert_eq!(heights, [5]);
}

#[test]
fn a_visitor_that_breaks_ends_it_well() {
    let script = Script::new(|_| good());
    let mut seen = 0;
    RpcSource::new(script.endpoint())
        .blocks(range(0, 700), &mut |_, _| {
            seen += 1;
            if seen < 20 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .unwrap();
    assert_eq!((seen, script.asked()), (20, 2));
}

#[test]
fn the_end_of_the_chain_is_named_after_the_blocks_below_it() {
    let script = Script::new(|_| good());
    for first in [0, 990, LAST, LAST + 1] {
        let (heights, result) = lent(script.endpoint(), range(first, LAST + 100));
        assert_eq!(heights, Vec::from_iter(first..=LAST));
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::AboveTip { height } if height.get() == LAST + 1),
            "{error}"
        );
    }
}

#[test]
fn a_batch_that_is_too_large_for_the_node_is_halved() {
    for refuse in [
        || Act::Answer(Box::new(|_| panic!("not asked"))),
        || Act::Http(413, "text/plain", "too large".to_owned()),
        || Act::Hang,
        || Act::Close,
    ] {
        let script = Script::new(move |asked| match &asked.body {
            Value::Array(questions) if questions.len() > 5 => match refuse() {
                Act::Answer(_) => {
                    let error =
                        json!({ "code": -32011, "message": "The batch response was too large" });
                    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
                    Act::Http(200, "application/json", body.to_string())
                }
                act => act,
            },
            _ => good(),
        });
        let source = RpcSource::new(script.endpoint());
        let mut next = 0;
        // Where the node was waited for in vain the caller asks again, from the block it misses.
        for _ in 0..3 {
            let result = source.blocks(range(next, 9), &mut |height, _| {
                assert_eq!(height.get(), next);
                next += 1;
                ControlFlow::Continue(())
            });
            match result {
                Ok(()) => break,
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
        assert_eq!(next, 10);
    }
}

#[test]
fn an_answer_past_our_bound_is_asked_for_in_halves() {
    let script = Script::new(|_| good());
    let mut endpoint = script.endpoint();
    endpoint.max_answer_bytes = 600;
    let (heights, result) = lent(endpoint, range(0, 60));
    result.unwrap();
    assert_eq!(heights, Vec::from_iter(0..=60));
    let mut endpoint = script.endpoint();
    endpoint.max_answer_bytes = 60;
    let (_, result) = lent(endpoint, range(49, 60));
    assert!(matches!(result.unwrap_err(), Error::TooLarge { .. }));
}

#[test]
fn answers_in_another_order_are_put_in_order() {
    let script = Script::new(|asked| {
        let Value::Array(questions) = &asked.body else {
            return good();
        };
        let answers: Vec<_> = questions
            .iter()
            .rev()
            .map(|question| {
                let Reply::Result(result) = answer(question) else {
                    unreachable!()
                };
                json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
            })
            .collect();
        Act::Http(200, "application/json", json!(answers).to_string())
    });
    let (heights, result) = lent(script.endpoint(), range(0, 99));
    result.unwrap();
    assert_eq!(heights, Vec::from_iter(0..=99));
}

#[test]
fn a_failure_inside_a_batch_is_a_failure_and_not_the_end_of_the_chain() {
    let script = Script::new(|_| {
        Act::Answer(Box::new(|question| match height_of(&question["params"]) {
            7 => Reply::Error(-1, "internal"),
            _ => answer(question),
        }))
    });
    let (_, result) = lent(script.endpoint(), range(0, 9));
    assert!(matches!(result.unwrap_err(), Error::Rpc { code: -1, .. }));

    for bad in [
        json!("abc"),
        json!("0g"),
        json!(5),
        json!({}),
        json!("ab\u{41}\n"),
    ] {
        let script = Script::new(move |_| {
            let bad = bad.clone();
            Act::Answer(Box::new(move |question| {
                match height_of(&question["params"]) {
                    7 => Reply::Result(bad.clone()),
                    _ => answer(question),
                }
            }))
        });
        let (heights, result) = lent(script.endpoint(), range(0, 9));
        assert_eq!(heights, Vec::from_iter(0..=6));
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::Shape { what, .. } if what.contains("block 7")),
            "{error}"
        );
    }
}

#[test]
fn no_two_questions_share_an_id() {
    let ids = std::sync::Arc::new(std::sync::Mutex::new(HashSet::new()));
    let seen = ids.clone();
    let script = Script::new(move |asked| {
        let mut seen = seen.lock().unwrap();
        let questions = asked.body.as_array().cloned();
        for question in questions.unwrap_or_else(|| vec![asked.body.clone()]) {
            assert!(seen.insert(question["id"].as_u64().unwrap()));
        }
        good()
    });
    let source = RpcSource::new(script.endpoint());
    for _ in 0..3 {
        source
            .blocks(range(0, 40), &mut |_, _| ControlFlow::Continue(()))
            .unwrap();
    }
    assert_eq!(ids.lock().unwrap().len(), 3 * 41);
}
