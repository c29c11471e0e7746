//! Readers that take nothing.
//!
//! The transport asks an answer for its next frame only when the client has taken the last one, so an answer whose reader has
//! stopped is never polled again and cannot end itself. Each call therefore runs under a [`Watch`]: its body notes when it handed
//! a frame over and when it was asked again, and a patrol lets go of those in between for too long, which resets the stream.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::task::AtomicWaker;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static CURRENT: Arc<Watch>;
}

/// One call's progress, as its transport task and the patrol see it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// When the last frame was handed over, in milliseconds since the patrol began; 0 while the answer itself is at work.
    handed: AtomicU64,
    given_up: AtomicBool,
    waker: AtomicWaker,
}

/// All long answers.
#[derive(Clone)]
pub(crate) struct Patrol {
    began: Instant,
    patience: Duration,
    watches: Arc<Mutex<Vec<Weak<Watch>>>>,
}

/// A long answer's side of its watch.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    watch: Arc<Watch>,
}

impl Patrol {
    /// Gives a reader `patience` to take a frame.
    pub(crate) fn new(patience: Duration) -> Patrol {
        Patrol {
            began: Instant::now(),
            patience,
            watches: Arc::default(),
        }
    }

    /// Puts the call that runs in this task under watch; `None` outside of [`Transport`].
    pub(crate) fn enlist(&self) -> Option<Progress> {
        let watch = CURRENT.try_with(Arc::clone).ok()?;
        self.lock().push(Arc::downgrade(&watch));
        Some(Progress {
            began: self.began,
            watch,
        })
    }

    /// Walks for ever.
    pub(crate) async fn walk(self) {
        let step = (self.patience / 8).clamp(Duration::from_millis(10), Duration::from_secs(5));
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
        let now = millis_since(self.began);
        let patience = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
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

impl Progress {
    /// The transport asks for the next frame.
    pub(crate) fn asked(&self) {
        self.watch.handed.store(0, Ordering::Relaxed);
    }

    /// The transport has a frame to get rid of.
    pub(crate) fn handed_over(&self) {
        self.watch
            .handed
            .store(millis_since(self.began), Ordering::Relaxed);
    }
}

/// Never 0, which means something else.
fn millis_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis())
        .unwrap_or(u64::MAX)
        .max(1)
}

/// Runs the transport's tasks, one a stream, each under a watch of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transport;

impl<F> hyper::rt::Executor<F> for Transport
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let watch = Arc::<Watch>::default();
        tokio::spawn(Watched {
            future: Box::pin(CURRENT.scope(Arc::clone(&watch), future)),
            watch,
        });
    }
}

/// A stream's task, until it ends or is given up; dropping the transport's future resets the stream.
struct Watched<F: Future> {
    future: Pin<Box<TaskLocalFuture<Arc<Watch>, F>>>,
    watch: Arc<Watch>,
}

impl<F: Future> Future for Watched<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.watch.waker.register(cx.waker());
        if self.watch.given_up.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.future.as_mut().poll(cx).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_frame_that_nobody_takes_is_a_stall() {
        let patrol = Patrol::new(Duration::from_millis(20));
        let watch = Arc::<Watch>::default();
        let progress = CURRENT
            .scope(Arc::clone(&watch), async { patrol.enlist() })
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(40)).await;
        assert_eq!(patrol.look(), 0, "an answer at work is no stall");
        progress.handed_over();
        assert_eq!(patrol.look(), 0);
        tokio::time::sleep(Duration::from_millis(40)).await;
        assert_eq!(patrol.look(), 1);
        assert!(watch.given_up.load(Ordering::Acquire));
        assert_eq!(patrol.look(), 0, "and it is let go of once");
    }
}
