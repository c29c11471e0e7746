//! Where blocks of a source become an index.
//!
//! In: a [`BlockSource`](lightship_source::BlockSource) and the one [`Writer`](lightship_index::Writer) of an index. Out: an
//! index that holds what the source's best chain holds, and a [`Progress`] that says how far it is. Blocking, on threads of
//! its own. How blocks are fetched is the source's affair, how they lie on disk the index's, and showing numbers the daemon's.

mod ask;
mod order;
mod progress;
mod reorg;
mod stop;

pub use progress::{Progress, Rate, Snapshot, State, Window, time_left};
pub use stop::Stop;
