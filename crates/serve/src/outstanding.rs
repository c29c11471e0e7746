//! Bytes that an answer has handed to the transport and the transport has not got rid of.
//!
//! The transport takes a frame as soon as the client has room for its first byte, and keeps the rest. An answer that ended then would leave that
//! rest behind with nobody to look after it: a client that reads no further, and keeps its connection, would hold it for ever. So the end of an
//! answer is held back until what it handed over is gone, and a reader that stops before is a stalled one (see `stall`).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::task::AtomicWaker;

use crate::memory::Lease;

/// One answer's frames on their way.
#[derive(Default)]
pub(crate) struct Outstanding {
    frames: AtomicUsize,
    all_gone: AtomicWaker,
}

struct Frame {
    bytes: Bytes,
    _lease: Option<Lease>,
    among: Arc<Outstanding>,
}

impl Outstanding {
    /// `bytes` counted among these until their last copy is gone, and the lease with them.
    pub(crate) fn with(self: &Arc<Self>, bytes: Bytes, lease: Option<Lease>) -> Bytes {
        self.frames.fetch_add(1, Ordering::AcqRel);
        Bytes::from_owner(Frame {
            bytes,
            _lease: lease,
            among: Arc::clone(self),
        })
    }

    /// Ready when all are gone.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.all_gone.register(cx.waker());
        match self.frames.load(Ordering::Acquire) {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.among.frames.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.among.all_gone.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn an_answer_is_done_when_the_last_copy_of_its_frames_is_gone() {
        let outstanding = Arc::<Outstanding>::default();
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(outstanding.poll_gone(cx).is_ready());
        let one = outstanding.with(Bytes::from_static(b"one"), None);
        let other = outstanding.with(Bytes::from_static(b"other"), None);
        let part = one.slice(1..);
        drop((one, other));
        assert!(outstanding.poll_gone(cx).is_pending());
        assert_eq!(part, "ne");
        drop(part);
        assert!(outstanding.poll_gone(cx).is_ready());
    }
}
