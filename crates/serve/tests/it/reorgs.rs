//! Branches that are replaced while or before something is read.

use std::time::Duration;

use lightship_serve::proto::{BlockId, ChainSpec, Empty};
use tonic::Code;

use crate::stage::{Stage, code, collect, range, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_tip_is_out_of_range_at_once() {
    let mut stage = Stage::new(60).await;
    let mut client = stage.client().await;
    let gone = stage.tip();
    stage.reorg(3, 0, 0);
    stage.follow();
    let latest = client.get_latest_block(ChainSpec {}).await.unwrap();
    assert_eq!(latest.into_inner().height, 57);
    let (blocks, ended) = collect(client.get_block_range(range(50, 60)).await).await;
    assert_eq!((blocks.len(), ended), (8, Code::OutOfRange));
    let by_hash = BlockId {
        height: 0,
        hash: gone.hash.as_internal().to_vec().into(),
    };
    assert_eq!(
        code(client.get_block(by_hash.clone()).await),
        Code::NotFound
    );
    assert_eq!(code(client.get_tree_state(by_hash).await), Code::NotFound);
    let state = client.get_latest_tree_state(Empty {}).await.unwrap();
    assert_eq!(state.into_inner().height, 57);
    // A shorter branch that is the heavier one.
    stage.reorg(10, 7, 9);
    stage.follow();
    let (blocks, ended) = collect(client.get_block_range(range(40, 54)).await).await;
    assert_eq!((blocks.len(), ended), (15, Code::Ok));
    assert_eq!(blocks[14].hash[..], stage.tip().hash.as_internal()[..]);
}

/// A node that was started anew may be some blocks behind the index, which keeps them. They are above the tip that is served then, by whatever they are
/// asked for; asked for by hash they were once sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_above_the_served_tip_is_out_of_range_also_by_its_hash() {
    let mut stage = Stage::new(60).await;
    let mut client = stage.client().await;
    let above = stage.tip();
    stage.node.rollback(3).unwrap();
    stage.writer.announce(stage.node.best());
    let latest = client.get_latest_block(ChainSpec {}).await.unwrap();
    assert_eq!(latest.into_inner().height, 57);
    let by_height = BlockId {
        height: above.height.into(),
        hash: Default::default(),
    };
    let by_hash = BlockId {
        height: 0,
        hash: above.hash.as_internal().to_vec().into(),
    };
    for asked in [by_height, by_hash] {
        let codes = [
            code(client.get_block(asked.clone()).await),
            code(client.get_tree_state(asked.clone()).await),
        ];
        assert_eq!(codes, [Code::OutOfRange; 2], "{asked:?}");
    }
}

/// A chain whose blocks are large, so that a reader that waits holds up a stream in its middle.
async fn heavy(tip: u32) -> Stage {
    use lightship_chain::build::Recipe;
    let mut stage = Stage::new(12).await;
    for _ in 12..tip {
        let version = stage.chain.newest_version();
        let recipe = Recipe::new(version).with_sapling(0, 1_000);
        let transaction = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[transaction]);
    }
    stage.follow();
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_branch_is_replaced_ends_before_the_first_replaced_block() {
    let mut stage = heavy(52).await;
    let mut client = stage.client().await;
    let old: Vec<_> = stage.blocks.iter().map(|block| block.id.hash).collect();
    let mut stream = client
        .get_block_range(range(0, 52))
        .await
        .unwrap()
        .into_inner();
    let first = within(stream.message()).await.unwrap().unwrap();
    assert_eq!(first.height, 0);
    // Give the transport time to fill its windows, then replace the top.
    tokio::time::sleep(Duration::from_millis(200)).await;
    stage.reorg(10, 12, 5);
    stage.follow();
    let mut heights = vec![0];
    let ended = loop {
        match within(stream.message()).await {
            Ok(Some(block)) => {
                assert_eq!(block.hash[..], old[block.height as usize].as_internal()[..]);
                heights.push(block.height);
            }
            Ok(None) => break Code::Ok,
            Err(status) => break status.code(),
        }
    };
    assert_eq!(ended, Code::Aborted);
    assert_eq!(heights, (0..=42).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_descending_stream_is_not_touched_by_what_it_has_passed() {
    let mut stage = heavy(52).await;
    let mut client = stage.client().await;
    let mut stream = client
        .get_block_range(range(41, 0))
        .await
        .unwrap()
        .into_inner();
    within(stream.message()).await.unwrap().unwrap();
    stage.reorg(10, 12, 5);
    stage.follow();
    let mut count = 1;
    while let Some(block) = within(stream.message()).await.unwrap() {
        count += 1;
        assert_eq!(block.height, 42 - count);
    }
    assert_eq!(count, 42);
}
