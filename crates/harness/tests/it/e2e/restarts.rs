//! One of the two processes ends, in order or not, and comes back.

use std::time::Duration;

use lightship_harness::{
    lightship::{Lightship, Options},
    recorded, zebrad,
};

use super::{alone, equal::assert_equal, node_is_at_hand};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_lower_is_followed() {
    let _turn = alone().await;
    if !node_is_at_hand() {
        return;
    }
    let options = zebrad::Options {
        lossy_restart: true,
        ..recorded::options()
    };
    let mut node = recorded::node_with(&options).unwrap();
    let mut server = Lightship::start(Options::beside(&node)).unwrap();
    assert_equal(&mut server, &node).await;
    for ends_in_order in [true, false] {
        node.generate(40).unwrap();
        assert_equal(&mut server, &node).await;
        let before = node.tip().unwrap();
        if ends_in_order {
            node.stop().unwrap();
        } else {
            node.kill();
        }
        node.resume().unwrap();
        let after = node.tip().unwrap();
        eprintln!("the node's tip was {}, is {}", before.height, after.height);
        assert_equal(&mut server, &node).await;
        node.generate(3).unwrap();
        assert_equal(&mut server, &node).await;
    }
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
    assert_equal(&mut server, &node).await;
    server.stop().unwrap();
    let (status, findings) = server.verify().unwrap();
    assert!(status.success(), "{findings}");
}
