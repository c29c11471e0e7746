//! Our program held to the rules on chains that no node makes on request: real ones and ugly ones.

use std::{fmt::Write as _, path::Path, process::Command};

use lightship_harness::{
    conform,
    forge::{Settings as Forging, command, file::Trees, profile::Profile},
    lightship::{Lightship, Options},
    process::{output_of, wait_for},
    stub::Stub,
};
use lightship_source::simulated::http::{Running, Settings};

use super::PATIENCE;

/// Serves the chain file as a node, our program beside it, and judges.
fn judge(chain: &Path) -> conform::Report {
    let stub = Stub::open(chain, None).unwrap();
    let port = Running::start(stub.node().clone(), Settings::default()).unwrap();
    let server = Lightship::start(Options {
        node_url: port.url(),
        node_cookie: None,
        zebra_state: None,
        zebra_indexer: None,
        poll: None,
        range_blocks: Some(64),
    })
    .unwrap();
    let mut options = conform::Options::new(server.grpc_url(), port.url());
    // Compiled without optimisation, on a busy machine, some answers take long.
    options.patience = PATIENCE;
    let report = wait_for("a server that answers", PATIENCE, || conform::run(&options));
    report.unwrap_or_else(|error| panic!("{error:#}\n{}", server.log_tail()))
}

#[test]
fn our_server_conforms_on_the_first_blocks_of_mainnet() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for block in zebra_test::vectors::CONTINUOUS_MAINNET_BLOCKS.values() {
        writeln!(lines, "{}", const_hex::encode(block)).unwrap();
    }
    let blocks = folder.path().join("blocks.hex");
    std::fs::write(&blocks, lines).unwrap();
    let chain = folder.path().join("chain");
    let mut pack = Command::new(env!("CARGO_BIN_EXE_lightship-harness"));
    pack.args(["pack", "--upgrade", "Overwinter=347500"]);
    pack.args(["--upgrade", "Sapling=419200", "--upgrade", "Blossom=653600"]);
    pack.arg("--blocks").arg(&blocks).arg("--out").arg(&chain);
    let packed = output_of(&mut pack, PATIENCE).unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let report = judge(&chain);
    assert_eq!(report.tip, 10);
    assert!(report.cases.len() >= 300, "{report}");
    assert_eq!(report.failed().count(), 0, "{report}");
}

#[test]
fn our_server_conforms_on_ugly_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let chain = folder.path().join("chain");
    let settings = Forging {
        branch_every: 0,
        // Two megabytes are for a build with optimisation: `docs/differences.md`.
        fill_bytes: 20_000,
        ..Forging::new(Profile::Ugly, 150, 1)
    };
    command::write(settings, &chain, Trees::StandIn).unwrap();
    let report = judge(&chain);
    assert!(report.cases.len() >= 1_000, "{report}");
    assert_eq!(report.failed().count(), 0, "{report}");
}
