//! What the index knows of a block without decoding it.

use lightship_chain::{BlockHash, TreeSizes};

use crate::format::columns::Columns;

/// What the index knows of a block without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub hash: BlockHash,
    /// Its parent's name.
    pub previous: BlockHash,
    /// Seconds since 1970, as its header says.
    pub time: u32,
    /// Notes in each tree at the end of it.
    pub sizes: TreeSizes,
    /// Transactions in the full block.
    pub transactions: u32,
    /// Bytes of its consensus serialization.
    pub size_bytes: u32,
}

impl Row {
    pub(crate) fn new(columns: &Columns, previous: BlockHash) -> Row {
        Row {
            hash: columns.hash,
            previous,
            time: columns.time,
            sizes: columns.sizes,
            transactions: columns.transactions,
            size_bytes: columns.size_bytes,
        }
    }
}
