//! Why bytes are not what they were said to be.

/// Why bytes could not be read as a header, a transaction or a block.
///
/// Offsets count from the first byte given; for a block in pieces, from where that byte would lie in the whole serialization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes end inside an element.
    #[error("at byte {offset}: expected {expected} of {needed} bytes, found {left}")]
    Truncated {
        /// Where the element begins.
        offset: usize,
        /// The element.
        expected: &'static str,
        /// Its size in bytes, as far as it was known.
        needed: u64,
        /// How many bytes are left.
        left: usize,
    },
    /// More elements are announced than the bytes left can hold.
    #[error("at byte {offset}: {count} {expected} announced, {left} bytes left")]
    Count {
        /// Where the count begins.
        offset: usize,
        /// The elements.
        expected: &'static str,
        /// How many were announced.
        count: u64,
        /// How many bytes are left after the count.
        left: usize,
    },
    /// A CompactSize takes more bytes than its number needs; nodes refuse such a transaction.
    #[error("at byte {offset}: {expected} is {value} in a longer form than needed")]
    NonCanonicalSize {
        /// Where the CompactSize begins.
        offset: usize,
        /// What it counts.
        expected: &'static str,
        /// The number it spells.
        value: u64,
    },
    /// A transaction version that is not known here: a network upgrade newer than this program, or no transaction at all.
    #[error(
        "at byte {offset}: unknown transaction version {version} (header {header:#010x}, version group {group:#010x})"
    )]
    UnknownVersion {
        /// Where the transaction begins.
        offset: usize,
        /// The version without the overwintered flag.
        version: u32,
        /// The header word, flag included.
        header: u32,
        /// The version group id; 0 where the format has none.
        group: u32,
    },
    /// Bytes are left over behind the last element.
    #[error("at byte {offset}: expected the end, found {left} more bytes")]
    Trailing {
        /// Where the end should be.
        offset: usize,
        /// How many bytes follow.
        left: usize,
    },
    /// More bytes than the size of a block is counted in (32 bits).
    #[error("a block of {size} bytes is too large")]
    TooLarge {
        /// The size in bytes.
        size: u64,
    },
    /// The transactions are not the ones the header commits to: the header of one block with the transactions of another, or bytes
    /// that were changed on the way.
    #[error("the transactions do not add up to the merkle root of the header")]
    MerkleRoot,
}
