//! Transactions, blocks and linked chains, made to order.
//!
//! In: what a transaction or block shall hold ([`Recipe`], [`Coinbase`]) and a seed. Out: bytes that every reader of the consensus encoding
//! takes, with true ids, merkle roots and links. Left to others: validity. Nothing here is proved, signed or mined, and values need not
//! balance; what a reader checks without a proof (canonical field elements, curve points, lengths, flags) is right.
//!
//! Feeds the tests, the demo chain and long synthetic chains; cheap enough that small blocks come at tens of thousands a second.

mod activations;
mod block;
mod curve;
mod recipe;
mod script;
mod write;

pub use activations::Activations;
pub use block::{BuiltBlock, ChainBuilder, Coinbase, Solution, regtest_genesis};
pub use recipe::{Action, Input, JoinSplit, Note, Output, Recipe, Version};
pub use script::{coinbase_height, data_carrier, pay_to_public_key_hash, pay_to_script_hash};

use crate::TxId;

/// A transaction, written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Its id.
    pub id: TxId,
    /// The consensus serialization.
    pub bytes: Vec<u8>,
}

/// A recipe that no transaction fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a transaction of format {version:?} has no {part}")]
pub struct Unbuildable {
    /// The format asked for.
    pub version: Version,
    /// What it cannot hold.
    pub part: &'static str,
}

#[cfg(test)]
mod tests;
