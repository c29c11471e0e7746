//! A range as the body of an HTTP answer.
//!
//! In: a [`Producer`]. Out: DATA frames of whole gRPC frames, then trailers. Windows that are at hand are read here, when they are due; of
//! those that have to be waited for, one is read ahead while another is being sent. Nothing is read for a client that does not take what it
//! has (the transport asks for a frame only then).

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use http_body::Frame;
use lightship_chain::{Height, compact::project::FRAME_PREFIX_BYTES};
use lightship_index::View;

use super::{
    Producer,
    producer::Window,
    window::{Origin, Piece},
};
use crate::{
    status::{Refusal, ok_trailers},
    tip::served_tip,
};

/// With fewer pieces ready than this, the next window is taken up.
const READY_PIECES: usize = 4;

type Step = Pin<Box<dyn Future<Output = (Box<Producer>, Window)> + Send>>;

/// A range as the body of an HTTP answer.
pub(crate) struct BlocksBody {
    ready: VecDeque<Piece>,
    /// `None` while it is at work in `step`, and at the end.
    producer: Option<Box<Producer>>,
    /// A window that has to be waited for.
    step: Option<Step>,
    /// How the stream ends once `ready` is sent; set when the producer is done.
    end: Option<Result<(), Refusal>>,
    descending: bool,
    /// The generation of the last picture that the best chain was compared with.
    compared: u64,
    reader: lightship_index::Reader,
    /// Whether the piece last handed out was a copy.
    copy: bool,
    done: bool,
}

impl BlocksBody {
    /// The body of what `producer` makes, whose pinned view was of `generation`.
    pub(crate) fn new(
        producer: Producer,
        reader: lightship_index::Reader,
        generation: u64,
    ) -> BlocksBody {
        BlocksBody {
            ready: VecDeque::new(),
            descending: producer.descending(),
            producer: Some(Box::new(producer)),
            step: None,
            end: None,
            compared: generation,
            reader,
            copy: false,
            done: false,
        }
    }

    /// Whether the bytes last handed out are a copy made for this call, not a slice of a mapped file.
    pub(crate) fn last_was_copy(&self) -> bool {
        self.copy
    }

    /// Takes windows that are at hand or finished, and keeps one that has to be waited for in work, until enough is ready.
    fn read_ahead(&mut self, cx: &mut Context<'_>) {
        while self.ready.len() < READY_PIECES && self.end.is_none() {
            let window = if let Some(step) = &mut self.step {
                let Poll::Ready((producer, window)) = step.as_mut().poll(cx) else {
                    return;
                };
                self.step = None;
                self.producer = Some(producer);
                window
            } else if let Some(window) = self
                .producer
                .as_mut()
                .and_then(|producer| producer.window_at_hand())
            {
                window
            } else if let Some(producer) = self.producer.take() {
                self.step = Some(Box::pin(producer.window()));
                continue;
            } else {
                return;
            };
            self.ready.extend(window.pieces);
            self.end = window.end;
        }
    }

    /// Reads no more.
    fn stop(&mut self) {
        self.step = None;
        self.producer = None;
        self.ready.clear();
    }

    /// What of `piece` is still on the best chain; and the end of the stream, if that is not all of it.
    fn still_best(&mut self, piece: Piece) -> (Option<Bytes>, Option<Refusal>) {
        let newest = self.reader.view();
        if newest.generation() == self.compared {
            return (Some(piece.bytes), None);
        }
        let agrees = |height| agrees(&newest, &piece.origin, height);
        if agrees(piece.heights.last()) {
            // Best up to here. Later pieces are compared again only when the picture changes again, unless they lie higher.
            if self.descending {
                self.compared = newest.generation();
            }
            return (Some(piece.bytes), None);
        }
        if self.descending {
            return (None, Some(Refusal::Replaced));
        }
        let kept = piece
            .heights
            .iter()
            .take_while(|height| agrees(*height))
            .count();
        let bytes = first_frames(&piece.bytes, kept);
        (
            (!bytes.is_empty()).then_some(bytes),
            Some(Refusal::Replaced),
        )
    }

    fn finish(&mut self, end: Result<(), Refusal>) -> Frame<Bytes> {
        self.done = true;
        self.stop();
        Frame::trailers(match end {
            Ok(()) => ok_trailers(),
            Err(refusal) => refusal.trailers(),
        })
    }
}

/// Whether the block sent for `height` is on the best chain as `newest` has it.
fn agrees(newest: &View, origin: &Origin, height: Height) -> bool {
    let sent = match origin {
        Origin::View(view) => view.row(height).map(|row| row.hash),
        Origin::Node(hash) => Some(*hash),
    };
    match (newest.row(height), origin) {
        (Some(row), _) => Some(row.hash) == sent,
        // It was indexed and is not any more.
        (None, Origin::View(_)) => false,
        // Not indexed yet: the node's chain may have become shorter.
        (None, Origin::Node(_)) => served_tip(newest).is_some_and(|tip| {
            tip.height > height || (tip.height == height && Some(tip.hash) == sent)
        }),
    }
}

/// The first `count` gRPC frames of `bytes`.
fn first_frames(bytes: &Bytes, count: usize) -> Bytes {
    let mut rest = &bytes[..];
    for _ in 0..count {
        let Some(mut length) = rest.get(1..FRAME_PREFIX_BYTES) else {
            break;
        };
        let length = length.get_u32() as usize;
        rest = rest.get(FRAME_PREFIX_BYTES + length..).unwrap_or_default();
    }
    bytes.slice(..bytes.len() - rest.len())
}

impl http_body::Body for BlocksBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.done {
            return Poll::Ready(None);
        }
        this.read_ahead(cx);
        let Some(piece) = this.ready.pop_front() else {
            return match this.end.take() {
                Some(end) => Poll::Ready(Some(Ok(this.finish(end)))),
                None => Poll::Pending,
            };
        };
        this.copy = piece.is_copy;
        let (bytes, replaced) = this.still_best(piece);
        if let Some(refusal) = replaced {
            this.stop();
            this.end = Some(Err(refusal));
        }
        match bytes {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => {
                let end = this.end.take().unwrap_or(Err(Refusal::Replaced));
                Poll::Ready(Some(Ok(this.finish(end))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }
}
