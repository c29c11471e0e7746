//! Where blocks of a source become an index.
//!
//! In: a [`BlockSource`](lightship_source::BlockSource) and the one [`Writer`](lightship_index::Writer) of an index. Out: an
//! index that holds what the source's best chain holds, and a [`Progress`] that says how far it is. Blocking, on threads of
//! its own. How blocks are fetched is the source's affair, how they lie on disk the index's, and showing numbers the daemon's.
//!
//! [`run()`] is the whole of it. Reading order: `run` (the loop, pauses, what is fatal), `follow` (one step, under a drawing of
//! the states), `reorg` (where two chains part, pure), `newest` (which blocks come first), `bulk` and `order` (many blocks at
//! once), `appender` (links, counts, the way to disk), `nudge` (who may wake it). Beside it [`grow_trees()`] lets the note
//! commitment trees grow.

mod appender;
mod ask;
mod bulk;
mod error;
mod follow;
mod newest;
mod nudge;
mod order;
mod pace;
mod progress;
mod reorg;
mod run;
mod settings;
mod stop;
mod trees;

pub use error::{Error, Result};
pub use nudge::Nudge;
pub use progress::{Progress, Rate, Snapshot, State, Window, time_left};
pub use run::run;
pub use settings::{Settings, Until};
pub use stop::Stop;
pub use trees::{TreesError, TreesProgress, grow_trees};
