//! The root over a block's transaction ids.

use crate::{TxId, hash::sha256d};

/// The root that a block's header names: SHA-256d of pairs, the last id doubled where a level is odd. `[32]`, internal order.
/// Zeros for no ids.
///
/// Spec: protocol §7.6 `hashMerkleRoot`.
pub fn merkle_root(ids: &[TxId]) -> [u8; 32] {
    let mut level: Vec<[u8; 32]> = ids.iter().map(|id| *id.as_internal()).collect();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| match pair {
                [left, right] => parent(left, right),
                [single] => parent(single, single),
                _ => unreachable!("chunks of two hold one or two"),
            })
            .collect();
    }
    level.first().copied().unwrap_or_default()
}

fn parent(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let mut both = [0; 64];
    let (first, second) = both.split_at_mut(32);
    first.copy_from_slice(left);
    second.copy_from_slice(right);
    sha256d(&both)
}
