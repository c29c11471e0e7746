//! How many questions are open at a time.
//!
//! The bound shrinks when the node says it is busy and grows back slowly, so that the node's other users keep their share.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// zcashd works on four questions at a time; no node works on fewer.
const FEWEST: usize = 4;
/// So many answers in a row raise a lowered bound by one.
const ANSWERS_PER_STEP: u32 = 256;

pub(super) struct Gate {
    most: usize,
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    bound: usize,
    open: usize,
    answers: u32,
}

/// One open question; dropping it closes it.
pub(super) struct Pass<'a>(&'a Gate);

impl Gate {
    pub(super) fn new(most: usize) -> Gate {
        Gate {
            most,
            state: Mutex::new(State {
                bound: most,
                open: 0,
                answers: 0,
            }),
            freed: Condvar::new(),
        }
    }

    /// Waits for a place, at most `patience`.
    pub(super) fn enter(&self, patience: Duration) -> Option<Pass<'_>> {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        while state.open >= state.bound {
            let left = deadline.checked_duration_since(Instant::now())?;
            state = self
                .freed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.open += 1;
        Some(Pass(self))
    }

    /// The node answered.
    pub(super) fn answered(&self) {
        let mut state = self.lock();
        state.answers += 1;
        if state.answers >= ANSWERS_PER_STEP {
            state.answers = 0;
            if state.bound < self.most {
                state.bound += 1;
                drop(state);
                self.freed.notify_one();
            }
        }
    }

    /// The node has too much to do.
    pub(super) fn crowded(&self) {
        let mut state = self.lock();
        state.answers = 0;
        state.bound = (state.bound / 2).max(FEWEST.min(self.most));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters: right after each single change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(5);

    #[test]
    fn no_more_enter_than_the_bound() {
        let gate = Gate::new(2);
        let first = gate.enter(SHORT);
        let _second = gate.enter(SHORT).unwrap();
        assert!(gate.enter(SHORT).is_none());
        drop(first);
        assert!(gate.enter(SHORT).is_some());
    }

    #[test]
    fn a_busy_node_lowers_the_bound_and_answers_raise_it() {
        let gate = Gate::new(16);
        for _ in 0..10 {
            gate.crowded();
        }
        assert_eq!(gate.lock().bound, FEWEST);
        for _ in 0..ANSWERS_PER_STEP * 20 {
            gate.answered();
        }
        assert_eq!(gate.lock().bound, 16);
        let small = Gate::new(1);
        small.crowded();
        assert_eq!(small.lock().bound, 1);
    }
}
