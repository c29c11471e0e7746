//! Many clients at once, some of which take nothing of what they asked for.

use std::{collections::HashMap, time::Duration};

use lightship_chain::{
    PoolSet, TxId,
    build::{Built, Recipe},
};
use lightship_serve::proto::{
    ChainSpec, CompactTxStreamerClient, Empty, GetMempoolTxRequest, RawTransaction,
};
use tonic::{Code, Streaming, transport::Channel};

use crate::stage::{Client, Stage, code, collect, range, until, within};

/// One whose streams take a byte and then no more.
async fn greedy(stage: &Stage) -> Client {
    let endpoint = Channel::from_shared(format!("http://{}", stage.grpc))
        .unwrap()
        .initial_stream_window_size(1);
    CompactTxStreamerClient::connect(endpoint).await.unwrap()
}

/// Transactions with an output each.
fn shielded(stage: &mut Stage, count: usize) -> Vec<Built> {
    (0..count)
        .map(|_| {
            let recipe = Recipe::new(stage.chain.newest_version()).with_sapling(0, 1);
            stage.chain.transaction(recipe).unwrap()
        })
        .collect()
}

/// Readers that had opened ranges and stopped held all places; the others waited for them without end.
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_take_nothing_hold_up_nobody() {
    let mut stage = Stage::new(12).await;
    for _ in 12..120 {
        let recipe = Recipe::new(stage.chain.newest_version()).with_sapling(0, 100);
        let tx = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[tx]);
    }
    stage.follow();
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut client = greedy(&stage).await;
        for each in 0..32 {
            let mut request = range(0, 120);
            if each % 2 == 0 {
                request.pool_types = vec![1, 2, 3, 4];
            }
            held.push(within(client.get_block_range(request)).await.unwrap());
        }
    }
    let mut honest = stage.client().await;
    let (blocks, ended) = collect(honest.get_block_range(range(1, 100)).await).await;
    assert_eq!((blocks.len(), ended), (100, Code::Ok));
    assert_eq!(
        code(within(honest.get_latest_block(ChainSpec {})).await),
        Code::Ok
    );
    drop(held);
}

/// A range of the whole chain, asked for by many at once, starved those who came last or was cut short.
#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_the_whole_chain_get_all_of_it_at_their_own_speeds() {
    let mut stage = Stage::new(12).await;
    for _ in 12..300 {
        let recipe = Recipe::new(stage.chain.newest_version()).with_sapling(0, 10);
        let tx = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[tx]);
    }
    stage.follow();
    let expected: Vec<Vec<u8>> = stage
        .blocks
        .iter()
        .map(|block| block.id.hash.as_internal().to_vec())
        .collect();
    let mut readers = Vec::new();
    for reader in 0..60 {
        let mut client = stage.client().await;
        let expected = expected.clone();
        readers.push(tokio::spawn(async move {
            let mut stream = client
                .get_block_range(range(0, 300))
                .await
                .unwrap()
                .into_inner();
            let mut got = Vec::new();
            while let Some(block) = within(stream.message()).await.unwrap() {
                got.push(block.hash.to_vec());
                if got.len() % 50 == 0 && reader % 3 == 0 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            assert!(got == expected, "reader {reader} got {}", got.len());
        }));
    }
    let mut other = stage.client().await;
    for _ in 0..20 {
        let latest = within(other.get_latest_block(ChainSpec {})).await.unwrap();
        assert_eq!(latest.into_inner().height, 300);
    }
    for reader in readers {
        within(reader).await.unwrap();
    }
}

async fn counted(mut stream: Streaming<RawTransaction>, ids: &HashMap<Vec<u8>, TxId>) -> Vec<TxId> {
    let mut got = Vec::new();
    while let Some(tx) = within(stream.message()).await.unwrap() {
        got.push(ids[&tx.data[..]]);
    }
    got.sort();
    got
}

/// What came between the picture a stream began with and the news it was given was never delivered, or twice.
#[tokio::test(flavor = "multi_thread")]
async fn each_newcomer_reaches_each_stream_once() {
    let mut stage = Stage::new(20).await;
    let client = stage.client().await;
    let all = shielded(&mut stage, 120);
    let ids: HashMap<Vec<u8>, TxId> = all.iter().map(|tx| (tx.bytes.clone(), tx.id)).collect();
    let mut streams = Vec::new();
    for (count, tx) in all.iter().enumerate() {
        stage.node.mempool_add(tx.bytes.clone()).unwrap();
        if count % 3 == 0 {
            let mut client = client.clone();
            streams.push(tokio::spawn(async move {
                within(client.get_mempool_stream(Empty {}))
                    .await
                    .unwrap()
                    .into_inner()
            }));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    until(|| {
        let mut client = client.clone();
        async move {
            let answer = client.get_mempool_tx(GetMempoolTxRequest::default());
            collect(answer.await).await.0.len() == 120
        }
    })
    .await;
    // A block ends the streams; what it holds was delivered before.
    tokio::time::sleep(Duration::from_millis(300)).await;
    stage.mine_of(&[]);
    stage.follow();
    let mut expected: Vec<TxId> = all.iter().map(|tx| tx.id).collect();
    expected.sort();
    for stream in streams {
        let got = counted(stream.await.unwrap(), &ids).await;
        assert!(got == expected, "{} of {}", got.len(), expected.len());
    }
}

/// Callers sorted one shared list in place, each for its own exclusions; and the slowest reader held the lock.
#[tokio::test(flavor = "multi_thread")]
async fn callers_with_lists_of_their_own_do_not_disturb_each_other() {
    let mut stage = Stage::new(20).await;
    let all = shielded(&mut stage, 1_000);
    for tx in &all {
        stage.node.mempool_add(tx.bytes.clone()).unwrap();
    }
    let mut order: Vec<TxId> = all.iter().map(|tx| tx.id).collect();
    order.sort_by_key(|id| id.to_display_order());
    let client = stage.client().await;
    until(|| {
        let mut client = client.clone();
        async move {
            let answer = client.get_mempool_tx(GetMempoolTxRequest::default());
            collect(answer.await).await.0.len() == 1_000
        }
    })
    .await;
    // One takes a row and no more.
    let mut slow = greedy(&stage).await;
    let slow = slow
        .get_mempool_tx(GetMempoolTxRequest::default())
        .await
        .unwrap();
    let mut callers = Vec::new();
    for caller in 0..40usize {
        let mut client = stage.client().await;
        // Every so many by a suffix of four bytes, and one byte that fits several.
        let excluded: Vec<TxId> = order.iter().copied().skip(caller).step_by(7).collect();
        let mut suffixes: Vec<_> = excluded
            .iter()
            .map(|id| id.as_internal()[28..].to_vec().into())
            .collect();
        suffixes.push(order[caller].as_internal()[31..].to_vec().into());
        let fits = |id: &TxId, suffix: &[u8]| id.as_internal().ends_with(suffix);
        let expected: Vec<Vec<u8>> = order
            .iter()
            .filter(|id| {
                !suffixes.iter().any(|suffix: &bytes::Bytes| {
                    fits(id, suffix) && order.iter().filter(|id| fits(id, suffix)).count() == 1
                })
            })
            .map(|id| id.as_internal().to_vec())
            .collect();
        assert!(expected.len() < 1_000 - 100);
        callers.push(tokio::spawn(async move {
            let request = GetMempoolTxRequest {
                exclude_txid_suffixes: suffixes,
                pool_types: crate::stage::numbers(PoolSet::ALL),
            };
            let (sent, ended) = collect(client.get_mempool_tx(request).await).await;
            assert_eq!(ended, Code::Ok);
            let sent: Vec<Vec<u8>> = sent.iter().map(|tx| tx.txid.to_vec()).collect();
            assert!(sent == expected, "caller {caller}: {}", sent.len());
        }));
    }
    for caller in callers {
        within(caller).await.unwrap();
    }
    drop(slow);
}
