//! One of the two processes ends, in order or not, and comes back.

use std::time::Duration;

use lightship_harness::{
    lightship::{Lightship, Options},
    recorded,
};

use super::{
    alone,
    equal::{assert_equal, assert_equal_without},
    node_is_at_hand,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_lower_is_followed() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let mut node = recorded::node().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    for blocks in [40, 600] {
        node.generate(blocks).unwrap();
        assert_equal(&mut server, &node).await;
        node.kill();
        recorded::rewind(&mut node).unwrap();
        node.resume().unwrap();
        assert_eq!(node.tip().unwrap().height.get(), recorded::TIP);
        assert_equal(&mut server, &node).await;
        node.generate(3).unwrap();
        assert_equal(&mut server, &node).await;
    }
    assert_equal_without(&mut server, node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_goes_on_where_it_was() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    for round in 0..3 {
        assert_equal(&mut server, &node).await;
        if round == 1 {
            server.kill();
        } else {
            server.stop().unwrap();
        }
        node.generate(round).unwrap();
        server.resume().unwrap();
    }
    assert_equal(&mut server, &node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_is_killed_again_and_again_still_ends_equal() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    // From before the first block to after the last on any machine; each step opens what the one before it left.
    for milliseconds in [20, 40, 60, 80, 100, 140, 180, 240, 320, 400] {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        server.check_running().unwrap();
        server.kill();
        let (status, findings) = server.verify().unwrap();
        // Nothing may be there yet; whatever is must be whole.
        let nothing = !server.data_dir().join("manifest").exists();
        assert!(
            status.success() || nothing,
            "after {milliseconds} ms: {findings}"
        );
        server.resume().unwrap();
    }
    assert_equal_without(&mut server, node).await;
}
