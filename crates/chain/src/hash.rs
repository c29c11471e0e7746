//! Hashes that name blocks and transactions.
//!
//! Kept in internal order, as they are hashed and serialized; only [`fmt::Display`] and [`std::str::FromStr`] reverse them, for that is how
//! explorers and JSON-RPC write them.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};

use crate::Height;

/// Text that is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hexadecimal digits")]
pub struct HexError;

macro_rules! hash_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// From `[32]` in internal order.
            pub const fn from_internal(bytes: [u8; 32]) -> $name {
                $name(bytes)
            }

            /// `[32]` in internal order.
            pub const fn as_internal(&self) -> &[u8; 32] {
                &self.0
            }

            /// `[32]` byte-reversed: the order in which explorers and JSON-RPC write it.
            pub fn to_display_order(self) -> [u8; 32] {
                let mut bytes = self.0;
                bytes.reverse();
                bytes
            }

            /// From `[32]` in display order.
            pub fn from_display_order(mut bytes: [u8; 32]) -> $name {
                bytes.reverse();
                $name(bytes)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&const_hex::encode(self.to_display_order()))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = HexError;

            /// From 64 hexadecimal digits in display order, without a prefix.
            fn from_str(text: &str) -> Result<$name, HexError> {
                if text.len() != 64 {
                    return Err(HexError);
                }
                let mut bytes = [0; 32];
                const_hex::decode_to_slice(text, &mut bytes).map_err(|_| HexError)?;
                Ok($name::from_display_order(bytes))
            }
        }
    };
}

hash_type! {
    /// A block's name: SHA-256d of its header, solution included. `[32]`, internal order.
    ///
    /// Spec: protocol §7.6 "Block Header Encoding and Consensus".
    BlockHash
}

hash_type! {
    /// A transaction's name. `[32]`, internal order.
    ///
    /// Spec: protocol §7.1.1 "Transaction Identifiers"; ZIP 244 "TxId Digest".
    TxId
}

impl BlockHash {
    /// What the genesis block names as its parent.
    pub const ZERO: BlockHash = BlockHash([0; 32]);
}

/// A block: where, and which one there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockId {
    /// Distance from genesis.
    pub height: Height,
    /// Name; two blocks of one height differ in it.
    pub hash: BlockHash,
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.height, self.hash)
    }
}

/// SHA-256 of the SHA-256, `[32]`.
pub(crate) fn sha256d(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(Sha256::digest(bytes)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_is_reversed() {
        let text = "0000000000569becaac78b6bfb58ffc516922e64dff8c24da1599f2cfa6fe174";
        let hash: BlockHash = text.parse().unwrap();
        assert_eq!(
            hash.as_internal()[..8],
            [0x74, 0xe1, 0x6f, 0xfa, 0x2c, 0x9f, 0x59, 0xa1]
        );
        assert_eq!(hash.to_string(), text);
    }

    #[test]
    fn a_prefix_or_a_short_text_is_no_hash() {
        assert_eq!("0x".parse::<TxId>(), Err(HexError));
        assert_eq!(
            format!("0x{}", "0".repeat(62)).parse::<TxId>(),
            Err(HexError)
        );
        assert_eq!("0".repeat(63).parse::<TxId>(), Err(HexError));
        assert_eq!("g".repeat(64).parse::<TxId>(), Err(HexError));
    }
}
