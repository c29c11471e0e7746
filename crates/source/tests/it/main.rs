//! The room from outside. A new test goes where its subject is:
//!
//! * `faults` - what each transport makes of everything that can go wrong between it and a node;
//! * `answers` - what is read from each node's answers, well-formed and not;
//! * `bulk` - batches of blocks;
//! * `files` - blocks from files;
//! * `indexer` - what a node pushes, and what it may do wrong with it;
//! * `contract` - that every source and node keeps the traits' promises (feature `simulated`);
//! * `zebra_state` - blocks from the state of a Zebra node (features `simulated` and `zebra-state`);
//! * `e2e` - against a running node, when the environment names one.
//!
//! `script` is the node they talk to: a TCP server that does as told.

#![allow(
    clippy::unwrap_used,
    reason = "in tests it is the message that counts, and the line has it"
)]

mod answers;
mod bulk;
#[cfg(feature = "simulated")]
mod contract;
mod e2e;
mod faults;
mod files;
mod indexer;
mod script;
#[cfg(all(feature = "simulated", feature = "zebra-state"))]
mod zebra_state;
