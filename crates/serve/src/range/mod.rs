//! Ranges of blocks: the product.
//!
//! In: a `BlockRange` request and one pinned view. Out: an `http_body::Body` of gRPC frames, made without a per-message step.
//!
//! - `plan`: what the request means: heights, direction, projection, where it must end.
//! - `window`: a bounded run of blocks out of the index, as pieces of some 64 KiB; the half that blocks, unless all of it is at hand.
//! - `live`: heights that are not indexed yet, fetched from the node through the same parser.
//! - `producer`: one window after the other, links checked where two origins meet.
//! - `body`: pieces to DATA frames, one window read ahead where windows have to be waited for, the ending as trailers.
//!
//! # Invariants
//!
//! A stream never mixes branches and never skips a height. `OK` is sent only after every block that was asked for.

mod body;
mod live;
mod plan;
mod producer;
mod window;

pub(crate) use body::BlocksBody;
pub(crate) use live::Live;
pub(crate) use plan::{Plan, end_of_range, pools_of};
pub(crate) use producer::Producer;
pub(crate) use window::Projection;
