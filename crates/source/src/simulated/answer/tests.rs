use lightship_chain::{
    Upgrade,
    build::{Activations, ChainBuilder, Coinbase, Input, Output, Recipe, Version, regtest_genesis},
};
use serde_json::{Value, json};

use crate::simulated::{Address, SimulatedNode};

const MINER: [u8; 20] = [7; 20];

/// Sapling from 2, Orchard from 4, Ironwood from 6, on regtest's genesis, tip at 8.
fn node() -> (SimulatedNode, ChainBuilder) {
    let activations = Activations::new(&[
        (Upgrade::Overwinter, 1),
        (Upgrade::Sapling, 2),
        (Upgrade::Nu5, 4),
        (Upgrade::Nu6_3, 6),
    ]);
    let mut chain = ChainBuilder::on_regtest(3, activations.clone());
    let node = SimulatedNode::from_blocks(activations, [regtest_genesis().bytes]).unwrap();
    for height in 1..=8 {
        let coinbase = Coinbase {
            outputs: vec![Output::to_public_key_hash(50_000, &MINER)],
            sapling_outputs: usize::from(height == 3),
            ironwood_actions: usize::from(height == 7),
            ..Coinbase::default()
        };
        node.mine(&mut chain, coinbase).unwrap();
    }
    (node, chain)
}

fn ask(node: &SimulatedNode, method: &str, params: Value) -> Value {
    node.answer(method, &params).unwrap()
}

fn code(node: &SimulatedNode, method: &str, params: Value) -> i32 {
    node.answer(method, &params).unwrap_err().code
}

#[test]
fn a_block_is_named_by_hash_height_or_distance_from_the_tip() {
    let (node, _) = node();
    let by_height = ask(&node, "getblock", json!(["8", 1]));
    let hash = by_height["hash"].clone();
    assert_eq!(by_height, ask(&node, "getblock", json!([hash, 1])));
    assert_eq!(by_height, ask(&node, "getblock", json!(["-1", 1])));
    assert_eq!(
        by_height,
        ask(&node, "getblock", json!({"hash_or_height": "8"}))
    );
    assert_eq!(by_height["confirmations"], 1);
    assert_eq!(by_height["nTx"], 1);
    assert_eq!(
        by_height["trees"],
        json!({"sapling": {"size": 1}, "ironwood": {"size": 1}})
    );
    assert!(by_height.get("nextblockhash").is_none());
    assert_eq!(
        ask(&node, "getblock", json!(["0", 1]))["previousblockhash"],
        "0".repeat(64)
    );
}

#[test]
fn refusals_have_zebras_codes() {
    let (node, _) = node();
    let unknown = "f".repeat(64);
    for (method, params, expected) in [
        ("getblock", json!(["9", 0]), -8),
        ("getblock", json!(["9", 1]), -8),
        ("getblock", json!([unknown, 0]), -8),
        ("getblock", json!([unknown, 1]), -5),
        ("getblock", json!(["abc"]), -8),
        ("getblock", json!(["0", 4]), -8),
        ("getblock", json!(["0", 256]), -1),
        ("getblock", json!([1]), -1),
        ("getblock", json!([]), -1),
        ("getblockheader", json!([unknown]), -5),
        ("getblockhash", json!([9]), -1),
        ("z_gettreestate", json!(["9"]), -8),
        ("z_gettreestate", json!([unknown]), -8),
        ("z_getsubtreesbyindex", json!(["sprout", 0]), -1),
        ("z_getsubtreesbyindex", json!(["sapling", 65536]), -1),
        ("getrawtransaction", json!([unknown]), -5),
        ("getrawtransaction", json!(["zz"]), -5),
        ("getaddressbalance", json!([{"addresses": ["x"]}]), -5),
        ("getaddressbalance", json!([{}]), -1),
        (
            "getaddressutxos",
            json!([{"addresses": [], "maxEntries": 100_001}]),
            -8,
        ),
        ("sendrawtransaction", json!(["zz"]), -22),
        ("sendrawtransaction", json!(["00"]), -22),
        ("nosuchmethod", json!([]), -32601),
    ] {
        assert_eq!(
            code(&node, method, params.clone()),
            expected,
            "{method} {params}"
        );
    }
}

#[test]
fn a_tree_state_is_absent_then_empty_then_full() {
    let (node, _) = node();
    let state = |height: &str| ask(&node, "z_gettreestate", json!([height]));
    assert_eq!(state("1")["sapling"], json!({"commitments": {}}));
    assert_eq!(state("2")["sapling"]["commitments"]["finalState"], "000000");
    assert_eq!(state("3")["orchard"], json!({"commitments": {}}));
    assert_eq!(state("4")["orchard"]["commitments"]["finalState"], "000000");
    assert!(state("5").get("ironwood").is_none());
    assert_eq!(
        state("6")["ironwood"]["commitments"]["finalState"],
        "000000"
    );
    let full = state("7")["ironwood"]["commitments"]["finalState"].clone();
    assert!(full.as_str().unwrap().len() > 64);
    let header = ask(&node, "getblockheader", json!(["3"]));
    assert_eq!(
        header["finalsaplingroot"],
        state("3")["sapling"]["commitments"]["finalRoot"]
    );
}

#[test]
fn addresses_answer_by_the_rules_for_ranges() {
    let (node, _) = node();
    let address = Address::PublicKeyHash(MINER).encode(lightship_chain::Network::Regtest);
    let ids = |start: u32, end: u32| {
        ask(
            &node,
            "getaddresstxids",
            json!([{"addresses": [address], "start": start, "end": end}]),
        )
        .as_array()
        .unwrap()
        .len()
    };
    assert_eq!(ids(0, 0), 8);
    assert_eq!(ids(3, 5), 3);
    assert_eq!(ids(20, 30), 1);
    assert_eq!(
        code(
            &node,
            "getaddresstxids",
            json!([{"addresses": [address], "start": 5, "end": 4}])
        ),
        -1
    );
    assert_eq!(
        ask(
            &node,
            "getaddressbalance",
            json!([{"addresses": [address, address]}])
        ),
        json!({"balance": 400_000, "received": 400_000})
    );
    let utxos = ask(
        &node,
        "getaddressutxos",
        json!([{"addresses": [address], "startHeight": 7, "chainInfo": true}]),
    );
    assert_eq!(utxos["height"], 8);
    assert_eq!(utxos["utxos"].as_array().unwrap().len(), 2);
    assert_eq!(utxos["utxos"][0]["height"], 7);
}

#[test]
fn a_transaction_is_seen_waiting_then_mined_then_aside() {
    let (node, mut chain) = node();
    let paid: lightship_chain::TxId = ask(&node, "getblock", json!(["5", 1]))["tx"][0]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let spend = chain
        .transaction(Recipe::new(Version::V5).with_input(Input::spend(paid, 0)))
        .unwrap();
    let id = spend.id.to_string();
    let hex = const_hex::encode(&spend.bytes);
    assert_eq!(ask(&node, "sendrawtransaction", json!([hex])), json!(id));
    assert_eq!(code(&node, "sendrawtransaction", json!([hex])), -25);
    assert_eq!(ask(&node, "getrawmempool", json!([])), json!([id]));
    assert_eq!(ask(&node, "getrawtransaction", json!([id, 0])), json!(hex));
    let seen = ask(&node, "getrawtransaction", json!([id, 1]));
    assert_eq!(seen["in_active_chain"], false);
    assert!(seen.get("height").is_none() && seen.get("blockhash").is_none());
    assert_eq!(
        ask(&node, "gettxout", json!([paid.to_string(), 0])),
        Value::Null
    );

    node.mine(&mut chain, Coinbase::default()).unwrap();
    let seen = ask(&node, "getrawtransaction", json!([id, 1]));
    assert_eq!(
        (&seen["height"], &seen["confirmations"]),
        (&json!(9), &json!(1))
    );
    assert_eq!(seen["vin"][0]["txid"], paid.to_string());
    assert_eq!(ask(&node, "getrawmempool", json!([])), json!([]));

    node.rollback(1);
    let seen = ask(&node, "getrawtransaction", json!([id, 1]));
    assert_eq!(
        (&seen["height"], &seen["confirmations"]),
        (&json!(-1), &json!(0))
    );
    assert_eq!(
        ask(&node, "getchaintips", json!([]))[0]["status"],
        "valid-fork"
    );
}

#[test]
fn the_node_tells_its_upgrades_and_its_tip() {
    let (node, _) = node();
    let info = ask(&node, "getblockchaininfo", Value::Null);
    assert_eq!(info["blocks"], 8);
    assert_eq!(info["chain"], "test");
    assert_eq!(info["upgrades"]["37a5165b"]["status"], "active");
    assert_eq!(info["consensus"]["chaintip"], "37a5165b");
    assert_eq!(info["valuePools"][0]["chainValueZat"], 400_000);
    let tip = ask(&node, "getbestblockheightandhash", json!([]));
    let hash: Vec<u8> = serde_json::from_value(tip["hash"].clone()).unwrap();
    assert_eq!(hash, node.best().unwrap().hash.as_internal());
    assert!(
        ask(&node, "getinfo", json!([]))["subversion"]
            .as_str()
            .unwrap()
            .contains("Zebra")
    );
}
