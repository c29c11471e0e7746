//! [NU5 onwards] Bundles of actions: Orchard's, and from NU6.3 on Ironwood's in the same shape.
//!
//! Spec: protocol §7.5 "Action Description Encoding and Consensus"; ZIP 225; ZIP 229.

use super::{Result, header::field_ref, reader::Reader};

/// cv 32, nullifier 32, rk 32, cmx 32, ephemeral key 32, ciphertext 580, outgoing ciphertext 80.
pub(super) const ACTION_BYTES: usize = 820;
const SIGNATURE_BYTES: usize = 64;

/// A view of one action.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a>(&'a [u8; ACTION_BYTES]);

impl<'a> Action<'a> {
    /// Value commitment, `[32]`.
    pub fn cv(&self) -> &'a [u8; 32] {
        field_ref::<0, 32, ACTION_BYTES>(self.0)
    }

    /// `[32]`
    #[inline]
    pub fn nullifier(&self) -> &'a [u8; 32] {
        field_ref::<32, 32, ACTION_BYTES>(self.0)
    }

    /// Randomized validating key, `[32]`.
    pub fn rk(&self) -> &'a [u8; 32] {
        field_ref::<64, 32, ACTION_BYTES>(self.0)
    }

    /// Note commitment, `[32]`.
    pub fn cmx(&self) -> &'a [u8; 32] {
        field_ref::<96, 32, ACTION_BYTES>(self.0)
    }

    /// `[32]`
    pub fn ephemeral_key(&self) -> &'a [u8; 32] {
        field_ref::<128, 32, ACTION_BYTES>(self.0)
    }

    /// The note's ciphertext, `[580]`.
    pub fn ciphertext(&self) -> &'a [u8; 580] {
        field_ref::<160, 580, ACTION_BYTES>(self.0)
    }

    /// cmx `[32]`, ephemeral key `[32]` and the first `[52 of 580]` of the ciphertext, as they lie side by side.
    #[inline]
    pub fn compact(&self) -> &'a [u8; 116] {
        field_ref::<96, 116, ACTION_BYTES>(self.0)
    }

    pub(super) fn bytes(&self) -> &'a [u8; ACTION_BYTES] {
        self.0
    }
}

/// The actions of a bundle, in order.
#[derive(Clone, Copy, Debug)]
pub struct Actions<'a>(pub(super) &'a [[u8; ACTION_BYTES]]);

impl<'a> Iterator for Actions<'a> {
    type Item = Action<'a>;

    #[inline]
    fn next(&mut self) -> Option<Action<'a>> {
        self.0.split_off_first().map(Action)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl ExactSizeIterator for Actions<'_> {}

/// A view of one bundle of actions; of none, where a transaction has no such bundle.
#[derive(Clone, Copy, Debug, Default)]
pub struct ActionBundle<'a> {
    actions: &'a [[u8; ACTION_BYTES]],
    /// flags 1, value balance 8, anchor 32; absent without actions.
    effects: Option<&'a [u8; 41]>,
}

impl<'a> ActionBundle<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        expected: &'static str,
    ) -> Result<ActionBundle<'a>> {
        let count = reader.count(ACTION_BYTES, expected)?;
        let actions = elements(reader, count, expected)?;
        if count == 0 {
            return Ok(ActionBundle::default());
        }
        let effects = reader.array("flags, value balance and anchor")?;
        reader.sized("action proofs")?;
        reader.take(count * SIGNATURE_BYTES, "action signatures")?;
        reader.take(SIGNATURE_BYTES, "binding signature")?;
        Ok(ActionBundle {
            actions,
            effects: Some(effects),
        })
    }

    /// The actions, in order.
    pub fn actions(&self) -> Actions<'a> {
        Actions(self.actions)
    }

    /// flags `[1]`, value balance `[8]` and anchor `[32]` as serialized; `None` without actions.
    pub(super) fn effects(&self) -> Option<&'a [u8; 41]> {
        self.effects
    }
}

/// The next `count` elements of `N` bytes each; `count` has been held against what is left.
pub(super) fn elements<'a, const N: usize>(
    reader: &mut Reader<'a>,
    count: usize,
    expected: &'static str,
) -> Result<&'a [[u8; N]]> {
    // Cannot overflow: `count` elements of at least N bytes fit in memory, or `Reader::count` would have refused them.
    let bytes = reader.take(count * N, expected)?;
    Ok(bytes.as_chunks::<N>().0)
}
