//! Runs against a source made of a script, on a real store.
//!
//! A new test goes where its subject is: `reorgs` (the best chain changes), `faults` (the source fails or lies), `bulk` (many
//! blocks at once, and crashes), `newest` (the newest blocks come first), `kills` (of the process), `schedules` (random histories against the model), `simulated` (a
//! whole node, over its RPC). What they share is `scripted` (the source), `disk`, and `running` (a run, and the model it is
//! held against).

#![allow(
    clippy::unwrap_used,
    reason = "a test's helpers fail like the test itself"
)]

mod bulk;
mod disk;
mod faults;
mod kills;
mod newest;
mod reorgs;
mod running;
mod schedules;
mod scripted;
mod simulated;
mod trees;
