//! Readers that take nothing.
//!
//! The transport asks an answer for its next frame only when the client has taken the last one, so an answer whose reader has
//! stopped is never polled again and cannot end itself. Each call therefore runs under a [`Watch`]: its body notes when it handed
//! a frame over and when it was asked again. A call that comes to rest in between is enlisted, and a patrol lets go of those that
//! have rested for too long, which resets the stream.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use crate::{connection::Lent, memory::Memory};
use bytes::Bytes;
use futures_util::task::AtomicWaker;

/// A reader that takes nothing for this long goes first when others need what it holds.
const SHORT_PATIENCE: Duration = Duration::from_secs(5);

tokio::task_local! {
    static CURRENT: Arc<Watch>;
}

/// One call's progress, as its transport task and the patrol see it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Where the call notes what it lends out.
    lent: Arc<Lent>,
    /// When the last frame was handed over (see [`now_ms`]); 0 while the answer itself is at work.
    handed: AtomicU64,
    given_up: AtomicBool,
    /// Whether it lent copies, which go with it.
    copied: AtomicBool,
    waker: AtomicWaker,
}

/// Looks after all calls that rest.
#[derive(Clone)]
pub(crate) struct Patrol {
    patience: Duration,
    memory: Memory,
    watches: Arc<Mutex<Vec<Weak<Watch>>>>,
}

/// An answer's side of its watch.
#[derive(Debug)]
pub(crate) struct Progress(Arc<Watch>);

impl Progress {
    /// Of the call that runs in this task; `None` outside of [`Watched`].
    pub(crate) fn of_this_call() -> Option<Progress> {
        CURRENT.try_with(Arc::clone).ok().map(Progress)
    }

    /// The transport asks for the next frame.
    pub(crate) fn asked(&self) {
        self.0.handed.store(0, Ordering::Relaxed);
    }

    /// The transport is about to get `piece`, which its owner does not mind sharing: a slice of a mapped file, or a copy made for this call.
    pub(crate) fn lend(&self, piece: &Bytes, is_copy: bool) {
        if is_copy {
            self.0.copied.store(true, Ordering::Relaxed);
        }
        self.0.lent.lend(piece, is_copy.then(|| number(&self.0)));
    }

    /// No more comes: copies that the transport has split so that their end was not seen are let go.
    pub(crate) fn lend_no_more(&self) {
        self.0.forget();
    }

    /// The transport has a frame to get rid of.
    pub(crate) fn handed_over(&self) {
        self.0.handed.store(now_ms(), Ordering::Relaxed);
    }
}

/// A call's number among those of its connection, for as long as it lives.
fn number(watch: &Arc<Watch>) -> usize {
    Arc::as_ptr(watch).addr()
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.forget();
    }
}

impl Watch {
    fn forget(self: &Arc<Watch>) {
        if self.copied.load(Ordering::Relaxed) {
            self.lent.forget(number(self));
        }
    }
}

impl Patrol {
    /// Gives a reader `patience` to take a frame, and less while `memory` is short.
    pub(crate) fn new(patience: Duration, memory: Memory) -> Patrol {
        Patrol {
            patience,
            memory,
            watches: Arc::default(),
        }
    }

    fn enlist(&self, watch: &Arc<Watch>) {
        self.lock().push(Arc::downgrade(watch));
    }

    /// Walks for ever.
    pub(crate) async fn walk(self) {
        let step = (self.patience / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            tokio::time::sleep(step).await;
            let given_up = self.look();
            if given_up > 0 {
                metrics::counter!("lightship_serve_stalled_streams_total").increment(given_up);
                tracing::debug!(given_up, "streams whose readers had stopped were reset");
            }
        }
    }

    fn look(&self) -> u64 {
        let now = now_ms();
        let patience = if self.memory.is_short() {
            self.patience.min(SHORT_PATIENCE)
        } else {
            self.patience
        };
        let patience = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let mut given_up = 0;
        self.lock().retain(|watch| {
            let Some(watch) = watch.upgrade() else {
                return false;
            };
            let handed = watch.handed.load(Ordering::Relaxed);
            let stalled = handed != 0 && now.saturating_sub(handed) >= patience;
            if stalled {
                watch.given_up.store(true, Ordering::Release);
                watch.waker.wake();
                given_up += 1;
            }
            !stalled
        });
        given_up
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Watch>>> {
        // A list of weak references is whole after any panic.
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds since this process first asked. Never 0, which means something else.
fn now_ms() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let elapsed = BEGAN.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_millis()).map_or(u64::MAX, |ms| ms.saturating_add(1))
}

/// A call, until it ends or is given up; dropping the transport's future resets the stream.
pub(crate) struct Watched {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    watch: Arc<Watch>,
    patrol: Patrol,
    enlisted: bool,
}

impl Watched {
    /// Puts a call under a watch of its own.
    pub(crate) fn new<F>(call: F, patrol: Patrol, lent: Arc<Lent>) -> Watched
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let watch = Arc::new(Watch {
            lent,
            handed: AtomicU64::new(0),
            given_up: AtomicBool::new(false),
            copied: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        Watched {
            future: Box::pin(CURRENT.scope(Arc::clone(&watch), call)),
            watch,
            patrol,
            enlisted: false,
        }
    }
}

impl Future for Watched {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.enlisted {
            this.watch.waker.register(cx.waker());
            if this.watch.given_up.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
        }
        if this.future.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // Most calls end without ever waiting for their reader.
        if !this.enlisted && this.watch.handed.load(Ordering::Relaxed) != 0 {
            this.enlisted = true;
            this.watch.waker.register(cx.waker());
            this.patrol.enlist(&this.watch);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_frame_that_nobody_takes_is_a_stall() {
        let patrol = Patrol::new(Duration::from_millis(20), Memory::new(1_000));
        let watch = Arc::<Watch>::default();
        let progress = CURRENT
            .scope(Arc::clone(&watch), async { Progress::of_this_call() })
            .await
            .unwrap();
        patrol.enlist(&watch);
        tokio::time::sleep(Duration::from_millis(40)).await;
        assert_eq!(patrol.look(), 0, "an answer at work is no stall");
        progress.handed_over();
        assert_eq!(patrol.look(), 0);
        tokio::time::sleep(Duration::from_millis(40)).await;
        assert_eq!(patrol.look(), 1);
        assert!(watch.given_up.load(Ordering::Acquire));
        assert_eq!(patrol.look(), 0, "and it is let go of once");
    }

    #[tokio::test]
    async fn a_call_is_enlisted_when_it_comes_to_rest_with_a_frame_not_taken() {
        let patrol = Patrol::new(Duration::from_millis(20), Memory::new(1_000));
        let gone = Arc::new(());
        let kept = Arc::clone(&gone);
        let call = async move {
            let _kept = kept;
            Progress::of_this_call().unwrap().handed_over();
            std::future::pending::<()>().await;
        };
        tokio::spawn(Watched::new(call, patrol.clone(), Arc::default()));
        let walk = tokio::spawn(patrol.walk());
        while Arc::strong_count(&gone) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        walk.abort();
    }
}
