//! What the server answers from, and what it knows of the node's health.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lightship_index::{Reader, Trees};
use lightship_source::Node;
use tokio::sync::Notify;

/// What the server answers from.
#[derive(Clone)]
pub struct Backend {
    /// The index.
    pub reader: Reader,
    /// The note commitment trees of the index, if they are kept; the node is asked for what they do not reach.
    pub trees: Option<Arc<Trees>>,
    /// The node, for what the index does not hold.
    pub node: Arc<dyn Node>,
    /// What whoever follows the node knows of it; asked about once a second and at each `/readyz`.
    pub health: Arc<dyn Fn() -> NodeHealth + Send + Sync>,
    /// Asks whoever follows the node to look at its tip now: called whenever a wallet wants to know the tip, so it must be cheap and
    /// must not block. The answer at hand is not held back for it; the next one profits.
    pub look: Arc<dyn Fn() + Send + Sync>,
    /// Rung by whoever hears that the node's mempool has changed: it is looked at soon instead of at the next poll.
    pub mempool_changed: Arc<Notify>,
}

/// What is known of the node, and of what stands between it and the index.
#[derive(Clone, Debug, Default)]
pub struct NodeHealth {
    /// When it last gave a sensible answer; `None` if it never has.
    pub last_answer: Option<Instant>,
    /// How what the index holds differs from what the node says, once that was found: one of the two is wrong, and somebody has to look.
    pub differs: Option<Arc<str>>,
    /// Why the index cannot grow whatever the node does, for the operator's eyes; `None` if it can.
    pub standstill: Option<String>,
}

/// When the server itself last heard of the node, beside what [`Backend::health`] says.
#[derive(Debug)]
pub(crate) struct Heard {
    began: Instant,
    /// Milliseconds since `began`, plus 1; 0 for never.
    at: AtomicU64,
}

impl Heard {
    pub(crate) fn new() -> Heard {
        Heard {
            began: Instant::now(),
            at: AtomicU64::new(0),
        }
    }

    /// The node has just answered.
    pub(crate) fn now(&self) {
        let at = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1;
        self.at.store(at, Ordering::Relaxed);
    }

    /// When it last did.
    pub(crate) fn last(&self) -> Option<Instant> {
        let at = self.at.load(Ordering::Relaxed).checked_sub(1)?;
        self.began.checked_add(Duration::from_millis(at))
    }
}
