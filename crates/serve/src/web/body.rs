//! gRPC-web's form of bodies: the trailers are one more frame behind the messages, and all of it may be base64.
//!
//! Spec: gRPC repository, `doc/PROTOCOL-WEB.md`, "Protocol differences vs gRPC over HTTP2".

use std::{
    convert::Infallible,
    error::Error,
    pin::Pin,
    task::{Context, Poll},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tonic::Status;

use super::Encoding;
use crate::{answer::Answer, status::Refusal};

/// Marks a frame that holds trailers.
const TRAILERS: u8 = 0x80;
/// Base64 comes in groups of four characters, three bytes each.
const GROUP: usize = 4;

/// A gRPC-web request's body as that of a native call.
pub(super) struct WebRequest<B> {
    body: B,
    text: Option<Text>,
}

/// Characters of a group that is not whole yet.
#[derive(Default)]
struct Text {
    begun: Vec<u8>,
}

impl<B> WebRequest<B> {
    pub(super) fn new(body: B, sent: Encoding) -> WebRequest<B> {
        WebRequest {
            body,
            text: (sent == Encoding::Text).then(Text::default),
        }
    }
}

impl Text {
    /// Decodes what is whole of all characters so far. Each frame may be padded by itself, so `=` may stand anywhere.
    fn decode(&mut self, more: &[u8]) -> Result<Bytes, Refusal> {
        self.begun.extend_from_slice(more);
        let whole = self.begun.len() / GROUP * GROUP;
        let mut decoded = Vec::with_capacity(whole / GROUP * 3);
        let mut rest = &self.begun[..whole];
        while !rest.is_empty() {
            let padding = rest.iter().position(|character| *character == b'=');
            let end = padding.map_or(rest.len(), |at| (at / GROUP + 1) * GROUP);
            let (run, after) = rest.split_at(end);
            STANDARD
                .decode_vec(run, &mut decoded)
                .map_err(|_| NOT_BASE64)?;
            rest = after;
        }
        self.begun.drain(..whole);
        Ok(decoded.into())
    }

    fn finish(&self) -> Result<(), Refusal> {
        if self.begun.is_empty() {
            Ok(())
        } else {
            Err(NOT_BASE64)
        }
    }
}

const NOT_BASE64: Refusal = Refusal::Malformed {
    what: "its text is not base64",
};

impl<B> Body for WebRequest<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let frame = match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(Some(Ok(frame))) => Some(frame),
            Poll::Ready(None) => None,
        };
        let decoded = match (&mut this.text, frame) {
            (None, frame) => Ok(frame),
            (Some(text), None) => text.finish().map(|()| None),
            (Some(text), Some(frame)) => match frame.into_data() {
                Ok(data) => text.decode(&data).map(|data| Some(Frame::data(data))),
                Err(trailers) => Ok(Some(trailers)),
            },
        };
        if decoded.is_err() {
            this.text = None;
        }
        Poll::Ready(
            decoded
                .map_err(|refusal| Status::from(refusal).into())
                .transpose(),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.text.as_ref().is_none_or(|text| text.begun.is_empty()) && self.body.is_end_stream()
    }
}

/// An answer's body as gRPC-web has it. Messages of the binary form pass through as they are.
pub(crate) struct WebAnswer {
    answer: Answer,
    encoding: Encoding,
}

impl WebAnswer {
    pub(super) fn new(answer: Answer, encoding: Encoding) -> WebAnswer {
        WebAnswer { answer, encoding }
    }
}

impl Body for WebAnswer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let frame = match Pin::new(&mut this.answer).poll_frame(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(never))) => match never {},
            Poll::Ready(Some(Ok(frame))) => frame,
        };
        let bytes = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) => trailers_frame(&trailers),
                // There is no third kind; what is not understood is not passed on.
                Err(_) => Bytes::new(),
            },
        };
        let bytes = match this.encoding {
            Encoding::Binary => bytes,
            Encoding::Text => Bytes::from_owner(Encoded {
                text: STANDARD.encode(&bytes),
                _of: bytes,
            }),
        };
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.answer.is_end_stream() {
            SizeHint::with_exact(0)
        } else {
            // Trailers and padding are not in the answer's own.
            SizeHint::default()
        }
    }
}

/// A frame as text. What it was made of is counted for as long as it is on its way.
struct Encoded {
    text: String,
    _of: Bytes,
}

impl AsRef<[u8]> for Encoded {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Trailers as a frame: a line each, as in HTTP/1.1, names in lower case.
fn trailers_frame(trailers: &HeaderMap) -> Bytes {
    let mut lines = BytesMut::new();
    for (name, value) in trailers {
        lines.extend_from_slice(name.as_str().as_bytes());
        lines.extend_from_slice(b":");
        lines.extend_from_slice(value.as_bytes());
        lines.extend_from_slice(b"\r\n");
    }
    let mut frame = BytesMut::with_capacity(lines.len() + 5);
    frame.put_u8(TRAILERS);
    frame.put_u32(lines.len() as u32);
    frame.extend_from_slice(&lines);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(parts: &[&str]) -> Result<Vec<u8>, Refusal> {
        let mut text = Text::default();
        let mut all = Vec::new();
        for part in parts {
            all.extend_from_slice(&text.decode(part.as_bytes())?);
        }
        text.finish().map(|()| all)
    }

    #[test]
    fn base64_may_be_cut_and_padded_anywhere() {
        assert_eq!(decode(&["AAECAw=="]).unwrap(), [0, 1, 2, 3]);
        assert_eq!(
            decode(&["AA==AQ", "==AgM=", "BA=="]).unwrap(),
            [0, 1, 2, 3, 4]
        );
        assert_eq!(decode(&["A", "AE", "C"]).unwrap(), [0, 1, 2]);
        assert!(decode(&[]).unwrap().is_empty());
        for wrong in [&["AAE"][..], &["=AAA"], &["AA==A"], &["A*AA"], &["===="]] {
            assert_eq!(decode(wrong), Err(NOT_BASE64), "{wrong:?}");
        }
    }

    #[test]
    fn trailers_are_lines_in_a_marked_frame() {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "5".parse().unwrap());
        trailers.insert("grpc-message", "no%20block".parse().unwrap());
        let lines = b"grpc-status:5\r\ngrpc-message:no%20block\r\n";
        let mut expected = vec![0x80, 0, 0, 0, lines.len() as u8];
        expected.extend_from_slice(lines);
        assert_eq!(trailers_frame(&trailers), expected);
    }
}
