//! Integration tests of the server, one binary: a real client over loopback, an index in a temporary folder, a simulated node.
//!
//! A new test goes into the file of its subject: `blocks.rs` (the four block methods), `live.rs` (heights not indexed yet), `looks.rs` (who makes the follower look at the node), `reorgs.rs`,
//! `transactions.rs`, `mempool.rs`, `addresses.rs`, `trees.rs`, `operations.rs` (info, health, limits, deadlines, the way down), `outage.rs`
//! (a node that is away), `fairness.rs` (what one client may have), `crowds.rs` (many clients at once), `faults.rs` (what went wrong
//! elsewhere), `hostile.rs` (requests and readers that mean no good), `tls.rs`, `waiting.rs` (before there is an index), `web.rs` (gRPC-web, CORS, HTTP/1.1). `stage.rs` builds what they all stand on.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod addresses;
mod blocks;
mod crowds;
mod fairness;
mod faults;
mod hostile;
mod live;
mod looks;
mod mempool;
mod operations;
mod outage;
mod proto_files;
mod reorgs;
mod stage;
mod tls;
mod transactions;
mod trees;
mod waiting;
mod web;
