//! The node is gone: what is in the index is served, what is not is refused, and nothing needs a restart when it returns.

use std::time::{Duration, Instant};

use lightship_harness::{
    grpc::{self, Client, Window},
    lightship::{Lightship, Options},
    proto::{self, BlockId, TxFilter},
    recorded,
};
use prost::Message;
use tonic::Code;

use super::{
    alone,
    equal::{assert_equal, client, reaches},
    node_is_at_hand,
};

/// From the node's first answer after its return to the server's following it again.
const RETURN_PATIENCE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_range_outlives_the_node_and_following_resumes_at_its_return() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let mut node = recorded::node().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    assert_equal(&mut server, &node).await;
    let mut ours = client(&mut server).await;
    let last = u64::from(recorded::TIP);
    let expected = ours.blocks(0, last).await.unwrap();

    // A slow reader: it has taken a few blocks when the node dies.
    let narrow = grpc::connect(&server.grpc_url(), Window::Narrow)
        .await
        .unwrap();
    let mut range = Client::new(narrow).block_range(0, last).await.unwrap();
    let mut received = Vec::new();
    while received.len() < 10 {
        received.push(range.message().await.unwrap().unwrap());
    }
    node.kill();
    tokio::time::sleep(Duration::from_secs(2)).await;

    let again = ours.blocks(0, last).await.unwrap();
    assert!(again == expected, "a range that begins without the node");
    let tip = ours.latest_block().await.unwrap();
    assert_eq!(tip.height, last);
    let block = BlockId {
        height: 120,
        hash: Vec::new(),
    };
    ours.unary("GetBlock", block).await.unwrap();
    for (method, outcome) in node_calls(&mut ours).await {
        let refused = outcome.map(const_hex::encode).expect_err(method);
        assert_eq!(refused.code(), Code::Unavailable, "{method}: {refused:?}");
    }

    while let Some(block) = range.message().await.unwrap() {
        received.push(block);
        if received.len() % 500 == 0 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    assert!(received == expected, "the range that was streaming");

    server.check_running().unwrap();
    node.resume().unwrap();
    let returned = Instant::now();
    node.generate(1).unwrap();
    let tip = node.tip().unwrap();
    reaches(&mut server, &mut ours, tip).await;
    let took = returned.elapsed();
    eprintln!("following again {took:?} after the node's return");
    assert!(took < RETURN_PATIENCE, "{took:?}");
    assert_equal(&mut server, &node).await;
}

/// What only a node can answer.
async fn node_calls(client: &mut Client) -> Vec<(&'static str, Result<Vec<u8>, tonic::Status>)> {
    let transaction = TxFilter {
        hash: vec![7; 32],
        ..TxFilter::default()
    };
    let submission = proto::RawTransaction {
        data: vec![4; 100],
        height: 0,
    };
    let addresses = proto::AddressList {
        addresses: vec![recorded::TRANSPARENT_ADDRESS.to_owned()],
    };
    let utxos = proto::GetAddressUtxosArg {
        addresses: addresses.addresses.clone(),
        ..proto::GetAddressUtxosArg::default()
    };
    vec![
        (
            "GetTransaction",
            client.unary("GetTransaction", transaction).await,
        ),
        (
            "SendTransaction",
            client.unary("SendTransaction", submission).await,
        ),
        (
            "GetTaddressBalance",
            client.unary("GetTaddressBalance", addresses).await,
        ),
        (
            "GetAddressUtxos",
            client.unary("GetAddressUtxos", utxos).await,
        ),
        (
            "GetMempoolTx",
            first(
                client,
                "GetMempoolTx",
                proto::GetMempoolTxRequest::default(),
            )
            .await,
        ),
    ]
}

async fn first<M: Message + 'static>(
    client: &mut Client,
    method: &str,
    message: M,
) -> Result<Vec<u8>, tonic::Status> {
    let mut stream = client.stream(method, message).await?;
    Ok(stream.message().await?.unwrap_or_default())
}
