//! Compact blocks on disk, in the form that goes over the wire. One writer, many readers; knows no node and no network.
//!
//! In: [`EncodedBlock`](lightship_chain::compact::EncodedBlock)s, each following the last, through the one [`Writer`]. Out: [`View`]s,
//! immutable pictures of the chain from which any number of threads read rows, blocks and long runs of frames without copying them.
//! Where blocks come from, and what is said to a wallet about them, is left to others.
//!
//! A block lies in one of three places. *Sealed* ranges are files that never change again; the *tail* is an append-only log of
//! blocks that a reorg may still replace; the *head* is in memory, neither durable nor visible until [`Writer::commit`].
//! The bytes are described in `docs/format.md`.

mod at_hand;
mod disk;
mod error;
mod format;
mod layout;
mod lookup;
mod range;
mod reader;
mod recover;
mod row;
mod sealed;
mod store;
mod tail;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trees;
mod verify;
mod view;
mod writer;

pub use disk::{Append, Disk, Entry, Files};
pub use error::{Error, Result};
pub use range::RangeBuilder;
pub use reader::Reader;
pub use row::Row;
pub use store::StoreId;
pub use trees::{Growth, ReplacedTrees, SubtreeEnd, Trees, TreesAt, TreesSummary, verify_trees};
pub use verify::{Finding, Summary, verify, verify_on};
pub use view::{Frames, Piece, StoredBlock, View};
pub use writer::{Truncated, Writer};
