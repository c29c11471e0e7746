//! Many wallets ask at once what only the node can answer.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use lightship_chain::TxId;
use lightship_harness::{
    grpc::{Client, range},
    lightship::{Lightship, Options},
    proto::{
        AddressList, Balance, GetAddressUtxosArg, GetAddressUtxosReply, GetAddressUtxosReplyList,
        RawTransaction, TransparentAddressBlockFilter,
    },
    recorded,
    zebrad::Zebrad,
};
use prost::Message;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::Status;

use super::{
    alone,
    equal::{client, reaches},
    node_is_at_hand,
};

/// Two and a half times what a Zebra answers at one time.
const CALLERS: usize = 256;
/// For one answer, while all others wait for theirs.
const PATIENCE: Duration = Duration::from_secs(60);
const MINER: &str = recorded::TRANSPARENT_ADDRESS;
/// Who mines the last blocks, so that there are two balances.
const OTHER: &str = "tm9iMLAuYMzJ6jtFLcA7rzUmfreGuKvr7Ma";
const OTHERS_BLOCKS: u32 = 3;
/// In the range of one caller's question for a history.
const HISTORY_BLOCKS: u64 = 6;

/// What the node says, asked by nobody else.
struct Truth {
    /// Of both addresses, in chain order.
    utxos: Vec<GetAddressUtxosReply>,
    /// Of [`MINER`] and of [`OTHER`].
    balances: [i64; 2],
    /// Of [`MINER`], as far down as a caller asks.
    history: Vec<RawTransaction>,
    tip: u64,
}

impl Truth {
    fn ask(node: &Zebrad) -> Truth {
        let tip = u64::from(node.tip().unwrap().height);
        let rpc = node.rpc();
        let both = json!([{ "addresses": [MINER, OTHER] }]);
        let found = rpc.call("getaddressutxos", both).unwrap();
        let mut utxos: Vec<_> = found.as_array().unwrap().iter().map(utxo).collect();
        utxos.sort_by_key(|utxo| utxo.height);
        let balances = [MINER, OTHER].map(|address| {
            let found = rpc.call("getaddressbalance", json!([{ "addresses": [address] }]));
            found.unwrap()["balance"].as_i64().unwrap()
        });
        let lowest = tip - CALLERS as u64 - HISTORY_BLOCKS;
        let all = json!([{ "addresses": [MINER], "start": lowest, "end": tip }]);
        let ids = rpc.call("getaddresstxids", all).unwrap();
        let ids: Vec<Value> = ids.as_array().unwrap().clone();
        let mut history = Vec::new();
        for few in ids.chunks(50) {
            let calls = few.iter().map(|id| ("getrawtransaction", json!([id, 1])));
            history.extend(rpc.batch(calls).unwrap().iter().map(transaction));
        }
        Truth {
            utxos,
            balances,
            history,
            tip,
        }
    }

    fn utxos_of(&self, question: &GetAddressUtxosArg) -> Vec<u8> {
        let most = match question.max_entries {
            0 => usize::MAX,
            most => most as usize,
        };
        let meant = |utxo: &&GetAddressUtxosReply| {
            utxo.height >= question.start_height && question.addresses.contains(&utxo.address)
        };
        let address_utxos = self.utxos.iter().filter(meant).take(most).cloned();
        GetAddressUtxosReplyList {
            address_utxos: address_utxos.collect(),
        }
        .encode_to_vec()
    }

    fn balance_of(&self, question: &AddressList) -> Vec<u8> {
        let named = |name: &str| question.addresses.iter().any(|address| address == name);
        let parts = [MINER, OTHER].into_iter().zip(self.balances);
        let value_zat = parts.filter(|(name, _)| named(name)).map(|(_, zat)| zat);
        Balance {
            value_zat: value_zat.sum(),
        }
        .encode_to_vec()
    }

    fn history_of(&self, question: &TransparentAddressBlockFilter) -> Vec<Vec<u8>> {
        let range = question.range.as_ref().unwrap();
        let [first, last] = [&range.start, &range.end].map(|end| end.as_ref().unwrap().height);
        let meant = |tx: &&RawTransaction| (first..=last).contains(&tx.height);
        let found = self.history.iter().filter(meant);
        found.map(Message::encode_to_vec).collect()
    }
}

fn utxo(entry: &Value) -> GetAddressUtxosReply {
    let text = |name: &str| entry[name].as_str().unwrap().to_owned();
    GetAddressUtxosReply {
        address: text("address"),
        txid: text("txid").parse::<TxId>().unwrap().as_internal().to_vec(),
        index: i32::try_from(entry["outputIndex"].as_i64().unwrap()).unwrap(),
        script: const_hex::decode(text("script")).unwrap(),
        value_zat: entry["satoshis"].as_i64().unwrap(),
        height: entry["height"].as_u64().unwrap(),
    }
}

fn transaction(answer: &Value) -> RawTransaction {
    RawTransaction {
        data: const_hex::decode(answer["hex"].as_str().unwrap()).unwrap(),
        height: answer["height"].as_u64().unwrap(),
    }
}

/// Four ways to name addresses, one of them with one twice.
fn addresses(caller: usize) -> Vec<String> {
    let named: &[&str] = match caller % 4 {
        0 => &[MINER],
        1 => &[OTHER],
        2 => &[MINER, OTHER],
        _ => &[OTHER, MINER, OTHER],
    };
    named.iter().map(ToString::to_string).collect()
}

async fn utxos_are_right(caller: usize, mut client: Client, truth: &Truth) -> Result<(), Status> {
    let question = GetAddressUtxosArg {
        addresses: addresses(caller),
        start_height: 9 * caller as u64,
        max_entries: if caller.is_multiple_of(5) { 7 } else { 0 },
    };
    let expected = truth.utxos_of(&question);
    let found = client.unary("GetAddressUtxos", question).await?;
    assert!(found == expected, "caller {caller}: other unspent outputs");
    Ok(())
}

async fn balance_is_right(caller: usize, mut client: Client, truth: &Truth) -> Result<(), Status> {
    let question = AddressList {
        addresses: addresses(caller),
    };
    let expected = truth.balance_of(&question);
    let found = client.unary("GetTaddressBalance", question).await?;
    assert_eq!(found, expected, "caller {caller}");
    Ok(())
}

async fn history_is_right(caller: usize, mut client: Client, truth: &Truth) -> Result<(), Status> {
    let last = truth.tip - caller as u64;
    let question = TransparentAddressBlockFilter {
        address: MINER.to_owned(),
        range: Some(range(last + 1 - HISTORY_BLOCKS, last)),
    };
    let expected = truth.history_of(&question);
    let mut found = Vec::new();
    let mut stream = client.stream("GetTaddressTxids", question).await?;
    while let Some(one) = stream.message().await? {
        found.push(one);
    }
    assert!(found == expected, "caller {caller}: another history");
    Ok(())
}

/// Asks through each client at the same time; says how long it took until the last was answered, and fails if one was refused.
async fn at_once<F>(what: &str, clients: &[Client], ask: impl Fn(usize, Client) -> F)
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let begun = Instant::now();
    let mut calls = JoinSet::new();
    for (caller, client) in clients.iter().enumerate() {
        calls.spawn(tokio::time::timeout(PATIENCE, ask(caller, client.clone())));
    }
    let mut refused = Vec::new();
    while let Some(call) = calls.join_next().await {
        match call.unwrap() {
            Ok(Ok(())) => {}
            Ok(Err(status)) => refused.push(format!("{status:?}")),
            Err(late) => refused.push(late.to_string()),
        }
    }
    eprintln!("{what}, asked by {CALLERS} at once: {:?}", begun.elapsed());
    let count = refused.len();
    assert!(count == 0, "{what}: {count} were refused: {}", refused[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_who_ask_about_addresses_at_once_are_each_told_what_the_node_says() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    node.generate_to(OTHERS_BLOCKS, OTHER).unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    let mut first = client(&mut server).await;
    reaches(&mut server, &mut first, node.tip().unwrap()).await;
    let truth = Arc::new(Truth::ask(&node));
    assert!(truth.balances.iter().all(|zat| *zat > 0));
    assert!(truth.utxos.len() > 2_000 && truth.history.len() > 200);
    let mut clients = Vec::new();
    for _ in 0..CALLERS {
        clients.push(Client::connect(&server.grpc_url()).await.unwrap());
    }
    at_once("GetAddressUtxos", &clients, |caller, client| {
        let truth = Arc::clone(&truth);
        async move { utxos_are_right(caller, client, &truth).await }
    })
    .await;
    at_once("GetTaddressBalance", &clients, |caller, client| {
        let truth = Arc::clone(&truth);
        async move { balance_is_right(caller, client, &truth).await }
    })
    .await;
    at_once("GetTaddressTxids", &clients, |caller, client| {
        let truth = Arc::clone(&truth);
        async move { history_is_right(caller, client, &truth).await }
    })
    .await;
    at_once("all three", &clients, |caller, client| {
        let truth = Arc::clone(&truth);
        async move {
            tokio::try_join!(
                utxos_are_right(caller, client.clone(), &truth),
                balance_is_right(caller, client.clone(), &truth),
                history_is_right(caller, client, &truth),
            )
            .map(drop)
        }
    })
    .await;
    server.stop().unwrap();
}
