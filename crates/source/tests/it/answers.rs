//! What is read from the answers of each kind of node, and what is refused.

use bytes::Bytes;
use lightship_chain::{
    BlockHash, Height, HeightRange, ShieldedPool, TreeSizes, TxId, Upgrade,
    build::{Activations, ChainBuilder, Coinbase},
};
use lightship_source::{
    BlockSource, Error, Node, Place, Submitted, TreeState,
    rpc::{RpcNode, RpcSource},
};
use serde_json::{Value, json};

use crate::{
    faults::on_runtime,
    script::{Act, Reply, Script},
};

const GENESIS: &str = "029f11d80ef9765602235e1bc9727e3eb6ba20839319f761fee920d63401e327";

/// A hash with this last byte, as text.
fn hex(n: u8) -> String {
    format!("{n:064x}")
}

fn hash(n: u8) -> BlockHash {
    hex(n).parse().unwrap()
}

fn txid(n: u8) -> TxId {
    hex(n).parse().unwrap()
}

/// A node that gives one answer to one method and knows no other.
fn node(method: &'static str, reply: Value) -> (Script, RpcNode) {
    let script = Script::new(move |_| {
        let reply = reply.clone();
        Act::Answer(Box::new(move |question| {
            if question["method"] == method {
                Reply::Result(reply.clone())
            } else {
                Reply::Error(-32601, "Method not found")
            }
        }))
    });
    let node = RpcNode::new(script.endpoint());
    (script, node)
}

fn refusing(code: i64, message: &'static str) -> (Script, RpcNode) {
    let script = Script::new(move |_| Act::Answer(Box::new(move |_| Reply::Error(code, message))));
    let node = RpcNode::new(script.endpoint());
    (script, node)
}

#[test]
fn zebras_tip_is_thirty_two_numbers_in_internal_order() {
    let script = Script::answering(|_, _| {
        Reply::Result(json!({ "height": 30, "hash": Vec::from_iter(0..32) }))
    });
    let tip = RpcSource::new(script.endpoint()).tip().unwrap().unwrap();
    assert_eq!(tip.height, Height::new(30));
    assert_eq!(tip.hash.as_internal()[..3], [0, 1, 2]);
}

#[test]
fn zcashds_tip_takes_two_steps_of_one_block() {
    let script = Script::answering(|method, params| match method {
        "getbestblockhash" => Reply::Result(json!(GENESIS)),
        "getblockheader" => {
            assert_eq!(params, &json!([GENESIS, true]));
            Reply::Result(json!({ "height": 5, "confirmations": 1 }))
        }
        _ => Reply::Error(-32601, "Method not found"),
    });
    let tip = RpcSource::new(script.endpoint()).tip().unwrap().unwrap();
    assert_eq!(
        (tip.height, tip.hash.to_string()),
        (Height::new(5), GENESIS.to_owned())
    );
}

#[test]
fn a_node_without_a_block_has_no_tip_and_is_warming() {
    let script = Script::answering(|method, _| match method {
        "getbestblockheightandhash" => Reply::Error(-1, "No blocks in state"),
        _ => Reply::Error(-1, "Provided index is greater than the current tip"),
    });
    let source = RpcSource::new(script.endpoint());
    assert_eq!(source.tip().unwrap(), None);
    assert_eq!(source.hash_at(Height::GENESIS).unwrap(), None);
    assert!(matches!(
        source.genesis().unwrap_err(),
        Error::Warming { .. }
    ));
}

/// Zebra answers -1 above the tip, and -1 whenever something breaks inside.
#[test]
fn a_miscellaneous_error_is_above_the_tip_only_if_the_tip_says_so() {
    let script = Script::answering(|method, _| match method {
        "getblockhash" => Reply::Error(-1, "whatever"),
        _ => Reply::Result(json!({ "height": 30, "hash": GENESIS })),
    });
    let source = RpcSource::new(script.endpoint());
    assert_eq!(source.hash_at(Height::new(31)).unwrap(), None);
    let error = source.hash_at(Height::new(30)).unwrap_err();
    assert!(matches!(error, Error::Rpc { code: -1, .. }));
}

#[test]
fn only_the_codes_that_mean_it_are_a_missing_block_or_transaction() {
    for (code, none) in [
        (-5, true),
        (-8, true),
        (-1, false),
        (-32603, false),
        (-20, false),
    ] {
        let (_script, node) = refusing(code, "no");
        on_runtime(async {
            assert_eq!(
                node.block(hash(1)).await.is_ok_and(|block| block.is_none()),
                none
            );
            assert_eq!(
                node.tree_sizes(hash(1))
                    .await
                    .is_ok_and(|sizes| sizes.is_none()),
                none
            );
            assert_eq!(
                node.tree_state(hash(1))
                    .await
                    .is_ok_and(|trees| trees.is_none()),
                none
            );
            let transaction = node.transaction(txid(1)).await;
            assert_eq!(transaction.is_ok_and(|found| found.is_none()), code == -5);
            // A list is empty only if the node sent an empty one.
            let all = HeightRange::new(Height::GENESIS, Height::MAX).unwrap();
            assert!(node.mempool().await.is_err());
            assert!(node.address_balance(vec!["t".to_owned()]).await.is_err());
            assert!(
                node.address_utxos(vec!["t".to_owned()], None, None)
                    .await
                    .is_err()
            );
            assert!(
                node.address_transactions("t".to_owned(), all)
                    .await
                    .is_err()
            );
            assert!(
                node.subtree_roots(ShieldedPool::Sapling, 0, None)
                    .await
                    .is_err()
            );
            assert!(node.info().await.is_err());
        });
    }
}

#[test]
fn a_block_of_another_name_is_not_taken() {
    let mut chain = ChainBuilder::new(3, Activations::all_at(Upgrade::Nu5, 1));
    let block = chain.next_block(Coinbase::default(), &[]).unwrap();
    let (_script, node) = node("getblock", json!(const_hex::encode(&block.bytes)));
    on_runtime(async {
        let found = node.block(block.id.hash).await.unwrap().unwrap();
        assert_eq!(found, block.bytes);
        let error = node.block(hash(1)).await.unwrap_err();
        assert!(
            matches!(&error, Error::Shape { what, .. } if what.contains("instead of")),
            "{error}"
        );
    });
}

/// zcashd without txindex finds nothing that is mined, and says how to change that.
#[test]
fn a_node_without_its_transaction_index_is_not_believed() {
    let message =
        "No such mempool transaction. Use -txindex to enable blockchain transaction queries";
    let (_script, node) = refusing(-5, message);
    let error = on_runtime(node.transaction(txid(1))).unwrap_err();
    assert!(
        matches!(&error, Error::Unsupported { what } if what.contains("txindex=1")),
        "{error}"
    );
}

#[test]
fn a_transaction_has_a_place() {
    let mined = Place::Mined(Height::new(7));
    for (reply, place) in [
        (
            json!({ "hex": "abcd", "height": 7, "confirmations": 1001, "in_active_chain": true }),
            mined,
        ),
        (
            json!({ "hex": "abcd", "height": 7, "confirmations": 1001, "blockhash": hex(1) }),
            mined,
        ),
        (
            json!({ "hex": "abcd", "height": -1, "in_active_chain": false }),
            Place::SideChain,
        ),
        (
            json!({ "hex": "abcd", "in_active_chain": false }),
            Place::Mempool,
        ),
        (
            json!({ "hex": "abcd", "blockhash": hex(1) }),
            Place::SideChain,
        ),
    ] {
        let (_script, node) = node("getrawtransaction", reply);
        let found = on_runtime(node.transaction(txid(1))).unwrap().unwrap();
        assert_eq!(found.place, place);
        assert_eq!(found.bytes, Bytes::from_static(&[0xab, 0xcd]));
    }
    for wrong in [
        json!("abcd"),
        json!({ "hex": "abc" }),
        json!({}),
        json!({ "hex": "ab", "height": 1u64 << 40 }),
    ] {
        let (_script, node) = node("getrawtransaction", wrong);
        assert!(matches!(
            on_runtime(node.transaction(txid(1))),
            Err(Error::Shape { .. })
        ));
    }
}

/// zebrad 7.0.0 says of a transaction that only a side chain holds that it is in the active chain, at the height it has on the side chain
/// and in the best chain's block at that height. A wallet would show a payment as confirmed that is not.
#[test]
fn a_young_transaction_is_mined_only_if_its_block_holds_it() {
    let young = json!({
        "hex": "abcd", "height": 7, "confirmations": 2, "in_active_chain": true, "blockhash": hex(7),
    });
    let silent = json!({ "hex": "abcd", "height": 7 });
    for reply in [young, silent] {
        for (held, place) in [(1, Place::Mined(Height::new(7))), (2, Place::SideChain)] {
            let reply = reply.clone();
            let script = Script::new(move |_| {
                let reply = reply.clone();
                Act::Answer(Box::new(move |question| {
                    Reply::Result(match question["method"].as_str().unwrap() {
                        "getrawtransaction" => reply.clone(),
                        "getblockhash" => json!(hex(7)),
                        _ => {
                            assert_eq!(question["params"], json!([hex(7), 1]));
                            json!({ "tx": [hex(9), hex(held)] })
                        }
                    })
                }))
            });
            let node = RpcNode::new(script.endpoint());
            let found = on_runtime(node.transaction(txid(1))).unwrap().unwrap();
            assert_eq!(found.place, place);
        }
    }
}

/// The block that held it is replaced between the two questions; then it is found waiting again.
#[test]
fn a_transaction_whose_block_is_replaced_meanwhile_is_looked_for_again() {
    let script = Script::new(|asked| {
        let number = asked.number;
        Act::Answer(Box::new(move |_| match number {
            0 => Reply::Result(json!({ "hex": "abcd", "height": 7, "blockhash": hex(7) })),
            1 => Reply::Error(-5, "block height not in best chain"),
            _ => Reply::Result(json!({ "hex": "abcd", "in_active_chain": false })),
        }))
    });
    let found = on_runtime(RpcNode::new(script.endpoint()).transaction(txid(1)));
    assert_eq!(found.unwrap().unwrap().place, Place::Mempool);
}

#[test]
fn a_refused_transaction_keeps_the_nodes_code_and_words() {
    for code in [-22, -25, -26, -27] {
        let (_script, node) = refusing(code.into(), "16: bad-txns-in-belowout");
        let submitted = on_runtime(node.submit(Bytes::from_static(b"x"))).unwrap();
        let message = "16: bad-txns-in-belowout".to_owned();
        assert_eq!(submitted, Submitted::Rejected { code, message });
    }
    for code in [-1, -10, -32601, -32603] {
        let (_script, node) = refusing(code, "not about the transaction");
        assert!(on_runtime(node.submit(Bytes::from_static(b"x"))).is_err());
    }
    let (_script, node) = node("sendrawtransaction", json!(hex(9)));
    let submitted = on_runtime(node.submit(Bytes::from_static(b"x"))).unwrap();
    assert_eq!(submitted, Submitted::Accepted(txid(9)));
}

#[test]
fn a_pool_without_notes_is_left_out_and_trees_left_out_are_no_zeros() {
    let trees = json!({ "trees": { "sapling": { "size": 3 }, "ironwood": { "size": 1 } } });
    let (_script, full) = node("getblock", trees);
    let sizes = TreeSizes {
        sapling: 3,
        orchard: 0,
        ironwood: 1,
    };
    assert_eq!(on_runtime(full.tree_sizes(hash(1))).unwrap(), Some(sizes));
    let (_script, empty) = node("getblock", json!({ "trees": {} }));
    assert_eq!(
        on_runtime(empty.tree_sizes(hash(1))).unwrap(),
        Some(TreeSizes::ZERO)
    );
    let (_script, silent) = node("getblock", json!({ "hash": hex(1) }));
    let error = on_runtime(silent.tree_sizes(hash(1))).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }));
}

fn state(text: &str) -> Value {
    json!({ "commitments": { "finalRoot": hex(255), "finalState": text } })
}

fn earlier(n: u8) -> Value {
    json!({ "commitments": { "finalRoot": hex(255) }, "skipHash": hex(n) })
}

fn trees(n: u8, sapling: Value, orchard: Value) -> Value {
    json!({ "hash": hex(n), "height": n, "time": 99, "sapling": sapling, "orchard": orchard })
}

/// Each pool's tree is that of its own pointer: the other pool's points elsewhere.
#[test]
fn zcashds_pointers_are_followed_pool_by_pool() {
    let script = Script::answering(|method, params| {
        assert_eq!(method, "z_gettreestate");
        Reply::Result(match params[0].as_str().unwrap() {
            block if block == hex(9) => trees(9, earlier(5), earlier(7)),
            block if block == hex(7) => trees(7, state("aa"), state("bb")),
            block if block == hex(5) => trees(5, earlier(3), state("cc")),
            block if block == hex(3) => trees(3, state("dd"), earlier(2)),
            block => {
                return Reply::Object(
                    json!({ "id": 0, "error": { "code": -1, "message": block } }),
                );
            }
        })
    });
    let found = on_runtime(RpcNode::new(script.endpoint()).tree_state(hash(9)))
        .unwrap()
        .unwrap();
    assert_eq!(
        (found.id.height, found.id.hash, found.time),
        (Height::new(9), hash(9), 99)
    );
    assert_eq!(found.sapling.as_deref(), Some("dd"));
    assert_eq!(found.orchard.as_deref(), Some("bb"));
    assert_eq!(found.ironwood, None);
}

#[test]
fn a_tree_that_is_missing_is_not_an_empty_tree() {
    let inactive = json!({ "commitments": {} });
    let zeros = json!({ "commitments": { "finalRoot": hex(0) } });
    for nothing in [inactive.clone(), zeros] {
        let (_script, node) = node("z_gettreestate", trees(1, state("000000"), nothing));
        let TreeState {
            sapling, orchard, ..
        } = on_runtime(node.tree_state(hash(1))).unwrap().unwrap();
        assert_eq!((sapling.as_deref(), orchard), (Some("000000"), None));
    }
    let rootless = json!({ "commitments": { "finalRoot": hex(255) } });
    for wrong in [
        trees(1, rootless.clone(), inactive.clone()),
        trees(1, inactive.clone(), rootless),
        trees(1, state(""), inactive.clone()),
        trees(1, state("xyz"), inactive.clone()),
        // A pointer to itself.
        trees(1, earlier(1), inactive.clone()),
        // The trees of another block.
        trees(2, state("00"), inactive.clone()),
        json!({ "height": 1, "time": 1 }),
    ] {
        let (_script, node) = node("z_gettreestate", wrong.clone());
        let error = on_runtime(node.tree_state(hash(1))).unwrap_err();
        assert!(matches!(error, Error::Shape { .. }), "{wrong}: {error:?}");
    }
}

#[test]
fn subtree_roots_are_read_in_natural_order() {
    let reply = json!({ "pool": "orchard", "start_index": 2, "subtrees": [
        { "root": format!("01{}", "00".repeat(31)), "end_height": 10 },
        { "root": hex(2), "end_height": 20 },
    ] });
    let (script, node) = node("z_getsubtreesbyindex", reply);
    on_runtime(async {
        let roots = node
            .subtree_roots(ShieldedPool::Orchard, 2, None)
            .await
            .unwrap();
        assert_eq!(
            (roots.len(), roots[0].root[0], roots[1].end_height),
            (2, 1, Height::new(20))
        );
        let one = node
            .subtree_roots(ShieldedPool::Orchard, 2, Some(1))
            .await
            .unwrap();
        assert_eq!(one, roots[..1]);
        // Another pool's, or from elsewhere.
        assert!(
            node.subtree_roots(ShieldedPool::Sapling, 2, None)
                .await
                .is_err()
        );
        assert!(
            node.subtree_roots(ShieldedPool::Orchard, 0, None)
                .await
                .is_err()
        );
        let asked = script.asked();
        let none = node
            .subtree_roots(ShieldedPool::Orchard, 65_536, None)
            .await
            .unwrap();
        assert_eq!((none.len(), script.asked()), (0, asked));
    });
}

/// Zebra moves a range that lies above the tip down to the tip; zcashd refuses one that ends there, and takes a 0 for the whole chain.
#[test]
fn a_history_is_asked_for_within_the_chain() {
    let script = Script::answering(|method, params| match method {
        "getbestblockheightandhash" => Reply::Result(json!({ "height": 30, "hash": GENESIS })),
        _ => match (
            params[0]["start"].as_u64().unwrap(),
            params[0]["end"].as_u64().unwrap(),
        ) {
            (1, 30) => Reply::Result(json!([hex(1), hex(2), hex(3), hex(1)])),
            (30, 30) => Reply::Result(json!([hex(3)])),
            _ => Reply::Error(-5, "Start or end is outside chain range"),
        },
    });
    let node = RpcNode::new(script.endpoint());
    let history = |first, last| {
        let range = HeightRange::new(Height::new(first), Height::new(last)).unwrap();
        on_runtime(node.address_transactions("t".to_owned(), range)).unwrap()
    };
    assert_eq!(history(0, 30), [txid(1), txid(2), txid(3)]);
    assert_eq!(history(1, 1 << 30), [txid(1), txid(2), txid(3)]);
    assert_eq!(history(30, 40), [txid(3)]);
    assert_eq!(history(31, 40), []);
    assert_eq!(history(0, 0), []);
}

/// The tip may fall while the question is asked.
#[test]
fn a_history_is_not_of_a_chain_that_ended_meanwhile() {
    let script = Script::new(|asked| {
        let height = if asked.number == 0 { 31 } else { 30 };
        Act::Answer(Box::new(move |question| {
            Reply::Result(match question["method"].as_str().unwrap() {
                "getbestblockheightandhash" => json!({ "height": height, "hash": GENESIS }),
                _ => json!([hex(1)]),
            })
        }))
    });
    let node = RpcNode::new(script.endpoint());
    let range = HeightRange::new(Height::new(31), Height::new(40)).unwrap();
    assert_eq!(
        on_runtime(node.address_transactions("t".to_owned(), range)).unwrap(),
        []
    );
}

#[test]
fn utxos_are_bounded_and_ordered_even_if_the_node_does_neither() {
    let utxo = |height: u32, n: u8| json!({ "address": "t", "txid": hex(n), "outputIndex": 1, "script": "76a9", "satoshis": 5, "height": height });
    let (_script, node) = node(
        "getaddressutxos",
        json!([utxo(9, 1), utxo(3, 2), utxo(5, 3), utxo(5, 4)]),
    );
    let address = || vec!["t".to_owned(), "t".to_owned()];
    on_runtime(async {
        let some = node
            .address_utxos(address(), Some(Height::new(4)), Some(2))
            .await
            .unwrap();
        let places: Vec<_> = some
            .iter()
            .map(|utxo| (utxo.height.get(), utxo.txid))
            .collect();
        assert_eq!(places, [(5, txid(3)), (5, txid(4))]);
        assert_eq!(some[0].script, Bytes::from_static(&[0x76, 0xa9]));
        assert_eq!(
            node.address_utxos(address(), None, Some(0))
                .await
                .unwrap()
                .len(),
            4
        );
    });
}

#[test]
fn an_address_given_twice_is_asked_for_once() {
    let script = Script::answering(|_, params| {
        assert_eq!(params[0]["addresses"], json!(["a", "b"]));
        Reply::Result(json!({ "balance": 12, "received": 30 }))
    });
    let node = RpcNode::new(script.endpoint());
    let addresses = ["b", "a", "b"].map(str::to_owned).to_vec();
    assert_eq!(on_runtime(node.address_balance(addresses)).unwrap(), 12);
}

#[test]
fn an_upgrade_this_program_does_not_know_is_passed_on() {
    let script = Script::answering(|method, _| {
        Reply::Result(match method {
            "getinfo" => json!({ "build": "v9", "subversion": "/Zebra:9.0.0/" }),
            "getblockhash" => json!(GENESIS),
            _ => json!({
                "chain": "test", "blocks": 30, "bestblockhash": hex(1), "estimatedheight": u64::MAX,
                "upgrades": {
                    "deadbeef": { "name": "NU99", "activationheight": 1, "status": "pending" },
                    "c2d6d0b4": { "name": "NU5", "activationheight": 1, "status": "active" },
                    "76b809bb": { "name": "Sapling", "activationheight": 1, "status": "active" },
                    "5ba81b19": { "name": "Overwinter", "activationheight": 1, "status": "active" },
                    "00000001": { "name": "someday" },
                    "nonsense": 5,
                },
                "consensus": { "chaintip": "c2d6d0b4", "nextblock": "deadbeef" },
            }),
        })
    });
    let info = on_runtime(RpcNode::new(script.endpoint()).info()).unwrap();
    let names: Vec<_> = info.upgrades.iter().map(|upgrade| &*upgrade.name).collect();
    assert_eq!(names, ["Overwinter", "Sapling", "NU5", "NU99"]);
    assert_eq!(info.chain_tip_branch, 0xc2d6_d0b4);
    assert_eq!(info.estimated_height, Height::new(30));
    assert_eq!(
        (info.tip.hash, info.genesis),
        (hash(1), Some(GENESIS.parse().unwrap()))
    );
}
