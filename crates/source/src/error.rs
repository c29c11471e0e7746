//! Why a source or node could not answer, sorted by who must act.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use lightship_chain::{BlockHash, Height};

/// What every call of this crate gives back.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a source or node could not answer. No variant ever carries a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection, or one that broke before the answer was whole. Transient.
    #[error(
        "cannot reach the node at {node} ({reason}): is it running, and is this its RPC address?"
    )]
    Unreachable {
        /// `host:port`.
        node: String,
        /// The transport's words.
        reason: String,
    },
    /// The node took the question and did not answer in time. Transient.
    #[error("the node at {node} did not answer {method} within {after:?}")]
    Timeout {
        /// `host:port`.
        node: String,
        /// The method asked.
        method: String,
        /// How long was waited.
        after: Duration,
    },
    /// The node is starting: it answered with code -28, or has no block yet. Transient.
    #[error("the node at {node} is still starting: {message}")]
    Warming {
        /// `host:port`.
        node: String,
        /// The node's words.
        message: String,
    },
    /// The node refuses the credentials. Waiting does not help; a new cookie file might.
    #[error("the node at {node} refuses the credentials from {credentials} ({answer})")]
    Unauthorized {
        /// `host:port`.
        node: String,
        /// Where the credentials came from: a path, or `none`; never what they are.
        credentials: String,
        /// What the node did: an HTTP status, or a closed connection.
        answer: String,
    },
    /// The credentials cannot be read. Transient if the file is missing or empty: a node writes its cookie when it starts.
    #[error("cannot read the node's credentials from {path}: {source}")]
    Credentials {
        /// The cookie or password file.
        path: PathBuf,
        /// What the file system said.
        source: Arc<io::Error>,
    },
    /// The node has too much to do: HTTP 429, or a full work queue. Transient.
    #[error("the node at {node} is busy: {message}")]
    Busy {
        /// `host:port`.
        node: String,
        /// The node's words.
        message: String,
    },
    /// The node answered with an HTTP status that is neither success nor a JSON-RPC error. Transient from 500 up.
    #[error("the node at {node} answered {method} with HTTP {status}")]
    Http {
        /// `host:port`.
        node: String,
        /// The method asked.
        method: String,
        /// The status.
        status: u16,
    },
    /// The node answered with a JSON-RPC error that means nothing special here.
    #[error("the node answered {method} with error {code}: {message}")]
    Rpc {
        /// The method asked.
        method: String,
        /// The node's code.
        code: i32,
        /// The node's words.
        message: String,
    },
    /// The node's answer is not of the documented shape, or does not belong to the question. Transient: a cut answer looks so.
    #[error("the node's answer to {method} is not understood: {what}")]
    Shape {
        /// The method asked.
        method: String,
        /// What was expected, and what was found.
        what: String,
    },
    /// The node's answer is larger than is read.
    #[error("the node's answer to {method} is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The method asked.
        method: String,
        /// The bound.
        limit_bytes: usize,
    },
    /// The chain ends below a height that was asked for.
    #[error("the node's chain ends below height {height}")]
    AboveTip {
        /// The lowest height it does not have.
        height: Height,
    },
    /// This node or source cannot answer that at all.
    #[error("{what}")]
    Unsupported {
        /// What is missing, and where it can be had.
        what: String,
    },
    /// The address of the node makes no sense.
    #[error("'{url}' is not the address of a node's RPC: {problem}")]
    Endpoint {
        /// What was given, without any credentials in it.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file of blocks could not be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: Arc<io::Error>,
    },
    /// A file of blocks holds something else.
    #[error("{path}, {place}: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// `line 17`, or `byte 4711`.
        place: String,
        /// What was expected, and what was found.
        problem: String,
    },
    /// A folder does not hold a node's state that can be read, or not the right node's.
    #[error("{path} {problem}")]
    State {
        /// The folder.
        path: PathBuf,
        /// What was found, and what to do.
        problem: String,
    },
    /// A node's database could not be read. Transient: the node may have changed its files in the same moment.
    #[error("the node's state in {path} cannot be read: {reason}")]
    Database {
        /// The folder.
        path: PathBuf,
        /// The database's words.
        reason: String,
    },
    /// A block does not follow the one below it.
    #[error("block {height} names {found} as its parent, and the block below is {expected}")]
    Link {
        /// The upper block's height.
        height: Height,
        /// The lower block.
        expected: BlockHash,
        /// What the upper block names.
        found: BlockHash,
    },
}

impl Error {
    /// Whether the same question may well be answered later, without anyone changing a setting or a file.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Unreachable { .. }
            | Error::Timeout { .. }
            | Error::Warming { .. }
            | Error::Busy { .. }
            | Error::Shape { .. }
            | Error::AboveTip { .. }
            | Error::Database { .. } => true,
            Error::Credentials { source, .. } => is_not_written_yet(source),
            Error::Http { status, .. } => *status >= 500,
            Error::Unauthorized { .. }
            | Error::Rpc { .. }
            | Error::TooLarge { .. }
            | Error::Unsupported { .. }
            | Error::Endpoint { .. }
            | Error::Io { .. }
            | Error::File { .. }
            | Error::State { .. }
            | Error::Link { .. } => false,
        }
    }

    /// Whether the node refuses us, or what we would show it cannot be read: someone must correct a setting or a file.
    pub fn is_credentials(&self) -> bool {
        match self {
            Error::Unauthorized { .. } => true,
            Error::Credentials { source, .. } => !is_not_written_yet(source),
            _ => false,
        }
    }
}

fn is_not_written_yet(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | UnexpectedEof)
}
