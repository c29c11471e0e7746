//! One connection, one task.
//!
//! In: a byte stream and hyper's connection over it. Out: a future that drives the connection *and* the calls on it, and writes to
//! the socket in large pieces.
//!
//! Left to itself the transport runs every call as a task of its own, which hands each frame to the connection's task on another
//! thread: two wake-ups and a contended lock for 16 KiB. And it writes each HTTP/2 frame with a system call, because that is as much as
//! clients take in one frame. Here calls are polled where the connection is, and frames gather until they are enough for one large
//! write or nothing more is to come; stored blocks are not copied for that (see `lent`). Work that blocks is elsewhere already
//! (`range`), so calls of one connection do not wait for each other. Connections with much to send take turns (see `turns`).

mod lent;
mod turns;

use std::{
    collections::VecDeque,
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{Stream as _, stream::FuturesUnordered, task::AtomicWaker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::turns::{Line, Turn};
pub(crate) use self::{lent::Lent, turns::Turns};
use crate::stall::{Patrol, Watched};

/// How much is written at once.
const GATHER_BYTES: usize = 128 << 10;
/// Shorter slices are copied: that costs less than sharing them.
const SHARED_BYTES: usize = 1 << 10;
/// Slices in one system call.
const MAX_SLICES: usize = 64;
/// What a connection writes before others get their turn, if some wait.
const TURN_BYTES: usize = 128 << 10;
/// What it writes if nobody waits: each turn costs a little, also alone.
const LONE_TURN_BYTES: usize = 2 << 20;
/// A turn that wrote no more was a short one.
const SHORT_BYTES: usize = 16 << 10;
/// So many short turns on end show a connection that has little to send, and need not wait for turns. One is not enough: a large answer may end in one.
const SHORT_TURNS: u8 = 2;
/// How often connection and calls take turns before other connections get theirs.
const ROUNDS: usize = 8;

/// Takes the calls that the transport wants to run; [`Driver`] runs them.
#[derive(Clone)]
pub(crate) struct Calls {
    patrol: Patrol,
    lent: Arc<Lent>,
    begun: Arc<Mutex<Vec<Watched>>>,
}

impl Calls {
    /// None yet; they will run under watch of `patrol`.
    pub(crate) fn new(patrol: Patrol) -> Calls {
        Calls {
            patrol,
            lent: Arc::default(),
            begun: Arc::default(),
        }
    }

    /// What these calls lend out.
    pub(crate) fn lent(&self) -> Arc<Lent> {
        Arc::clone(&self.lent)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watched>> {
        // A list of futures is whole after any panic.
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> hyper::rt::Executor<F> for Calls
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        let call = Watched::new(call, self.patrol.clone(), self.lent());
        self.lock().push(call);
    }
}

/// A byte stream whose writes gather until its [`Driver`] flushes them, or enough have come together.
pub(crate) struct Gathering<S>(Arc<Mutex<Gathered<S>>>);

struct Gathered<S> {
    stream: S,
    lent: Arc<Lent>,
    /// What goes out first.
    queue: VecDeque<Bytes>,
    /// What was copied since.
    tail: BytesMut,
    /// Bytes of both.
    waiting: usize,
    /// What may still be written in this turn of the [`Driver`].
    left: usize,
}

impl<S> Gathering<S> {
    /// Over `stream`, by calls that share what they send through `lent`.
    pub(crate) fn new(stream: S, lent: Arc<Lent>) -> Gathering<S> {
        Gathering(Arc::new(Mutex::new(Gathered {
            stream,
            lent,
            queue: VecDeque::new(),
            tail: BytesMut::new(),
            waiting: 0,
            left: usize::MAX,
        })))
    }

    /// Another handle, for the driver. Both are used by one task, so neither waits.
    pub(crate) fn handle(&self) -> Gathering<S> {
        Gathering(Arc::clone(&self.0))
    }

    fn lock(&self) -> MutexGuard<'_, Gathered<S>> {
        // After a panic in the stream its connection is dropped; nothing is read from a half-written buffer.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Gathered<S> {
    fn take(&mut self, slice: &[u8]) {
        self.waiting += slice.len();
        // Looked for whatever its length: with its last slice a piece is done.
        if let Some(shared) = self.lent.find(slice)
            && slice.len() >= SHARED_BYTES
        {
            self.close_tail();
            self.queue.push_back(shared);
        } else {
            self.tail.extend_from_slice(slice);
        }
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.queue.push_back(self.tail.split().freeze());
        }
    }

    fn wrote(&mut self, mut bytes: usize) {
        self.waiting -= bytes;
        while let Some(first) = self.queue.front_mut() {
            if bytes < first.len() {
                first.advance(bytes);
                return;
            }
            bytes -= first.len();
            self.queue.pop_front();
        }
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    /// Writes what has gathered, as much as this turn allows: the next one is the driver's to bring about.
    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.close_tail();
        while !self.queue.is_empty() {
            if self.left == 0 {
                return Poll::Pending;
            }
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let mut count = 0;
            for (slice, bytes) in slices.iter_mut().zip(&self.queue) {
                *slice = IoSlice::new(bytes);
                count += 1;
            }
            let stream = Pin::new(&mut self.stream);
            match stream.poll_write_vectored(cx, &slices[..count]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(bytes)) => {
                    self.left = self.left.saturating_sub(bytes);
                    self.wrote(bytes);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_write_out(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.lock().stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gathered = self.lock();
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        let enough = GATHER_BYTES.min(gathered.left);
        if gathered.waiting > 0 && gathered.waiting + offered > enough {
            std::task::ready!(gathered.poll_write_out(cx))?;
        }
        for slice in slices {
            gathered.take(slice);
        }
        Poll::Ready(Ok(offered))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing yet: the transport flushes after every frame. The driver flushes after every turn.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathered = self.lock();
        std::task::ready!(gathered.poll_flush(cx))?;
        Pin::new(&mut gathered.stream).poll_shutdown(cx)
    }
}

/// Drives a connection and its calls; ends with the connection. Calls still running then are dropped, and with them what they asked for.
pub(crate) struct Driver<C, S> {
    connection: Pin<Box<C>>,
    stream: Gathering<S>,
    calls: Calls,
    running: FuturesUnordered<Watched>,
    wakes: Arc<Wakes>,
    line: Line,
    /// Given to it for when it is polled next.
    turn: Option<Turn>,
    /// How many short turns away it is from taking the next one without waiting.
    in_line_for: u8,
}

/// Wakes from inside a turn make another round, not another turn on maybe another thread.
#[derive(Default)]
struct Wakes {
    in_turn: AtomicBool,
    woken: AtomicBool,
    outer: AtomicWaker,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.in_turn.load(Ordering::SeqCst) {
            self.outer.wake();
        }
    }
}

impl<C, S> Driver<C, S> {
    /// For a connection over `stream` that runs its calls on `calls`.
    pub(crate) fn new(
        connection: C,
        stream: Gathering<S>,
        calls: Calls,
        turns: &Turns,
    ) -> Driver<C, S> {
        Driver {
            connection: Box::pin(connection),
            stream,
            calls,
            running: FuturesUnordered::new(),
            wakes: Arc::default(),
            line: turns.line(),
            turn: None,
            in_line_for: 0,
        }
    }

    /// The connection itself.
    pub(crate) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }
}

impl<C, S> Driver<C, S>
where
    C: Future,
    S: AsyncWrite + Unpin,
{
    /// Connection, new calls, running calls, socket. `Ready` when the connection has ended.
    fn round(&mut self, cx: &mut Context<'_>) -> Poll<C::Output> {
        if let Poll::Ready(ended) = self.connection.as_mut().poll(cx) {
            return Poll::Ready(ended);
        }
        self.running.extend(self.calls.lock().drain(..));
        while let Poll::Ready(Some(())) = Pin::new(&mut self.running).poll_next(cx) {}
        Poll::Pending
    }
}

impl<C, S> Future for Driver<C, S>
where
    C: Future,
    S: AsyncWrite + Unpin,
{
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, outer: &mut Context<'_>) -> Poll<C::Output> {
        let this = &mut *self;
        let wakes = Arc::clone(&this.wakes);
        wakes.outer.register(outer.waker());
        let turn = match this.turn.take() {
            None if this.in_line_for > 0 => Some(std::task::ready!(this.line.poll_turn(outer))),
            turn => turn,
        };
        wakes.in_turn.store(true, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let mut written = 0;
        let (all_written, turn_is_over) = loop {
            this.stream.lock().left = TURN_BYTES;
            for _ in 0..ROUNDS {
                wakes.woken.store(false, Ordering::SeqCst);
                if let Poll::Ready(ended) = this.round(&mut cx) {
                    // The last words, if the socket takes them: HTTP/1.1 ends without closing what it answered with a refusal.
                    let mut stream = this.stream.lock();
                    stream.left = usize::MAX;
                    let _ = stream.poll_flush(&mut cx);
                    return Poll::Ready(ended);
                }
                if !wakes.woken.load(Ordering::SeqCst) {
                    break;
                }
            }
            // A failure to write is seen by the connection when it reads or writes next.
            let mut stream = this.stream.lock();
            let all_written = stream.poll_flush(&mut cx).is_ready();
            written += TURN_BYTES - stream.left;
            let turn_is_over = stream.left == 0 && !all_written;
            let goes_on = turn.is_some() && written < LONE_TURN_BYTES && this.line.may_go_on();
            if !turn_is_over || !goes_on {
                break (all_written, turn_is_over);
            }
        };
        if !all_written || written > SHORT_BYTES {
            this.in_line_for = SHORT_TURNS;
        } else if written > 0 && this.running.is_empty() {
            this.in_line_for = this.in_line_for.saturating_sub(1);
        }
        wakes.in_turn.store(false, Ordering::SeqCst);
        // Whoever is first in the line has it next, also before this connection.
        drop(turn);
        if turn_is_over {
            if let Poll::Ready(turn) = this.line.poll_turn(outer) {
                this.turn = Some(turn);
                outer.waker().wake_by_ref();
            }
        } else if wakes.woken.load(Ordering::SeqCst) {
            outer.waker().wake_by_ref();
        } else if all_written && this.running.is_empty() {
            // Not before: a call that has ended may have left its last pieces to the transport. What that keeps back because its client has
            // no room for it is copied when it goes.
            this.calls.lent.clear();
        }
        Poll::Pending
    }
}

impl<C, S> Unpin for Driver<C, S> {}

#[cfg(test)]
mod tests;
