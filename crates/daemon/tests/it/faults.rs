//! Faults that programs like this one have had, as an operator would meet them. `docs/faults.md` lists all of them, wherever their tests are.

use std::{path::Path, time::Duration};

use lightship_chain::build::{Activations, ChainBuilder, Coinbase, regtest_genesis};
use lightship_serve::proto::{BlockId, ChainSpec, CompactTxStreamerClient, Empty};
use lightship_source::simulated::{Fault, Rule, SimulatedNode, http};
use tempfile::TempDir;
use tonic::{Code, transport::Channel};

use crate::process::{Running, get};

/// Far less than the time that running answers are given to end.
const AT_ONCE: Duration = Duration::from_secs(3);

fn node(blocks: usize) -> (SimulatedNode, http::Running) {
    let activations = Activations::all_at(lightship_chain::Upgrade::Nu6_3, 1);
    let node = SimulatedNode::from_blocks(activations.clone(), [regtest_genesis().bytes]).unwrap();
    let mut chain = ChainBuilder::on_regtest(3, activations);
    for _ in 0..blocks {
        let block = chain.next_block(Coinbase::default(), &[]).unwrap();
        node.extend(block.bytes).unwrap();
    }
    let port = http::Running::start(node.clone(), http::Settings::default()).unwrap();
    (node, port)
}

fn serve(node: &http::Running, folder: &Path) -> Running {
    let url = node.url();
    let dir = folder.join("index");
    let arguments = [
        "serve",
        "--node",
        &url,
        "--data-dir",
        dir.to_str().unwrap(),
        "--grpc-listen",
        "127.0.0.1:0",
        "--http-listen",
        "127.0.0.1:0",
    ];
    Running::start(&arguments, folder)
}

async fn client(server: &mut Running) -> CompactTxStreamerClient<Channel> {
    let address = server.address("grpc://");
    CompactTxStreamerClient::connect(format!("http://{address}"))
        .await
        .unwrap()
}

/// A node that loads its own index was taken for one that refuses, and the program ended; or it never noticed that the node was ready.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_loading_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let (node, port) = node(30);
    node.faults().add(Fault::Warming);
    let mut server = serve(&port, folder.path());
    let mut wallet = client(&mut server).await;
    let refused = wallet.get_latest_block(ChainSpec {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    let operator = server.address("http://");
    assert!(get(&operator, "/readyz").0.contains("503"));
    node.faults().clear();
    server.line_with("INFO ready");
    let latest = wallet.get_latest_block(ChainSpec {}).await.unwrap();
    assert_eq!(latest.into_inner().height, 30);
    assert!(server.stop().0.success());
}

/// The program ended at its node's third failure to answer; or what it had was away with the node.
#[tokio::test(flavor = "multi_thread")]
async fn the_program_outlives_its_node() {
    let folder = TempDir::new().unwrap();
    let (node, port) = node(30);
    let mut server = serve(&port, folder.path());
    server.line_with("INFO ready");
    let mut wallet = client(&mut server).await;
    for fault in [Fault::Refuse, Fault::Cut, Fault::Status(500), Fault::Html] {
        node.faults().add(fault);
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let latest = wallet.get_latest_block(ChainSpec {}).await.unwrap();
            assert_eq!(latest.into_inner().height, 30);
        }
        node.faults().clear();
    }
    let mut chain =
        ChainBuilder::on_regtest(4, Activations::all_at(lightship_chain::Upgrade::Nu6_3, 1));
    let other: Vec<_> = (0..35)
        .map(|_| chain.next_block(Coinbase::default(), &[]).unwrap())
        .collect();
    let tip = other.last().unwrap().id;
    node.reorg(30, other.into_iter().map(|block| block.bytes))
        .unwrap();
    let followed = async {
        loop {
            let latest = wallet.get_latest_block(ChainSpec {}).await.unwrap();
            if latest.into_inner().hash[..] == tip.hash.as_internal()[..] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), followed)
        .await
        .expect("the node's new branch is followed");
    assert!(server.stop().0.success());
}

/// A second signal was ignored, and the program waited for an answer that did not come.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_program_at_once() {
    for (first, second) in [("-TERM", "-TERM"), ("-INT", "-TERM"), ("-TERM", "-INT")] {
        let folder = TempDir::new().unwrap();
        let (node, port) = node(30);
        let mut server = serve(&port, folder.path());
        server.line_with("INFO ready");
        node.faults()
            .add(Rule::new(Fault::Hang).of_method("getrawtransaction"));
        let mut wallet = client(&mut server).await;
        let hanging = tokio::spawn(async move {
            let filter = lightship_serve::proto::TxFilter {
                hash: vec![7; 32].into(),
                ..Default::default()
            };
            wallet.get_transaction(filter).await.map(|_| ())
        });
        while node.faults().calls_of("getrawtransaction") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.signal(first);
        server.line_with("stopping");
        server.signal(second);
        let (status, took) = server.ended();
        assert_eq!(status.code(), Some(130), "{first}, {second}");
        assert!(took < AT_ONCE, "{first}, {second}: {took:?}");
        hanging.abort();
    }
}

/// What a killed program had locked stayed locked, and the next one refused to start.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_program_leaves_no_lock() {
    let folder = TempDir::new().unwrap();
    let (_node, port) = node(30);
    for _ in 0..3 {
        let mut server = serve(&port, folder.path());
        server.line_with("INFO ready");
        let mut wallet = client(&mut server).await;
        let block = BlockId {
            height: 30,
            hash: Default::default(),
        };
        wallet.get_block(block).await.unwrap();
        wallet.get_lightd_info(Empty {}).await.unwrap();
        server.signal("-KILL");
        assert!(!server.ended().0.success());
    }
}
