//! Tree states and subtree roots out of the index: what a real node says, at every height, also once the node is gone.

use std::time::{Duration, Instant};

use lightship_harness::{
    conform::node::Node,
    grpc::Client,
    lightship::{Lightship, Options},
    proto::{BlockId, Empty, GetSubtreeRootsArg, TreeState},
    recorded,
};
use prost::Message;
use tonic::Code;

use super::{
    alone,
    equal::{PATIENCE, client, indexes, reaches},
    node_is_at_hand,
};

/// Waits until the trees have grown to `height`: until then a server asks the node.
fn grown(server: &mut Lightship, height: u32) {
    let wanted = format!("lightship_trees_height {height}");
    server.wait_for_metrics(&[wanted], PATIENCE).unwrap();
}

async fn tree_state(client: &mut Client, id: BlockId) -> Result<TreeState, tonic::Status> {
    let bytes = client.unary("GetTreeState", id).await?;
    Ok(TreeState::decode(&bytes[..]).unwrap())
}

fn at(height: u64) -> BlockId {
    BlockId {
        height,
        hash: Vec::new(),
    }
}

/// By height and by hash in both orders, and the latest.
async fn assert_all(client: &mut Client, expected: &[TreeState]) {
    for (height, expected) in (0..).zip(expected) {
        let mut hash = const_hex::decode(&expected.hash).unwrap();
        let displayed = BlockId {
            height: 0,
            hash: hash.clone(),
        };
        hash.reverse();
        let internal = BlockId { height: 0, hash };
        for id in [at(height), internal, displayed] {
            let found = tree_state(client, id.clone()).await.unwrap();
            assert_eq!(found, *expected, "{id:?}");
        }
    }
    let latest = client.unary("GetLatestTreeState", Empty {}).await.unwrap();
    let latest = TreeState::decode(&latest[..]).unwrap();
    assert_eq!(latest, *expected.last().unwrap());
}

/// What the node says of every block of its best chain.
fn all(node: &Node, network: &str, tip: u32) -> Vec<TreeState> {
    (0..=tip)
        .map(|height| node.tree_state(network, &height.to_string()).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tree_state_is_the_nodes_own_also_with_the_node_gone() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let mut node = recorded::node().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    let mut ours = client(&mut server).await;
    let tip = node.tip().unwrap();
    reaches(&mut server, &mut ours, tip).await;
    let asked = Node::new(&node.rpc_url(), None);
    // Servers call regtest by different names.
    let network = tree_state(&mut ours, at(1)).await.unwrap().network;
    let expected = all(&asked, &network, tip.height.get());
    // The chain is worth the comparison: each pool is absent, empty, and then not.
    for pool in [
        |state: &TreeState| state.orchard_tree.clone(),
        |state: &TreeState| state.ironwood_tree.clone(),
    ] {
        assert_eq!(pool(&expected[0]), "");
        assert!(expected.iter().any(|state| pool(state).len() > 6));
    }
    assert_eq!(expected[4].sapling_tree, "000000");
    assert_eq!(expected[39].orchard_tree, "");
    let roots = ["sapling", "orchard", "ironwood"].map(|pool| asked.subtree_roots(pool).unwrap());
    grown(&mut server, tip.height.get());
    indexes(&mut server, tip);
    node.kill();
    assert_all(&mut ours, &expected).await;
    for (number, expected) in (0..).zip(&roots) {
        let asked = GetSubtreeRootsArg {
            start_index: 0,
            shielded_protocol: number,
            max_entries: 0,
        };
        let mut found = ours.stream("GetSubtreeRoots", asked).await.unwrap();
        // No pool of this chain has 65,536 notes.
        assert!(expected.is_empty() && found.message().await.unwrap().is_none());
    }
    // Another process, which never hears of the node.
    server.stop().unwrap();
    let (status, findings) = server.verify_trees().unwrap();
    assert!(status.success(), "{findings}");
    assert!(findings.contains("compared"), "{findings}");
    server.resume().unwrap();
    let mut ours = client(&mut server).await;
    grown(&mut server, tip.height.get());
    let network = tree_state(&mut ours, at(1)).await.unwrap().network;
    let named = expected.into_iter().map(|state| TreeState {
        network: network.clone(),
        ..state
    });
    assert_all(&mut ours, &named.collect::<Vec<_>>()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_that_were_killed_while_they_grew_are_the_nodes_own() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    let tip = node.tip().unwrap();
    // The index is built in half a second or so, and the trees grow after it: kills in both.
    for milliseconds in [300, 600, 700, 800, 900, 1_000, 1_200] {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        server.check_running().unwrap();
        server.kill();
        if server.data_dir().join("manifest").exists() {
            let (status, findings) = server.verify_trees().unwrap();
            assert!(status.success(), "after {milliseconds} ms: {findings}");
        }
        server.resume().unwrap();
    }
    let mut ours = client(&mut server).await;
    reaches(&mut server, &mut ours, tip).await;
    grown(&mut server, tip.height.get());
    let network = tree_state(&mut ours, at(1)).await.unwrap().network;
    let asked = Node::new(&node.rpc_url(), None);
    let expected = all(&asked, &network, tip.height.get());
    drop(node);
    assert_all(&mut ours, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_block_keeps_its_tree_state_by_hash_and_its_successor_has_one() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let mut node = recorded::node().unwrap();
    node.generate_to(3, recorded::SAPLING_ADDRESS).unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    let mut ours = client(&mut server).await;
    let old = node.tip().unwrap();
    reaches(&mut server, &mut ours, old).await;
    grown(&mut server, old.height.get());
    let replaced = BlockId {
        height: 0,
        hash: old.hash.as_internal().to_vec(),
    };
    let before = tree_state(&mut ours, replaced.clone()).await.unwrap();
    assert_eq!(before.hash, old.hash.to_string());
    // Three blocks go, four come, with notes at other heights.
    node.invalidate(node.hash_at(recorded::TIP + 1).unwrap())
        .unwrap();
    node.generate(3).unwrap();
    node.generate_to(1, recorded::UNIFIED_ADDRESS).unwrap();
    let tip = node.tip().unwrap();
    reaches(&mut server, &mut ours, tip).await;
    grown(&mut server, tip.height.get());
    let kept = tree_state(&mut ours, replaced.clone()).await.unwrap();
    assert_eq!(kept, before);
    let network = tree_state(&mut ours, at(1)).await.unwrap().network;
    let asked = Node::new(&node.rpc_url(), None);
    let expected = all(&asked, &network, tip.height.get());
    node.kill();
    assert_all(&mut ours, &expected).await;
    assert_eq!(tree_state(&mut ours, replaced).await.unwrap(), before);
    // Nobody can say any more whether there is such a block.
    let never = BlockId {
        height: 0,
        hash: vec![0xab; 32],
    };
    let start = Instant::now();
    let unknown = tree_state(&mut ours, never).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unavailable, "{unknown:?}");
    assert!(start.elapsed() < PATIENCE);
}
