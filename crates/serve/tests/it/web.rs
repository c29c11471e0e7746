//! gRPC-web in both forms over both versions of HTTP, CORS, and what others than gRPC clients are told.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lightship_serve::{
    Limits, Origins,
    proto::{BlockId, ChainSpec, Empty},
};
use prost::Message;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::stage::{Setup, Stage, bytes_of, code, collect, id, range, until, within};

const PAGE: &str = "https://wallet.example";
pub(crate) const BINARY: &str = "application/grpc-web+proto";
pub(crate) const TEXT: &str = "application/grpc-web-text+proto";

/// Sends one request on a connection of its own.
pub(crate) async fn send(
    stage: &Stage,
    version: Version,
    mut request: Request<Full<Bytes>>,
) -> Response<Incoming> {
    let io = TokioIo::new(TcpStream::connect(stage.grpc).await.unwrap());
    if version == Version::HTTP_2 {
        let (mut client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                .await
                .unwrap();
        tokio::spawn(connection);
        let path = request.uri().path().to_owned();
        *request.uri_mut() = format!("http://{}{path}", stage.grpc).parse().unwrap();
        within(client.send_request(request)).await.unwrap()
    } else {
        let (mut client, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        within(client.send_request(request)).await.unwrap()
    }
}

fn framed(message: &impl Message) -> Vec<u8> {
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.encoded_len() as u32).to_be_bytes());
    frame.extend_from_slice(&message.encode_to_vec());
    frame
}

pub(crate) fn call(method: &str, kind: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    let body = if kind == TEXT {
        STANDARD.encode(body).into()
    } else {
        Bytes::from(body)
    };
    Request::builder()
        .method(Method::POST)
        .uri(format!("/cash.z.wallet.sdk.rpc.CompactTxStreamer/{method}"))
        .header("host", "localhost")
        .header("origin", PAGE)
        .header("content-type", kind)
        .header("x-grpc-web", "1")
        .body(Full::new(body))
        .unwrap()
}

/// What a gRPC-web client makes of an answer.
pub(crate) struct Answer {
    headers: HeaderMap,
    messages: Vec<Vec<u8>>,
    /// From the last frame, or from the headers.
    pub(crate) status: String,
}

impl Answer {
    pub(crate) async fn read(response: Response<Incoming>) -> Answer {
        assert_eq!(response.status(), StatusCode::OK);
        let (parts, body) = response.into_parts();
        let body = within(body.collect()).await.unwrap();
        assert!(body.trailers().is_none());
        let body = body.to_bytes();
        let kind = parts.headers["content-type"].to_str().unwrap();
        let body = if kind == TEXT {
            decode(&body)
        } else {
            body.to_vec()
        };
        let mut answer = Answer {
            messages: Vec::new(),
            status: parts
                .headers
                .get("grpc-status")
                .map_or(String::new(), |status| status.to_str().unwrap().to_owned()),
            headers: parts.headers,
        };
        let mut rest = &body[..];
        while let [flag, a, b, c, d, after @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let (content, after) = after.split_at(length);
            assert!(answer.status.is_empty(), "nothing comes after trailers");
            if *flag == 0x80 {
                let lines = String::from_utf8(content.to_vec()).unwrap();
                let status = lines
                    .lines()
                    .find_map(|line| line.strip_prefix("grpc-status:"));
                answer.status = status.unwrap().to_owned();
            } else {
                answer.messages.push(content.to_vec());
            }
            rest = after;
        }
        assert!(rest.is_empty());
        answer
    }

    /// The page can read the answer.
    fn is_readable(&self) -> bool {
        self.headers.get("access-control-allow-origin").is_some()
            && self.headers["access-control-expose-headers"]
                .to_str()
                .unwrap()
                .contains("grpc-status")
    }
}

/// As browsers' libraries do: group by group, each maybe padded.
fn decode(text: &[u8]) -> Vec<u8> {
    text.chunks(4)
        .flat_map(|group| STANDARD.decode(group).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_gets_what_a_wallet_gets() {
    let stage = Stage::new(40).await;
    let mut wallet = stage.client().await;
    let latest = wallet.get_latest_block(ChainSpec {}).await.unwrap();
    let latest = latest.into_inner().encode_to_vec();
    let (blocks, _) = collect(wallet.get_block_range(range(0, 40)).await).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        for kind in [BINARY, TEXT] {
            let request = call("GetLatestBlock", kind, framed(&ChainSpec {}));
            let answer = Answer::read(send(&stage, version, request).await).await;
            assert_eq!(answer.headers["content-type"], kind);
            assert_eq!(answer.messages, std::slice::from_ref(&latest));
            assert_eq!(answer.status, "0");
            assert!(answer.is_readable());
            let request = call("GetBlockRange", kind, framed(&range(0, 40)));
            let answer = Answer::read(send(&stage, version, request).await).await;
            assert_eq!(answer.messages, bytes_of(&blocks));
            assert_eq!(answer.status, "0");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_can_read_refusals_too() {
    let stage = Stage::new(5).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        for (method, kind, body, status) in [
            ("GetBlock", BINARY, framed(&id(6)), "11"),
            ("GetBlockRange", TEXT, framed(&range(6, 7)), "11"),
            ("GetBlock", TEXT, framed(&BlockId::default()), "3"),
            ("GetTreeState", BINARY, framed(&id(6)), "11"),
            ("GetBlock", BINARY, vec![0, 0, 0, 0, 9], "3"),
            ("Unknown", BINARY, framed(&Empty {}), "12"),
        ] {
            let answer = Answer::read(send(&stage, version, call(method, kind, body)).await).await;
            assert_eq!(answer.status, status, "{method}");
            assert!(answer.is_readable(), "{method}");
        }
        for method in ["GetBlock", "GetLatestBlock"] {
            let mut request = call(method, TEXT, Vec::new());
            *request.body_mut() = Full::new(Bytes::from_static(b"*&%$"));
            let answer = Answer::read(send(&stage, version, request).await).await;
            assert_eq!(answer.status, "3", "{method}: no base64");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_ask_once_a_day_whether_a_page_may_call() {
    let ask = || {
        Request::builder()
            .method(Method::OPTIONS)
            .uri("/cash.z.wallet.sdk.rpc.CompactTxStreamer/GetLatestBlock")
            .header("host", "localhost")
            .header("origin", PAGE)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type,x-grpc-web")
            .body(Full::new(Bytes::new()))
            .unwrap()
    };
    let of = |origins| {
        let mut setup = Setup::whole(3);
        setup.settings.origins = origins;
        Stage::with(setup)
    };
    let these = |origin: &str| Origins::These(vec![origin.parse().unwrap()]);
    for (origins, allowed) in [
        (Origins::Any, Some("*")),
        (these(PAGE), Some(PAGE)),
        (these("https://other.example"), None),
        (Origins::These(Vec::new()), None),
    ] {
        let varies = origins != Origins::Any;
        let stage = of(origins).await;
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let preflight = send(&stage, version, ask()).await;
            assert_eq!(preflight.status(), StatusCode::NO_CONTENT);
            let headers = preflight.headers();
            assert_eq!(headers["access-control-max-age"], "86400");
            for wanted in ["content-type", "x-grpc-web", "x-user-agent", "grpc-timeout"] {
                let listed = headers["access-control-allow-headers"].to_str().unwrap();
                assert!(listed.contains(wanted));
            }
            let request = call("GetLatestBlock", BINARY, framed(&ChainSpec {}));
            let answer = send(&stage, version, request).await;
            for headers in [headers, answer.headers()] {
                let origin = headers.get("access-control-allow-origin");
                assert_eq!(origin.map(|origin| origin.to_str().unwrap()), allowed);
                assert_eq!(headers.contains_key("vary"), varies);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_told_what_is_spoken_here() {
    let stage = Stage::new(3).await;
    for (request, status, words) in [
        ("GET / HTTP/1.1\r\n", 405, "gRPC"),
        ("OPTIONS * HTTP/1.1\r\n", 405, "POST"),
        (
            "POST / HTTP/1.1\r\ncontent-type: application/json\r\n",
            415,
            "application/grpc-web",
        ),
        (
            "POST / HTTP/1.1\r\ncontent-type: application/grpc\r\n",
            426,
            "HTTP/2",
        ),
        ("POST / HTTP/1.1\r\n", 415, "gRPC"),
        // Nobody upgrades: plaintext HTTP/2 begins as such.
        (
            "GET / HTTP/1.1\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n",
            405,
            "gRPC",
        ),
        ("NONSENSE\r\n", 400, ""),
    ] {
        let mut stream = TcpStream::connect(stage.grpc).await.unwrap();
        let request = format!("{request}host: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(stream.read_to_string(&mut answer)).await.unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(answer.contains(words), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_stream_come_as_they_are_made() {
    let mut stage = Stage::new(20).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let request = call("GetMempoolStream", TEXT, framed(&Empty {}));
        // The headers are here before there is any message.
        let response = send(&stage, version, request).await;
        stage.mine();
        stage.follow();
        let answer = Answer::read(response).await;
        assert_eq!(answer.status, "0", "it ends with the block");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_over_http_1_that_takes_nothing_loses_its_connection() {
    use lightship_chain::build::Recipe;
    let mut setup = Setup::whole(20);
    setup.settings.limits = Limits {
        stall: Duration::from_millis(300),
        streams: 1,
        ..Limits::default()
    };
    let mut stage = Stage::with(setup).await;
    for _ in 0..60 {
        let recipe = Recipe::new(stage.chain.newest_version()).with_sapling(0, 1_500);
        let transaction = stage.chain.transaction(recipe).unwrap();
        stage.mine_of(&[transaction]);
    }
    stage.follow();
    let stalled = send(
        &stage,
        Version::HTTP_11,
        call("GetBlockRange", BINARY, framed(&range(0, 80))),
    )
    .await;
    let mut wallet = stage.client().await;
    assert_eq!(
        code(wallet.get_block_range(range(1, 2)).await),
        tonic::Code::ResourceExhausted
    );
    until(|| {
        let mut wallet = wallet.clone();
        async move { code(wallet.get_block_range(range(1, 2)).await) == tonic::Code::Ok }
    })
    .await;
    assert!(within(stalled.into_body().collect()).await.is_err());
}
