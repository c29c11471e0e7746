//! Why a run ended, why an attempt failed, and why a block was refused.

use std::io;

use lightship_chain::{BlockHash, BlockId, Height, HeightRange, TreeSizes, parse};
use lightship_index as index;
use lightship_source as source;

/// The result of a run.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a run ended before it was asked to. Whatever a node does later cures none of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk failed, or lies.
    #[error("the index cannot be written")]
    Index(#[from] index::Error),
    /// The node refused the credentials before it had ever answered. Later on that is a stall.
    #[error("the node cannot be used with these settings")]
    Credentials(#[source] source::Error),
    /// The source cannot work at all with what it was given: a wrong address, an unreadable file.
    #[error("the source cannot be used with these settings")]
    Settings(#[source] source::Error),
    /// The source follows another chain than the index holds. Nothing was changed.
    #[error(
        "the index holds the chain with genesis {ours}, the source follows the one with genesis {theirs}; \
         use the folder of that chain, or a source of this one"
    )]
    WrongChain {
        /// The first block of the index.
        ours: BlockHash,
        /// The first block of the source.
        theirs: BlockHash,
    },
    /// Counting outputs gave other tree sizes than the source reports: one of the two reads blocks wrongly.
    #[error(
        "the note commitment trees after block {block} hold {counted:?} by the blocks and {reported:?} by the source"
    )]
    TreeSizes {
        /// Where they were compared.
        block: BlockId,
        /// What the blocks add up to.
        counted: TreeSizes,
        /// What the source says.
        reported: TreeSizes,
    },
    /// The system gives no more threads.
    #[error("cannot start a worker thread")]
    Thread(#[source] io::Error),
}

/// Why a block was not taken. It is asked for again, since the branch may have switched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The bytes are no block.
    #[error("block {height} cannot be read: {error}")]
    Unreadable { height: Height, error: parse::Error },
    /// Not the height that was due.
    #[error("the source gave block {found} instead of block {expected}")]
    Order { expected: Height, found: Height },
    /// The parent is not the block below.
    #[error("block {height} names {found} as its parent, and the block below is {expected}")]
    Link {
        height: Height,
        expected: BlockHash,
        found: BlockHash,
    },
    /// The block at height 0 is not the one the index begins with.
    #[error("block 0 is {found} instead of {expected}")]
    Genesis {
        expected: BlockHash,
        found: BlockHash,
    },
    /// Asked for by hash, another block came.
    #[error("asked for block {expected}, the source gave {found}")]
    Hash { expected: BlockId, found: BlockHash },
    /// More than 2^32 notes in a tree.
    #[error("block {height} overflows a note commitment tree")]
    Overflow { height: Height },
    /// The source ended a range early without an error.
    #[error("the source gave no block {missing} of the range {range}")]
    Missing { missing: Height, range: HeightRange },
}

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The run is to end.
    Stopped,
    /// The source answered with an error.
    Source(source::Error),
    /// The source answered, and nothing can be built on the answer.
    Unusable(String),
    /// The source gave a block that is not taken.
    Refused(Refusal),
    /// The disk is full, or a quota is: what is stored can be read, and room may be made.
    Full(index::Error),
    /// The run cannot go on.
    Fatal(Error),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Trouble {
        Trouble::Refused(refusal)
    }
}

impl From<index::Error> for Trouble {
    fn from(error: index::Error) -> Trouble {
        match &error {
            // A sync that failed may have lost what was written before; only a write that failed is known to have added nothing.
            index::Error::Io {
                operation, source, ..
            } if *operation != "sync" && is_full(source) => Trouble::Full(error),
            _ => Trouble::Fatal(Error::Index(error)),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Fatal(error)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
