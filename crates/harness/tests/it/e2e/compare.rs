//! `compare` between two servers of ours beside one node: nothing may differ, not even strictly.

use std::{process::Command, time::Duration};

use lightship_harness::{
    conform::compare::{Options, run},
    lightship::{self, Lightship},
    process::{Process, free_address, wait_for},
};
use tokio::runtime::Runtime;

use super::alone;

/// For the servers to listen.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn two_servers_of_ours_say_the_same() {
    let _turn = Runtime::new().unwrap().block_on(alone());
    let folder = tempfile::tempdir().unwrap();
    let [grpc, http, node] = std::array::from_fn(|_| free_address().unwrap());
    let mut command = Command::new(lightship::binary().unwrap());
    command
        .arg("demo")
        .args(["--grpc-listen", &grpc.to_string()])
        .args(["--http-listen", &http.to_string()])
        .args(["--node-listen", &node.to_string()])
        .args(["--blocks", "400"])
        .args(["--block-seconds", "86400"]);
    let demo = Process::start(&mut command, &folder.path().join("log")).unwrap();
    let node_url = format!("http://{node}");
    // The demo keeps all blocks in one range; the other one has many.
    let other = Lightship::start(lightship::Options {
        node_url: node_url.clone(),
        node_cookie: None,
        zebra_state: None,
        zebra_indexer: None,
        poll: None,
        range_blocks: Some(64),
    })
    .unwrap();
    let mut options = Options::new(format!("http://{grpc}"), other.grpc_url(), node_url);
    options.strict = true;
    let report = wait_for("two servers that answer", PATIENCE, || run(&options))
        .unwrap_or_else(|error| panic!("{error:#}\n{}", demo.log_tail()));
    assert_eq!(report.different().count(), 0, "{report}");
    assert!(report.asked.len() > 800, "{report}");
    let [a, b] = report.digests();
    assert_eq!(a, b);
}
