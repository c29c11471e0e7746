//! The body of every answer: deadline, shutdown, place, progress and count, around whatever makes the frames.

use std::{
    convert::Infallible,
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::{
    limits::Place,
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

/// The body of an answer.
pub(crate) struct Answer {
    frames: Frames,
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
    ) -> Answer {
        Answer {
            frames,
            deadline: deadline.map(|at| Box::pin(tokio::time::sleep_until(at))),
            long,
            progress: Progress::of_this_call(),
            call,
        }
    }

    /// Ends the answer: nothing below is asked again, and its place is free.
    fn end(&mut self, trailers: HeaderMap) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.call.note(trailers.get(GRPC_STATUS));
        self.frames = Frames::None;
        self.deadline = None;
        self.long = None;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
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

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if matches!(this.frames, Frames::None) {
            return Poll::Ready(None);
        }
        if let Some(progress) = &this.progress {
            progress.asked();
        }
        if let Some(refusal) = this.poll_interrupted(cx) {
            return this.end(refusal.trailers());
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
                    return this.end(trailers);
                }
            },
        };
        let Some(frame) = frame else {
            this.frames = Frames::None;
            this.long = None;
            return Poll::Ready(None);
        };
        match frame.into_trailers() {
            Ok(trailers) => this.end(trailers),
            Err(frame) => {
                if let Some(bytes) = frame.data_ref() {
                    this.call.sent(bytes.len());
                    if let (Some(progress), Frames::Blocks(_)) = (&this.progress, &this.frames) {
                        progress.lend(bytes);
                    }
                }
                if let Some(progress) = &this.progress {
                    progress.handed_over();
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.frames {
            Frames::None => true,
            Frames::Messages(messages) => messages.is_end_stream(),
            Frames::Blocks(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.frames {
            Frames::None => SizeHint::with_exact(0),
            Frames::Messages(messages) => messages.size_hint(),
            Frames::Blocks(_) => SizeHint::default(),
        }
    }
}
