//! What the bytes of the Zcash chain mean.
//!
//! In: blocks and transactions as consensus serializes them. Out: borrowed views of them ([`parse`]), and compact blocks
//! in the encoding that wallets receive ([`compact`]). Pure: no files, no sockets, no threads, no clock. Validity is left to
//! the node: what is checked here is only what a reader needs in order not to misread.
//!
//! The words ([`Height`], [`BlockHash`], [`TxId`], [`Network`], [`Pool`], [`TreeSizes`]) and the shape of note commitment trees ([`tree`])
//! are used by every other room.

#[cfg(feature = "build")]
pub mod build;
pub mod compact;
mod hash;
mod height;
mod network;
pub mod parse;
mod pool;
pub mod tree;

pub use hash::{BlockHash, BlockId, HexError, TxId};
pub use height::{Height, HeightOutOfRange, HeightRange};
pub use network::{Network, Upgrade, UpgradeActivation};
pub use pool::{Pool, PoolSet, ShieldedPool, TreeSizes};

/// One block as a source lends it.
#[derive(Clone, Copy, Debug)]
pub enum RawBlock<'a> {
    /// The consensus serialization in one buffer.
    Whole(&'a [u8]),
    /// A database keeps a block in pieces.
    Parts {
        /// The header, solution included.
        header: &'a [u8],
        /// The transactions in block order.
        transactions: &'a [RawTransaction<'a>],
    },
}

/// One transaction of a block that is lent in pieces.
#[derive(Clone, Copy, Debug)]
pub struct RawTransaction<'a> {
    /// Its id, if the source keeps it; hashed from the bytes otherwise.
    pub id: Option<TxId>,
    /// The consensus serialization.
    pub bytes: &'a [u8],
}
