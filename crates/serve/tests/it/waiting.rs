//! Who came before there is an index: told so in order, also while the index comes to be, and let go without a broken connection.

use std::{error::Error as _, net::SocketAddr, sync::Arc};

use lightship_serve::{Settings, proto::Empty, waiting};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot::{self, error::RecvError},
    task::JoinHandle,
};
use tonic::{Code, Status};

use crate::stage::{Client, within};

/// How HTTP/2 begins, with a SETTINGS frame that changes nothing.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const DATA: u8 = 0;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;

/// Ports on which nobody is served yet.
struct Early {
    grpc: SocketAddr,
    http: SocketAddr,
    ports: Arc<(TcpListener, TcpListener)>,
    end: oneshot::Sender<()>,
    task: JoinHandle<(Result<(), RecvError>, JoinHandle<()>)>,
}

impl Early {
    async fn new() -> Early {
        let bind = || TcpListener::bind("127.0.0.1:0");
        Early::on(Arc::new((bind().await.unwrap(), bind().await.unwrap())))
    }

    fn on(ports: Arc<(TcpListener, TcpListener)>) -> Early {
        let (end, ended) = oneshot::channel();
        Early {
            grpc: ports.0.local_addr().unwrap(),
            http: ports.1.local_addr().unwrap(),
            ports: Arc::clone(&ports),
            end,
            task: tokio::spawn(async move {
                let settings = Settings::default();
                waiting(&ports.0, &ports.1, &settings, "early", ended).await
            }),
        }
    }

    /// A connection to `port` that was taken in.
    async fn taken(&self, port: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(port).await.unwrap();
        // They are taken in one after the other, so that the answer to a second one tells.
        let mut second = TcpStream::connect(port).await.unwrap();
        let ask = b"GET /livez HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
        second.write_all(ask).await.unwrap();
        within(second.read_to_end(&mut Vec::new())).await.unwrap();
        stream
    }

    /// The index is there. What is left of the connections.
    async fn end(self) -> JoinHandle<()> {
        self.end.send(()).unwrap();
        let (ended, left) = within(self.task).await.unwrap();
        ended.unwrap();
        left
    }
}

/// The next frame's type, flags and payload.
async fn frame(stream: &mut TcpStream) -> (u8, u8, Vec<u8>) {
    let mut head = [0; 9];
    within(stream.read_exact(&mut head)).await.unwrap();
    let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    within(stream.read_exact(&mut payload)).await.unwrap();
    (head[3], head[4], payload)
}

fn refused(answer: Result<tonic::Response<impl Sized>, Status>) {
    let status = answer.err().expect("nobody is served yet");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(
        status.message().contains("no block can be served yet"),
        "{status}"
    );
    // What the transport says of itself has one.
    assert!(status.source().is_none(), "{status:?}");
}

#[tokio::test]
async fn a_client_is_asked_to_go_when_the_index_is_there() {
    let early = Early::new().await;
    let mut stream = TcpStream::connect(early.grpc).await.unwrap();
    stream.write_all(HELLO).await.unwrap();
    // The server's own SETTINGS: it speaks HTTP/2.
    assert_eq!(frame(&mut stream).await.0, 4);
    let left = early.end().await;
    let mut last_streams = Vec::new();
    while last_streams.len() < 2 {
        let (kind, flags, payload) = frame(&mut stream).await;
        if kind == GOAWAY {
            assert_eq!(payload[4..8], [0; 4], "no error");
            last_streams.push(payload[..4].to_vec());
        }
        if kind == PING && flags & ACK == 0 {
            let pong = [&[0, 0, 8, PING, ACK, 0, 0, 0, 0], &payload[..]].concat();
            stream.write_all(&pong).await.unwrap();
        }
        assert_ne!(kind, DATA);
    }
    // First every stream may still come, then none.
    assert_eq!(last_streams, [vec![0x7f, 0xff, 0xff, 0xff], vec![0; 4]]);
    assert_eq!(within(stream.read(&mut [0])).await.unwrap(), 0);
    within(left).await.unwrap();
}

/// The client had connected and was about to ask.
#[tokio::test]
async fn who_connected_before_the_index_was_there_and_asks_after_it_is_answered() {
    let early = Early::new().await;
    let stream = early.taken(early.grpc).await;
    let left = early.end().await;
    let mut stream = Some(hyper_util::rt::TokioIo::new(stream));
    let connector = tower::service_fn(move |_: http::Uri| {
        let stream = stream.take().ok_or("it connects once");
        async { stream }
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://wallet.test");
    let channel = within(endpoint.connect_with_connector(connector));
    let mut client = Client::new(channel.await.unwrap());
    refused(within(client.get_lightd_info(Empty {})).await);
    within(left).await.unwrap();
}

#[tokio::test]
async fn a_client_that_was_refused_comes_again_by_itself() {
    let mut early = Early::new().await;
    let mut client = Client::connect(format!("http://{}", early.grpc))
        .await
        .unwrap();
    for _ in 0..3 {
        refused(within(client.get_lightd_info(Empty {})).await);
        let ports = Arc::clone(&early.ports);
        within(early.end().await).await.unwrap();
        early = Early::on(ports);
    }
    refused(within(client.get_lightd_info(Empty {})).await);
}

#[tokio::test]
async fn half_a_question_is_answered_when_the_other_half_comes() {
    for http1 in ["wallets", "operators"] {
        let early = Early::new().await;
        let port = match http1 {
            "wallets" => early.grpc,
            _ => early.http,
        };
        let mut stream = early.taken(port).await;
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nhost: ")
            .await
            .unwrap();
        let left = early.end().await;
        stream.write_all(b"here\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        within(stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 "), "{http1}: {answer:?}");
        within(left).await.unwrap();
    }
}

#[tokio::test]
async fn who_says_nothing_keeps_nobody_waiting() {
    let early = Early::new().await;
    let mut silent = early.taken(early.grpc).await;
    // Speaks HTTP/2, and answers no PING.
    let mut deaf = TcpStream::connect(early.grpc).await.unwrap();
    deaf.write_all(HELLO).await.unwrap();
    assert_eq!(frame(&mut deaf).await.0, 4);
    let ports = Arc::clone(&early.ports);
    let left = early.end().await;
    assert!(
        !left.is_finished(),
        "the ports are free before they are gone"
    );
    let next = Early::on(ports);
    let mut client = Client::connect(format!("http://{}", next.grpc))
        .await
        .unwrap();
    refused(within(client.get_lightd_info(Empty {})).await);
    within(left).await.unwrap();
    assert!(matches!(
        within(silent.read(&mut [0])).await,
        Ok(0) | Err(_)
    ));
    let gone = within(deaf.read_to_end(&mut Vec::new())).await;
    drop(gone);
}
