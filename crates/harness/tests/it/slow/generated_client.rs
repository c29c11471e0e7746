//! The generated client of crate `lightwallet-protocol`, which wallets use, calls every method.

use lightship_chain::{Network, Upgrade, parse::Block};
use lightship_source::simulated::Address as Script;
use lightwallet_protocol::{
    Address, AddressList, BlockId, BlockRange, ChainSpec, CompactTxStreamerClient, Duration, Empty,
    GetAddressUtxosArg, GetMempoolTxRequest, GetSubtreeRootsArg, RawTransaction,
    TransparentAddressBlockFilter, TxFilter,
};
use tonic::Code;

use super::Laboratory;
use crate::e2e::alone;

const BLOCKS: u64 = 30;
/// What each coinbase of the laboratory pays.
const PAID: i64 = 1_000;

fn at(height: u64) -> BlockId {
    BlockId {
        height,
        hash: Vec::new(),
    }
}

fn range(first: u64, last: u64) -> BlockRange {
    BlockRange {
        start: Some(at(first)),
        end: Some(at(last)),
        ..BlockRange::default()
    }
}

/// All that a streaming call says, which must end well.
macro_rules! all {
    ($call:expr) => {{
        let mut stream = $call.await.unwrap().into_inner();
        let mut all = Vec::new();
        while let Some(message) = stream.message().await.unwrap() {
            all.push(message);
        }
        all
    }};
}

#[expect(deprecated, reason = "wallets in use call these methods still")]
#[tokio::test(flavor = "multi_thread")]
async fn the_client_that_others_generated_is_answered_by_every_method() {
    let _alone = alone().await;
    let mut laboratory = Laboratory::new(Upgrade::Nu5, BLOCKS as usize, 2);
    laboratory.client().await;
    let tip = laboratory.tip.id;
    let block = Block::parse(&laboratory.tip.bytes).unwrap();
    let coinbase = block.transactions().next().unwrap();
    let address = Script::of_script(coinbase.outputs().next().unwrap().script()).unwrap();
    let address = address.encode(Network::Regtest);
    let raw = coinbase.bytes().to_vec();
    let id = coinbase.id().as_internal().to_vec();
    let mut client = CompactTxStreamerClient::connect(laboratory.server.grpc_url())
        .await
        .unwrap();

    let latest = client.get_latest_block(ChainSpec {}).await.unwrap();
    let latest = latest.into_inner();
    assert_eq!(
        (latest.height, latest.hash),
        (BLOCKS, tip.hash.as_internal().to_vec())
    );
    let info = client.get_lightd_info(Empty {}).await.unwrap().into_inner();
    assert_eq!(
        (info.block_height, info.chain_name.as_str()),
        (BLOCKS, "test")
    );

    let one = client.get_block(at(BLOCKS)).await.unwrap().into_inner();
    assert_eq!((one.height, one.vtx.len()), (BLOCKS, 2));
    assert_eq!(one.vtx[1].outputs.len(), 2);
    let nullifiers = client.get_block_nullifiers(at(BLOCKS)).await.unwrap();
    assert!(
        nullifiers
            .into_inner()
            .vtx
            .iter()
            .all(|tx| tx.outputs.is_empty())
    );
    let blocks = all!(client.get_block_range(range(1, BLOCKS)));
    let heights: Vec<u64> = blocks.iter().map(|block| block.height).collect();
    assert_eq!(heights, (1..=BLOCKS).collect::<Vec<_>>());
    assert!(blocks.iter().all(|block| block.vtx[0].outputs.len() == 2));
    let downwards = all!(client.get_block_range_nullifiers(range(9, 3)));
    let heights: Vec<u64> = downwards.iter().map(|block| block.height).collect();
    assert_eq!(heights, (3..=9).rev().collect::<Vec<_>>());

    let transaction = TxFilter {
        hash: id,
        ..TxFilter::default()
    };
    let found = client.get_transaction(transaction).await.unwrap();
    let found = found.into_inner();
    assert_eq!((&found.data, found.height), (&raw, BLOCKS));
    let unknown = TxFilter {
        hash: vec![1; 32],
        ..TxFilter::default()
    };
    let refused = client.get_transaction(unknown).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let junk = RawTransaction {
        data: vec![1, 2, 3],
        height: 0,
    };
    let verdict = client.send_transaction(junk).await.unwrap().into_inner();
    assert_ne!(verdict.error_code, 0, "{verdict:?}");

    let history = TransparentAddressBlockFilter {
        address: address.clone(),
        range: Some(range(1, BLOCKS)),
    };
    let paid = all!(client.get_taddress_txids(history.clone()));
    assert_eq!(paid.len() as u64, BLOCKS);
    assert_eq!(paid.last().unwrap().data, raw);
    assert_eq!(all!(client.get_taddress_transactions(history)), paid);
    let addresses = AddressList {
        addresses: vec![address.clone()],
    };
    let balance = client.get_taddress_balance(addresses).await.unwrap();
    assert_eq!(balance.into_inner().value_zat, PAID * BLOCKS as i64);
    let one = Address {
        address: address.clone(),
    };
    let twice = tokio_stream::iter([one.clone(), one]);
    let balance = client.get_taddress_balance_stream(twice).await.unwrap();
    assert_eq!(balance.into_inner().value_zat, PAID * BLOCKS as i64);
    let unspent = GetAddressUtxosArg {
        addresses: vec![address],
        start_height: 11,
        max_entries: 5,
    };
    let list = client.get_address_utxos(unspent.clone()).await.unwrap();
    let list = list.into_inner().address_utxos;
    let heights: Vec<u64> = list.iter().map(|utxo| utxo.height).collect();
    assert_eq!(heights, (11..16).collect::<Vec<_>>());
    assert_eq!(all!(client.get_address_utxos_stream(unspent)), list);

    let state = client
        .get_tree_state(at(BLOCKS))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((state.height, state.hash), (BLOCKS, tip.hash.to_string()));
    let latest = client.get_latest_tree_state(Empty {}).await.unwrap();
    let latest = latest.into_inner();
    assert_eq!(
        (latest.height, latest.sapling_tree),
        (BLOCKS, state.sapling_tree)
    );
    let subtrees = GetSubtreeRootsArg::default();
    assert!(
        all!(client.get_subtree_roots(subtrees)).is_empty(),
        "no subtree is full yet"
    );

    assert!(all!(client.get_mempool_tx(GetMempoolTxRequest::default())).is_empty());
    let mut waiting = client
        .get_mempool_stream(Empty {})
        .await
        .unwrap()
        .into_inner();
    laboratory.mine(1);
    assert!(
        waiting.message().await.unwrap().is_none(),
        "a new tip ends it"
    );
    let refused = client.ping(Duration { interval_us: 1 }).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}
