//! The bytes of a store: encoding and decoding, no files.
//!
//! In: values, or bytes of which nothing is believed. Out: bytes, or values; `None` or a [`Wrong`] where the bytes are not what this
//! program writes. Everything is little-endian; the drawings and examples are in `docs/format.md`, and a test decodes those examples.

#![deny(clippy::indexing_slicing)]

pub(crate) mod columns;
pub(crate) mod manifest;
pub(crate) mod record;
pub(crate) mod trees;

use lightship_chain::TreeSizes;

/// The version of everything in the store; a change to any structure raises it.
pub(crate) const VERSION: u32 = 1;

/// BLAKE2b-256 without key or personalisation, as `b2sum -l 256` prints it.
pub(crate) type Digest = [u8; 32];

/// Where bytes are not what they should be, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) offset: u64,
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl Wrong {
    pub(crate) fn new(offset: u64, expected: impl Into<String>, found: impl Into<String>) -> Wrong {
        Wrong {
            offset,
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(crate) fn checksum(offset: u64, expected: u32, found: u32) -> Wrong {
        Wrong::new(
            offset,
            format!("bytes with checksum {expected:08x}"),
            format!("{found:08x}"),
        )
    }
}

/// Takes numbers and arrays off the front of a slice; `None` once it is too short.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn sizes(&mut self) -> Option<TreeSizes> {
        Some(TreeSizes {
            sapling: self.u32()?,
            orchard: self.u32()?,
            ironwood: self.u32()?,
        })
    }
}

/// `[12]`: the three sizes, oldest pool first.
pub(crate) fn put_sizes(out: &mut Vec<u8>, sizes: TreeSizes) {
    out.extend(sizes.sapling.to_le_bytes());
    out.extend(sizes.orchard.to_le_bytes());
    out.extend(sizes.ironwood.to_le_bytes());
}

/// `[32]` of all of `bytes`.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    let mut state = digester();
    state.update(bytes);
    finish(&state)
}

pub(crate) fn digester() -> blake2b_simd::State {
    blake2b_simd::Params::new().hash_length(32).to_state()
}

pub(crate) fn finish(state: &blake2b_simd::State) -> Digest {
    let hash = state.finalize();
    *hash
        .as_bytes()
        .first_chunk()
        .expect("the hash was asked for with 32 bytes")
}

/// The digits of a digest.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[allow(
    clippy::indexing_slicing,
    reason = "a test that reads past the end fails, as it should"
)]
mod tests;
