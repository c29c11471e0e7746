//! A node over JSON-RPC: zebrad, zakurad and zcashd.
//!
//! In: an [`Endpoint`]. Out: raw blocks in bulk ([`RpcSource`], blocking) and answers that are passed through ([`RpcNode`],
//! asynchronous). One set of questions serves both: they are written once over a `transport` that either never waits
//! (it blocks) or waits on a runtime.
//!
//! Blocks are asked for without decoding (`getblock "…" 0`), in batches as large as the node answers briskly; everything that
//! can be computed from them is left to others.
//!
//! # Invariants
//!
//! Every wait and every count is bounded by the [`Endpoint`]. "There is none" is answered only where the node said so with the
//! code that means it; every other failure stays a failure. No secret leaves `login`.

mod answers;
mod blocking;
mod bulk;
mod client;
mod endpoint;
mod envelope;
mod gate;
mod login;
mod node;
mod questions;
mod source;
mod streaming;
mod transport;

pub use endpoint::{Address, Credentials, Endpoint};
pub use node::RpcNode;
pub use source::RpcSource;
