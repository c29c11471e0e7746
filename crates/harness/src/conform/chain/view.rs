//! What each block method shows of a block.
//!
//! In: a block with everything. Out: the message that a wallet is to get. Messages are pruned field by field, the slow and plain way.

use crate::proto::{ChainMetadata, CompactBlock, CompactTx};

/// The pools a wallet asks for, by their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pools {
    bits: u8,
}

impl Pools {
    /// Transparent, Sapling, Orchard and Ironwood: the numbers 1 to 4.
    pub const NUMBERS: [i32; 4] = [1, 2, 3, 4];
    /// The shielded ones.
    pub const SHIELDED: Pools = Pools { bits: 0b1110 };

    /// The subset whose members are the bits of `bits`, transparent lowest.
    pub fn from_bits(bits: u8) -> Pools {
        Pools {
            bits: bits & 0b1111,
        }
    }

    /// Their numbers.
    pub fn numbers(self) -> Vec<i32> {
        Pools::NUMBERS
            .into_iter()
            .filter(|&number| self.has(number))
            .collect()
    }

    /// What a list of them means: none means the shielded ones.
    pub fn meant(self) -> Pools {
        if self.bits == 0 {
            Pools::SHIELDED
        } else {
            self
        }
    }

    /// Without the transparent one.
    pub fn shielded(self) -> Pools {
        Pools {
            bits: self.bits & 0b1110,
        }
    }

    fn has(self, number: i32) -> bool {
        self.bits >> (number - 1) & 1 == 1
    }
}

/// `transaction` with `pools` only; `None` when nothing is left of it.
pub fn filtered(transaction: &CompactTx, pools: Pools) -> Option<CompactTx> {
    let mut kept = transaction.clone();
    if !pools.has(1) {
        kept.vin.clear();
        kept.vout.clear();
    }
    if !pools.has(2) {
        kept.spends.clear();
        kept.outputs.clear();
    }
    if !pools.has(3) {
        kept.actions.clear();
    }
    if !pools.has(4) {
        kept.ironwood_actions.clear();
    }
    let empty = kept.vin.is_empty()
        && kept.vout.is_empty()
        && kept.spends.is_empty()
        && kept.outputs.is_empty()
        && kept.actions.is_empty()
        && kept.ironwood_actions.is_empty();
    (!empty).then_some(kept)
}

/// `block` as a range of `pools` has it.
pub fn ranged(block: &CompactBlock, pools: Pools) -> CompactBlock {
    CompactBlock {
        vtx: block
            .vtx
            .iter()
            .filter_map(|transaction| filtered(transaction, pools))
            .collect(),
        ..block.clone()
    }
}

/// `block` with nothing but what is needed to find spent notes.
pub fn nullifiers(mut block: CompactBlock) -> CompactBlock {
    for transaction in &mut block.vtx {
        transaction.vin.clear();
        transaction.vout.clear();
        transaction.outputs.clear();
        let actions = transaction.actions.iter_mut();
        for action in actions.chain(&mut transaction.ironwood_actions) {
            action.cmx.clear();
            action.ephemeral_key.clear();
            action.ciphertext.clear();
        }
    }
    block.chain_metadata = Some(ChainMetadata::default());
    block
}
