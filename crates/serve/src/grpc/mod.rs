//! gRPC: which handler a path belongs to, and the frame around every answer.
//!
//! - `router`: one call from headers to headers: place, deadline, count.
//! - `request`: one whole and right message, or a refusal.
//! - `methods`: the generated trait, each method one line to `query`.
//! - `blocks`: the four methods whose messages are stored encoded.

mod blocks;
mod methods;
mod request;
mod router;

pub(crate) use router::{Reflection, Router, Shared};
