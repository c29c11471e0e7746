//! Bodies of replies, also ones that break off.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// What comes behind the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    /// A pause, in which what was given is put on the wire, and then the break.
    Pause,
    Break,
}

/// A reply's bytes: all that were promised, or the first half and a broken connection.
#[derive(Debug)]
pub(super) struct Body {
    sent: Option<Bytes>,
    /// Promised, and not sent yet.
    length: u64,
    end: End,
}

impl Body {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Body {
        let bytes = bytes.into();
        Body {
            length: bytes.len() as u64,
            sent: Some(bytes),
            end: End::Whole,
        }
    }

    /// Promises all of `bytes` and sends half of them.
    pub(super) fn cut(bytes: impl Into<Bytes>) -> Body {
        let bytes = bytes.into();
        Body {
            length: bytes.len() as u64,
            sent: Some(bytes.slice(..bytes.len() / 2)),
            end: End::Pause,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(bytes) = self.sent.take() {
            self.length -= bytes.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match self.end {
            End::Whole => Poll::Ready(None),
            End::Pause => {
                self.end = End::Break;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            End::Break => {
                self.end = End::Whole;
                Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.sent.is_none() && self.end == End::Whole
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}
