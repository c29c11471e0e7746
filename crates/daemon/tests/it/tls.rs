//! TLS as an operator has it: flags, SIGHUP, a file that changes, and warnings.

use std::{fs, path::PathBuf, time::Duration};

use lightship_serve::proto::{ChainSpec, CompactTxStreamerClient};
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tonic::transport::{Certificate, Channel, ClientTlsConfig};

use crate::process::{Running, get, run};

struct Pair {
    folder: TempDir,
}

impl Pair {
    fn new() -> Pair {
        let pair = Pair {
            folder: TempDir::new().unwrap(),
        };
        pair.renew();
        pair
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn renew(&self) -> String {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let chain = params.self_signed(&key).unwrap().pem();
        fs::write(self.path("key.pem"), key.serialize_pem()).unwrap();
        fs::write(self.path("chain.pem"), &chain).unwrap();
        chain
    }

    fn demo(&self, more: &[&str]) -> Running {
        let (chain, key) = (self.path("chain.pem"), self.path("key.pem"));
        let mut arguments = vec![
            "demo",
            "--blocks",
            "20",
            "--http-listen",
            "127.0.0.1:0",
            "--tls-cert",
            chain.to_str().unwrap(),
            "--tls-key",
            key.to_str().unwrap(),
        ];
        arguments.extend(more);
        Running::start(&arguments, self.folder.path())
    }
}

async fn is_served(server: &str, root: &str) -> bool {
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(root))
        .domain_name("localhost");
    let endpoint = Channel::from_shared(format!("https://{server}")).unwrap();
    let Ok(channel) = endpoint.tls_config(tls).unwrap().connect().await else {
        return false;
    };
    let mut wallet = CompactTxStreamerClient::new(channel);
    wallet.get_latest_block(ChainSpec {}).await.is_ok()
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_on_hang_up_and_by_itself() {
    let pair = Pair::new();
    let mut demo = pair.demo(&["--grpc-listen", "127.0.0.1:0"]);
    demo.line_with("INFO ready");
    let server = demo.address("grpcs://");
    let operators = demo.address("http://");
    let root = fs::read_to_string(pair.path("chain.pem")).unwrap();
    assert!(is_served(&server, &root).await);
    let renewed = pair.renew();
    demo.signal("-HUP");
    demo.line_with("the TLS certificate was read again");
    assert!(is_served(&server, &renewed).await);
    assert!(!is_served(&server, &root).await);
    let renewed = pair.renew();
    let mut left = 60;
    while !is_served(&server, &renewed).await {
        left -= 1;
        assert!(left > 0, "the change is noticed");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (_, metrics) = get(&operators, "/metrics");
    assert!(metrics.contains("lightship_tls_certificate_expiry_seconds"));
    let (status, _) = demo.stop();
    assert!(status.success());
}

#[test]
fn half_a_pair_is_refused_and_so_is_one_that_does_not_fit() {
    let (one, other) = (Pair::new(), Pair::new());
    let (chain, key) = (one.path("chain.pem"), other.path("key.pem"));
    let (chain, key) = (chain.to_str().unwrap(), key.to_str().unwrap());
    let free = [
        "--grpc-listen",
        "127.0.0.1:0",
        "--http-listen",
        "127.0.0.1:0",
    ];
    for (flags, words) in [
        (&["--tls-cert", chain][..], "--tls-key"),
        (&["--tls-cert", chain, "--tls-key", key], "does not fit"),
        (
            &["--cors-origins", "wallet.example"],
            "https://wallet.example",
        ),
    ] {
        let mut arguments = vec!["demo"];
        arguments.extend(free);
        arguments.extend(flags);
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(words), "{text}");
        assert!(!text.contains("PRIVATE"), "{text}");
    }
}

#[test]
fn plaintext_that_others_can_reach_is_warned_of() {
    let temporary = TempDir::new().unwrap();
    let common = ["demo", "--blocks", "20", "--http-listen", "127.0.0.1:0"];
    for (flags, warned) in [
        (&["--grpc-bind-addr", "0.0.0.0:0"][..], true),
        (
            &["--grpc-listen", "[::]:0", "--no-tls-very-insecure"],
            false,
        ),
        (&["--grpc-listen", "127.0.0.1:0"], false),
    ] {
        let mut arguments = Vec::from(common);
        arguments.extend(flags);
        let mut demo = Running::start(&arguments, temporary.path());
        demo.line_with("INFO ready");
        assert_eq!(demo.has_said("in plaintext"), warned, "{flags:?}");
        // It ends nothing where there is nothing to read again.
        demo.signal("-HUP");
        demo.line_with("no certificate to read again");
    }
}
