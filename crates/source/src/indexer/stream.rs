//! One stream of messages over a connection of its own: gRPC's frames on hyper's HTTP/2.

use std::{io, time::Duration};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use percent_encoding::percent_decode;
use tokio::{net::TcpStream, task::JoinHandle, time};

use super::{Indexer, Topic};
use crate::{Error, Result};

/// Far more than any message here has.
const MAX_MESSAGE_BYTES: usize = 4 << 10;
/// What may wait unread: the node is held back beyond it.
const WINDOW_BYTES: u32 = 64 << 10;
const MAX_HEADER_BYTES: u32 = 16 << 10;
/// One byte that says whether the message is compressed, four with its length, the highest first.
const FRAME_HEADER_BYTES: usize = 5;
/// The one message of a request that has no fields.
const EMPTY: [u8; FRAME_HEADER_BYTES] = [0; FRAME_HEADER_BYTES];

/// A stream that has begun.
#[derive(Debug)]
pub(super) struct Stream {
    node: String,
    topic: Topic,
    body: Incoming,
    read: BytesMut,
    /// Ends the connection when the stream is dropped.
    _connection: Connection,
}

/// The task that moves a connection's bytes.
#[derive(Debug)]
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Indexer {
    /// Subscribes, on a new connection.
    pub(super) async fn open(&self, topic: Topic) -> Result<Stream> {
        let connected = self.within("connect", TcpStream::connect(self.address.authority()));
        let socket = connected.await?.map_err(|error| self.unreachable(&error))?;
        // Small messages that somebody waits for.
        socket
            .set_nodelay(true)
            .map_err(|error| self.unreachable(&error))?;
        self.within(topic.method(), self.subscribe(socket, topic))
            .await?
    }

    async fn subscribe(&self, socket: TcpStream, topic: Topic) -> Result<Stream> {
        let node = self.address.to_string();
        let (mut requests, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_header_list_size(MAX_HEADER_BYTES)
            .keep_alive_interval(self.keepalive)
            .keep_alive_timeout(self.keepalive)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(socket))
            .await
            .map_err(|error| self.unreachable(&error))?;
        let connection = Connection(tokio::spawn(async {
            // What goes wrong shows at the stream.
            let _ = connection.await;
        }));
        let uri = format!(
            "{}zebra.indexer.rpc.Indexer/{}",
            self.address.url(),
            topic.method()
        );
        let request = Request::post(uri)
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .header(header::USER_AGENT, "lightship")
            .body(Full::new(Bytes::from_static(&EMPTY)))
            .expect("an Address is made only from what parses as a Uri");
        let answer = requests
            .send_request(request)
            .await
            .map_err(|error| self.unreachable(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(Error::Http {
                node,
                method: topic.method().to_owned(),
                status: answer.status().as_u16(),
            });
        }
        // A refusal comes as headers alone.
        if let Some(refusal) = status(topic, answer.headers()) {
            return Err(refusal);
        }
        Ok(Stream {
            node,
            topic,
            body: answer.into_body(),
            read: BytesMut::new(),
            _connection: connection,
        })
    }

    async fn within<T>(&self, method: &str, answer: impl Future<Output = T>) -> Result<T> {
        time::timeout(self.timeout, answer)
            .await
            .map_err(|_| Error::Timeout {
                node: self.address.to_string(),
                method: method.to_owned(),
                after: self.timeout,
            })
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        broken(&self.address.to_string(), error)
    }
}

fn broken(node: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    // The innermost cause names the fact; the outer ones say "http2 error".
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    Error::Unreachable {
        node: node.to_owned(),
        reason: deepest.to_string(),
    }
}

impl Stream {
    /// The next message. Waits for as long as the connection lives.
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// When the stream ends, for whatever reason: there is no good end.
    pub(super) async fn next(&mut self) -> Result<Bytes> {
        loop {
            if let Some(message) = self.whole_message()? {
                return Ok(message);
            }
            match self.body.frame().await {
                None => return Err(self.ended("it ended the stream")),
                Some(Err(error)) => return Err(broken(&self.node, &error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.read.extend_from_slice(&data),
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        return Err(status(self.topic, &trailers)
                            .unwrap_or_else(|| self.ended("it ended the stream in order")));
                    }
                },
            }
        }
    }

    fn ended(&self, reason: &str) -> Error {
        broken(&self.node, &io::Error::other(reason.to_owned()))
    }

    fn whole_message(&mut self) -> Result<Option<Bytes>> {
        let Some((header, _)) = self.read.split_first_chunk::<FRAME_HEADER_BYTES>() else {
            return Ok(None);
        };
        let [compressed, length @ ..] = *header;
        if compressed != 0 {
            return Err(Error::Shape {
                method: self.topic.method().to_owned(),
                what: "a compressed message, which was not asked for".to_owned(),
            });
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE_BYTES {
            return Err(Error::TooLarge {
                method: self.topic.method().to_owned(),
                limit_bytes: MAX_MESSAGE_BYTES,
            });
        }
        if self.read.len() < FRAME_HEADER_BYTES + length {
            return Ok(None);
        }
        self.read.advance(FRAME_HEADER_BYTES);
        Ok(Some(self.read.split_to(length).freeze()))
    }
}

/// The failure that gRPC's status headers tell of, if they do.
///
/// Spec: gRPC repository, `doc/PROTOCOL-HTTP2.md`, Status-Message: percent-encoded UTF-8. What is encoded otherwise is shown as it came.
fn status(topic: Topic, headers: &HeaderMap) -> Option<Error> {
    let code = headers.get("grpc-status")?.to_str().ok()?;
    let code: i32 = code.parse().unwrap_or(-1);
    let words = headers.get("grpc-message").map(|words| words.as_bytes());
    let words = percent_decode(words.unwrap_or_default()).decode_utf8_lossy();
    (code != 0).then(|| Error::Rpc {
        method: topic.method().to_owned(),
        code,
        // No header has control characters, and neither has a line of a log.
        message: words
            .chars()
            .filter(|letter| !letter.is_control())
            .collect(),
    })
}

/// Reads no more than so many messages a second.
#[derive(Debug)]
pub(super) struct Pace {
    most: u32,
    began: time::Instant,
    read: u32,
}

impl Pace {
    const WINDOW: Duration = Duration::from_secs(1);

    pub(super) fn new(most: u32) -> Pace {
        Pace {
            most,
            began: time::Instant::now(),
            read: 0,
        }
    }

    /// Waits for the next message's turn.
    pub(super) async fn turn(&mut self) {
        if self.read >= self.most {
            time::sleep_until(self.began + Pace::WINDOW).await;
        }
        if self.began.elapsed() >= Pace::WINDOW {
            self.began = time::Instant::now();
            self.read = 0;
        }
        self.read += 1;
    }
}
