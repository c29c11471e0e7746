//! `conform` itself, against our own program.

use std::{process::Command, time::Duration};

use lightship_harness::{
    conform::{Options, Report, run},
    lightship::{self, Lightship},
    process::{Process, free_address, wait_for},
    recorded,
};
use tokio::{runtime::Runtime, sync::MutexGuard};

use super::{alone, node_is_at_hand};

/// For the server to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// `run` has a runtime of its own, so these tests have none.
fn turn() -> MutexGuard<'static, ()> {
    Runtime::new().unwrap().block_on(alone())
}

/// A demo of so many blocks, of which a new one comes every `seconds`, and what `conform` says of it.
fn judge_demo(blocks: u32, seconds: u32) -> Report {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let [grpc, http, node] = std::array::from_fn(|_| free_address().unwrap());
    let mut command = Command::new(lightship::binary().unwrap());
    command
        .arg("demo")
        .args(["--grpc-listen", &grpc.to_string()])
        .args(["--http-listen", &http.to_string()])
        .args(["--node-listen", &node.to_string()])
        .args(["--blocks", &blocks.to_string()])
        .args(["--block-seconds", &seconds.to_string()]);
    let demo = Process::start(&mut command, &folder.path().join("log")).unwrap();
    let options = Options::new(format!("http://{grpc}"), format!("http://{node}"));
    wait_for("a demo that answers", PATIENCE, || run(&options))
        .unwrap_or_else(|error| panic!("{error:#}\n{}", demo.log_tail()))
}

#[test]
fn our_server_conforms_on_a_chain_that_stands() {
    let report = judge_demo(400, 86_400);
    assert!(report.cases.len() >= 300, "{report}");
    assert_eq!(report.failed().count(), 0, "{report}");
    every_rule_is_written_down_and_cited(&report);
}

#[test]
fn our_server_conforms_on_a_chain_that_moves() {
    let report = judge_demo(150, 5);
    assert_eq!(report.failed().count(), 0, "{report}");
}

#[test]
fn our_server_conforms_on_a_real_node() {
    if !node_is_at_hand() {
        return;
    }
    let _turn = turn();
    let node = recorded::node().unwrap();
    let server = Lightship::start(lightship::Options::beside(&node)).unwrap();
    let options = Options::new(server.grpc_url(), node.rpc_url());
    let report = wait_for("a server that answers", PATIENCE, || run(&options)).unwrap();
    assert_eq!(report.failed().count(), 0, "{report}");
}

/// Red on a server that deviates: the suite is worth something, and the list in the docs is true.
#[test]
fn another_server_differs_in_what_is_written_and_in_nothing_else() {
    if !node_is_at_hand() {
        return;
    }
    let _turn = turn();
    let node = recorded::node().unwrap();
    let report = run(&Options::new(node.lightwalletd_url(), node.rpc_url())).unwrap();
    let list = include_str!("../../../../../docs/differences/zebra-7.0.0.txt");
    let compared = report.compare(list);
    assert!(
        compared.unexpected.is_empty() && compared.gone.is_empty(),
        "{compared:?}\n{report}"
    );
    assert!(report.failed().count() >= 250, "{report}");
}

fn every_rule_is_written_down_and_cited(report: &Report) {
    let docs = include_str!("../../../../../docs/conformance.md");
    let written: Vec<&str> = docs
        .lines()
        .skip_while(|line| !line.starts_with("| rule |"))
        .skip(2)
        .filter_map(|line| line.split('|').nth(1))
        .map(str::trim)
        .collect();
    for case in &report.cases {
        assert!(
            written.contains(&case.rule),
            "{} is not in the docs",
            case.rule
        );
    }
    for rule in written {
        // Only a mempool that holds something has such cases.
        let cited = rule == "TX-3" || report.cases.iter().any(|case| case.rule == rule);
        assert!(cited, "no case cites {rule}");
    }
}
