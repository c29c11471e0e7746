//! [Sapling onwards] Spends and outputs.
//!
//! Version 4 keeps proofs and signatures inside each element, version 5 behind all of them; what the views give is in both at the
//! same place within the element, save the anchor that version 4 has before the nullifier.
//!
//! Spec: protocol §7.3 "Spend Description Encoding", §7.4 "Output Description Encoding".

use super::header::field_ref;

/// cv 32, anchor 32, nullifier 32, rk 32, proof 192, signature 64.
pub(super) const SPEND_V4_BYTES: usize = 384;
/// cv 32, nullifier 32, rk 32.
pub(super) const SPEND_V5_BYTES: usize = 96;
/// cv 32, cmu 32, ephemeral key 32, ciphertext 580, outgoing ciphertext 80, proof 192.
pub(super) const OUTPUT_V4_BYTES: usize = 948;
/// As version 4 without the proof.
pub(super) const OUTPUT_V5_BYTES: usize = 756;

/// A view of one Sapling spend.
#[derive(Clone, Copy, Debug)]
pub enum SaplingSpend<'a> {
    /// Version 4: `[384]`.
    V4(&'a [u8; SPEND_V4_BYTES]),
    /// Version 5 onwards: `[96]`.
    V5(&'a [u8; SPEND_V5_BYTES]),
}

impl<'a> SaplingSpend<'a> {
    /// `[32]`
    #[inline]
    pub fn nullifier(&self) -> &'a [u8; 32] {
        match self {
            SaplingSpend::V4(bytes) => field_ref::<64, 32, SPEND_V4_BYTES>(bytes),
            SaplingSpend::V5(bytes) => field_ref::<32, 32, SPEND_V5_BYTES>(bytes),
        }
    }
}

/// A view of one Sapling output: what versions 4 and 5 share.
#[derive(Clone, Copy, Debug)]
pub struct SaplingOutput<'a>(&'a [u8; OUTPUT_V5_BYTES]);

impl<'a> SaplingOutput<'a> {
    /// Value commitment, `[32]`.
    pub fn cv(&self) -> &'a [u8; 32] {
        field_ref::<0, 32, OUTPUT_V5_BYTES>(self.0)
    }

    /// Note commitment, `[32]`.
    pub fn cmu(&self) -> &'a [u8; 32] {
        field_ref::<32, 32, OUTPUT_V5_BYTES>(self.0)
    }

    /// `[32]`
    pub fn ephemeral_key(&self) -> &'a [u8; 32] {
        field_ref::<64, 32, OUTPUT_V5_BYTES>(self.0)
    }

    /// The note's ciphertext, `[580]`.
    pub fn ciphertext(&self) -> &'a [u8; 580] {
        field_ref::<96, 580, OUTPUT_V5_BYTES>(self.0)
    }

    /// cmu `[32]`, ephemeral key `[32]` and the first `[52 of 580]` of the ciphertext, as they lie side by side.
    #[inline]
    pub fn compact(&self) -> &'a [u8; 116] {
        field_ref::<32, 116, OUTPUT_V5_BYTES>(self.0)
    }

    pub(super) fn bytes(&self) -> &'a [u8; OUTPUT_V5_BYTES] {
        self.0
    }
}

/// The Sapling spends of a transaction, in order.
#[derive(Clone, Copy, Debug)]
pub enum SaplingSpends<'a> {
    /// Version 4.
    V4(&'a [[u8; SPEND_V4_BYTES]]),
    /// Version 5 onwards; empty in versions without Sapling.
    V5(&'a [[u8; SPEND_V5_BYTES]]),
}

impl<'a> Iterator for SaplingSpends<'a> {
    type Item = SaplingSpend<'a>;

    #[inline]
    fn next(&mut self) -> Option<SaplingSpend<'a>> {
        match self {
            SaplingSpends::V4(rest) => rest.split_off_first().map(SaplingSpend::V4),
            SaplingSpends::V5(rest) => rest.split_off_first().map(SaplingSpend::V5),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match self {
            SaplingSpends::V4(rest) => rest.len(),
            SaplingSpends::V5(rest) => rest.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for SaplingSpends<'_> {}

/// The Sapling outputs of a transaction, in order.
#[derive(Clone, Copy, Debug)]
pub enum SaplingOutputs<'a> {
    /// Version 4.
    V4(&'a [[u8; OUTPUT_V4_BYTES]]),
    /// Version 5 onwards; empty in versions without Sapling.
    V5(&'a [[u8; OUTPUT_V5_BYTES]]),
}

impl<'a> Iterator for SaplingOutputs<'a> {
    type Item = SaplingOutput<'a>;

    #[inline]
    fn next(&mut self) -> Option<SaplingOutput<'a>> {
        match self {
            SaplingOutputs::V4(rest) => rest.split_off_first().map(|output| {
                SaplingOutput(field_ref::<0, OUTPUT_V5_BYTES, OUTPUT_V4_BYTES>(output))
            }),
            SaplingOutputs::V5(rest) => rest.split_off_first().map(SaplingOutput),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match self {
            SaplingOutputs::V4(rest) => rest.len(),
            SaplingOutputs::V5(rest) => rest.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for SaplingOutputs<'_> {}
