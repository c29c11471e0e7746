//! From many workers back into one order, with a bound on what lies in between.
//!
//! In: a range of heights, cut into segments that workers take lowest first and fill in any order. Out: the same items as one
//! sequence. What the items are, and whether they fit together, is left to the caller.
//!
//! # Invariants
//!
//! - What waits here is bounded in bytes. A worker that would exceed the bound waits, except for the one on the segment that
//!   is read next while the reader has nothing to read: so the bound can neither be passed by many nor stop the flow.
//! - A failure is seen by the reader where it happened, after everything below it.

use std::{
    collections::VecDeque,
    num::NonZeroU32,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lightship_chain::HeightRange;

/// A belt between workers, who put, and one reader.
#[derive(Debug)]
pub(crate) struct Belt<T, E> {
    range: HeightRange,
    segment_blocks: NonZeroU32,
    max_bytes: usize,
    /// How many segments may be taken beyond the one being read.
    max_ahead: usize,
    state: Mutex<State<T, E>>,
    bell: Condvar,
}

#[derive(Debug)]
struct State<T, E> {
    /// Taken and not yet read to the end, lowest first.
    open: VecDeque<Segment<T, E>>,
    /// The number of `open[0]`.
    first: u32,
    bytes: usize,
    /// The most bytes that ever waited.
    peak_bytes: usize,
    closed: bool,
}

#[derive(Debug)]
struct Segment<T, E> {
    chunks: VecDeque<(Vec<T>, usize)>,
    outcome: Option<Result<(), E>>,
}

/// A worker's piece of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    number: u32,
    /// The heights to fetch, lowest first.
    pub(crate) heights: HeightRange,
}

/// What the reader finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<T, E> {
    /// The next items in order.
    Items(Vec<T>),
    /// A worker failed here.
    Failed(E),
    /// Nothing came within the patience.
    Waiting,
    /// Everything was read.
    End,
}

impl<T, E> Belt<T, E> {
    pub(crate) fn new(
        range: HeightRange,
        segment_blocks: NonZeroU32,
        max_bytes: usize,
        max_ahead: usize,
    ) -> Belt<T, E> {
        Belt {
            range,
            segment_blocks,
            max_bytes,
            max_ahead,
            state: Mutex::new(State {
                open: VecDeque::new(),
                first: 0,
                bytes: 0,
                peak_bytes: 0,
                closed: false,
            }),
            bell: Condvar::new(),
        }
    }

    /// The lowest piece nobody has taken; waits while too many are open. `None` when there is no more, or the belt is closed.
    pub(crate) fn take(&self) -> Option<Piece> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let taken = u32::try_from(state.open.len()).expect("bounded by max_ahead");
            let number = state.first.checked_add(taken)?;
            let heights = self.heights(number)?;
            if state.open.len() <= self.max_ahead {
                state.open.push_back(Segment {
                    chunks: VecDeque::new(),
                    outcome: None,
                });
                return Some(Piece { number, heights });
            }
            state = self.wait(state);
        }
    }

    /// Adds the next items of a piece; waits for room. Returns whether the worker is to go on.
    pub(crate) fn put(&self, piece: Piece, items: Vec<T>, bytes: usize) -> bool {
        let mut state = self.lock();
        loop {
            if state.closed {
                return false;
            }
            let Some(place) = piece.number.checked_sub(state.first).map(|n| n as usize) else {
                return false;
            };
            let fits = state.bytes.saturating_add(bytes) <= self.max_bytes;
            let starving = place == 0 && state.open[0].chunks.is_empty();
            if fits || starving {
                state.bytes = state.bytes.saturating_add(bytes);
                state.peak_bytes = state.peak_bytes.max(state.bytes);
                state.open[place].chunks.push_back((items, bytes));
                if place == 0 {
                    self.bell.notify_all();
                }
                return true;
            }
            state = self.wait(state);
        }
    }

    /// No more items will come for this piece.
    pub(crate) fn finish(&self, piece: Piece, outcome: Result<(), E>) {
        let mut state = self.lock();
        if let Some(place) = piece.number.checked_sub(state.first)
            && let Some(segment) = state.open.get_mut(place as usize)
        {
            segment.outcome = Some(outcome);
            self.bell.notify_all();
        }
    }

    /// The next items in order, waiting at most `patience` for them. After a failure the belt is closed.
    pub(crate) fn next(&self, patience: Duration) -> Next<T, E> {
        let mut state = self.lock();
        let deadline = Instant::now().checked_add(patience);
        loop {
            if let Some(front) = state.open.front_mut() {
                if let Some((items, bytes)) = front.chunks.pop_front() {
                    state.bytes -= bytes;
                    self.bell.notify_all();
                    return Next::Items(items);
                }
                match front.outcome.take() {
                    Some(Ok(())) => {
                        state.open.pop_front();
                        state.first += 1;
                        self.bell.notify_all();
                        continue;
                    }
                    Some(Err(error)) => {
                        state.closed = true;
                        self.bell.notify_all();
                        return Next::Failed(error);
                    }
                    None => {}
                }
            } else if self.heights(state.first).is_none() {
                return Next::End;
            }
            let left = deadline.map_or(patience, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Next::Waiting;
            }
            state = self
                .bell
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Sends the workers home.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.bell.notify_all();
    }

    /// The most bytes that ever waited here.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.lock().peak_bytes
    }

    /// Whether the workers are to go home.
    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn heights(&self, number: u32) -> Option<HeightRange> {
        let offset = number.checked_mul(self.segment_blocks.get())?;
        let first = self.range.first().checked_add(offset)?;
        let last = first
            .checked_add(self.segment_blocks.get() - 1)
            .map_or(self.range.last(), |last| last.min(self.range.last()));
        HeightRange::new(first, last)
    }

    fn lock(&self) -> MutexGuard<'_, State<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T, E>>) -> MutexGuard<'a, State<T, E>> {
        self.bell
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a belt however its reader leaves, so that no worker waits for one who is gone.
pub(crate) struct CloseOnDrop<'a, T, E>(pub(crate) &'a Belt<T, E>);

impl<T, E> Drop for CloseOnDrop<'_, T, E> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests;
