//! Blocks from a file, for tests, demonstrations and replays of a chain without a node.
//!
//! In: one file of consecutive blocks from genesis on, in one of two forms told apart by their first bytes. Out: a
//! [`BlockSource`](crate::BlockSource) whose chain never changes. Proof of work and merkle roots are left to the node the
//! blocks came from.
//!
//! - **Lines**: each line the hexadecimal text of one block, as `getblock "…" 0` prints it; either case. Empty lines and lines
//!   that begin with `#` are passed over.
//! - **Records**: length `[4]`, little-endian, then that many bytes of one block; again to the end.
//!
//! # Invariants
//!
//! The whole file is read once when it is opened: every block parses, and names the one before it as its parent. What is lent
//! later hashes to what was seen then, or is an error.

mod read;
mod source;

pub use source::FileSource;
