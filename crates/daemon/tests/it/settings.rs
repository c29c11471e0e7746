//! Settings as an operator has them: the file, the variables, `config` and `check`.

use std::{
    fs,
    net::TcpListener,
    path::PathBuf,
    process::{Command, Output},
};

use lightship_chain::build::{Activations, regtest_genesis};
use lightship_source::simulated::{Fault, Rule, SimulatedNode, http};
use tempfile::TempDir;

use crate::process::{Running, get, lightship};

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A settings file of these lines.
    fn settings(&self, lines: &[String]) -> String {
        let path = self.path("lightship.toml");
        fs::write(&path, lines.join("\n")).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn ended(mut command: Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn a_node() -> (SimulatedNode, http::Running) {
    let node = SimulatedNode::new(Activations::new(&[]));
    node.extend(regtest_genesis().bytes).unwrap();
    let port = http::Running::start(node.clone(), http::Settings::default()).unwrap();
    (node, port)
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn config_shows_what_is_used_and_where_it_comes_from() {
    let folder = Folder::new();
    let file = folder.settings(&[
        "node = 'http://127.0.0.1:8232'".into(),
        "data-dir = '/somewhere'".into(),
        "max-streams = 500".into(),
    ]);
    let mut command = lightship(&["config", "--grpc-bind-addr", "127.0.0.1:7777"]);
    command
        .env("LIGHTSHIP_CONFIG", &file)
        .env("LIGHTSHIP_MAX_STREAMS", "600")
        .env("LIGHTSHIP_STRICT_POOLS", "true");
    let (code, shown, _) = ended(command);
    assert_eq!(code, 0);
    let line = |key: &str| {
        let found = shown.lines().find(|line| line.starts_with(key));
        found
            .unwrap_or_else(|| panic!("no {key} in\n{shown}"))
            .to_owned()
    };
    assert!(line("node ").ends_with("lightship.toml line 1"));
    assert!(line("data-dir ").contains("\"/somewhere\""));
    assert!(line("grpc-listen ").ends_with("# --grpc-listen"));
    assert!(line("max-streams ").contains("600"));
    assert!(line("max-streams ").ends_with("# LIGHTSHIP_MAX_STREAMS"));
    assert!(line("strict-pools ").contains("true"));
    assert!(line("http-listen ").ends_with("# default"));
    assert!(line("# tls-key ").ends_with("is not set"));
}

#[test]
fn a_mistyped_key_ends_the_start_with_its_line() {
    let folder = Folder::new();
    let file = folder.settings(&["node = 'http://a:1'".into(), "data-dri = 'x'".into()]);
    for command in ["serve", "index", "config", "check"] {
        let (code, _, text) = ended(lightship(&[command, "--config", &file]));
        assert_eq!(code, 2, "{text}");
        assert!(
            text.contains("line 2") && text.contains("data-dir?"),
            "{text}"
        );
    }
}

#[test]
fn what_is_missing_is_named_with_all_ways_to_give_it() {
    for (arguments, flag, variable) in [
        (&["serve"][..], "--node", "LIGHTSHIP_NODE"),
        (
            &["index", "--node", "http://a:1"],
            "--data-dir",
            "LIGHTSHIP_DATA_DIR",
        ),
    ] {
        let (code, _, text) = ended(lightship(arguments));
        assert_eq!(code, 1);
        assert!(text.contains(flag) && text.contains(variable), "{text}");
    }
}

#[test]
fn the_program_runs_from_a_file_alone() {
    let (_node, port) = a_node();
    let folder = Folder::new();
    let file = folder.settings(&[
        format!("node = '{}'", port.url()),
        format!("data-dir = '{}'", folder.path("index").display()),
        "grpc-listen = '127.0.0.1:0'".into(),
        "http-listen = '127.0.0.1:0'".into(),
    ]);
    let mut running = Running::start(&["serve", "--config", &file], folder.0.path());
    running.line_with("INFO ready");
    // What runs already cannot run again.
    let (code, report, _) = ended(lightship(&["check", "--config", &file]));
    assert_eq!(code, 8, "{report}");
    assert!(
        report.contains("FAIL  disk: another lightship writes"),
        "{report}"
    );
    assert!(running.stop().0.success());
    let (code, report, _) = ended(lightship(&["check", "--config", &file]));
    assert_eq!(code, 0, "{report}");
    assert!(
        report.contains("holds an index of network regtest"),
        "{report}"
    );
}

#[test]
fn a_check_says_what_would_fail_and_changes_nothing() {
    let (node, port) = a_node();
    let folder = Folder::new();
    let index = folder.path("index");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (free, taken) = (free_port(), taken.local_addr().unwrap().to_string());
    let with = |more: &[&str]| {
        let url = port.url();
        let mut arguments = vec!["check", "--node", &url];
        arguments.extend(["--data-dir", index.to_str().unwrap()]);
        arguments.extend(["--http-listen", "127.0.0.1:0", "--grpc-listen", &free]);
        let mut command = lightship(&arguments);
        command.env("LIGHTSHIP_NETWORK", "regtest").args(more);
        ended(command)
    };
    let (code, report, _) = with(&[]);
    assert_eq!(code, 0, "{report}");
    assert!(!report.contains("FAIL") && !index.exists(), "{report}");
    for what in ["settings", "node", "disk", "ports"] {
        assert!(report.contains(&format!("ok    {what}: ")), "{report}");
    }

    let (code, report, _) = with(&["--network", "main"]);
    assert_eq!(code, 4, "{report}");
    assert!(
        report.contains("network regtest, and --network is main"),
        "{report}"
    );
    let (code, report, _) = with(&["--cors-origins", "x"]);
    assert_eq!(code, 2, "{report}");

    let unknown = Fault::Code {
        code: -32601,
        message: "Method not found".into(),
    };
    node.faults()
        .add(Rule::new(unknown).of_method("z_gettreestate"));
    let (code, report, _) = with(&[]);
    assert_eq!(code, 4, "{report}");
    assert!(report.contains("FAIL  node: no tree states"), "{report}");

    // Everything at once: nobody listens, a stranger's folder, a port in use, a certificate without its key's file.
    fs::create_dir(&index).unwrap();
    fs::write(index.join("holiday.txt"), "sun").unwrap();
    let arguments = [
        "check",
        "--node",
        "http://127.0.0.1:1",
        "--data-dir",
        index.to_str().unwrap(),
        "--grpc-listen",
        &taken,
        "--http-listen",
        &free,
        "--tls-cert",
        "/nowhere/chain.pem",
        "--tls-key",
        "/nowhere/key.pem",
    ];
    let (code, report, _) = ended(lightship(&arguments));
    assert_eq!(code, 4 + 8 + 16 + 32, "{report}");
    for words in ["holiday.txt", &taken, "/nowhere/chain.pem", "127.0.0.1:1"] {
        assert!(report.contains(words), "{report}");
    }
}

/// A client behind a trusted proxy is counted; its address is written down nowhere.
#[tokio::test]
async fn a_client_is_in_no_output() {
    use lightship_serve::proto::{CompactTxStreamerClient, Empty};
    let temporary = TempDir::new().unwrap();
    let mut demo = Running::start(
        &[
            "demo",
            "--blocks",
            "20",
            "--grpc-listen",
            "127.0.0.1:0",
            "--http-listen",
            "127.0.0.1:0",
            "--trusted-proxies",
            "127.0.0.1,::1",
            "--max-streams-per-client",
            "1",
        ],
        temporary.path(),
    );
    demo.line_with("INFO ready");
    let server = format!("http://{}", demo.address("grpc://"));
    let mut wallet = CompactTxStreamerClient::connect(server).await.unwrap();
    let call = || {
        let mut request = tonic::Request::new(Empty {});
        let client = "203.0.113.77".parse().unwrap();
        request.metadata_mut().insert("x-forwarded-for", client);
        request
    };
    let _held = wallet.get_mempool_stream(call()).await.unwrap();
    let refused = wallet.get_mempool_stream(call()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert!(!refused.message().contains("203.0"), "{refused}");
    let (_, metrics) = get(&demo.address("http://"), "/metrics");
    assert!(metrics.contains("RESOURCE_EXHAUSTED") && !metrics.contains("203.0"));
    demo.signal("-HUP");
    demo.line_with("SIGHUP");
    assert!(!demo.has_said("203.0"));
}

#[test]
fn a_password_is_in_no_output() {
    let folder = Folder::new();
    let password = folder.path("password");
    fs::write(&password, "hunter2\n").unwrap();
    let file = folder.settings(&[
        "node = 'http://user:hunter2@127.0.0.1:1'".into(),
        "node-user = 'user'".into(),
        format!("node-password-file = '{}'", password.display()),
        format!("data-dir = '{}'", folder.path("index").display()),
    ]);
    for command in ["serve", "index", "config", "check"] {
        let (_, out, text) = ended(lightship(&[command, "--config", &file]));
        assert!(
            !out.contains("hunter2") && !text.contains("hunter2"),
            "{out}{text}"
        );
    }
}
