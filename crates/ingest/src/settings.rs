//! What a run is told: how many workers, how much memory, how deep, how patient.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

/// How long to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Until {
    /// Until stopped, following the tip.
    #[default]
    Forever,
    /// Until the index ends at the source's tip.
    Tip,
}

/// How a run behaves. [`Settings::default`] suits a node on this machine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Threads that fetch, parse and compact while the index is far behind.
    pub workers: NonZeroUsize,
    /// Blocks this far below the tip are final: fetched by height, and sealed. Zebra replaces at most 1,000 blocks.
    pub seal_depth_blocks: u32,
    /// The least pause between two looks at a tip that has not moved.
    pub poll: Duration,
    /// The least pause between two looks that callers ask for ([`Nudge`](crate::Nudge)), and between two for tips that a node
    /// pushes; as long as the last look took, where that is longer.
    pub nudge_gap: Duration,
    /// How long the source may wait for a new tip before it is asked anew.
    pub wait: Duration,
    /// Blocks that become durable and visible together while catching up in the replaceable part.
    pub batch_blocks: NonZeroU32,
    /// Blocks that one worker fetches in one go.
    pub segment_blocks: NonZeroU32,
    /// While the index is far behind, so many of the newest final blocks are built before the older ones, in whole ranges; 0 for none.
    pub newest_first_blocks: u32,
    /// How long the gap below the newest blocks is filled after these could not be had; twice as long each further time, up to eight times as long.
    pub newest_first_rest: Duration,
    /// Bound on the blocks in memory between source and index, in bytes of their consensus serialization.
    pub max_bytes_in_flight: usize,
    /// A drop of more of our blocks than this is followed only after the node has confirmed it.
    pub confirm_drop_blocks: u32,
    /// On a private network, a tip that fell below the sealed part without any replacement is followed once it has stood still
    /// for so long. On the public networks it never is: nodes cannot undo final blocks, so such a node is building its chain
    /// anew and passes our tip again.
    pub deep_rollback_patience: Duration,
    /// Tree sizes are compared with the source's after so many blocks, and whenever the tip is reached from afar.
    pub check_sizes_every_blocks: NonZeroU32,
    /// The first pause after a failure; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest pause between two attempts.
    pub longest_pause: Duration,
    /// How often a stall that lasts is logged again.
    pub log_every: Duration,
    /// When to return.
    pub until: Until,
}

impl Default for Settings {
    fn default() -> Settings {
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Settings {
            workers: cores.min(NonZeroUsize::new(8).expect("8 is not 0")),
            seal_depth_blocks: 1_000,
            poll: Duration::from_millis(250),
            nudge_gap: Duration::from_millis(10),
            wait: Duration::from_secs(5),
            batch_blocks: NonZeroU32::new(500).expect("500 is not 0"),
            segment_blocks: NonZeroU32::new(256).expect("256 is not 0"),
            // Some 87 days: a wallet that was opened within the last quarter, or was made since.
            newest_first_blocks: 100_000,
            newest_first_rest: Duration::from_secs(60),
            max_bytes_in_flight: 128 << 20,
            confirm_drop_blocks: 100,
            deep_rollback_patience: Duration::from_secs(10),
            check_sizes_every_blocks: NonZeroU32::new(50_000).expect("50,000 is not 0"),
            first_pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(4),
            log_every: Duration::from_secs(30),
            until: Until::Forever,
        }
    }
}
