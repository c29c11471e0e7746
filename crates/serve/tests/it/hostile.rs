//! Requests that are none, requests that never end, readers that never read: each is told what it is, holds little, and harms nobody else.

use std::{convert::Infallible, fs, time::Duration};

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lightship_chain::build::{Output, Recipe};
use lightship_serve::proto::{
    BlockRange, ChainSpec, GetAddressUtxosArg, GetMempoolTxRequest, TransparentAddressBlockFilter,
    TxFilter,
};
use lightship_source::simulated::{Fault, Rule};
use prost::Message as _;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};
use tonic::{Code, transport::Channel};

use crate::{
    stage::{Client, PAYEE, Setup, Stage, address, code, collect, id, range, until, within},
    web,
};

/// All methods, with whether their request is one message.
const METHODS: [(&str, bool); 20] = [
    ("GetLatestBlock", true),
    ("GetBlock", true),
    ("GetBlockNullifiers", true),
    ("GetBlockRange", true),
    ("GetBlockRangeNullifiers", true),
    ("GetTransaction", true),
    ("SendTransaction", true),
    ("GetTaddressTxids", true),
    ("GetTaddressTransactions", true),
    ("GetTaddressBalance", true),
    ("GetTaddressBalanceStream", false),
    ("GetMempoolTx", true),
    ("GetMempoolStream", true),
    ("GetTreeState", true),
    ("GetLatestTreeState", true),
    ("GetSubtreeRoots", true),
    ("GetAddressUtxos", true),
    ("GetAddressUtxosStream", true),
    ("GetLightdInfo", true),
    ("Ping", true),
];

async fn status(stage: &Stage, version: Version, method: &str, kind: &str, body: &[u8]) -> String {
    let request = web::call(method, kind, body.to_vec());
    let response = web::send(stage, version, request).await;
    if kind != "application/grpc" {
        return web::Answer::read(response).await.status;
    }
    let (parts, body) = response.into_parts();
    let trailers = within(body.collect()).await.unwrap().trailers().cloned();
    let found = parts
        .headers
        .get("grpc-status")
        .or_else(|| trailers.as_ref()?.get("grpc-status"));
    found.unwrap().to_str().unwrap().to_owned()
}

/// The generated services called such requests INTERNAL, for which wallets leave a server.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_request_is_the_wallets_mistake_on_every_method() {
    let mut setup = Setup::whole(3);
    setup.settings.ping = true;
    let stage = Stage::with(setup).await;
    let no_protobuf = [0, 0, 0, 0, 3, 0xff, 0xff, 0xff];
    let cut = [0, 0, 0, 0, 9, 8];
    let two = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (method, takes_one) in METHODS {
        for (version, kind) in [
            (Version::HTTP_2, "application/grpc"),
            (Version::HTTP_2, web::BINARY),
            (Version::HTTP_11, web::TEXT),
        ] {
            let told = async |body: &[u8]| status(&stage, version, method, kind, body).await;
            assert_eq!(told(&no_protobuf).await, "3", "{method} {kind}");
            assert_eq!(told(&cut).await, "3", "{method} {kind}: cut");
            if takes_one {
                assert_eq!(told(&two).await, "3", "{method} {kind}: two");
                assert_eq!(told(&[]).await, "3", "{method} {kind}: none");
            }
        }
        let long = [0, 0, 0x50, 0, 0, 0];
        let told = status(&stage, Version::HTTP_2, method, "application/grpc", &long).await;
        // In a stream of addresses it is an address, and none is so long.
        let expected = if takes_one { "11" } else { "3" };
        assert_eq!(told, expected, "{method}: longer than is read");
    }
}

/// Sends the head of a call and `body`, and no end.
async fn half_open(stage: &Stage, method: &str, body: &'static [u8]) -> String {
    let io = TokioIo::new(TcpStream::connect(stage.grpc).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    tokio::spawn(connection);
    let begun = tokio_stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(body)))]);
    let endless = futures_util::StreamExt::chain(begun, futures_util::stream::pending());
    let request = Request::post(format!(
        "http://{}/cash.z.wallet.sdk.rpc.CompactTxStreamer/{method}",
        stage.grpc
    ))
    .header("content-type", "application/grpc")
    .body(StreamBody::new(endless))
    .unwrap();
    let response = within(client.send_request(request)).await.unwrap();
    let status = response.headers().get("grpc-status").unwrap();
    status.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_not_come_is_given_up_and_its_place_is_free() {
    let mut setup = Setup::whole(3);
    setup.settings.limits.request = Duration::from_millis(200);
    setup.settings.limits.streams = 1;
    let stage = Stage::with(setup).await;
    for (method, body) in [
        ("GetLatestBlock", &[][..]),
        ("GetBlockRange", &[0, 0, 0]),
        ("SendTransaction", &[0, 0, 0, 1, 0, 7, 7]),
    ] {
        assert_eq!(half_open(&stage, method, body).await, "4", "{method}");
    }
    let mut wallet = stage.client().await;
    let (blocks, end) = collect(wallet.get_block_range(range(0, 3)).await).await;
    assert_eq!((blocks.len(), end), (4, Code::Ok));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_are_bounded_and_who_need_not_wait_is_answered() {
    let mut setup = Setup::whole(3);
    setup.settings.limits.calls_waiting = 2;
    let stage = Stage::with(setup).await;
    let hang = Rule::new(Fault::Hang).of_method("getrawtransaction");
    stage.node.faults().add(hang);
    let wallet = stage.client().await;
    let ask = |mut wallet: Client| async move {
        let filter = TxFilter {
            hash: vec![1; 32].into(),
            ..TxFilter::default()
        };
        code(wallet.get_transaction(filter).await)
    };
    let waiting: Vec<_> = (0..2).map(|_| tokio::spawn(ask(wallet.clone()))).collect();
    until(async || stage.node.faults().calls_of("getrawtransaction") >= 2).await;
    assert_eq!(within(ask(wallet.clone())).await, Code::ResourceExhausted);
    // Its headers may come before its message, and then it waits too, for a moment: not every time.
    until(async || {
        let mut quick = wallet.clone();
        code(quick.get_latest_block(ChainSpec {}).await) == Code::Ok
    })
    .await;
    stage.node.faults().clear();
    for waiting in waiting {
        // As the node tells them now, or that it did not.
        let told = within(waiting).await.unwrap();
        assert!(matches!(told, Code::NotFound | Code::Unavailable));
    }
    assert_eq!(within(ask(wallet)).await, Code::NotFound);
}

/// A client that takes little ahead of its reader.
async fn narrow(stage: &Stage) -> Client {
    let endpoint = Channel::from_shared(format!("http://{}", stage.grpc)).unwrap();
    let endpoint = endpoint.initial_stream_window_size(16 << 10);
    Client::new(endpoint.connect().await.unwrap())
}

/// Each reader that had stopped held up to 0.6 MB, so 8,192 of them could hold 5 GB.
#[tokio::test(flavor = "multi_thread")]
async fn what_clients_do_not_take_is_bounded_and_sealed_blocks_need_no_part_of_it() {
    let mut setup = Setup::whole(20);
    setup.settings.limits.held_bytes = 300 << 10;
    let mut stage = Stage::with(setup).await;
    // Some 120 kB each.
    for _ in 0..16 {
        let recipe = Recipe::new(stage.chain.newest_version()).with_sapling(0, 1_000);
        let transaction = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[transaction]);
    }
    stage.follow();
    let sealed = stage.blocks[16..32].iter().map(|block| block.id);
    let sealed: Vec<_> = sealed.map(|id| u64::from(id.height)).collect();
    stage
        .writer
        .seal_through(lightship_chain::Height::new(31))
        .unwrap();
    let all = |first, last| BlockRange {
        pool_types: vec![1, 2, 3, 4],
        ..range(first, last)
    };
    let mut wallets = Vec::new();
    let mut held = Vec::new();
    let refused = loop {
        let mut wallet = narrow(&stage).await;
        let mut stream = wallet
            .get_block_range(all(16, 36))
            .await
            .unwrap()
            .into_inner();
        wallets.push(wallet);
        match within(stream.message()).await {
            Ok(_) => held.push(stream),
            Err(status) => break status,
        }
        assert!(held.len() < 9, "each holds a part");
    };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(!held.is_empty());
    let mut wallet = stage.client().await;
    // A long request is one of those who hold memory.
    let long = GetMempoolTxRequest {
        exclude_txid_suffixes: vec![vec![1; 32].into(); 12_000],
        ..GetMempoolTxRequest::default()
    };
    assert_eq!(
        collect(wallet.get_mempool_tx(long).await).await.1,
        Code::ResourceExhausted
    );
    // What lies in mapped files, and what is small, is sent as ever.
    assert_eq!(code(wallet.get_latest_block(ChainSpec {}).await), Code::Ok);
    let answer = wallet.get_block_range(range(sealed[0], sealed[15])).await;
    let (blocks, end) = collect(answer).await;
    assert_eq!((blocks.len(), end), (16, Code::Ok));
    // And those who stay away from what they asked for make room for others.
    drop((held, wallets));
    until(async || {
        let mut wallet = stage.client().await;
        collect(wallet.get_block_range(all(0, 36)).await).await.1 == Code::Ok
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_who_stopped_make_room_long_before_they_would_be_reset() {
    let mut setup = Setup::whole(20);
    setup.settings.limits.held_bytes = 200 << 10;
    let mut stage = Stage::with(setup).await;
    for _ in 0..16 {
        let recipe = Recipe::new(stage.chain.newest_version()).with_sapling(0, 1_000);
        let transaction = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[transaction]);
    }
    stage.follow();
    let mut wallet = narrow(&stage).await;
    let _stalled = wallet.get_block_range(range(0, 36)).await.unwrap();
    until(async || {
        let mut other = stage.client().await;
        collect(other.get_block_range(range(0, 36)).await).await.1 == Code::ResourceExhausted
    })
    .await;
    // The usual patience is a minute.
    until(async || {
        let mut other = stage.client().await;
        collect(other.get_block_range(range(0, 36)).await).await.1 == Code::Ok
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_get_in_past_requests_that_never_end() {
    let stage = Stage::new(3).await;
    let mut half_open = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(stage.http).await.unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nho")
            .await
            .unwrap();
        half_open.push(stream);
    }
    let asked = tokio::time::timeout(Duration::from_secs(2), stage.get("/livez"));
    assert_eq!(asked.await.expect("nobody is waited for").0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_readers_who_take_nothing_do_not_hold_up_the_way_down() {
    let mut stage = Stage::new(20).await;
    for _ in 0..16 {
        let recipe = Recipe::new(stage.chain.newest_version()).with_sapling(0, 1_000);
        let transaction = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[transaction]);
    }
    stage.follow();
    let mut held = Vec::new();
    for _ in 0..12 {
        let mut wallet = narrow(&stage).await;
        for _ in 0..100 {
            held.push(wallet.get_block_range(range(0, 36)).await.unwrap());
        }
    }
    assert_eq!(held.len(), 1_200);
    assert!(stage.stop().await < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_block_found_damaged_makes_the_server_unready() {
    let stage = Stage::new(40).await;
    let ready = async || stage.get("/readyz").await;
    until(async || ready().await.0 == 200).await;
    let mut pending = vec![stage.folder.path().to_owned()];
    let mut flipped = 0;
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if path.extension().is_some_and(|ending| ending == "blocks") {
            use std::os::unix::fs::FileExt as _;
            let file = fs::OpenOptions::new().read(true).write(true).open(&path);
            let (file, mut byte) = (file.unwrap(), [0]);
            let last = file.metadata().unwrap().len() - 1;
            file.read_exact_at(&mut byte, last).unwrap();
            file.write_all_at(&[!byte[0]], last).unwrap();
            flipped += 1;
        }
    }
    assert!(flipped > 0);
    let mut wallet = stage.client().await;
    let (_, end) = collect(wallet.get_block_range(range(0, 40)).await).await;
    assert_eq!(end, Code::Internal);
    let (status, why) = ready().await;
    assert_eq!(status, 503);
    assert!(why.contains("damaged") && why.contains(".blocks"), "{why}");
    // The rest is still answered.
    assert_eq!(code(wallet.get_latest_block(ChainSpec {}).await), Code::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_cannot_grow_makes_the_server_unready() {
    let mut setup = Setup::whole(3);
    setup.standstill = Some("the disk is full: write /x");
    let stage = Stage::with(setup).await;
    until(async || {
        stage.get("/readyz").await == (503, "not ready: the disk is full: write /x\n".into())
    })
    .await;
}

/// A reader without any window was never asked for a frame, and kept its place for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_without_a_window_loses_its_place_like_any_other_that_stops() {
    let mut setup = Setup::whole(20);
    setup.settings.limits.stall = Duration::from_millis(200);
    setup.settings.limits.streams = 1;
    let stage = Stage::with(setup).await;
    let io = TokioIo::new(TcpStream::connect(stage.grpc).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(io)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut request = web::call("GetMempoolStream", "application/grpc", vec![0; 5]);
    let path = "/cash.z.wallet.sdk.rpc.CompactTxStreamer/GetBlockRange";
    let whole = range(0, 20).encode_to_vec();
    let mut body = vec![0, 0, 0, 0, whole.len() as u8];
    body.extend(whole);
    *request.body_mut() = http_body_util::Full::new(body.into());
    *request.uri_mut() = format!("http://{}{path}", stage.grpc).parse().unwrap();
    let answer = within(client.send_request(request)).await.unwrap();
    assert_eq!(answer.status(), 200);
    until(async || {
        let mut other = stage.client().await;
        collect(other.get_block_range(range(0, 20)).await).await.1 == Code::Ok
    })
    .await;
    drop(answer);
}

/// The end of an answer starts the clock for its reader. Over HTTP/1.1 it is the connection's clock, and must not run on between two answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_rests_between_two_answers_is_not_a_stalled_reader() {
    let mut setup = Setup::whole(3);
    setup.settings.limits.stall = Duration::from_millis(200);
    let stage = Stage::with(setup).await;
    let io = TokioIo::new(TcpStream::connect(stage.grpc).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    // An answer, a refusal in headers only, a stream of blocks.
    for (method, message, status) in [
        ("GetLatestBlock", Vec::new(), "0"),
        ("Ping", Vec::new(), "12"),
        ("GetBlockRange", range(0, 3).encode_to_vec(), "0"),
        ("GetLatestBlock", Vec::new(), "0"),
    ] {
        let mut body = vec![0, 0, 0, 0, message.len() as u8];
        body.extend(message);
        within(client.ready()).await.unwrap();
        let answer = client.send_request(web::call(method, web::BINARY, body));
        let answer = web::Answer::read(within(answer).await.unwrap()).await;
        assert_eq!(answer.status, status, "{method}");
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
}

/// A question to the node that nobody polled kept its turn and its place: a few readers that stopped kept the node from everybody.
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_stop_hold_up_no_question_to_the_node() {
    let mut setup = Setup::whole(20);
    setup.indexed = Some(12);
    setup.sealed = 4;
    setup.settings.limits.held_bytes = 1 << 20;
    setup.settings.limits.node_blocks = 1;
    let mut stage = Stage::with(setup).await;
    for _ in 0..16 {
        let recipe = Recipe::new(stage.chain.newest_version())
            .with_output(Output::to_public_key_hash(1, &PAYEE))
            .with_sapling(0, 20);
        let transaction = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[transaction]);
    }
    stage.writer.announce(stage.node.best());
    for method in ["getrawtransaction", "getblock"] {
        let slow = Rule::new(Fault::Slow(Duration::from_millis(10)));
        stage.node.faults().add(slow.of_method(method));
    }
    let mut stopped = Vec::new();
    // Wherever in their work the server stops for them.
    for window in (4..36).step_by(4) {
        let endpoint = Channel::from_shared(format!("http://{}", stage.grpc)).unwrap();
        let endpoint = endpoint.initial_stream_window_size(window << 10);
        let mut wallet = Client::new(endpoint.connect().await.unwrap());
        stopped.push(wallet.get_block_range(range(13, 36)).await.unwrap());
    }
    let mut wallet = narrow(&stage).await;
    let history = TransparentAddressBlockFilter {
        address: address(PAYEE),
        range: Some(range(13, 36)),
    };
    let _history = wallet.get_taddress_transactions(history).await.unwrap();
    // Long enough for all of them to have come to where they stop.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut wallet = stage.client().await;
    let block = within(wallet.get_block(id(30))).await.unwrap();
    assert_eq!(block.into_inner().height, 30);
    let unspent = GetAddressUtxosArg {
        addresses: vec![address(PAYEE)],
        ..GetAddressUtxosArg::default()
    };
    let unspent = within(wallet.get_address_utxos(unspent)).await.unwrap();
    assert!(unspent.into_inner().address_utxos.len() >= 16);
}
