//! What "equal" means: the server's tip is the node's, and every block from genesis to it has the bytes that the node's own light
//! wallet service sends.

use std::time::{Duration, Instant};

use lightship_chain::{
    BlockId, Height, RawBlock, TreeSizes,
    compact::{compact, project},
};
use lightship_harness::{
    grpc::Client,
    lightship::{Lightship, Options},
    proto, recorded,
    zebrad::Zebrad,
};

use prost::Message;
use tonic::Code;

use super::{alone, node_is_at_hand};

/// How long a build or a following step may take on a busy machine before something is wrong.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A client of `server`, as soon as it takes connections.
pub(super) async fn client(server: &mut Lightship) -> Client {
    let start = Instant::now();
    loop {
        server.check_running().unwrap();
        match Client::connect(&server.grpc_url()).await {
            Ok(client) => return client,
            Err(error) if start.elapsed() > PATIENCE => panic!("{error:#}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Waits until the server's tip is `tip`. Returns how long that took.
pub(super) async fn reaches(server: &mut Lightship, client: &mut Client, tip: BlockId) -> Duration {
    let start = Instant::now();
    loop {
        server.check_running().unwrap();
        let found = client.latest_block().await;
        if let Ok(found) = &found
            && found.height == u64::from(tip.height)
            && found.hash == tip.hash.as_internal()
        {
            return start.elapsed();
        }
        assert!(
            start.elapsed() < PATIENCE,
            "waiting for {tip}, the server answers {found:?}\n{}",
            server.log_tail()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the index itself ends at the height of `tip`: until then a server may read the highest blocks from the node as they are asked
/// for.
pub(super) fn indexes(server: &mut Lightship, tip: BlockId) {
    let wanted = format!("lightship_ingest_indexed_height {}", tip.height);
    server.wait_for_metrics(&[wanted], PATIENCE).unwrap();
}

/// Waits for the node's tip, then compares every block. Returns the blocks.
pub(super) async fn assert_equal(server: &mut Lightship, node: &Zebrad) -> Vec<Vec<u8>> {
    let mut ours = client(server).await;
    let tip = node.tip().unwrap();
    reaches(server, &mut ours, tip).await;
    let last = u64::from(tip.height);
    let ours = range(&mut ours, last).await;
    let mut theirs = vec![genesis(node)];
    let mut zebra = Client::connect(&node.lightwalletd_url()).await.unwrap();
    theirs.extend(zebra.blocks(1, last).await.unwrap());
    assert_eq!(ours.len(), theirs.len());
    for (height, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(
            const_hex::encode(ours),
            const_hex::encode(theirs),
            "block {height}\n{}",
            server.log_tail()
        );
    }
    ours
}

/// As [`assert_equal`]; then ends the node, and the server must send the same blocks again out of its index alone, which must be in order.
pub(super) async fn assert_equal_without(server: &mut Lightship, mut node: Zebrad) {
    let blocks = assert_equal(server, &node).await;
    indexes(server, node.tip().unwrap());
    node.kill();
    let mut ours = client(server).await;
    let again = ours.blocks(0, blocks.len() as u64 - 1).await.unwrap();
    assert!(
        again == blocks,
        "the index differs from what was read with the node"
    );
    server.stop().unwrap();
    let (status, findings) = server.verify().unwrap();
    assert!(status.success(), "{findings}");
}

/// Genesis to `last`, begun again as a wallet does when the best chain changes meanwhile: a server that has announced the node's tip may
/// not have changed its branch yet.
async fn range(client: &mut Client, last: u64) -> Vec<Vec<u8>> {
    let start = Instant::now();
    loop {
        match client.blocks(0, last).await {
            Err(status) if status.code() == Code::Aborted && start.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            other => return other.unwrap(),
        }
    }
}

/// Zebra's service refuses to send genesis, so it is encoded here.
fn genesis(node: &Zebrad) -> Vec<u8> {
    let bytes = node.raw_blocks(0..1).unwrap().remove(0);
    let block = compact(Height::GENESIS, RawBlock::Whole(&bytes)).unwrap();
    block.after(TreeSizes::ZERO).unwrap().frame[project::FRAME_PREFIX_BYTES..].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_block_of_a_new_index_equals_the_nodes_own() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    assert_equal_without(&mut server, node).await;
}

/// Around every activation and every change of miner: heights where a tree begins, grows, or stands still.
const TREE_HEIGHTS: [u64; 16] = [
    1,
    4,
    5,
    20,
    21,
    39,
    40,
    45,
    70,
    93,
    119,
    120,
    129,
    131,
    2000,
    recorded::TIP as u64,
];

#[tokio::test(flavor = "multi_thread")]
async fn tree_states_equal_the_nodes_own() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    let mut ours = client(&mut server).await;
    reaches(&mut server, &mut ours, node.tip().unwrap()).await;
    let mut zebra = Client::connect(&node.lightwalletd_url()).await.unwrap();
    for height in TREE_HEIGHTS {
        let block = proto::BlockId {
            height,
            hash: Vec::new(),
        };
        let [ours, theirs] = [
            ours.unary("GetTreeState", block.clone()).await.unwrap(),
            zebra.unary("GetTreeState", block).await.unwrap(),
        ]
        .map(|bytes| proto::TreeState::decode(&bytes[..]).unwrap());
        // Servers call regtest by different names.
        let theirs = proto::TreeState {
            network: ours.network.clone(),
            ..theirs
        };
        assert_eq!(ours, theirs, "block {height}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_asks_for_its_cookie_is_followed_over_its_restart() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let options = lightship_harness::zebrad::Options {
        cookie: true,
        ..recorded::options()
    };
    let mut node = recorded::node_with(&options).unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    assert_equal(&mut server, &node).await;
    // It writes another secret at each start.
    node.stop().unwrap();
    node.resume().unwrap();
    node.generate(2).unwrap();
    assert_equal(&mut server, &node).await;
}
