//! Block headers.

use super::{Result, reader::Reader};
use crate::{BlockHash, hash::sha256d};

/// A view of one block header. The solution may have any length: 1344 bytes on the public networks, 36 on regtest.
///
/// Spec: protocol §7.6 "Block Header Encoding and Consensus".
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    bytes: &'a [u8],
    fixed: &'a Fixed,
    solution: &'a [u8],
}

/// version 4, previous 32, merkle root 32, commitments 32, time 4, bits 4, nonce 32.
type Fixed = [u8; 140];

impl<'a> Header<'a> {
    /// The header at the start of `bytes`, and how many bytes it takes.
    ///
    /// # Errors
    ///
    /// `Truncated` or `NonCanonicalSize`.
    pub fn parse(bytes: &'a [u8]) -> Result<(Header<'a>, usize)> {
        let mut reader = Reader::new(bytes);
        let header = Header::read(&mut reader)?;
        Ok((header, header.bytes.len()))
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Header<'a>> {
        let start = *reader;
        let fixed = reader.array("block header")?;
        let solution = reader.sized("Equihash solution")?;
        Ok(Header {
            bytes: reader.since(start),
            fixed,
            solution,
        })
    }

    fn array<const AT: usize, const N: usize>(&self) -> [u8; N] {
        field::<AT, N, 140>(self.fixed)
    }

    /// 4 or more; a signed number.
    pub fn version(&self) -> i32 {
        i32::from_le_bytes(self.array::<0, 4>())
    }

    /// The parent; zeros in a genesis block.
    pub fn previous(&self) -> BlockHash {
        BlockHash::from_internal(self.array::<4, 32>())
    }

    /// `[32]`, internal order: the root over the transactions' ids, as [`super::merkle_root`] makes it.
    pub fn merkle_root(&self) -> [u8; 32] {
        self.array::<36, 32>()
    }

    /// `[32]`: reserved, then the final Sapling root, then the history root, then (NU5 onwards) ZIP 244's block commitments.
    pub fn commitments(&self) -> [u8; 32] {
        self.array::<68, 32>()
    }

    /// Seconds since 1970, by the miner's clock.
    pub fn time(&self) -> u32 {
        u32::from_le_bytes(self.array::<100, 4>())
    }

    /// The target in its compact form.
    pub fn bits(&self) -> u32 {
        u32::from_le_bytes(self.array::<104, 4>())
    }

    /// `[32]`
    pub fn nonce(&self) -> [u8; 32] {
        self.array::<108, 32>()
    }

    /// The Equihash solution without its length.
    pub fn solution(&self) -> &'a [u8] {
        self.solution
    }

    /// The block's name. Hashes the whole header.
    pub fn hash(&self) -> BlockHash {
        BlockHash::from_internal(sha256d(self.bytes))
    }

    /// The serialization, solution included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// `N` bytes at `AT` of an element of `M`; checked when compiled.
pub(super) fn field<const AT: usize, const N: usize, const M: usize>(element: &[u8; M]) -> [u8; N] {
    *field_ref::<AT, N, M>(element)
}

/// `N` bytes at `AT` of an element of `M`, borrowed; checked when compiled.
#[inline]
pub(super) fn field_ref<const AT: usize, const N: usize, const M: usize>(
    element: &[u8; M],
) -> &[u8; N] {
    const { assert!(AT + N <= M, "the field lies within its element") };
    element
        .split_at(AT)
        .1
        .first_chunk()
        .expect("the field lies within its element, as asserted when compiled")
}
