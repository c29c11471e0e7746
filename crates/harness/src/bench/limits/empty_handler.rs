//! Limit `empty-handler`: tonic, with nothing to do.
//!
//! Every request is looked up by its bytes, and the answer's messages go out as they lie in memory; ranges come from the mapped expected bytes, a message
//! at a time, as tonic streams them. What a unary call costs here is what HTTP/2, gRPC framing and the runtime cost.

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use anyhow::Result;
use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tonic::{
    Request, Response, Status,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::{Service, http, tokio_stream},
    server::{Grpc, NamedService, ServerStreamingService, UnaryService},
};

use super::Answers;
use crate::{bench::expected::Expected, proto::BlockRange};

/// `lightship-harness empty-handler`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The folder with the chain's expected bytes
    #[arg(long)]
    expected: PathBuf,
    /// The table of requests and answers
    #[arg(long)]
    answers: PathBuf,
    /// Where to listen
    #[arg(long)]
    listen: SocketAddr,
}

impl Arguments {
    /// Serves until the process is ended.
    ///
    /// # Errors
    ///
    /// When a file or the address cannot be had.
    pub fn run(&self) -> Result<()> {
        let handler = Handler {
            expected: Expected::open(&self.expected)?,
            answers: Arc::new(super::read_answers(&self.answers)?),
        };
        let serving = tonic::transport::Server::builder()
            .add_service(handler)
            .serve(self.listen);
        tokio::runtime::Runtime::new()?.block_on(serving)?;
        Ok(())
    }
}

#[derive(Clone)]
struct Handler {
    expected: Expected,
    answers: Arc<Answers>,
}

impl NamedService for Handler {
    const NAME: &'static str = "cash.z.wallet.sdk.rpc.CompactTxStreamer";
}

type Answering<T> = Pin<Box<dyn Future<Output = Result<T, Infallible>> + Send>>;

impl Service<http::Request<Body>> for Handler {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering<http::Response<Body>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let handler = self.clone();
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default();
            let streams = method.starts_with("GetBlockRange")
                || method.starts_with("GetTaddressT")
                || matches!(
                    method,
                    "GetSubtreeRoots" | "GetAddressUtxosStream" | "GetMempoolTx"
                );
            let method = method.to_owned();
            let call = Call { handler, method };
            let mut grpc = Grpc::new(Raw);
            Ok(if streams {
                grpc.server_streaming(call, request).await
            } else if call.method == "GetTaddressBalanceStream" {
                grpc.client_streaming(call, request).await
            } else {
                grpc.unary(call, request).await
            })
        })
    }
}

#[derive(Clone)]
struct Call {
    handler: Handler,
    method: String,
}

impl Call {
    fn look_up(&self, request: &Bytes) -> Result<&[Bytes], Status> {
        let mut framed = vec![0];
        framed.extend_from_slice(&(request.len() as u32).to_be_bytes());
        framed.extend_from_slice(request);
        let answers = self.handler.answers.get(&self.method);
        let answer = answers.and_then(|answers| answers.get(&framed));
        answer
            .map(Vec::as_slice)
            .ok_or_else(|| Status::not_found("a question that was not announced"))
    }

    fn one(&self, request: &Bytes) -> Result<Response<Bytes>, Status> {
        let one = self.look_up(request)?.first().cloned().unwrap_or_default();
        Ok(Response::new(one))
    }
}

type Ready<T> = std::future::Ready<Result<Response<T>, Status>>;

impl UnaryService<Bytes> for Call {
    type Response = Bytes;
    type Future = Ready<Bytes>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        std::future::ready(self.one(request.get_ref()))
    }
}

impl tonic::server::ClientStreamingService<Bytes> for Call {
    type Response = Bytes;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Status>> + Send>>;

    fn call(&mut self, request: Request<tonic::Streaming<Bytes>>) -> Self::Future {
        let call = self.clone();
        Box::pin(async move {
            let first = request.into_inner().message().await?;
            call.one(&first.unwrap_or_default())
        })
    }
}

/// Messages of a range, or of an answer.
type Messages = Pin<Box<dyn tokio_stream::Stream<Item = Result<Bytes, Status>> + Send>>;

impl ServerStreamingService<Bytes> for Call {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = Ready<Messages>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        std::future::ready(self.stream(request.get_ref()).map(Response::new))
    }
}

impl Call {
    fn stream(&self, request: &Bytes) -> Result<Messages, Status> {
        if self.method != "GetBlockRange" {
            let messages: Vec<_> = self.look_up(request)?.iter().cloned().map(Ok).collect();
            return Ok(Box::pin(tokio_stream::iter(messages)));
        }
        let range = BlockRange::decode(&request[..])
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let first = range.start.unwrap_or_default().height;
        let last = range.end.unwrap_or_default().height;
        let mut frames = self
            .handler
            .expected
            .range(first, last)
            .ok_or_else(|| Status::out_of_range("no such blocks"))?;
        let messages = std::iter::from_fn(move || {
            let head: [u8; 5] = frames.get(..5)?.try_into().ok()?;
            let [_, length @ ..] = head;
            let length = u32::from_be_bytes(length) as usize;
            frames.advance(5);
            (length <= frames.len()).then(|| Ok(frames.split_to(length)))
        });
        Ok(Box::pin(tokio_stream::iter(messages)))
    }
}

/// Bytes as they are, both ways.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
