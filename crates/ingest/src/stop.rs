//! The flag that ends a run, and the bell its thread sleeps on.
//!
//! In: one call of [`Stop::stop`], from a signal handler's thread or a test. Out: every sleep of this crate ends at once, for
//! all of them wait on the one condition variable in here: nothing polls the flag while it has nothing to do.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::nudge::{Bell, Nudge};

/// Asks a run to end. Clones are one flag; it cannot be taken back.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    asked: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
    /// Reasons to look at the tip.
    pub(crate) bell: Bell,
}

impl Inner {
    /// Wakes the sleepers so that they look again at what they wait for.
    pub(crate) fn ring(&self) {
        // Holding the lock means that no one is between looking and falling asleep.
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }
}

impl Stop {
    /// A flag that is not set.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Sets the flag and wakes everyone who sleeps on it.
    pub fn stop(&self) {
        self.inner.asked.store(true, Ordering::Release);
        self.ring();
    }

    /// Whether the flag is set.
    pub fn is_stopped(&self) -> bool {
        self.inner.asked.load(Ordering::Acquire)
    }

    /// Sleeps for `patience`, or until the flag is set; returns whether it is.
    pub fn wait_timeout(&self, patience: Duration) -> bool {
        self.wait_until(Some(patience), || false);
        self.is_stopped()
    }

    /// Wakes the sleepers so that they look again at what they wait for.
    pub(crate) fn ring(&self) {
        self.inner.ring();
    }

    /// Wakes the run that is given this flag when somebody wants to know the tip.
    pub fn nudge(&self) -> Nudge {
        Nudge::new(Arc::clone(&self.inner))
    }

    pub(crate) fn bell(&self) -> &Bell {
        &self.inner.bell
    }

    /// Sleeps until `ready` (asked after every ring), the flag, or `patience` is over.
    pub(crate) fn wait_until(&self, patience: Option<Duration>, mut ready: impl FnMut() -> bool) {
        let deadline = patience.and_then(|patience| Instant::now().checked_add(patience));
        let mut held = self
            .inner
            .lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while !self.is_stopped() && !ready() {
            held = match deadline {
                None => self
                    .inner
                    .changed
                    .wait(held)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    self.inner
                        .changed
                        .wait_timeout(held, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_sleeper_wakes_at_once_when_stopped() {
        let stop = Stop::new();
        let sleeper = {
            let stop = stop.clone();
            thread::spawn(move || {
                let started = Instant::now();
                (
                    stop.wait_timeout(Duration::from_secs(60)),
                    started.elapsed(),
                )
            })
        };
        thread::sleep(Duration::from_millis(20));
        stop.stop();
        let (stopped, slept) = sleeper.join().unwrap();
        assert!(stopped);
        assert!(slept < Duration::from_secs(5), "slept {slept:?}");
    }

    #[test]
    fn a_sleep_that_nobody_ends_lasts_as_long_as_asked() {
        let stop = Stop::new();
        let started = Instant::now();
        assert!(!stop.wait_timeout(Duration::from_millis(30)));
        assert!(started.elapsed() >= Duration::from_millis(30));
    }
}
