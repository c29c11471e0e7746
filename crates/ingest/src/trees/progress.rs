//! What became of the trees so far.
//!
//! In: what the thread behind which they grow reports. Out: numbers for metrics, and the one thing that an operator must hear. How high the trees
//! are is [`Trees::through`](lightship_index::Trees::through).

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use super::TreesError;

/// Shared counters: one thread writes, anyone reads.
#[derive(Debug, Default)]
pub struct TreesProgress {
    steps: AtomicU64,
    subtrees: AtomicU64,
    setbacks: AtomicU64,
    ended: OnceLock<Ended>,
}

#[derive(Debug)]
struct Ended {
    differs: bool,
    why: Arc<str>,
}

impl TreesProgress {
    /// Nothing has been made yet.
    pub fn new() -> TreesProgress {
        TreesProgress::default()
    }

    /// Steps that were found to be the source's, by this process.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Roots of subtrees that were found to be the source's, by this process.
    pub fn subtrees(&self) -> u64 {
        self.subtrees.load(Ordering::Relaxed)
    }

    /// Attempts that failed and are made again: the source away, a disk full, a file damaged.
    pub fn setbacks(&self) -> u64 {
        self.setbacks.load(Ordering::Relaxed)
    }

    /// How the trees differ from the source's, once they were found to: in one of the two something is wrong.
    pub fn differs(&self) -> Option<Arc<str>> {
        let ended = self.ended.get().filter(|ended| ended.differs)?;
        Some(Arc::clone(&ended.why))
    }

    pub(super) fn made(&self, subtrees: u64) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.subtrees.fetch_add(subtrees, Ordering::Relaxed);
    }

    pub(super) fn set_back(&self) {
        self.setbacks.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self, error: &TreesError) {
        // It ends once; a second run of the same progress keeps the first reason.
        let _ = self.ended.set(Ended {
            differs: matches!(error, TreesError::Differs { .. }),
            why: error.to_string().into(),
        });
    }
}
