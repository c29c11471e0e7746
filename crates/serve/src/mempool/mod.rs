//! The mempool: one copy, shared by all who ask.
//!
//! In: the node's list of ids, asked for again and again, and each raw transaction once. Out: immutable [`Snapshot`]s through a
//! watch channel; whoever reads one holds no lock and delays nobody.
//!
//! A snapshot belongs to one tip. Nodes forget their mempool for moments when a block arrives; what was there before and is not in the
//! new block stays in the copy for a while, so that wallets do not think it dropped.
//!
//! # Invariants
//!
//! A transaction that the tip block holds is in no snapshot of that tip. While the node is away there is no snapshot.

mod keeper;
mod select;
mod snapshot;
mod stream;

pub(crate) use keeper::{Keeper, Mempool};
pub(crate) use select::select;
pub(crate) use snapshot::{Entry, Snapshot};
pub(crate) use stream::newcomers;
