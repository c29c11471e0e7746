//! Who makes the follower look at the node: those who want to know the tip, and nobody else.

#![expect(
    deprecated,
    reason = "one of the methods is, and wallets still call it"
)]

use std::sync::atomic::Ordering;

use lightship_serve::proto::{ChainSpec, Empty, GetMempoolTxRequest};
use tonic::Code;

use crate::stage::{Stage, code, collect, id, range};

const TIP: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn each_question_about_the_tip_asks_for_one_look() {
    let stage = Stage::new(TIP as u32).await;
    let mut client = stage.client().await;
    let looks = || stage.looks.swap(0, Ordering::Relaxed);
    client.get_latest_block(ChainSpec {}).await.unwrap();
    assert_eq!(looks(), 1, "GetLatestBlock");
    client.get_lightd_info(Empty {}).await.unwrap();
    assert_eq!(looks(), 1, "GetLightdInfo");
    client.get_latest_tree_state(Empty {}).await.unwrap();
    assert_eq!(looks(), 1, "GetLatestTreeState");
    let (_, ended) = collect(client.get_mempool_tx(GetMempoolTxRequest::default()).await).await;
    assert_eq!((ended, looks()), (Code::Ok, 1), "GetMempoolTx");
    drop(client.get_mempool_stream(Empty {}).await.unwrap());
    assert_eq!(looks(), 1, "GetMempoolStream");
    // A wallet that has followed the chain asks for what comes next.
    assert_eq!(code(client.get_block(id(TIP + 1)).await), Code::OutOfRange);
    assert_eq!(looks(), 1, "GetBlock above the tip");
    assert_eq!(
        code(client.get_tree_state(id(TIP + 1)).await),
        Code::OutOfRange
    );
    assert_eq!(looks(), 1, "GetTreeState above the tip");
    for (first, last) in [(TIP + 1, TIP + 1), (TIP, TIP + 1)] {
        let (_, ended) = collect(client.get_block_range(range(first, last)).await).await;
        assert_eq!(
            (ended, looks()),
            (Code::OutOfRange, 1),
            "GetBlockRange to above the tip"
        );
        let sent = client.get_block_range_nullifiers(range(first, last)).await;
        let (_, ended) = collect(sent).await;
        assert_eq!(
            (ended, looks()),
            (Code::OutOfRange, 1),
            "GetBlockRangeNullifiers"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_about_older_blocks_ask_for_none() {
    let stage = Stage::new(TIP as u32).await;
    let mut client = stage.client().await;
    client.get_block(id(TIP)).await.unwrap();
    client.get_tree_state(id(TIP)).await.unwrap();
    let (blocks, _) = collect(client.get_block_range(range(0, TIP)).await).await;
    assert_eq!(blocks.len() as u64, TIP + 1);
    assert_eq!(stage.looks.load(Ordering::Relaxed), 0);
}
