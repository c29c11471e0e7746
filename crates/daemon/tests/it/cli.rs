//! What a user types and sees: refusals in one line, ports, signals, and the whole path from a node to a wallet.

use std::{fs, net::TcpListener, path::Path, time::Duration};

use lightship_serve::proto::{BlockId, BlockRange, ChainSpec, CompactTxStreamerClient, Empty};
use lightship_source::simulated::{SimulatedNode, http};
use tempfile::TempDir;
use tonic::{Code, transport::Channel};

use crate::process::{Running, get, run};

const FREE: [&str; 4] = [
    "--grpc-listen",
    "127.0.0.1:0",
    "--http-listen",
    "127.0.0.1:0",
];
/// Nobody listens on the port that the system reserves for services of old.
const NOBODY: &str = "http://127.0.0.1:1";
/// The order to stop is to be followed within this.
const STOP: Duration = Duration::from_secs(5);

async fn client(address: &str) -> CompactTxStreamerClient<Channel> {
    CompactTxStreamerClient::connect(format!("http://{address}"))
        .await
        .unwrap()
}

fn demo(more: &[&str], temporary: &Path) -> Running {
    let mut arguments = vec!["demo", "--blocks", "700", "--block-seconds", "3600"];
    arguments.extend(FREE);
    arguments.extend(more);
    Running::start(&arguments, temporary)
}

/// Exit code and standard error of a run that must fail, with its one line.
fn refused(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), text)
}

#[test]
fn an_unknown_flag_is_refused_with_the_nearest_known_one() {
    let (code, text) = refused(&["serve", "--grpc-listn", "127.0.0.1:0"]);
    assert_eq!(code, 2);
    assert!(
        text.contains("--grpc-listn") && text.contains("--grpc-listen"),
        "{text}"
    );
}

#[test]
fn a_port_in_use_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, text) = refused(&["demo", "--grpc-listen", &address]);
    assert_eq!(code, 1);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains(&address) && text.contains("--grpc-listen"),
        "{text}"
    );
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("holiday.txt"), "sun").unwrap();
    let dir = folder.path().to_str().unwrap();
    let (code, text) = refused(&[
        "index",
        "--node",
        NOBODY,
        "--data-dir",
        dir,
        "--network",
        "main",
    ]);
    assert_eq!(code, 1);
    assert!(text.contains(dir) && text.contains("holiday.txt"), "{text}");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing was added"
    );
}

#[test]
fn a_folder_without_an_index_cannot_be_verified() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path().to_str().unwrap();
    let (code, text) = refused(&["verify", "--data-dir", dir]);
    assert_eq!(code, 1);
    assert!(text.contains(dir), "{text}");
}

#[test]
fn refused_credentials_end_the_start_and_are_not_shown() {
    let settings = http::Settings {
        login: Some("user:right".into()),
        stranger: http::Stranger::Unauthorized,
        ..http::Settings::default()
    };
    let node = SimulatedNode::new(lightship_chain::build::Activations::new(&[]));
    let port = http::Running::start(node, settings).unwrap();
    let folder = TempDir::new().unwrap();
    let password = folder.path().join("password");
    fs::write(&password, "hunter2\n").unwrap();
    let (dir, password) = (folder.path().join("index"), password.to_str().unwrap());
    let (code, text) = refused(&[
        "index",
        "--node",
        &port.url(),
        "--node-user",
        "user",
        "--node-password-file",
        password,
        "--data-dir",
        dir.to_str().unwrap(),
    ]);
    assert_eq!(code, 1);
    assert!(
        text.contains("refuses the credentials") && text.contains(password),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn the_demo_answers_and_leaves_nothing_behind() {
    let temporary = TempDir::new().unwrap();
    let mut demo = demo(&[], temporary.path());
    demo.line_with("INFO ready");
    let mut wallet = client(&demo.address("grpc://")).await;
    let tip = wallet
        .get_latest_block(ChainSpec {})
        .await
        .unwrap()
        .into_inner();
    assert!(tip.height >= 700);
    let at = |height| {
        Some(BlockId {
            height,
            ..BlockId::default()
        })
    };
    let request = BlockRange {
        start: at(0),
        end: at(700),
        pool_types: vec![],
    };
    let mut range = wallet.get_block_range(request).await.unwrap().into_inner();
    let mut previous = vec![0; 32];
    for height in 0..=700 {
        let block = range.message().await.unwrap().unwrap();
        assert_eq!(
            (block.height, &block.prev_hash[..]),
            (height, &previous[..])
        );
        previous = block.hash.to_vec();
    }
    assert!(range.message().await.unwrap().is_none());
    let (status, _) = get(&demo.address("http://"), "/readyz");
    assert!(status.contains("200"), "{status}");

    let (status, took) = demo.stop();
    assert!(status.success() && took < STOP, "{status} after {took:?}");
    assert_eq!(
        fs::read_dir(temporary.path()).unwrap().count(),
        0,
        "the index was removed"
    );
}

#[tokio::test]
async fn a_running_stream_ends_as_unavailable_when_the_program_is_stopped() {
    let temporary = TempDir::new().unwrap();
    let mut demo = demo(&[], temporary.path());
    demo.line_with("INFO ready");
    let mut wallet = client(&demo.address("grpc://")).await;
    let mut stream = wallet
        .get_mempool_stream(Empty {})
        .await
        .unwrap()
        .into_inner();
    demo.terminate();
    let ended = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a clean end means a new block"),
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::Unavailable, "{ended}");
    let (status, took) = demo.ended();
    assert!(status.success() && took < STOP, "{status} after {took:?}");
}

#[tokio::test]
async fn without_a_node_a_new_index_waits_and_says_so() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("index");
    let mut arguments = vec![
        "serve",
        "--node",
        NOBODY,
        "--data-dir",
        dir.to_str().unwrap(),
    ];
    arguments.extend(FREE);
    let mut waiting = Running::start(&arguments, folder.path());
    let said = waiting.line_with("cannot reach the node");
    assert!(
        said.contains("127.0.0.1:1") && said.contains("--network"),
        "{said}"
    );
    let mut wallet = client(&waiting.address("grpc://")).await;
    let refused = wallet.get_lightd_info(Empty {}).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let operator = waiting.address("http://");
    assert!(get(&operator, "/livez").0.contains("200"));
    assert!(get(&operator, "/readyz").0.contains("503"));
    let (status, took) = waiting.stop();
    assert!(status.success() && took < STOP, "{status} after {took:?}");
}

#[test]
fn an_index_built_over_json_rpc_verifies_until_a_byte_is_flipped() {
    let folder = TempDir::new().unwrap();
    let mut demo = demo(&["--node-listen", "127.0.0.1:0"], folder.path());
    let node = format!("http://{}", demo.address("node: http://"));
    let dir = folder.path().join("index");
    let dir = dir.to_str().unwrap();
    let built = run(&[
        "index",
        "--node",
        &node,
        "--data-dir",
        dir,
        "--range-blocks",
        "50",
    ]);
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    assert!(String::from_utf8_lossy(&built.stderr).contains("the index ends at block 700"));

    let again = run(&[
        "index",
        "--node",
        &node,
        "--data-dir",
        dir,
        "--network",
        "main",
    ]);
    let text = String::from_utf8(again.stderr).unwrap();
    assert!(
        !again.status.success() && text.contains("network regtest"),
        "{text}"
    );

    let verified = run(&["verify", "--data-dir", dir, "--trees"]);
    let text = String::from_utf8(verified.stdout).unwrap();
    assert!(
        verified.status.success() && text.contains("nothing is wrong"),
        "{text}"
    );
    // They grow while it serves.
    assert!(text.contains("trees in 0 of "), "{text}");

    let tail = fs::read_dir(Path::new(dir).join("tail"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = fs::read(&tail).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&tail, bytes).unwrap();
    let verified = run(&["verify", "--data-dir", dir]);
    let text =
        String::from_utf8(verified.stdout).unwrap() + &String::from_utf8_lossy(&verified.stderr);
    assert_eq!(verified.status.code(), Some(1), "{text}");
    assert!(
        text.contains(tail.file_name().unwrap().to_str().unwrap()),
        "{text}"
    );
}

#[test]
fn two_programs_do_not_write_one_index() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("index");
    let dir = dir.to_str().unwrap();
    let mut first = demo(&["--data-dir", dir], folder.path());
    first.line_with("INFO ready");
    let mut arguments = vec!["demo", "--data-dir", dir];
    arguments.extend(FREE);
    let (code, text) = refused(&arguments);
    assert_eq!(code, 1);
    assert!(text.contains("locked") && text.contains(dir), "{text}");
}

/// A folder was given to the network that was typed, though the node was on another, and then refused the right one.
#[test]
fn a_folder_is_not_given_to_a_network_that_the_node_is_not_on() {
    let node = SimulatedNode::from_blocks(
        lightship_chain::build::Activations::new(&[]),
        [lightship_chain::build::regtest_genesis().bytes],
    )
    .unwrap();
    let port = http::Running::start(node, http::Settings::default()).unwrap();
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("index");
    let on = |network| {
        let dir = dir.to_str().unwrap();
        run(&[
            "index",
            "--node",
            &port.url(),
            "--data-dir",
            dir,
            "--network",
            network,
        ])
    };
    let refused = on("main");
    let text = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(text.contains("not on network main"), "{text}");
    let taken = on("regtest");
    assert!(
        taken.status.success(),
        "{}",
        String::from_utf8_lossy(&taken.stderr)
    );
}

/// A log that could not be written made the program panic.
#[cfg(target_os = "linux")]
#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let temporary = TempDir::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let arguments = [
        "demo",
        "--blocks",
        "10",
        "--grpc-listen",
        "127.0.0.1:0",
        "--http-listen",
        &port,
    ];
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let demo = Running::start_mute(&arguments, temporary.path(), full);
    demo.until_it_listens(&port);
    assert!(get(&port, "/livez").0.contains("200"));
    let (status, took) = demo.stop();
    assert!(status.success() && took < STOP, "{status} after {took:?}");
}
