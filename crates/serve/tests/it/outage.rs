//! A node that is away: never an empty success, never NOT_FOUND, and everything in the index still there.

use lightship_serve::proto::{
    Address, AddressList, BlockId, ChainSpec, Empty, GetAddressUtxosArg, GetMempoolTxRequest,
    GetSubtreeRootsArg, RawTransaction, TransparentAddressBlockFilter, TxFilter,
};
use lightship_source::simulated::Fault;
use tonic::Code;

use crate::stage::{Client, MINER, Setup, Stage, address, code, collect, id, range, until};

/// What every method that needs the node answers.
async fn answers(client: &mut Client) -> Vec<(&'static str, Code)> {
    let miner = address(MINER);
    let unknown = TxFilter {
        hash: vec![1; 32].into(),
        ..TxFilter::default()
    };
    let block = BlockId {
        height: 0,
        hash: vec![1; 32].into(),
    };
    let history = TransparentAddressBlockFilter {
        address: miner.clone(),
        range: Some(range(1, 5)),
    };
    let utxos = GetAddressUtxosArg {
        addresses: vec![miner.clone()],
        start_height: 0,
        max_entries: 0,
    };
    let list = AddressList {
        addresses: vec![miner.clone()],
    };
    let stream = || {
        tokio_stream::iter([Address {
            address: address(MINER),
        }])
    };
    let tx = RawTransaction {
        data: vec![1, 2, 3].into(),
        height: 0,
    };
    vec![
        (
            "GetTransaction",
            code(client.get_transaction(unknown).await),
        ),
        ("SendTransaction", code(client.send_transaction(tx).await)),
        ("GetBlock", code(client.get_block(block.clone()).await)),
        ("GetTreeState", code(client.get_tree_state(id(5)).await)),
        ("GetTreeState", code(client.get_tree_state(block).await)),
        (
            "GetLatestTreeState",
            code(client.get_latest_tree_state(Empty {}).await),
        ),
        (
            "GetSubtreeRoots",
            collect(
                client
                    .get_subtree_roots(GetSubtreeRootsArg::default())
                    .await,
            )
            .await
            .1,
        ),
        (
            "GetTaddressTxids",
            collect(client.get_taddress_txids(history.clone()).await)
                .await
                .1,
        ),
        (
            "GetTaddressTransactions",
            collect(client.get_taddress_transactions(history).await)
                .await
                .1,
        ),
        (
            "GetTaddressBalance",
            code(client.get_taddress_balance(list).await),
        ),
        (
            "GetTaddressBalanceStream",
            code(client.get_taddress_balance_stream(stream()).await),
        ),
        (
            "GetAddressUtxos",
            code(client.get_address_utxos(utxos.clone()).await),
        ),
        (
            "GetAddressUtxosStream",
            collect(client.get_address_utxos_stream(utxos).await)
                .await
                .1,
        ),
        (
            "GetMempoolTx",
            collect(client.get_mempool_tx(GetMempoolTxRequest::default()).await)
                .await
                .1,
        ),
        (
            "GetMempoolStream",
            collect(client.get_mempool_stream(Empty {}).await).await.1,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_of_being_away_is_unavailable() {
    let faults = [
        Fault::Refuse,
        Fault::Cut,
        Fault::Status(500),
        Fault::Status(429),
        Fault::Status(401),
        Fault::Html,
        Fault::Truncated,
        Fault::Warming,
        Fault::WrongShape,
    ];
    let stage = Stage::new(20).await;
    let mut client = stage.client().await;
    // Once reached, the server remembers what the node said of itself.
    until(|| {
        let mut client = client.clone();
        async move { code(client.get_lightd_info(Empty {}).await) == Code::Ok }
    })
    .await;
    for fault in faults {
        stage.node.faults().clear();
        until(|| {
            let mut client = client.clone();
            async move {
                code(client.get_mempool_tx(GetMempoolTxRequest::default()).await) == Code::Ok
            }
        })
        .await;
        stage.node.faults().add(fault.clone());
        until(|| {
            let mut client = client.clone();
            async move {
                code(client.get_mempool_tx(GetMempoolTxRequest::default()).await) != Code::Ok
            }
        })
        .await;
        for (method, ended) in answers(&mut client).await {
            assert_eq!(ended, Code::Unavailable, "{method} with {fault:?}");
        }
        let (blocks, ended) = collect(client.get_block_range(range(0, 20)).await).await;
        assert_eq!((blocks.len(), ended), (21, Code::Ok));
        assert_eq!(code(client.get_latest_block(ChainSpec {}).await), Code::Ok);
        assert_eq!(code(client.get_lightd_info(Empty {}).await), Code::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_store_without_a_node_has_nothing_to_say_yet() {
    let stage = Stage::with(Setup {
        indexed: None,
        announced: false,
        ..Setup::whole(20)
    })
    .await;
    stage.node.faults().add(Fault::Refuse);
    let mut client = stage.client().await;
    let unavailable = Code::Unavailable;
    assert_eq!(
        code(client.get_latest_block(ChainSpec {}).await),
        unavailable
    );
    assert_eq!(code(client.get_block(id(1)).await), unavailable);
    assert_eq!(
        collect(client.get_block_range(range(0, 1)).await).await.1,
        unavailable
    );
    assert_eq!(
        code(client.get_latest_tree_state(Empty {}).await),
        unavailable
    );
    for (method, ended) in answers(&mut client).await {
        assert_eq!(ended, unavailable, "{method}");
    }
    // A mistake stays a mistake.
    assert_eq!(code(client.get_block(id(0)).await), Code::InvalidArgument);
    assert_eq!(
        collect(client.get_block_range(range(0, u64::MAX)).await)
            .await
            .1,
        Code::InvalidArgument
    );
}
