//! The suites that are known: their order, and what their figures mean.

use crate::bench::plan::plain_name;

/// A suite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Where it stands in a report.
    pub(super) order: usize,
    /// What is timed.
    pub(super) about: &'static str,
}

const ABOUT: [(&str, &str); 15] = [
    (
        "build",
        "From an empty store to the whole chain: the first answer, the tip, CPU and disk on the way, and the size of what is kept.",
    ),
    (
        "restart",
        "From the start of the process, on a finished index, to the first right answer.",
    ),
    (
        "latency",
        "One request after the other on one connection, after a warm-up.",
    ),
    (
        "ranges",
        "One client asks for ranges of so many blocks and drains them.",
    ),
    (
        "concurrency",
        "So many clients, each on a connection of its own, each asking again when it has its answer.",
    ),
    (
        "download",
        "All blocks of the chain, as a new wallet wants them.",
    ),
    (
        "rpc",
        "Calls a second of each method that answers once, by so many workers.",
    ),
    ("tls", "The same over TLS, on the server's own port."),
    ("tip", "The age of a block when the server first shows it."),
    (
        "reorg",
        "From the node's change of branch until the server shows the new one, and wrong answers in between.",
    ),
    (
        "mempool",
        "From a transaction's coming until each open stream has it.",
    ),
    ("idle", "What a server takes when nobody asks."),
    (
        "parse",
        "Parsing and compacting of blocks on one core, against a parser that reads the same bytes.",
    ),
    (
        "index",
        "The whole program that builds an index over JSON-RPC, against bare fetching and decoding of the same blocks.",
    ),
    (
        "state",
        "The same from a Zebra node's state, against a bare scan of the tables that it reads.",
    ),
];

/// What is known of a suite, by its name with or without a version.
pub(super) fn known(suite: &str) -> Option<Known> {
    let plain = plain_name(suite);
    let order = ABOUT.iter().position(|(name, _)| *name == plain)?;
    let (_, about) = ABOUT[order];
    Some(Known { order, about })
}

/// Whether a metric tells which server is better. CPU seconds do not where every server works for a given time: who serves more takes more.
pub(super) fn compared(suite: &str, metric: &str) -> bool {
    let of_given_work = ["build", "restart", "mempool"].contains(&plain_name(suite));
    metric != "server cpu" || of_given_work
}

/// The metrics that matter most come first; the order is otherwise that of the run.
pub(super) fn rank(metric: &str) -> usize {
    const FIRST: [&str; 8] = [
        "throughput",
        "first answer",
        "to serving",
        "to tip",
        "time",
        "p50",
        "p99",
        "bytes",
    ];
    FIRST
        .iter()
        .position(|name| *name == metric)
        .unwrap_or(FIRST.len())
}
