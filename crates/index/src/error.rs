//! Why the index could not do what was asked.

use std::{io, path::PathBuf};

use lightship_chain::{BlockHash, BlockId, Height};

/// The result of everything in this room.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the index could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk failed. If it failed a write, nothing more is written until the store is opened again.
    #[error("{operation} {path}", path = path.display())]
    Io {
        /// What was tried: `write`, `sync`, `rename`, ….
        operation: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk answered, with bytes that were never written or have rotted.
    #[error("{path} at byte {offset}: expected {expected}, found {found}", path = path.display())]
    Corrupt {
        /// The file that lies.
        path: PathBuf,
        /// Where the wrong bytes begin.
        offset: u64,
        /// What should be there.
        expected: String,
        /// What is.
        found: String,
    },
    /// The blocks on offer do not continue the chain that is stored.
    #[error(
        "block {height} names {previous} as its parent and does not follow {}",
        tip_text(tip)
    )]
    Gap {
        /// The block on offer.
        height: Height,
        /// Its parent.
        previous: BlockHash,
        /// What it would have had to follow.
        tip: Option<BlockId>,
    },
    /// A range of blocks that cannot be sealed as it is.
    #[error("range from {first}: {why}")]
    Range {
        /// The first height of the range.
        first: Height,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A block too large for the format: a frame or companion of 4 GiB, or not a frame at all.
    #[error("block {height}: {why}")]
    Block {
        /// The block on offer.
        height: Height,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Another process writes to this store.
    #[error(
        "{path} is locked: another process writes to this store; stop it, or give this one a folder of its own",
        path = path.display()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The folder holds something else than the store asked for.
    #[error("{path} holds {found}, not {expected}; name another folder, or move this one away", path = path.display())]
    Foreign {
        /// The folder or file.
        path: PathBuf,
        /// What is there.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// The store was written in a format that this program does not read.
    #[error(
        "{path} is written in format {found}, this program reads format {supported}; use the program that wrote it, or build the index anew in another folder",
        path = path.display()
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// The version in it.
        found: u32,
        /// The version this program reads and writes.
        supported: u32,
    },
    /// There is no store to read; only a writer makes one.
    #[error("{path} holds no index; start the program that builds it first", path = path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// An earlier write failed, so what is on disk is unknown until it is read again.
    ///
    /// After a failed sync the system may have dropped the very bytes it could not write and answer the next sync with success
    /// (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
    #[error("an earlier write to the index failed; open it again")]
    Poisoned,
}

fn tip_text(tip: &Option<BlockId>) -> String {
    match tip {
        Some(tip) => format!("block {tip}"),
        None => "an empty index, which begins with its genesis block".to_owned(),
    }
}

impl Error {
    pub(crate) fn corrupt(path: &std::path::Path, wrong: crate::format::Wrong) -> Error {
        Error::Corrupt {
            path: path.to_owned(),
            offset: wrong.offset,
            expected: wrong.expected,
            found: wrong.found,
        }
    }
}
