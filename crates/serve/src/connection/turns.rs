//! Turns of connections that have much to send.
//!
//! A thread that writes large answers for one connection after the other comes to a short question only when it has been round all of them, and
//! a crowd of fast clients makes that long. So only so many connections write much at a time that one of the runtime's threads stays free; the
//! others stand in line. Whoever had little to send last does not stand there: there is a thread for it, and the system shares the cores out between
//! the threads. The first turn after that is taken without asking, and is a short one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// The turns there are at once.
#[derive(Clone)]
pub(crate) struct Turns {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    /// Whether a thread is left beside those that have turns.
    has_spare: bool,
}

impl Turns {
    /// For a runtime of so many threads: one fewer, but at least one.
    pub(crate) fn among(threads: usize) -> Turns {
        let turns = threads.saturating_sub(1).clamp(1, Semaphore::MAX_PERMITS);
        Turns {
            free: Arc::new(Semaphore::new(turns)),
            waiting: Arc::default(),
            has_spare: threads > turns,
        }
    }

    /// A connection's place in the line.
    pub(crate) fn line(&self) -> Line {
        Line {
            free: PollSemaphore::new(Arc::clone(&self.free)),
            waiting: Arc::clone(&self.waiting),
            is_waiting: false,
            has_spare: self.has_spare,
        }
    }
}

/// One connection's place in the line for a turn.
pub(crate) struct Line {
    free: PollSemaphore,
    waiting: Arc<AtomicUsize>,
    /// Whether this one is counted in `waiting`.
    is_waiting: bool,
    has_spare: bool,
}

/// A turn, until dropped.
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Line {
    /// A turn, when it has come.
    pub(crate) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        let polled = self.free.poll_acquire(cx);
        self.note(polled.is_pending());
        // Nobody closes the semaphore; if somebody did, there would be no line.
        let _permit = ready!(polled);
        Poll::Ready(Turn { _permit })
    }

    /// Whether a turn may go on past its end: no connection waits for one, and there is a thread for short calls.
    pub(crate) fn may_go_on(&self) -> bool {
        self.has_spare && self.waiting.load(Ordering::Relaxed) == 0
    }

    fn note(&mut self, is_waiting: bool) {
        if is_waiting && !self.is_waiting {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        } else if !is_waiting && self.is_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        self.is_waiting = is_waiting;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.note(false);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn one_thread_stays_free_where_there_are_two() {
        for (threads, turns) in [(0, 1), (1, 1), (2, 1), (3, 2), (65, 64)] {
            let made = Turns::among(threads);
            assert_eq!(made.free.available_permits(), turns);
            assert_eq!(made.line().may_go_on(), threads > 1);
        }
    }

    #[test]
    fn turns_are_given_in_the_order_they_were_asked_for() {
        let turns = Turns::among(2);
        let mut cx = Context::from_waker(Waker::noop());
        let [mut first, mut second, mut third] = [(); 3].map(|()| turns.line());
        let Poll::Ready(turn) = first.poll_turn(&mut cx) else {
            panic!("nobody has a turn");
        };
        assert!(first.may_go_on());
        assert!(second.poll_turn(&mut cx).is_pending());
        assert!(third.poll_turn(&mut cx).is_pending());
        assert!(!first.may_go_on());
        drop(turn);
        assert!(first.poll_turn(&mut cx).is_pending(), "two were before it");
        assert!(third.poll_turn(&mut cx).is_pending());
        assert!(second.poll_turn(&mut cx).is_ready());
        // Who leaves is waited for by nobody.
        drop(third);
        assert!(first.poll_turn(&mut cx).is_ready());
        assert!(first.may_go_on());
    }
}
