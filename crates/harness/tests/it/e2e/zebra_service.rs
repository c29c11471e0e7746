//! The other checks take Zebra's built-in light wallet service for the truth; here it is held against our encoder in this process.
//!
//! Zebra 7.0.0 encodes the default view exactly as the protocol's v0.5.0 asks, Ironwood included, so nothing needs to be normalised. It
//! answers no range that starts at genesis.

use lightship_chain::{
    Height, RawBlock, TreeSizes,
    compact::{compact, project},
};
use lightship_harness::{grpc, recorded};

use super::{alone, node_is_at_hand};

#[tokio::test]
async fn the_nodes_own_service_sends_the_bytes_that_we_encode() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let mut client = grpc::Client::connect(&node.lightwalletd_url())
        .await
        .unwrap();
    let theirs = client.blocks(1, u64::from(recorded::TIP)).await.unwrap();
    assert_eq!(theirs.len() as u32, recorded::TIP);
    let mut sizes = TreeSizes::ZERO;
    for (height, bytes) in recorded::blocks().unwrap().iter().enumerate() {
        let block = compact(Height::new(height as u32), RawBlock::Whole(bytes)).unwrap();
        let ours = block.after(sizes).unwrap();
        sizes = ours.sizes;
        if height > 0 {
            assert_eq!(
                const_hex::encode(&ours.frame[project::FRAME_PREFIX_BYTES..]),
                const_hex::encode(&theirs[height - 1]),
                "block {height}"
            );
        }
    }
    assert!(client.blocks(0, 1).await.is_err());
}
