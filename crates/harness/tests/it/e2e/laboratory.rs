//! The fixtures themselves: what the other checks take for granted.

use std::time::Duration;

use lightship_harness::recorded;

use super::{alone, node_is_at_hand};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_the_recorded_chain_keeps_its_tip_over_a_restart() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let mut node = recorded::node().unwrap();
    let tip = node.tip().unwrap();
    assert_eq!(tip.height.get(), recorded::TIP);
    node.generate(3).unwrap();
    let mined = node.tip().unwrap();
    assert_eq!(mined.height.get(), recorded::TIP + 3);
    node.stop().unwrap();
    node.resume().unwrap();
    assert_eq!(node.tip().unwrap(), mined);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalidating_a_block_lowers_the_tip_and_reconsidering_raises_it() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let tip = node.tip().unwrap();
    let lowest = node.hash_at(recorded::TIP - 499).unwrap();
    let lowered = node.invalidate(lowest).unwrap();
    assert_eq!(lowered.height.get(), recorded::TIP - 500);
    node.reconsider(lowest).unwrap();
    node.wait_for_tip(tip, Duration::from_secs(30)).unwrap();
}
