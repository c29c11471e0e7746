//! Tree states and subtree roots.

use lightship_serve::proto::{BlockId, Empty, GetSubtreeRootsArg};
use lightship_source::{Node as _, simulated::Fault};
use tonic::Code;

use crate::stage::{Setup, Stage, code, collect, id};

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_state_is_the_same_by_height_and_by_hash_in_either_order() {
    for indexed in [None, Some(12), Some(20)] {
        let stage = Stage::with(Setup {
            indexed,
            ..Setup::whole(20)
        })
        .await;
        let mut client = stage.client().await;
        for block in &stage.blocks {
            let expected = stage.node.tree_state(block.id.hash).await.unwrap().unwrap();
            let by_hash = |hash: Vec<u8>, height| BlockId {
                height,
                hash: hash.into(),
            };
            for request in [
                id(u64::from(block.id.height)),
                by_hash(block.id.hash.as_internal().to_vec(), 0),
                by_hash(block.id.hash.to_display_order().to_vec(), 0),
                by_hash(block.id.hash.as_internal().to_vec(), 3),
            ] {
                let got = client.get_tree_state(request).await.unwrap().into_inner();
                assert_eq!(got.height, u64::from(block.id.height));
                assert_eq!(got.hash, block.id.hash.to_string());
                assert_eq!(got.time, block.time);
                assert_eq!(
                    got.sapling_tree,
                    expected.sapling.clone().unwrap_or_default()
                );
                assert_eq!(
                    got.orchard_tree,
                    expected.orchard.clone().unwrap_or_default()
                );
                assert_eq!(
                    got.ironwood_tree,
                    expected.ironwood.clone().unwrap_or_default()
                );
            }
        }
        let latest = client.get_latest_tree_state(Empty {}).await.unwrap();
        let by_height = client.get_tree_state(id(20)).await.unwrap();
        assert_eq!(latest.into_inner(), by_height.into_inner());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_not_active_is_empty_and_one_without_notes_is_not() {
    let stage = Stage::new(12).await;
    let mut client = stage.client().await;
    // Sapling from 2, Orchard from 6, Ironwood from 9; the first note of each in block 10.
    for (height, expected) in [
        (0, ["", "", ""]),
        (1, ["", "", ""]),
        (2, ["000000", "", ""]),
        (6, ["000000", "000000", ""]),
        (9, ["000000", "000000", "000000"]),
    ] {
        let got = client
            .get_tree_state(id(height))
            .await
            .unwrap()
            .into_inner();
        let trees = [got.sapling_tree, got.orchard_tree, got.ironwood_tree];
        assert_eq!(trees, expected, "{height}");
    }
    let got = client.get_tree_state(id(10)).await.unwrap().into_inner();
    assert!(got.sapling_tree.len() > 6 && got.ironwood_tree.len() > 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_state_that_cannot_be_had_says_why() {
    let stage = Stage::new(12).await;
    let mut client = stage.client().await;
    let with_hash = |bytes: usize| BlockId {
        height: 3,
        hash: vec![9; bytes].into(),
    };
    for (request, expected) in [
        (id(13), Code::OutOfRange),
        (id(1 << 31), Code::InvalidArgument),
        (id(u64::MAX), Code::InvalidArgument),
        (with_hash(31), Code::InvalidArgument),
        (with_hash(1 << 20), Code::InvalidArgument),
        (with_hash(32), Code::NotFound),
    ] {
        assert_eq!(code(client.get_tree_state(request).await), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subtree_roots_are_the_nodes_with_the_block_that_completed_them() {
    use lightship_chain::build::Recipe;
    let mut stage = Stage::new(10).await;
    // 65,536 notes make a subtree; blocks of 7,000 Sapling outputs get there soon.
    for _ in 0..20 {
        let version = stage.chain.newest_version();
        let recipe = Recipe::new(version).with_sapling(0, 7_000);
        let tx = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[tx]);
    }
    let top = stage.tip().height.get();
    stage.index_through(22);
    stage.writer.announce(stage.node.best());
    let mut client = stage.client().await;
    let expected = stage
        .node
        .subtree_roots(lightship_chain::ShieldedPool::Sapling, 0, None)
        .await
        .unwrap();
    assert_eq!(expected.len(), 2);
    let ask = |start_index, max_entries, shielded_protocol| {
        let mut client = client.clone();
        let request = GetSubtreeRootsArg {
            start_index,
            shielded_protocol,
            max_entries,
        };
        async move { collect(client.get_subtree_roots(request).await).await }
    };
    for (start, max, range) in [
        (0, 0, 0..2),
        (0, 1, 0..1),
        (1, 0, 1..2),
        (0, 65_536, 0..2),
        (0, u32::MAX, 0..2),
        (2, 0, 2..2),
        (65_535, 0, 2..2),
    ] {
        let (roots, ended) = ask(start, max, 0).await;
        assert_eq!(ended, Code::Ok);
        assert_eq!(roots.len(), range.len(), "{start}, {max}");
        for (root, expected) in roots.iter().zip(&expected[range]) {
            assert_eq!(root.root_hash[..], expected.root[..]);
            assert_eq!(root.completing_block_height, u64::from(expected.end_height));
            let block = &stage.blocks[expected.end_height.get() as usize];
            assert_eq!(
                root.completing_block_hash[..],
                block.id.hash.to_display_order()[..]
            );
        }
    }
    for protocol in [1, 2] {
        assert_eq!(ask(0, 0, protocol).await, (Vec::new(), Code::Ok));
    }
    assert_eq!(ask(65_536, 0, 0).await.1, Code::InvalidArgument);
    assert_eq!(ask(0, 0, 3).await.1, Code::InvalidArgument);
    assert_eq!(ask(0, 0, -1).await.1, Code::InvalidArgument);
    // Rolled back below the second one's end.
    let second = expected[1].end_height.get();
    stage.reorg((top - second + 1) as usize, 0, 0);
    stage.follow();
    let (roots, _) = {
        let request = GetSubtreeRootsArg::default();
        collect(client.get_subtree_roots(request).await).await
    };
    assert_eq!(roots.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_states_come_from_the_index_with_the_node_switched_off() {
    let stage = Stage::with(Setup {
        trees: true,
        sealed: 30,
        ..Setup::whole(45)
    })
    .await;
    let mut client = stage.client().await;
    let mut expected = Vec::new();
    for block in &stage.blocks {
        expected.push(stage.node.tree_state(block.id.hash).await.unwrap().unwrap());
    }
    stage.node.faults().add(Fault::Refuse);
    for (block, expected) in stage.blocks.iter().zip(expected) {
        let request = id(u64::from(block.id.height));
        let got = client.get_tree_state(request).await.unwrap().into_inner();
        assert_eq!(got.hash, block.id.hash.to_string());
        assert_eq!(got.time, block.time);
        assert_eq!(got.sapling_tree, expected.sapling.unwrap_or_default());
        assert_eq!(got.orchard_tree, expected.orchard.unwrap_or_default());
        assert_eq!(got.ironwood_tree, expected.ironwood.unwrap_or_default());
    }
    let latest = client.get_latest_tree_state(Empty {}).await.unwrap();
    let by_height = client.get_tree_state(id(45)).await.unwrap();
    assert_eq!(latest.into_inner(), by_height.into_inner());
    let roots = client.get_subtree_roots(GetSubtreeRootsArg::default());
    let (roots, code) = collect(roots.await).await;
    assert_eq!((roots.len(), code), (0, Code::Ok));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_block_keeps_its_tree_state_by_hash_and_nothing_else() {
    let mut stage = Stage::with(Setup {
        trees: true,
        sealed: 15,
        ..Setup::whole(45)
    })
    .await;
    let mut client = stage.client().await;
    let replaced = stage.blocks[44].id;
    let by_hash = |bytes: &[u8]| BlockId {
        height: 0,
        hash: bytes.to_vec().into(),
    };
    let (internal, display) = (
        replaced.hash.as_internal(),
        replaced.hash.to_display_order(),
    );
    let before = client.get_tree_state(id(44)).await.unwrap().into_inner();
    assert_eq!(before.hash, replaced.hash.to_string());
    stage.reorg(3, 5, 1);
    stage.follow();
    stage.grow_trees();
    stage.node.faults().add(Fault::Refuse);
    for hash in [&internal[..], &display[..]] {
        let after = client.get_tree_state(by_hash(hash)).await.unwrap();
        assert_eq!(after.into_inner(), before);
    }
    let at_its_height = client.get_tree_state(id(44)).await.unwrap().into_inner();
    assert_eq!(at_its_height.hash, stage.blocks[44].id.hash.to_string());
    assert_ne!(at_its_height.sapling_tree, before.sapling_tree);
    // The block itself is no longer the chain's.
    let block = client.get_block(by_hash(internal)).await;
    assert_eq!(code(block), Code::Unavailable, "the node cannot be asked");
}
