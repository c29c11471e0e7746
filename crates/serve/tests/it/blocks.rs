//! The four block methods on a finished index.

#![expect(deprecated, reason = "two of them are, and wallets still call them")]

use lightship_chain::{
    Pool, PoolSet,
    compact::project::{self, NullifierView},
};
use lightship_serve::proto::{BlockId, BlockRange};
use tonic::Code;

use crate::stage::{Stage, bytes_of, code, collect, id, numbers, projected, range};

const TIP: u32 = 60;

#[tokio::test(flavor = "multi_thread")]
async fn a_default_range_is_the_stored_messages_in_order() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    let stored: Vec<Vec<u8>> = stage
        .encoded()
        .iter()
        .map(|block| block.frame[5..].to_vec())
        .collect();
    // Over the seam between sealed files (ranges of 16) and the tail, and inside each.
    for (start, end) in [
        (0, 60),
        (0, 0),
        (60, 60),
        (15, 16),
        (31, 33),
        (3, 29),
        (40, 55),
    ] {
        let (blocks, ended) = collect(client.get_block_range(range(start, end)).await).await;
        assert_eq!(ended, Code::Ok);
        assert!(
            bytes_of(&blocks) == stored[start as usize..=end as usize],
            "{start}-{end}"
        );
        let (mut down, ended) = collect(client.get_block_range(range(end, start)).await).await;
        assert_eq!(ended, Code::Ok);
        down.reverse();
        assert!(down == blocks, "{end}-{start}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_set_of_pools_is_what_projection_makes_of_it() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    let encoded = stage.encoded();
    for pools in PoolSet::subsets() {
        let asked = if pools.is_empty() {
            PoolSet::SHIELDED
        } else {
            pools
        };
        let mut expected: Vec<Vec<u8>> = encoded
            .iter()
            .map(|block| projected(block, |stored, out| project::pools(stored, asked, out)))
            .collect();
        let mut request = range(0, u64::from(TIP));
        request.pool_types = numbers(pools);
        let (up, ended) = collect(client.get_block_range(request.clone()).await).await;
        assert_eq!(ended, Code::Ok);
        assert!(bytes_of(&up) == expected, "{pools:?}");
        std::mem::swap(&mut request.start, &mut request.end);
        let (down, ended) = collect(client.get_block_range(request).await).await;
        assert_eq!(ended, Code::Ok);
        expected.reverse();
        assert!(bytes_of(&down) == expected, "{pools:?}, downwards");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_set_of_pools_has_its_nullifiers() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    let encoded = stage.encoded();
    for pools in PoolSet::subsets() {
        let shielded = pools.without(Pool::Transparent);
        let asked = if shielded.is_empty() {
            PoolSet::SHIELDED
        } else {
            shielded
        };
        let expected: Vec<Vec<u8>> = encoded
            .iter()
            .map(|block| {
                projected(block, |stored, out| {
                    project::nullifiers(stored, NullifierView::Pools(asked), out)
                })
            })
            .collect();
        let mut request = range(0, u64::from(TIP));
        request.pool_types = numbers(pools);
        let (blocks, ended) = collect(client.get_block_range_nullifiers(request).await).await;
        assert_eq!(ended, Code::Ok);
        assert!(bytes_of(&blocks) == expected, "{pools:?}");
        for tx in blocks.iter().flat_map(|block| &block.vtx) {
            assert!(tx.vin.is_empty() && tx.vout.is_empty() && tx.outputs.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_block_is_whole_by_height_and_by_hash_in_either_order() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    for (block, built) in stage.encoded().iter().zip(&stage.blocks).skip(1) {
        let whole = projected(block, project::whole);
        let nullifiers = projected(block, |stored, out| {
            project::nullifiers(stored, NullifierView::Whole, out)
        });
        let height = u64::from(block.id.height);
        let by_hash = |hash: Vec<u8>, height| BlockId {
            height,
            hash: hash.into(),
        };
        for request in [
            id(height),
            by_hash(block.id.hash.as_internal().to_vec(), 0),
            by_hash(block.id.hash.to_display_order().to_vec(), 0),
            // A hash counts before a height that says otherwise.
            by_hash(block.id.hash.as_internal().to_vec(), 1),
        ] {
            let got = client
                .get_block(request.clone())
                .await
                .unwrap()
                .into_inner();
            assert!(
                bytes_of(std::slice::from_ref(&got)) == [whole.clone()],
                "{height}"
            );
            assert_eq!(got.vtx.len(), built.transactions.len());
            for (tx, (index, id)) in got.vtx.iter().zip((0..).zip(&built.transactions)) {
                assert_eq!((tx.index, &tx.txid[..]), (index, &id.as_internal()[..]));
            }
            let got = client
                .get_block_nullifiers(request)
                .await
                .unwrap()
                .into_inner();
            assert!(bytes_of(&[got]) == [nullifiers.clone()], "{height}");
        }
    }
    // Genesis has no height to be named by, but a hash.
    let genesis = client
        .get_block(BlockId {
            height: 0,
            hash: stage.blocks[0].id.hash.as_internal().to_vec().into(),
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!((genesis.height, genesis.vtx.len()), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_of_all_pools_is_the_same_as_block_by_block() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    let mut request = range(1, u64::from(TIP));
    request.pool_types = vec![4, 3, 2, 1, 1];
    let (blocks, _) = collect(client.get_block_range(request).await).await;
    for block in blocks {
        let mut one = client
            .get_block(id(block.height))
            .await
            .unwrap()
            .into_inner();
        // What has no part in any pool is only in the whole block.
        one.vtx.retain(|tx| {
            !(tx.spends.is_empty()
                && tx.outputs.is_empty()
                && tx.actions.is_empty()
                && tx.ironwood_actions.is_empty()
                && tx.vin.is_empty()
                && tx.vout.is_empty())
        });
        assert!(one == block, "{}", block.height);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_request_that_cannot_be_met_says_why() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    let with_hash = |bytes: usize, height| BlockId {
        height,
        hash: vec![9; bytes].into(),
    };
    for (request, expected) in [
        (id(0), Code::InvalidArgument),
        (id(1 << 31), Code::InvalidArgument),
        (id((1 << 32) + 5), Code::InvalidArgument),
        (id(u64::MAX), Code::InvalidArgument),
        (id(61), Code::OutOfRange),
        (id((1 << 31) - 1), Code::OutOfRange),
        (with_hash(31, 5), Code::InvalidArgument),
        (with_hash(33, 0), Code::InvalidArgument),
        (with_hash(1 << 20, 0), Code::InvalidArgument),
        (with_hash(32, 5), Code::NotFound),
        (with_hash(32, 0), Code::NotFound),
    ] {
        assert_eq!(code(client.get_block(request.clone()).await), expected);
        assert_eq!(code(client.get_block_nullifiers(request).await), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_request_that_cannot_be_met_says_why() {
    let stage = Stage::new(TIP).await;
    let mut client = stage.client().await;
    let missing = |start, end| BlockRange {
        start,
        end,
        pool_types: Vec::new(),
    };
    let pools = |pools: &[i32]| BlockRange {
        pool_types: pools.to_vec(),
        ..range(1, 2)
    };
    for (request, sent, expected) in [
        (missing(None, Some(id(1))), 0, Code::InvalidArgument),
        (missing(Some(id(1)), None), 0, Code::InvalidArgument),
        (missing(None, None), 0, Code::InvalidArgument),
        (range(1 << 32, 5), 0, Code::InvalidArgument),
        (range(5, u64::MAX), 0, Code::InvalidArgument),
        (pools(&[0]), 0, Code::InvalidArgument),
        (pools(&[5]), 0, Code::InvalidArgument),
        (pools(&[2, 99]), 0, Code::InvalidArgument),
        (pools(&[50]), 2, Code::Ok),
        (pools(&[-1]), 2, Code::Ok),
        (pools(&[2; 1000]), 2, Code::Ok),
        (range(55, 65), 6, Code::OutOfRange),
        (range(60, 61), 1, Code::OutOfRange),
        (range(61, 61), 0, Code::OutOfRange),
        (range(70, 65), 0, Code::OutOfRange),
        (range(70, 5), 0, Code::OutOfRange),
        (range(0, 2_147_483_647), 61, Code::OutOfRange),
    ] {
        let got = collect(client.get_block_range(request.clone()).await).await;
        assert_eq!((got.0.len(), got.1), (sent, expected), "{request:?}");
        let got = collect(client.get_block_range_nullifiers(request.clone()).await).await;
        assert_eq!((got.0.len(), got.1), (sent, expected), "{request:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_latest_block_is_the_tip_in_protocol_order() {
    let mut stage = Stage::new(3).await;
    let mut client = stage.client().await;
    for _ in 0..3 {
        let latest = client
            .get_latest_block(lightship_serve::proto::ChainSpec {})
            .await
            .unwrap()
            .into_inner();
        let tip = stage.tip();
        assert_eq!(latest.height, u64::from(tip.height));
        assert_eq!(latest.hash[..], tip.hash.as_internal()[..]);
        stage.mine();
        stage.follow();
    }
}
