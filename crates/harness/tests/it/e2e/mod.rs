//! With a real node. Each test says that it was skipped when there is none.

mod laboratory;

/// Whether there is a node's program; says so when there is none.
fn node_is_at_hand() -> bool {
    let found = lightship_harness::zebrad::binary().is_some();
    if !found {
        eprintln!("SKIPPED: no zebrad; set LIGHTSHIP_ZEBRAD or run .ci/zebrad");
    }
    found
}
