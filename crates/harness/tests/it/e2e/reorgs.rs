//! The best chain moves while the server follows it.

use std::time::Duration;

use lightship_harness::{
    lightship::{Lightship, Options},
    recorded,
    zebrad::Zebrad,
};

use super::{
    alone,
    equal::{assert_equal, assert_equal_without},
    node_is_at_hand,
};

/// From one block to half of what Zebra keeps replaceable; 500 crosses blocks with notes of two pools and many sealed ranges.
const DEPTHS: [u32; 3] = [1, 10, 500];

/// Takes the top `depth` blocks off the best chain; returns the lowest of them.
fn take_off(node: &Zebrad, depth: u32) -> lightship_chain::BlockHash {
    let tip = node.tip().unwrap();
    let lowest = node.hash_at(tip.height.get() + 1 - depth).unwrap();
    let left = node.invalidate(lowest).unwrap();
    assert_eq!(left.height.get(), tip.height.get() - depth);
    lowest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_without_new_blocks_is_followed_down_and_up_again() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let tip = node.tip().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    assert_equal(&mut server, &node).await;
    for depth in DEPTHS {
        let lowest = take_off(&node, depth);
        assert_equal(&mut server, &node).await;
        node.reconsider(lowest).unwrap();
        node.wait_for_tip(tip, Duration::from_secs(60)).unwrap();
        assert_equal(&mut server, &node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_branch_is_followed_whether_longer_or_shorter() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    for depth in DEPTHS {
        // A new node each time: one that knows older branches would go back to them.
        let node = recorded::node().unwrap();
        let mut server = Lightship::start(Options::beside(&node)).unwrap();
        assert_equal(&mut server, &node).await;
        take_off(&node, depth);
        node.generate(depth + 1).unwrap();
        let longer = node.tip().unwrap();
        assert_equal(&mut server, &node).await;
        let lowest = take_off(&node, depth);
        node.generate_to(1, recorded::SAPLING_ADDRESS).unwrap();
        assert_equal(&mut server, &node).await;
        if depth > 1 {
            // Of two branches of one length either may win; longer ones do.
            node.reconsider(lowest).unwrap();
            node.wait_for_tip(longer, Duration::from_secs(60)).unwrap();
            assert_equal(&mut server, &node).await;
        }
        assert_equal_without(&mut server, node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_changed_while_the_server_was_down_is_found_at_its_start() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    assert_equal(&mut server, &node).await;
    for depth in DEPTHS {
        server.stop().unwrap();
        take_off(&node, depth);
        node.generate(depth / 2 + 1).unwrap();
        server.resume().unwrap();
        assert_equal(&mut server, &node).await;
    }
    assert_equal_without(&mut server, node).await;
}
