//! With a real node. Each test says that it was skipped when there is none.

mod addresses;
mod compare;
mod conform;
mod equal;
mod laboratory;
mod node_away;
mod pushed;
mod reorgs;
mod restarts;
mod trees;
mod wallet;
mod zebra_service;
mod zebra_state;

use tokio::sync::{Mutex, MutexGuard};

/// Held by each test here: they measure patience in seconds, and a node beside each would make all of them slow.
pub(crate) async fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

/// Whether there is a node's program; says so when there is none.
fn node_is_at_hand() -> bool {
    let found = lightship_harness::zebrad::binary().is_some();
    if !found {
        eprintln!("SKIPPED: no zebrad; set LIGHTSHIP_ZEBRAD or run .ci/zebrad");
    }
    found
}
