//! What the node pushes is served without waiting for a clock: the server looks by itself once a minute here, and nobody asks it.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use lightship_chain::{
    Upgrade,
    build::{Activations, ChainBuilder, Input, Output, Recipe, Version},
};
use lightship_harness::{
    lightship::{Lightship, Options},
    proto::{Empty, RawTransaction},
    recorded,
    zebrad::Zebrad,
};
use prost::Message as _;
use serde_json::json;

use super::{
    alone,
    equal::{assert_equal, client, indexes},
    node_is_at_hand,
};

/// Far below [`CLOCK`], and enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Milliseconds between two looks that nobody asks for.
const CLOCK: u64 = 60_000;
/// The hash of the script of one byte that lets anyone spend: `OP_TRUE`.
const ANYONE: [u8; 20] = [
    0xda, 0x17, 0x45, 0xe9, 0xb5, 0x49, 0xbd, 0x0b, 0xfa, 0x1a, 0x56, 0x99, 0x71, 0xc7, 0x7e, 0xba,
    0x30, 0xcd, 0x5a, 0x4b,
];
/// What unlocks it: the script itself, pushed.
const UNLOCK: [u8; 2] = [0x01, 0x51];

fn options(node: &Zebrad) -> Options {
    Options {
        zebra_indexer: Some(node.indexer_url()),
        poll: Some(CLOCK),
        ..Options::beside(node)
    }
}

/// Waits until both streams are `up`, or both are not.
fn streams_are(server: &mut Lightship, up: bool) {
    let wanted =
        ["tips", "mempool"].map(|of| format!("lightship_push_up{{of=\"{of}\"}} {}", u8::from(up)));
    server.wait_for_metrics(&wanted, PATIENCE).unwrap();
}

/// A block or a reorg of `node` reaches the index, with nobody asking for the tip, sooner than the clock would bring it.
fn follows(server: &mut Lightship, node: &Zebrad, change: impl FnOnce(&Zebrad)) {
    change(node);
    let began = Instant::now();
    indexes(server, node.tip().unwrap());
    let took = began.elapsed();
    assert!(took < Duration::from_millis(CLOCK / 3), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_block_and_a_reorg_come_by_push() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let mut server = Lightship::start(options(&node)).unwrap();
    assert_equal(&mut server, &node).await;
    streams_are(&mut server, true);
    for _ in 0..3 {
        follows(&mut server, &node, |node| node.generate(1).unwrap());
    }
    let fork = node.hash_at(recorded::TIP + 2).unwrap();
    // Two blocks are replaced by three.
    follows(&mut server, &node, |node| {
        node.invalidate(fork).unwrap();
        node.generate(3).unwrap();
    });
    assert_equal(&mut server, &node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_the_node_pushes_again() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let mut node = recorded::node().unwrap();
    let mut server = Lightship::start(options(&node)).unwrap();
    assert_equal(&mut server, &node).await;
    streams_are(&mut server, true);
    node.stop().unwrap();
    streams_are(&mut server, false);
    node.resume().unwrap();
    streams_are(&mut server, true);
    follows(&mut server, &node, |node| node.generate(1).unwrap());
    assert_equal(&mut server, &node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_into_the_mempool_comes_by_push() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let address = lightship_source::simulated::Address::ScriptHash(ANYONE)
        .encode(lightship_chain::Network::Regtest);
    node.generate_to(1, &address).unwrap();
    let height = node.tip().unwrap().height.get();
    // Until it may be spent.
    node.generate(100).unwrap();
    let mut server = Lightship::start(options(&node)).unwrap();
    assert_equal(&mut server, &node).await;
    streams_are(&mut server, true);
    let mut wallet = client(&mut server).await;
    let mut waiting = wallet.stream("GetMempoolStream", Empty {}).await.unwrap();

    let transaction = spend(&node, height).unwrap();
    let sent = node.rpc().call(
        "sendrawtransaction",
        json!([const_hex::encode(&transaction)]),
    );
    sent.unwrap();
    let began = Instant::now();
    let first = tokio::time::timeout(PATIENCE, waiting.message()).await;
    let first = first.expect("a transaction comes").unwrap().unwrap();
    let took = began.elapsed();
    assert_eq!(
        RawTransaction::decode(&first[..]).unwrap().data,
        transaction
    );
    assert!(took < Duration::from_millis(CLOCK / 3), "{took:?}");
}

/// A transaction that spends the coinbase at `height`, which anyone may, and pays it back to anyone but for a fee.
fn spend(node: &Zebrad, height: u32) -> anyhow::Result<Vec<u8>> {
    let block = node
        .rpc()
        .call("getblock", json!([height.to_string(), 1]))?;
    let id = block["tx"][0].as_str().context("a coinbase")?;
    let coinbase = node.rpc().call("getrawtransaction", json!([id, 1]))?;
    let lock = const_hex::encode(lightship_chain::build::pay_to_script_hash(&ANYONE));
    let outputs = coinbase["vout"].as_array().context("outputs")?;
    let (index, output) = (0..)
        .zip(outputs)
        .find(|(_, output)| output["scriptPubKey"]["hex"] == lock.as_str())
        .context("an output that anyone may spend")?;
    let value = output["valueZat"].as_u64().context("a value")?;
    let input = Input {
        script: Some(UNLOCK.to_vec()),
        ..Input::spend(id.parse()?, index)
    };
    let recipe = Recipe::new(Version::V5)
        .with_input(input)
        .with_output(Output::to_script_hash(value - 20_000, &ANYONE));
    // Only for the branch that transactions are of by now.
    let mut chain = ChainBuilder::new(1, Activations::all_at(Upgrade::Nu6_3, 1));
    chain.next_block(Default::default(), &[])?;
    Ok(chain.transaction(recipe)?.bytes)
}
