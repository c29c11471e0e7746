//! TLS: what is shown, to whom it is spoken, renewal while streams run, and clients that do not get on with their handshake.

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use lightship_serve::{
    Certificate,
    proto::{ChainSpec, CompactTxStreamerClient, Empty},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
        crypto::ring,
        pki_types::{CertificateDer, pem::PemObject as _},
        version::{TLS12, TLS13},
    },
};
use tonic::{
    Code,
    transport::{Channel, ClientTlsConfig},
};

use crate::stage::{Client, Setup, Stage, code, collect, range, within};

/// A pair on disk, and the root that a client must trust for it.
struct Pair {
    folder: TempDir,
    root: String,
}

impl Pair {
    fn chain(&self) -> PathBuf {
        self.folder.path().join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    fn write(&self, chain: &str, key: &str) {
        fs::write(self.chain(), chain).unwrap();
        fs::write(self.key(), key).unwrap();
    }

    /// A pair whose certificate is its own root.
    fn self_signed() -> Pair {
        let (chain, key) = self_signed();
        let pair = Pair {
            folder: tempfile::tempdir().unwrap(),
            root: chain.clone(),
        };
        pair.write(&chain, &key);
        pair
    }

    /// As public ones are: a root, one certificate between, and the server's.
    fn chained() -> Pair {
        let authority = |name: &str| {
            let mut params = CertificateParams::new([name.to_owned()]).unwrap();
            params
                .distinguished_name
                .push(rcgen::DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let [root_key, between_key, key] = [(); 3].map(|()| KeyPair::generate().unwrap());
        let root = authority("root").self_signed(&root_key).unwrap();
        let root_issuer = Issuer::new(authority("root"), root_key);
        let between = authority("between")
            .signed_by(&between_key, &root_issuer)
            .unwrap();
        let between_issuer = Issuer::new(authority("between"), between_key);
        let leaf = CertificateParams::new(["localhost".to_owned()])
            .unwrap()
            .signed_by(&key, &between_issuer)
            .unwrap();
        let pair = Pair {
            folder: tempfile::tempdir().unwrap(),
            root: root.pem(),
        };
        pair.write(&(leaf.pem() + &between.pem()), &key.serialize_pem());
        pair
    }

    async fn stage(&self) -> (Stage, Arc<Certificate>) {
        let certificate = Arc::new(Certificate::load(self.chain(), self.key()).unwrap());
        let mut setup = Setup::whole(20);
        setup.settings.certificate = Some(Arc::clone(&certificate));
        setup.settings.limits.handshake = Duration::from_millis(500);
        (Stage::with(setup).await, certificate)
    }
}

fn self_signed() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    (certificate.pem(), key.serialize_pem())
}

async fn client(server: SocketAddr, root: &str) -> Result<Client, tonic::transport::Error> {
    let tls = ClientTlsConfig::new()
        .ca_certificate(tonic::transport::Certificate::from_pem(root))
        .domain_name("localhost");
    let channel = Channel::from_shared(format!("https://{server}"))
        .unwrap()
        .tls_config(tls)
        .unwrap()
        .connect()
        .await?;
    Ok(CompactTxStreamerClient::new(channel))
}

/// A handshake by hand.
async fn shake(
    server: SocketAddr,
    root: &str,
    version: &'static SupportedProtocolVersion,
    protocols: &[&str],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap())
        .unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().into())
        .collect();
    let stream = TcpStream::connect(server).await.unwrap();
    TlsConnector::from(Arc::new(config))
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_that_trusts_the_root_is_served_in_private() {
    let pair = Pair::chained();
    let (stage, _) = pair.stage().await;
    let mut wallet = client(stage.grpc, &pair.root).await.unwrap();
    assert_eq!(code(wallet.get_latest_block(ChainSpec {}).await), Code::Ok);
    let (blocks, ended) = collect(wallet.get_block_range(range(1, 20)).await).await;
    assert_eq!((blocks.len(), ended), (20, Code::Ok));
    let stranger = Pair::self_signed();
    assert!(client(stage.grpc, &stranger.root).await.is_err());
    let plain = Channel::from_shared(format!("http://{}", stage.grpc)).unwrap();
    let mut plain = CompactTxStreamerClient::new(plain.connect_lazy());
    assert_ne!(
        code(within(plain.get_latest_block(ChainSpec {})).await),
        Code::Ok
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn both_versions_of_tls_and_of_http_are_spoken() {
    let pair = Pair::self_signed();
    let (stage, _) = pair.stage().await;
    for (version, found) in [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ] {
        for (offered, chosen) in [
            (&["h2"][..], Some("h2")),
            (&["http/1.1", "h2"], Some("h2")),
            (&["http/1.1"], Some("http/1.1")),
            (&[], None),
        ] {
            let stream = shake(stage.grpc, &pair.root, version, offered).await;
            let (_, session) = stream.get_ref();
            assert_eq!(session.protocol_version(), Some(found));
            assert_eq!(session.alpn_protocol(), chosen.map(str::as_bytes));
        }
        let mut stream = shake(stage.grpc, &pair.root, version, &["http/1.1"]).await;
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        within(stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_for_new_connections_and_old_streams_live_on() {
    let pair = Pair::self_signed();
    let (stage, certificate) = pair.stage().await;
    let mut old = client(stage.grpc, &pair.root).await.unwrap();
    let mut stream = old.get_mempool_stream(Empty {}).await.unwrap().into_inner();
    let (chain, key) = self_signed();
    // Half of the new pair is no reason to change anything.
    fs::write(pair.chain(), &chain).unwrap();
    certificate.reload();
    assert!(client(stage.grpc, &pair.root).await.is_ok());
    fs::write(pair.key(), &key).unwrap();
    certificate.reload();
    assert!(client(stage.grpc, &pair.root).await.is_err());
    let mut new = client(stage.grpc, &chain).await.unwrap();
    assert_eq!(code(new.get_latest_block(ChainSpec {}).await), Code::Ok);
    let quiet = tokio::time::timeout(Duration::from_millis(200), stream.message()).await;
    assert!(quiet.is_err(), "the old stream is still there");
    assert_eq!(code(old.get_latest_block(ChainSpec {}).await), Code::Ok);
    let (_, metrics) = stage.get("/metrics").await;
    assert!(metrics.contains("\nlightship_tls_certificate_expiry_seconds "));
}

/// Reads until the server hangs up, which it must.
async fn hung_up(mut stream: TcpStream) {
    let mut sink = Vec::new();
    // Closed or reset, both end it.
    let _ = within(stream.read_to_end(&mut sink)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_get_on_with_the_handshake_is_left() {
    let pair = Pair::self_signed();
    let (stage, _) = pair.stage().await;
    for words in [&b""[..], &[0x16, 3, 1], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(stage.grpc).await.unwrap();
        stream.write_all(words).await.unwrap();
        hung_up(stream).await;
    }
    // And so is who says nothing afterwards.
    let mut silent = shake(stage.grpc, &pair.root, &TLS13, &["h2"]).await;
    let mut sink = Vec::new();
    let _ = within(silent.read_to_end(&mut sink)).await;
    let mut wallet = client(stage.grpc, &pair.root).await.unwrap();
    assert_eq!(code(wallet.get_latest_block(ChainSpec {}).await), Code::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_begins_to_speak_and_stops_is_left_in_plaintext_too() {
    let mut setup = Setup::whole(3);
    setup.settings.limits.handshake = Duration::from_millis(300);
    let stage = Stage::with(setup).await;
    let mut wallet = stage.client().await;
    for words in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n",
        "GET / HT",
        "POST / HTTP/1.1\r\nhost: x\r\n",
    ] {
        let mut stream = TcpStream::connect(stage.grpc).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        hung_up(stream).await;
    }
    // A connection that has spoken may be silent for as long as it answers pings.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(code(wallet.get_latest_block(ChainSpec {}).await), Code::Ok);
}
