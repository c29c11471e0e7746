//! A light wallet client that sees bytes.
//!
//! In: requests as messages. Out: answers as the encoded messages that came over the wire, so that two servers can be compared byte for
//! byte, and so that measuring one does not measure decoding.

use std::time::Duration;

use anyhow::{Context, Result};
use prost::{Message, bytes::Buf, bytes::BufMut};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};

use crate::proto::{BlockId, BlockRange};

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for an answer that ends.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// The largest message taken: a compact block of one 2 MB block stays below it.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// How much a client lets a server send ahead of what it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// 16 MiB: the far end is measured, not this client's credit.
    Wide,
    /// HTTP/2's own 64 KiB less one: a client that does not read stops its server soon.
    Narrow,
}

/// A connection to `url` (`http://host:port`).
///
/// # Errors
///
/// When the address makes no sense or nobody answers in ten seconds.
pub async fn connect(url: &str, window: Window) -> Result<Channel> {
    let bytes = match window {
        Window::Wide => 16 << 20,
        Window::Narrow => 65_535,
    };
    Endpoint::from_shared(url.to_owned())?
        .connect_timeout(CONNECT_TIMEOUT)
        .initial_stream_window_size(bytes)
        .initial_connection_window_size(bytes)
        .connect()
        .await
        .with_context(|| format!("connecting to {url}"))
}

/// A client of one server.
#[derive(Clone, Debug)]
pub struct Client {
    grpc: Grpc<Channel>,
}

impl Client {
    /// A client on `channel`.
    pub fn new(channel: Channel) -> Client {
        Client {
            grpc: Grpc::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES),
        }
    }

    /// Connects to `url`.
    ///
    /// # Errors
    ///
    /// As [`connect`].
    pub async fn connect(url: &str) -> Result<Client> {
        connect(url, Window::Wide).await.map(Client::new)
    }

    /// Calls a method of `CompactTxStreamer` that answers once.
    ///
    /// # Errors
    ///
    /// The server's status; `DEADLINE_EXCEEDED` if nothing comes for ten minutes.
    pub async fn unary<M: Message + 'static>(
        &mut self,
        method: &str,
        message: M,
    ) -> Result<Vec<u8>, Status> {
        in_time(async {
            self.ready().await?;
            let answer = self
                .grpc
                .unary(Request::new(message), path(method), Bytes::new())
                .await?;
            Ok(answer.into_inner())
        })
        .await
    }

    /// Calls a method of `CompactTxStreamer` that answers with a stream.
    ///
    /// # Errors
    ///
    /// The server's status; also while the stream is read.
    pub async fn stream<M: Message + 'static>(
        &mut self,
        method: &str,
        message: M,
    ) -> Result<Streaming<Vec<u8>>, Status> {
        self.ready().await?;
        let answer = self
            .grpc
            .server_streaming(Request::new(message), path(method), Bytes::new())
            .await?;
        Ok(answer.into_inner())
    }

    /// `GetBlockRange` with an empty pool list: the default view, `first` to `last`.
    ///
    /// # Errors
    ///
    /// As [`Client::stream`].
    pub async fn block_range(
        &mut self,
        first: u64,
        last: u64,
    ) -> Result<Streaming<Vec<u8>>, Status> {
        self.stream("GetBlockRange", range(first, last)).await
    }

    /// All of [`Client::block_range`], if it ends well.
    ///
    /// # Errors
    ///
    /// As [`Client::stream`]; `DEADLINE_EXCEEDED` if they have not all come in ten minutes.
    pub async fn blocks(&mut self, first: u64, last: u64) -> Result<Vec<Vec<u8>>, Status> {
        in_time(async {
            let mut stream = self.block_range(first, last).await?;
            let mut blocks = Vec::new();
            while let Some(block) = stream.message().await? {
                blocks.push(block);
            }
            Ok(blocks)
        })
        .await
    }

    /// `GetLatestBlock`: height and hash in internal order.
    ///
    /// # Errors
    ///
    /// The server's status.
    pub async fn latest_block(&mut self) -> Result<BlockId, Status> {
        let answer = self
            .unary("GetLatestBlock", crate::proto::ChainSpec {})
            .await?;
        BlockId::decode(answer.as_slice()).map_err(|error| Status::internal(error.to_string()))
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    tokio::time::timeout(ANSWER_TIMEOUT, answer)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded("no whole answer in time")))
}

/// The range `first` to `last` with an empty pool list.
pub fn range(first: u64, last: u64) -> BlockRange {
    let end = |height| {
        Some(BlockId {
            height,
            hash: Vec::new(),
        })
    };
    BlockRange {
        start: end(first),
        end: end(last),
        pool_types: Vec::new(),
    }
}

fn path(method: &str) -> PathAndQuery {
    format!("/cash.z.wallet.sdk.rpc.CompactTxStreamer/{method}")
        .parse()
        .expect("a method's name makes a valid path")
}

/// Encodes messages, hands out answers as they came.
#[derive(Debug)]
struct Bytes<M>(std::marker::PhantomData<fn(M)>);

impl<M> Bytes<M> {
    fn new() -> Bytes<M> {
        Bytes(std::marker::PhantomData)
    }
}

impl<M: Message + 'static> Codec for Bytes<M> {
    type Encode = M;
    type Decode = Vec<u8>;
    type Encoder = Bytes<M>;
    type Decoder = Bytes<M>;

    fn encoder(&mut self) -> Bytes<M> {
        Bytes::new()
    }

    fn decoder(&mut self) -> Bytes<M> {
        Bytes::new()
    }
}

impl<M: Message> Encoder for Bytes<M> {
    type Item = M;
    type Error = Status;

    fn encode(&mut self, message: M, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message.encode_to_vec());
        Ok(())
    }
}

impl<M> Decoder for Bytes<M> {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}
