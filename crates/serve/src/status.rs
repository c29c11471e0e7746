//! The one table from what can go wrong to what a wallet is told.
//!
//! In: a [`Refusal`], made where the trouble is found. Out: a gRPC code and a message. No handler builds a status of its own.
//! `docs/status-codes.md` shows the same table to people, and a test holds the two together.
//!
//! # Invariants
//!
//! Trouble that passes is never `INTERNAL` or `UNKNOWN` (wallets take those for a broken server and leave), and a mistake of
//! the wallet is never a code that wallets retry. Messages name neither the node's address nor a path of this machine.

use http::HeaderMap;
use lightship_chain::Height;
use tonic::{Code, Status};

/// Why a call is not answered, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A field that has no sensible default was not set.
    #[error("{field} is missing")]
    Missing {
        /// Its name in the `.proto` file.
        field: &'static str,
    },
    /// A hash or id that is not 32 bytes long.
    #[error("{field} must be 32 bytes, not {found}")]
    HashLength {
        /// Its name in the `.proto` file.
        field: &'static str,
        /// Its length in bytes.
        found: usize,
    },
    /// A height that no chain reaches.
    #[error("height {height} is above 2147483647")]
    HeightTooLarge {
        /// What was asked.
        height: u64,
    },
    /// Height 0 without a hash: cannot be told from a request that was never filled in.
    #[error("neither hash nor a height above 0 is set; genesis is in GetBlockRange from 0 to 0")]
    EmptyBlockId,
    /// A range end that names a hash but no height.
    #[error("{field} names a hash and no height; ranges go by height")]
    RangeByHash {
        /// `start` or `end`.
        field: &'static str,
    },
    /// A range that begins above its end, where that means nothing.
    #[error("the range starts at {start}, above its end {end}")]
    RangeReversed {
        /// Its first height.
        start: Height,
        /// Its last height.
        end: Height,
    },
    /// `POOL_TYPE_INVALID` or a number that is no pool.
    #[error("poolTypes holds {value}, which is no pool")]
    UnknownPool {
        /// The number.
        value: i32,
    },
    /// A number that is no shielded pool.
    #[error("shieldedProtocol {value} is no shielded pool")]
    UnknownShieldedPool {
        /// The number.
        value: i32,
    },
    /// A subtree index that no tree reaches.
    #[error("startIndex {start} is above 65535")]
    SubtreeIndex {
        /// What was asked.
        start: u32,
    },
    /// Not a transparent address of this network.
    #[error("not a transparent address of this network: {problem}")]
    Address {
        /// What is wrong with it; never the address itself.
        problem: &'static str,
    },
    /// More entries than one request may hold.
    #[error("{field} holds more than {limit} entries")]
    TooManyEntries {
        /// Its name in the `.proto` file.
        field: &'static str,
        /// The bound.
        limit: usize,
    },
    /// An exclude suffix longer than a transaction id.
    #[error("a suffix of {found} bytes is longer than a transaction id")]
    SuffixLength {
        /// Its length in bytes.
        found: usize,
    },
    /// A transaction larger than a block.
    #[error("a transaction of {found} bytes is larger than {limit} bytes")]
    TransactionTooLarge {
        /// Its length in bytes.
        found: usize,
        /// The bound.
        limit: usize,
    },
    /// A ping that sleeps for a negative time or too long.
    #[error("intervalUs must lie between 0 and {limit_us}")]
    PingInterval {
        /// The bound, in microseconds.
        limit_us: i64,
    },
    /// The request's bytes are not the message the method takes.
    #[error("the request does not decode: {what}")]
    Malformed {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A request message longer than is read.
    #[error("the request is longer than {limit} bytes")]
    RequestTooLarge {
        /// The bound.
        limit: usize,
    },
    /// A height that is valid and not reached yet.
    #[error("height {height} is above the tip, {tip}")]
    AboveTip {
        /// The lowest height asked that cannot be served.
        height: Height,
        /// The served tip's height.
        tip: Height,
    },
    /// No block of the best chain has that hash.
    #[error("no block of the best chain has this hash")]
    BlockNotFound,
    /// Neither mined nor waiting to be.
    #[error("Transaction not found: neither in the best chain nor in the mempool")]
    TransactionNotFound,
    /// The best chain changed under the call.
    #[error("the best chain changed during the call; begin again from a fresh tip")]
    Replaced,
    /// Nothing is indexed and the node's tip is not known yet.
    #[error("no block can be served yet; try again soon")]
    NotReady,
    /// The node does not answer, or not sensibly.
    #[error("the node behind this server does not answer; try again soon")]
    NodeAway,
    /// The server is stopping.
    #[error("the server is stopping; try again soon")]
    Stopping,
    /// Too many long answers at once.
    #[error("too many streams are open {whose}; try again soon")]
    TooManyStreams {
        /// `on this server`, `on this connection` or `from this network`.
        whose: &'static str,
    },
    /// Too many calls that wait at once.
    #[error("too many calls wait at this server; try again soon")]
    TooManyCalls,
    /// Requests and answers hold all the memory they may.
    #[error(
        "clients have not taken what this server sends them, and no memory is left for more; try again soon"
    )]
    TooMuchHeld,
    /// The request did not come.
    #[error("the request did not come within {seconds} s")]
    RequestLate {
        /// The bound.
        seconds: u64,
    },
    /// An answer longer than clients receive.
    #[error("the answer would be longer than {limit} bytes: set {remedy}")]
    AnswerTooLarge {
        /// The bound.
        limit: usize,
        /// What the wallet can do.
        remedy: &'static str,
    },
    /// The wallet's own deadline has passed.
    #[error("the deadline of the call has passed")]
    DeadlineExceeded,
    /// A method that is switched off here, or that the node cannot answer.
    #[error("{what} is not offered by this server")]
    NotOffered {
        /// The method or the feature.
        what: &'static str,
    },
    /// What is stored is damaged, or a fault of the program.
    #[error("the server cannot read what it has stored; its operator must look")]
    Damaged,
    /// The node's bytes are not a block this program can read.
    #[error("block {height} cannot be read by this version of the server")]
    Unreadable {
        /// Which block.
        height: Height,
    },
}

impl Refusal {
    /// The gRPC code.
    pub fn code(&self) -> Code {
        match self {
            Refusal::Missing { .. }
            | Refusal::HashLength { .. }
            | Refusal::HeightTooLarge { .. }
            | Refusal::EmptyBlockId
            | Refusal::RangeByHash { .. }
            | Refusal::RangeReversed { .. }
            | Refusal::UnknownPool { .. }
            | Refusal::UnknownShieldedPool { .. }
            | Refusal::SubtreeIndex { .. }
            | Refusal::Address { .. }
            | Refusal::TooManyEntries { .. }
            | Refusal::SuffixLength { .. }
            | Refusal::TransactionTooLarge { .. }
            | Refusal::PingInterval { .. }
            | Refusal::Malformed { .. } => Code::InvalidArgument,
            Refusal::RequestTooLarge { .. } | Refusal::AboveTip { .. } => Code::OutOfRange,
            Refusal::BlockNotFound | Refusal::TransactionNotFound => Code::NotFound,
            Refusal::Replaced => Code::Aborted,
            Refusal::NotReady | Refusal::NodeAway | Refusal::Stopping => Code::Unavailable,
            Refusal::TooManyStreams { .. }
            | Refusal::TooManyCalls
            | Refusal::TooMuchHeld
            | Refusal::AnswerTooLarge { .. } => Code::ResourceExhausted,
            Refusal::DeadlineExceeded | Refusal::RequestLate { .. } => Code::DeadlineExceeded,
            Refusal::NotOffered { .. } => Code::Unimplemented,
            Refusal::Damaged | Refusal::Unreadable { .. } => Code::Internal,
        }
    }

    /// The trailers that end an answer with this refusal.
    pub(crate) fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(2);
        Status::from(self)
            .add_header(&mut trailers)
            .expect("codes are numbers, and messages are percent-encoded");
        trailers
    }
}

/// The trailers that end an answer well.
pub(crate) fn ok_trailers() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, http::HeaderValue::from_static("0"));
    trailers
}

/// The trailer, or header, that carries the code.
pub(crate) const GRPC_STATUS: &str = "grpc-status";

impl From<&Refusal> for Status {
    fn from(refusal: &Refusal) -> Status {
        Status::new(refusal.code(), refusal.to_string())
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        Status::from(&refusal)
    }
}

impl From<lightship_source::Error> for Refusal {
    /// The node's trouble in the wallet's terms: the node's own words may name addresses and paths, so they go to the log.
    fn from(error: lightship_source::Error) -> Refusal {
        use lightship_source::Error;
        tracing::debug!(%error, "a question to the node failed");
        match error {
            Error::Unsupported { .. } => Refusal::NotOffered {
                what: "what this node cannot answer",
            },
            Error::TooLarge { .. } => {
                // Nothing that the wallet did. Where it could ask for less, `narrower` says so.
                tracing::warn!(%error, "the node gave an answer that is not read");
                Refusal::NodeAway
            }
            _ => Refusal::NodeAway,
        }
    }
}

/// As [`Refusal::from`], for questions whose answer is as long as the wallet's bounds make it.
pub(crate) fn narrower(error: lightship_source::Error) -> Refusal {
    match error {
        lightship_source::Error::TooLarge { limit_bytes, .. } => Refusal::AnswerTooLarge {
            limit: limit_bytes,
            remedy: "narrower bounds",
        },
        error => error.into(),
    }
}

impl From<lightship_index::Error> for Refusal {
    fn from(error: lightship_index::Error) -> Refusal {
        tracing::error!(%error, "the index cannot be read");
        Refusal::Damaged
    }
}

impl From<lightship_chain::compact::project::Malformed> for Refusal {
    fn from(error: lightship_chain::compact::project::Malformed) -> Refusal {
        tracing::error!(%error, "a stored block does not decode");
        Refusal::Damaged
    }
}

impl From<lightship_chain::HeightOutOfRange> for Refusal {
    fn from(error: lightship_chain::HeightOutOfRange) -> Refusal {
        Refusal::HeightTooLarge { height: error.0 }
    }
}

#[cfg(test)]
mod tests;
