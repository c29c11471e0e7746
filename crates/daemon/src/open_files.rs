//! How many files and sockets this process may hold open.
//!
//! The system gives a process a small soft limit and lets it raise that to a hard one. Wallets' connections must never take the last place:
//! the index could not open its next file then. So the limit is raised at start, and what is kept back from wallets is fixed.

use anyhow::bail;
use tracing::info;

/// Kept back from wallets, beside what is open already: the index's files, the node's connections, the operator's, and room to spare.
const KEPT_BACK: u64 = 256;
/// With fewer places for wallets than this, serving makes no sense.
const LEAST_CONNECTIONS: u64 = 64;

/// Raises the limit as far as the system lets this process, and says how many wallets' connections fit: at most `wanted`.
///
/// # Errors
///
/// If hardly any would.
pub(crate) fn room_for_connections(wanted: usize) -> anyhow::Result<usize> {
    let Some(limit) = raise() else {
        return Ok(wanted);
    };
    let kept_back = KEPT_BACK + held();
    let Some(room) = limit
        .checked_sub(kept_back)
        .filter(|room| *room >= LEAST_CONNECTIONS)
    else {
        bail!(
            "this process may hold {limit} files open, and needs {} to serve: raise the limit (ulimit -n, or LimitNOFILE= of its service)",
            kept_back + LEAST_CONNECTIONS
        );
    };
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    if room < wanted {
        info!(
            "{limit} open files allow {room} wallets' connections at once, not {wanted}: raise the limit (ulimit -n, or LimitNOFILE= of its service) for more"
        );
    }
    Ok(room.min(wanted))
}

/// What is open now and a quarter more, which matters with a node's database: it has thousands of files, and grows.
fn held() -> u64 {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
    open + open / 4
}

/// The limit after raising it; `None` if there is none.
#[cfg(unix)]
pub(crate) fn raise() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let found = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: found.maximum,
        ..found
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => found.maximum,
        Err(_) => found.current,
    }
}

#[cfg(not(unix))]
pub(crate) fn raise() -> Option<u64> {
    None
}
