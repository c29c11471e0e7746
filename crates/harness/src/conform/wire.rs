//! One call as it is on the wire: encoded messages out, encoded messages and a status back.
//!
//! In: a method's name and any number of request messages, valid or not. Out: an [`Outcome`]. Nothing is decoded here, so a request may be
//! nonsense, and an answer is judged by its bytes. Every wait has an end: a stream that is still open then is an outcome too.

use std::time::{Duration, Instant};

use anyhow::Result;
use prost::bytes::{Buf, BufMut};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::{http::uri::PathAndQuery, tokio_stream},
    transport::Channel,
};

/// The largest message taken. Far above what any wallet takes: that an answer is too large for a wallet is for a case to say.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// No answer of more bytes is kept.
const MAX_ANSWER_BYTES: usize = 1 << 30;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method's name, without its service.
    pub method: String,
    /// The request messages, encoded. One, unless the method takes a stream.
    pub messages: Vec<Vec<u8>>,
    /// The request for people.
    pub text: String,
    /// How long the answer is waited for at most, where that is less than the run's patience.
    pub patience: Option<Duration>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The answer's messages, encoded.
    pub messages: Vec<Vec<u8>>,
    /// How it ended; `None` if it was still going on when patience ended.
    pub end: Option<(Code, String)>,
    /// From the call to the headers of the answer.
    pub headers_after: Duration,
}

impl Outcome {
    fn failed(status: &Status, began: Instant) -> Outcome {
        Outcome {
            messages: Vec::new(),
            end: Some((status.code(), status.message().to_owned())),
            headers_after: began.elapsed(),
        }
    }
}

/// A connection to the server that is judged.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    grpc: Grpc<Channel>,
}

impl Wire {
    /// Connects to `url` (`http://host:port`).
    ///
    /// # Errors
    ///
    /// When nobody answers there.
    pub(super) async fn connect(url: &str) -> Result<Wire> {
        let channel = crate::grpc::connect(url, crate::grpc::Window::Wide).await?;
        Ok(Wire {
            grpc: Grpc::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES),
        })
    }

    /// Makes a call, and waits for the end of its answer for so long, or less if the call says so. Whatever happens is an outcome.
    pub(super) async fn call(&self, call: &Call, patience: Duration) -> Outcome {
        let patience = call.patience.map_or(patience, |own| own.min(patience));
        let mut grpc = self.grpc.clone();
        let began = Instant::now();
        let deadline = tokio::time::Instant::now() + patience;
        let path: PathAndQuery =
            format!("/cash.z.wallet.sdk.rpc.CompactTxStreamer/{}", call.method)
                .parse()
                .expect("a method's name makes a valid path");
        let opened = tokio::time::timeout_at(deadline, async {
            grpc.ready()
                .await
                .map_err(|error| Status::unavailable(error.to_string()))?;
            let messages = tokio_stream::iter(call.messages.clone());
            grpc.streaming(Request::new(messages), path, Raw).await
        });
        let mut answer = match opened.await {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return Outcome::failed(&status, began),
            Err(_) => {
                return Outcome {
                    messages: Vec::new(),
                    end: None,
                    headers_after: patience,
                };
            }
        };
        let headers_after = began.elapsed();
        let mut messages = Vec::new();
        let mut bytes = 0;
        let end = loop {
            match tokio::time::timeout_at(deadline, answer.message()).await {
                Err(_) => break None,
                Ok(Ok(None)) => break Some((Code::Ok, String::new())),
                Ok(Err(status)) => break Some((status.code(), status.message().to_owned())),
                Ok(Ok(Some(message))) => {
                    bytes += message.len();
                    if bytes > MAX_ANSWER_BYTES {
                        break None;
                    }
                    messages.push(message);
                }
            }
        };
        Outcome {
            messages,
            end,
            headers_after,
        }
    }
}

/// Bytes as they are, both ways.
#[derive(Clone, Copy, Debug)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
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
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}
