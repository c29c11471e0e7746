//! The body of every answer: deadline, shutdown, place, progress and count, around whatever makes the frames.

use std::{
    convert::Infallible,
    future::Future as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::{
    limits::Place,
    memory::Memory,
    outstanding::Outstanding,
    range::BlocksBody,
    stall::Progress,
    status::{GRPC_STATUS, Refusal},
    telemetry::Call,
};

/// What makes the frames.
pub(crate) enum Frames {
    /// The trailers are in the headers.
    None,
    /// The generated services.
    Messages(tonic::body::Body),
    /// Stored blocks.
    Blocks(Box<BlocksBody>),
}

/// What a long answer holds, and what can end it.
pub(crate) struct Long {
    /// Given back when the answer ends.
    pub(crate) _place: Place,
    pub(crate) stopping: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// Shorter messages are not worth counting, nor sharing.
pub(crate) const COUNTED_BYTES: usize = 1 << 10;
/// Shorter copies are copied once more on their way rather than shared: then they are gone the sooner.
const SHARED_COPY_BYTES: usize = 16 << 10;

/// The body of an answer.
pub(crate) struct Answer {
    frames: Frames,
    memory: Memory,
    /// Frames that are counted; `None` until there is one.
    outstanding: Option<Arc<Outstanding>>,
    /// How it ends, once what was handed over is gone.
    end: Option<HeaderMap>,
    deadline: Option<Pin<Box<Sleep>>>,
    long: Option<Long>,
    progress: Option<Progress>,
    call: Call,
}

impl Answer {
    /// Wraps `frames`. A refusal in the headers has been counted in `call` before.
    pub(crate) fn new(
        frames: Frames,
        deadline: Option<Instant>,
        long: Option<Long>,
        call: Call,
        memory: Memory,
    ) -> Answer {
        let progress = Progress::of_this_call();
        if let Some(progress) = &progress {
            // The headers are the first that the reader has to take.
            progress.handed_over();
        }
        Answer {
            frames,
            memory,
            outstanding: None,
            end: None,
            deadline: deadline.map(|at| Box::pin(tokio::time::sleep_until(at))),
            long,
            progress,
            call,
        }
    }

    /// Ends the answer: nothing below is asked again. Its place is free when its last frame is taken.
    fn end(
        &mut self,
        cx: &mut Context<'_>,
        trailers: HeaderMap,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.call.note(trailers.get(GRPC_STATUS));
        self.frames = Frames::None;
        self.deadline = None;
        self.end = Some(trailers);
        if let Some(progress) = &self.progress {
            // From here on it is the reader who is waited for.
            progress.handed_over();
            progress.lend_no_more();
        }
        self.poll_end(cx)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(outstanding) = &self.outstanding {
            ready!(outstanding.poll_gone(cx));
        }
        self.long = None;
        Poll::Ready(
            self.end
                .take()
                .map(|trailers| Ok(Frame::trailers(trailers))),
        )
    }

    /// `bytes` on their way, counted unless they are a slice of a mapped file.
    fn send(&mut self, bytes: Bytes) -> Result<Bytes, Refusal> {
        self.call.sent(bytes.len());
        let bytes = match &self.frames {
            Frames::Blocks(blocks) => {
                let is_copy = blocks.last_was_copy();
                let bytes = if is_copy {
                    self.outstanding.get_or_insert_default().with(bytes, None)
                } else {
                    bytes
                };
                let least = if is_copy {
                    SHARED_COPY_BYTES
                } else {
                    COUNTED_BYTES
                };
                if let Some(progress) = &self.progress
                    && bytes.len() >= least
                {
                    progress.lend(&bytes, is_copy);
                }
                bytes
            }
            _ if bytes.len() < COUNTED_BYTES => bytes,
            _ => {
                let lease = self.memory.try_ready(bytes.len())?;
                self.outstanding
                    .get_or_insert_default()
                    .with(bytes, Some(lease))
            }
        };
        if let Some(progress) = &self.progress {
            progress.handed_over();
        }
        Ok(bytes)
    }

    fn poll_interrupted(&mut self, cx: &mut Context<'_>) -> Option<Refusal> {
        if let Some(long) = &mut self.long
            && long.stopping.as_mut().poll(cx).is_ready()
        {
            return Some(Refusal::Stopping);
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Some(Refusal::DeadlineExceeded);
        }
        None
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // Over HTTP/1.1 the connection goes on, and waits for its next request as long as it likes.
        if let Some(progress) = &self.progress {
            progress.asked();
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if matches!(this.frames, Frames::None) {
            return this.poll_end(cx);
        }
        if let Some(progress) = &this.progress {
            progress.asked();
        }
        if let Some(refusal) = this.poll_interrupted(cx) {
            return this.end(cx, refusal.trailers());
        }
        let frame = match &mut this.frames {
            Frames::None => return Poll::Ready(None),
            Frames::Blocks(blocks) => match Pin::new(&mut **blocks).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => None,
                Poll::Ready(Some(Ok(frame))) => Some(frame),
            },
            Frames::Messages(messages) => match Pin::new(messages).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => None,
                Poll::Ready(Some(Ok(frame))) => Some(frame),
                Poll::Ready(Some(Err(status))) => {
                    let mut trailers = HeaderMap::new();
                    // A status whose metadata cannot be written is still a failure.
                    if status.add_header(&mut trailers).is_err() {
                        trailers = Refusal::Damaged.trailers();
                    }
                    return this.end(cx, trailers);
                }
            },
        };
        let Some(frame) = frame else {
            this.frames = Frames::None;
            return this.poll_end(cx);
        };
        match frame.into_trailers() {
            Ok(trailers) => this.end(cx, trailers),
            Err(frame) => {
                let Ok(bytes) = frame.into_data() else {
                    // There is no third kind of frame.
                    return this.end(cx, Refusal::Damaged.trailers());
                };
                match this.send(bytes) {
                    Ok(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                    Err(refusal) => this.end(cx, refusal.trailers()),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.frames {
            Frames::None => self.end.is_none(),
            Frames::Messages(messages) => messages.is_end_stream(),
            Frames::Blocks(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.frames {
            Frames::None if self.end.is_none() => SizeHint::with_exact(0),
            Frames::None => SizeHint::default(),
            Frames::Messages(messages) => messages.size_hint(),
            Frames::Blocks(_) => SizeHint::default(),
        }
    }
}
