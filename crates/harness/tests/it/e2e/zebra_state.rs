//! The index built from the state on the node's disk is the one built over its JSON-RPC, byte for byte, with the node running and without.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::ensure;
use lightship_harness::{
    lightship::{self, Lightship, Options},
    process::{output_of, wait_for},
    recorded,
    zebrad::Zebrad,
};
use tempfile::TempDir;

use super::{
    alone,
    equal::{PATIENCE, assert_equal, assert_equal_without, client, reaches},
    node_is_at_hand,
};

/// Blocks on top of the recorded chain: enough that the node's database has written, merged and removed files.
const MORE_BLOCKS: u32 = 20_000;
/// To build an index of them.
const INDEX_PATIENCE: Duration = Duration::from_secs(600);

fn is_at_hand() -> bool {
    if !node_is_at_hand() {
        return false;
    }
    let reads = lightship::reads_zebra_state().unwrap();
    if !reads {
        eprintln!(
            "SKIPPED: lightship was built without --zebra-state (feature zebra-state); name one that has it in LIGHTSHIP_BIN"
        );
    }
    reads
}

/// `lightship index` to its end.
fn index(arguments: &[&str], data: &Path) {
    let mut command = Command::new(lightship::binary().unwrap());
    command
        .args(["index", "--range-blocks", "64"])
        .args(arguments)
        .arg("--data-dir")
        .arg(data);
    let output = output_of(&mut command, INDEX_PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

/// Every file of the sealed ranges, by name. The names hold digests of the contents.
fn sealed(data: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fs::read_dir(data.join("sealed"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            (path.file_name().unwrap().into(), bytes)
        })
        .collect()
}

/// With `node` running, and stopped.
fn builds_are_equal(mut node: Zebrad, blocks_at_least: usize) {
    let folder = TempDir::new().unwrap();
    let data = |name: &str| folder.path().join(name);
    let url = node.rpc_url();
    let state = node.state_dir();
    let state = state.to_str().unwrap();

    index(&["--node", &url], &data("rpc"));
    let over_rpc = sealed(&data("rpc"));
    // Three files a range.
    assert!(
        over_rpc.len() / 3 * 64 >= blocks_at_least,
        "{}",
        over_rpc.len()
    );
    index(&["--node", &url, "--zebra-state", state], &data("running"));
    assert!(
        sealed(&data("running")) == over_rpc,
        "with the node running"
    );

    node.stop().unwrap();
    index(&["--zebra-state", state], &data("stopped"));
    let from_disk = sealed(&data("stopped"));
    assert!(
        from_disk == over_rpc,
        "with the node stopped: {} files of {}",
        from_disk.len(),
        over_rpc.len()
    );
    // Over an index that reaches further, nothing is to be done and nothing is lost.
    let before = fs::read(data("rpc").join("manifest")).unwrap();
    index(&["--zebra-state", state], &data("rpc"));
    assert!(
        fs::read(data("rpc").join("manifest")).unwrap() == before,
        "the longer index was changed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_on_disk_gives_the_index_that_json_rpc_gives() {
    let _turn = alone().await;
    if is_at_hand() {
        builds_are_equal(recorded::node().unwrap(), 1_500);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_many_files_gives_the_index_that_json_rpc_gives() {
    let _turn = alone().await;
    if !is_at_hand() {
        return;
    }
    if !recorded::is_lengthened(MORE_BLOCKS) {
        eprintln!(
            "SKIPPED: {MORE_BLOCKS} blocks take minutes to mine; lightship-harness bench-build mines and keeps them"
        );
        return;
    }
    builds_are_equal(recorded::lengthened_node(MORE_BLOCKS).unwrap(), 21_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_the_state_follows_its_node_and_outlives_it() {
    let _turn = alone().await;
    if !is_at_hand() {
        return;
    }
    let node = recorded::node().unwrap();
    let mut server = Lightship::start(Options {
        zebra_state: Some(node.state_dir()),
        ..Options::beside(&node)
    })
    .unwrap();
    assert_equal(&mut server, &node).await;
    node.generate(70).unwrap();
    let fork = node.hash_at(recorded::TIP + 60).unwrap();
    node.invalidate(fork).unwrap();
    node.generate(20).unwrap();
    assert_equal_without(&mut server, node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_node_serves_the_final_part_and_says_what_it_waits_for() {
    let _turn = alone().await;
    if !is_at_hand() {
        return;
    }
    let mut node = recorded::node().unwrap();
    let tip = node.tip().unwrap();
    node.stop().unwrap();
    let mut server = Lightship::start(Options {
        zebra_state: Some(node.state_dir()),
        ..Options::beside(&node)
    })
    .unwrap();
    wait_for("the final part", PATIENCE, || {
        server.check_running()?;
        let text = server.metrics()?;
        let height = text
            .lines()
            .find_map(|line| line.strip_prefix("lightship_ingest_indexed_height "))
            .and_then(|height| height.parse::<u32>().ok());
        ensure!(
            height.is_some_and(|height| height + 1_001 >= tip.height.get()),
            "{text}"
        );
        Ok(())
    })
    .unwrap();
    let log = server.log_tail();
    assert!(
        log.contains("the node is away: its final blocks are read from its disk"),
        "{log}"
    );
    let mut wallet = client(&mut server).await;
    let blocks = wallet.blocks(0, 1_500).await.unwrap();
    assert_eq!(blocks.len(), 1_501);
    // Once it is back, the rest is taken without a restart.
    node.resume().unwrap();
    reaches(&mut server, &mut wallet, tip).await;
    assert_equal_without(&mut server, node).await;
}
