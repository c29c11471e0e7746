//! Heights that are not indexed yet.

use lightship_chain::{
    Height, Pool, PoolSet,
    compact::{
        EncodedBlock,
        project::{self, NullifierView},
    },
};
use lightship_serve::proto::ChainSpec;
use lightship_source::simulated::{Fault, Rule};
use tonic::Code;

use crate::stage::{Setup, Stage, bytes_of, code, collect, id, projected, range};

fn building(indexed: Option<u32>) -> Setup {
    Setup {
        indexed,
        ..Setup::whole(60)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_indexed_comes_from_the_node_with_the_same_bytes() {
    for indexed in [None, Some(20), Some(59)] {
        let stage = Stage::with(building(indexed)).await;
        let mut client = stage.client().await;
        let encoded = stage.encoded();
        let latest = client.get_latest_block(ChainSpec {}).await.unwrap();
        assert_eq!(latest.into_inner().height, 60);
        for (start, end) in [(0, 60), (0, 5), (18, 23), (41, 60), (60, 60)] {
            let stored: Vec<Vec<u8>> = encoded[start as usize..=end as usize]
                .iter()
                .map(|block| block.frame[5..].to_vec())
                .collect();
            let (blocks, ended) = collect(client.get_block_range(range(start, end)).await).await;
            assert_eq!(ended, Code::Ok);
            assert!(bytes_of(&blocks) == stored, "{indexed:?}: {start}-{end}");
            let (mut down, ended) = collect(client.get_block_range(range(end, start)).await).await;
            assert_eq!(ended, Code::Ok);
            down.reverse();
            assert!(bytes_of(&down) == stored, "{indexed:?}: {end}-{start}");
        }
        let mut request = range(15, 61);
        request.pool_types = vec![1, 2, 3, 4];
        let (blocks, ended) = collect(client.get_block_range(request).await).await;
        let all: Vec<Vec<u8>> = encoded[15..]
            .iter()
            .map(|block| {
                projected(block, |stored, out| {
                    project::pools(stored, lightship_chain::PoolSet::ALL, out)
                })
            })
            .collect();
        assert_eq!(ended, Code::OutOfRange);
        assert!(bytes_of(&blocks) == all);
        for height in [1u32, 21, 60] {
            let block = &encoded[height as usize];
            let whole = projected(block, project::whole);
            let got = client.get_block(id(u64::from(height))).await.unwrap();
            assert!(bytes_of(&[got.into_inner()]) == [whole.clone()]);
            let by_hash = lightship_serve::proto::BlockId {
                height: 0,
                hash: block.id.hash.as_internal().to_vec().into(),
            };
            let got = client.get_block(by_hash).await.unwrap();
            assert!(bytes_of(&[got.into_inner()]) == [whole]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_leaves_in_the_middle_is_no_end_of_the_chain() {
    let stage = Stage::with(building(Some(30))).await;
    let mut client = stage.client().await;
    stage
        .node
        .faults()
        .add(Rule::new(Fault::Refuse).of_method("getblock").after(12));
    let (blocks, ended) = collect(client.get_block_range(range(25, 60)).await).await;
    assert_eq!(ended, Code::Unavailable);
    assert!(blocks.len() >= 6 && blocks.len() < 36, "{}", blocks.len());
    let heights: Vec<u64> = blocks.iter().map(|block| block.height).collect();
    assert_eq!(heights, (25..25 + blocks.len() as u64).collect::<Vec<_>>());
    // What is indexed is still there.
    let (blocks, ended) = collect(client.get_block_range(range(0, 30)).await).await;
    assert_eq!((blocks.len(), ended), (31, Code::Ok));
    assert_eq!(code(client.get_block(id(40)).await), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_the_node_has_left_is_not_glued_to_its_new_one() {
    let mut stage = Stage::with(building(Some(40))).await;
    let mut client = stage.client().await;
    // The index still has the old blocks from 36 on; the node does not.
    stage.reorg(25, 30, 7);
    stage.writer.announce(stage.node.best());
    let (blocks, ended) = collect(client.get_block_range(range(30, 65)).await).await;
    assert_eq!(ended, Code::Aborted);
    assert_eq!(blocks.last().unwrap().height, 40);
    let (blocks, ended) = collect(client.get_block_range(range(65, 30)).await).await;
    assert_eq!(ended, Code::Aborted);
    assert_eq!(blocks.last().unwrap().height, 41);
}

/// The newest blocks are indexed before the older ones: heights 32 to 63 here.
async fn newest_first(indexed: Option<u32>, announced: bool) -> Stage {
    let mut stage = Stage::with(Setup {
        indexed,
        announced,
        ..Setup::whole(70)
    })
    .await;
    stage.index_ahead(48);
    stage.index_ahead(32);
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_across_a_gap_are_of_one_piece() {
    for indexed in [None, Some(20), Some(30)] {
        let stage = newest_first(indexed, true).await;
        let mut client = stage.client().await;
        let encoded = stage.encoded();
        for (start, end) in [
            (0, 70),
            (0, 5),
            (18, 33),
            (31, 32),
            (40, 60),
            (63, 64),
            (62, 70),
        ] {
            let stored: Vec<Vec<u8>> = encoded[start as usize..=end as usize]
                .iter()
                .map(|block| block.frame[5..].to_vec())
                .collect();
            let (blocks, ended) = collect(client.get_block_range(range(start, end)).await).await;
            assert_eq!(ended, Code::Ok, "{indexed:?}: {start}-{end}");
            assert!(bytes_of(&blocks) == stored, "{indexed:?}: {start}-{end}");
            let (mut down, ended) = collect(client.get_block_range(range(end, start)).await).await;
            assert_eq!(ended, Code::Ok, "{indexed:?}: {end}-{start}");
            down.reverse();
            assert!(bytes_of(&down) == stored, "{indexed:?}: {end}-{start}");
        }
    }
}

fn all_of(
    blocks: &[EncodedBlock],
    put: impl Fn(project::Stored<'_>, &mut Vec<u8>) -> Result<(), project::Malformed>,
) -> Vec<Vec<u8>> {
    blocks.iter().map(|block| projected(block, &put)).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(deprecated, reason = "one of the calls is, and wallets still make it")]
async fn the_newest_are_served_from_the_index_while_the_node_is_away() {
    for (indexed, announced) in [
        (None, true),
        (Some(20), true),
        (None, false),
        (Some(20), false),
    ] {
        let stage = newest_first(indexed, announced).await;
        let mut client = stage.client().await;
        stage.node.faults().add(Rule::new(Fault::Refuse));
        let encoded = stage.encoded();
        let latest = client.get_latest_block(ChainSpec {}).await.unwrap();
        // A server that has not heard of the node since its start knows of nothing above.
        let tip = if announced { 70 } else { 63 };
        assert_eq!(latest.into_inner().height, tip);
        let blocks = &encoded[32..=63];
        let stored: Vec<Vec<u8>> = blocks
            .iter()
            .map(|block| block.frame[5..].to_vec())
            .collect();
        let (got, ended) = collect(client.get_block_range(range(32, 63)).await).await;
        assert_eq!(ended, Code::Ok);
        assert!(bytes_of(&got) == stored);
        let mut request = range(63, 32);
        request.pool_types = vec![1, 3];
        let pools = [Pool::Transparent, Pool::Orchard].into_iter().collect();
        let (mut got, ended) = collect(client.get_block_range(request).await).await;
        got.reverse();
        assert_eq!(ended, Code::Ok);
        assert!(bytes_of(&got) == all_of(blocks, |stored, out| project::pools(stored, pools, out)));
        let (got, ended) = collect(client.get_block_range_nullifiers(range(32, 63)).await).await;
        assert_eq!(ended, Code::Ok);
        let view = NullifierView::Pools(PoolSet::SHIELDED);
        assert!(
            bytes_of(&got) == all_of(blocks, |stored, out| project::nullifiers(stored, view, out))
        );
        let whole = projected(&encoded[50], project::whole);
        let by_hash = lightship_serve::proto::BlockId {
            height: 0,
            hash: encoded[50].id.hash.as_internal().to_vec().into(),
        };
        for id in [id(50), by_hash] {
            let got = client.get_block(id).await.unwrap();
            assert!(bytes_of(&[got.into_inner()]) == [whole.clone()]);
        }
        // What is neither here nor there is not to be had, and is not said not to exist.
        let (got, ended) = collect(client.get_block_range(range(62, tip)).await).await;
        let (served, expected) = if announced {
            (2, Code::Unavailable)
        } else {
            (2, Code::Ok)
        };
        assert_eq!((got.len(), ended), (served, expected));
        assert_eq!(code(client.get_block(id(31)).await), Code::Unavailable);
        let (got, ended) = collect(client.get_block_range(range(32, 10)).await).await;
        assert_eq!((got.len(), ended), (1, Code::Unavailable));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_blocks_of_a_branch_that_the_node_has_left_are_not_glued_to_its_new_one() {
    let mut stage = newest_first(Some(20), true).await;
    let mut client = stage.client().await;
    stage.reorg(45, 50, 9);
    stage.writer.announce(stage.node.best());
    let (blocks, ended) = collect(client.get_block_range(range(24, 40)).await).await;
    assert_eq!((blocks.len(), ended), (8, Code::Aborted));
    let (blocks, ended) = collect(client.get_block_range(range(60, 70)).await).await;
    assert_eq!((blocks.len(), ended), (4, Code::Aborted));
    stage.writer.truncate_above(Some(Height::new(20))).unwrap();
    let (blocks, ended) = collect(client.get_block_range(range(15, 75)).await).await;
    assert_eq!((blocks.len(), ended), (61, Code::Ok));
}
