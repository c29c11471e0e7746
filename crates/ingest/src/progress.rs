//! How far the index is, how fast it grows, and what stands in the way.
//!
//! In: what the ingest thread reports as it goes. Out: [`Snapshot`]s, for whoever shows them. Counting is atomic, so that
//! workers and readers never wait for each other; formatting is left to the daemon.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lightship_chain::{BlockId, Height};

mod rate;

pub use rate::{Rate, Window, time_left};

/// What ingest is doing.
///
/// ```text
///                 tip reached              branch gone
///   CatchingUp ───────────────► Following ◄───────────► Replacing
///       ▲  ▲                        │       replaced        │
///       │  └── far behind ──────────┤                       │
///       │                           ▼                       │
///       └──── answer ────────── Stalled ◄───────────────────┘
///                          (from each: no answer, or none that can be used)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Below the node's tip, and adding blocks.
    CatchingUp,
    /// At the node's tip, waiting for the next block.
    Following,
    /// Exchanging blocks that left the node's best chain.
    Replacing,
    /// Nothing can be added. What is stored stays served, and the attempts go on.
    Stalled {
        /// How long it has been so.
        since: Duration,
        /// What the last attempt met.
        why: String,
    },
}

/// All numbers at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What ingest is doing.
    pub state: State,
    /// The highest block of the index, committed or about to be.
    pub indexed: Option<BlockId>,
    /// Blocks of the index above a gap over `indexed`: the newest, built first.
    pub ahead_blocks: u32,
    /// The node's tip as last heard.
    pub target: Option<BlockId>,
    /// Blocks added by this process; a block replaced counts again.
    pub blocks: u64,
    /// Bytes of their consensus serializations.
    pub bytes: u64,
    /// How fast they come, over the last [`Progress::WINDOW`]. `None` while too little was seen.
    pub rate: Option<Rate>,
    /// Until the target is reached at that rate. `None` when unknown: no rate, no target, stalled; zero when there.
    pub time_left: Option<Duration>,
    /// Branches of ours that were replaced or rolled back.
    pub reorgs: u64,
    /// How many of our blocks the last one dropped.
    pub last_reorg_depth: u32,
    /// How many of our blocks the deepest one dropped.
    pub deepest_reorg: u32,
    /// Answers that would have dropped many blocks and did not prove it, so nothing was changed.
    pub unproven_drops: u64,
    /// Times that ingest became stalled.
    pub stalls: u64,
    /// Blocks refused: unreadable, wrongly linked, or not the ones asked for.
    pub refused_blocks: u64,
    /// The last thing that went wrong, kept after it was overcome.
    pub last_error: Option<String>,
    /// Whether it is stalled for want of room on the disk. It goes on by itself once there is some.
    pub disk_is_full: bool,
    /// Since the source last gave any answer that was not an error.
    pub source_silent: Duration,
}

/// The shared counters. One run writes, anyone reads.
#[derive(Debug)]
pub struct Progress {
    started: Instant,
    blocks: AtomicU64,
    bytes: AtomicU64,
    reorgs: AtomicU64,
    last_reorg_depth: AtomicU32,
    deepest_reorg: AtomicU32,
    unproven_drops: AtomicU64,
    stalls: AtomicU64,
    refused_blocks: AtomicU64,
    /// Milliseconds after `started`.
    heard_ms: AtomicU64,
    slow: Mutex<Slow>,
}

/// What changes a few times a second at most.
#[derive(Debug)]
struct Slow {
    activity: Activity,
    stalled: Option<(Instant, String)>,
    indexed: Option<BlockId>,
    ahead_blocks: u32,
    target: Option<BlockId>,
    last_error: Option<String>,
    disk_is_full: bool,
    window: Window,
}

/// [`State`] without the stall, which lies over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    CatchingUp,
    Following,
    Replacing,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

impl Progress {
    /// Rates are means over this much time.
    pub const WINDOW: Duration = Duration::from_secs(30);

    /// All zero, catching up.
    pub fn new() -> Progress {
        Progress {
            started: Instant::now(),
            blocks: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            reorgs: AtomicU64::new(0),
            last_reorg_depth: AtomicU32::new(0),
            deepest_reorg: AtomicU32::new(0),
            unproven_drops: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            refused_blocks: AtomicU64::new(0),
            heard_ms: AtomicU64::new(0),
            slow: Mutex::new(Slow {
                activity: Activity::CatchingUp,
                stalled: None,
                indexed: None,
                ahead_blocks: 0,
                target: None,
                last_error: None,
                disk_is_full: false,
                window: Window::new(Progress::WINDOW),
            }),
        }
    }

    /// Everything at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let now = self.started.elapsed();
        let blocks = self.blocks.load(Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed);
        let slow = self.slow();
        let rate = slow.window.rate(now, blocks, bytes);
        let state = match (&slow.stalled, slow.activity) {
            (Some((since, why)), _) => State::Stalled {
                since: since.elapsed(),
                why: why.clone(),
            },
            (None, Activity::CatchingUp) => State::CatchingUp,
            (None, Activity::Following) => State::Following,
            (None, Activity::Replacing) => State::Replacing,
        };
        let time_left = match state {
            State::Stalled { .. } => None,
            _ => {
                // What is ahead need not come any more: as good as a target that is so much nearer.
                let nearer = |target: BlockId| {
                    Height::new(target.height.get().saturating_sub(slow.ahead_blocks))
                };
                time_left(
                    slow.indexed.map(|id| id.height),
                    slow.target.map(nearer),
                    rate,
                )
            }
        };
        Snapshot {
            state,
            indexed: slow.indexed,
            ahead_blocks: slow.ahead_blocks,
            target: slow.target,
            blocks,
            bytes,
            rate,
            time_left,
            reorgs: self.reorgs.load(Ordering::Relaxed),
            last_reorg_depth: self.last_reorg_depth.load(Ordering::Relaxed),
            deepest_reorg: self.deepest_reorg.load(Ordering::Relaxed),
            unproven_drops: self.unproven_drops.load(Ordering::Relaxed),
            stalls: self.stalls.load(Ordering::Relaxed),
            refused_blocks: self.refused_blocks.load(Ordering::Relaxed),
            last_error: slow.last_error.clone(),
            disk_is_full: slow.disk_is_full,
            source_silent: now
                .saturating_sub(Duration::from_millis(self.heard_ms.load(Ordering::Relaxed))),
        }
    }

    /// `blocks` more, up to `tip`.
    pub(crate) fn added(&self, blocks: u64, bytes: u64, tip: BlockId) {
        self.count(blocks, bytes).indexed = Some(tip);
    }

    /// `blocks` more, somewhere above a gap.
    pub(crate) fn added_ahead(&self, blocks: u64, bytes: u64) {
        drop(self.count(blocks, bytes));
    }

    fn count(&self, blocks: u64, bytes: u64) -> MutexGuard<'_, Slow> {
        let blocks = self.blocks.fetch_add(blocks, Ordering::Relaxed) + blocks;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let now = self.started.elapsed();
        let mut slow = self.slow();
        slow.window.record(now, blocks, bytes);
        slow
    }

    /// So many blocks are there above a gap.
    pub(crate) fn set_ahead(&self, blocks: u32) {
        self.slow().ahead_blocks = blocks;
    }

    pub(crate) fn set_indexed(&self, tip: Option<BlockId>) {
        self.slow().indexed = tip;
    }

    pub(crate) fn set_target(&self, target: Option<BlockId>) {
        self.slow().target = target;
    }

    /// The source answered.
    pub(crate) fn heard(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard_ms.store(now, Ordering::Relaxed);
    }

    /// Blocks added by this process.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    pub(crate) fn activity(&self) -> Activity {
        self.slow().activity
    }

    /// Returns whether that is news.
    pub(crate) fn set_activity(&self, activity: Activity) -> bool {
        let mut slow = self.slow();
        let news = slow.activity != activity;
        slow.activity = activity;
        news
    }

    /// Returns whether it was not stalled before.
    pub(crate) fn stall(&self, why: String, disk_is_full: bool) -> bool {
        let mut slow = self.slow();
        slow.disk_is_full = disk_is_full;
        slow.last_error = Some(why.clone());
        match &mut slow.stalled {
            Some((_, old)) => {
                *old = why;
                false
            }
            none => {
                *none = Some((Instant::now(), why));
                self.stalls.fetch_add(1, Ordering::Relaxed);
                true
            }
        }
    }

    /// Returns how long the stall had lasted, if there was one.
    pub(crate) fn resume(&self) -> Option<Duration> {
        let mut slow = self.slow();
        slow.disk_is_full = false;
        slow.stalled.take().map(|(since, _)| since.elapsed())
    }

    pub(crate) fn reorg(&self, depth: u32) {
        self.reorgs.fetch_add(1, Ordering::Relaxed);
        self.last_reorg_depth.store(depth, Ordering::Relaxed);
        self.deepest_reorg.fetch_max(depth, Ordering::Relaxed);
    }

    pub(crate) fn unproven_drop(&self) {
        self.unproven_drops.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused_block(&self) {
        self.refused_blocks.fetch_add(1, Ordering::Relaxed);
    }

    fn slow(&self) -> MutexGuard<'_, Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use lightship_chain::BlockHash;

    use super::*;

    fn block(height: u32) -> BlockId {
        BlockId {
            height: Height::new(height),
            hash: BlockHash::ZERO,
        }
    }

    #[test]
    fn a_stall_lies_over_the_state_and_lifts_again() {
        let progress = Progress::new();
        progress.set_activity(Activity::Following);
        assert!(progress.stall("refused".into(), false));
        assert!(!progress.stall("refused again".into(), true));
        let seen = progress.snapshot();
        assert!(matches!(seen.state, State::Stalled { why, .. } if why == "refused again"));
        assert!(seen.disk_is_full);
        assert_eq!(seen.stalls, 1);
        assert_eq!(seen.time_left, None);
        assert!(progress.resume().is_some());
        let seen = progress.snapshot();
        assert_eq!(seen.state, State::Following);
        assert!(!seen.disk_is_full);
        assert_eq!(seen.last_error.as_deref(), Some("refused again"));
    }

    #[test]
    fn reorgs_are_counted_with_the_last_and_the_deepest() {
        let progress = Progress::new();
        for depth in [3, 20, 1] {
            progress.reorg(depth);
        }
        let seen = progress.snapshot();
        assert_eq!(
            (seen.reorgs, seen.last_reorg_depth, seen.deepest_reorg),
            (3, 1, 20)
        );
    }

    #[test]
    fn blocks_ahead_of_a_gap_need_not_come_any_more() {
        let progress = Progress::new();
        progress.added(10, 1_000, block(9));
        progress.added_ahead(90, 9_000);
        progress.set_ahead(90);
        progress.set_target(Some(block(99)));
        let seen = progress.snapshot();
        assert_eq!(seen.indexed, Some(block(9)));
        assert_eq!((seen.blocks, seen.bytes), (100, 10_000));
        assert_eq!(seen.ahead_blocks, 90);
        assert_eq!(seen.time_left, Some(Duration::ZERO));
    }

    #[test]
    fn at_the_target_nothing_is_left() {
        let progress = Progress::new();
        progress.added(10, 1_000, block(9));
        progress.set_target(Some(block(9)));
        let seen = progress.snapshot();
        assert_eq!(seen.time_left, Some(Duration::ZERO));
        assert_eq!((seen.blocks, seen.bytes), (10, 1_000));
    }
}
