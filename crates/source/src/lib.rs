//! The node boundary: two traits, and the light ways to fulfil them.
//!
//! In: a node's address and credentials, or a file of blocks. Out: raw blocks for whoever builds the index ([`BlockSource`],
//! which blocks the calling thread), and the node's own answers for whoever serves wallets ([`Node`], asynchronous). No
//! channel, counter, logger or parser crosses this line; `serve` and `ingest` see these traits and nothing behind them.
//!
//! Links between blocks, tree sizes and positions are left to the callers, who know the chain below.

mod block_source;
#[cfg(feature = "simulated")]
pub mod contract;
mod error;
pub mod files;
pub mod indexer;
mod node;
pub mod rpc;
#[cfg(feature = "simulated")]
pub mod simulated;
#[cfg(feature = "zebra-state")]
pub mod zebra_state;

pub use block_source::BlockSource;
pub use error::{Error, Result};
pub use node::{
    Answer, Node, NodeInfo, NodeTransaction, Place, Submitted, SubtreeRoot, TreeState, Utxo,
};
