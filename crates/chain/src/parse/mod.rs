//! Bytes to borrowed views of them.
//!
//! In: the consensus serialization of headers, transactions and blocks, from a node or its database, trusted in nothing. Out: views
//! that point into those bytes ([`Header`], [`Transaction`], [`Block`]), and ids. Nothing is decompressed, verified or copied, and
//! no element is allocated for; whether a block is valid is left to the node that gave it.
//!
//! # Invariants
//!
//! - No input panics. Every count is held against the bytes that are left before anything is sized by it.
//! - A view exists only if its whole extent was there, so reading from it cannot fail.
//! - An encoding that consensus does not know (version, group id, a length written longer than need be) is refused, never guessed.

#![deny(clippy::indexing_slicing)]

mod action;
mod block;
mod error;
mod header;
mod merkle;
mod reader;
mod sapling;
#[cfg(test)]
mod tests;
mod transaction;
mod transparent;
mod txid;

pub use action::{Action, ActionBundle, Actions};
pub use block::{Block, Transactions};
pub use error::Error;
pub use header::Header;
pub use merkle::merkle_root;
pub use sapling::{SaplingOutput, SaplingOutputs, SaplingSpend, SaplingSpends};
pub use transaction::{Transaction, Version};
pub use transparent::{Input, Inputs, Output, Outputs};

pub(crate) use block::NextTransaction;
pub(crate) use merkle::MerkleTree;

/// What parsing gives.
pub type Result<T> = std::result::Result<T, Error>;
