//! Keys and values of the tables that are read, as in the table of the [module](super) above.
//!
//! In: heights and hashes, or bytes of the database. Out: keys, or what the bytes mean; `None` for bytes that no Zebra wrote.

use lightship_chain::{Height, ShieldedPool};

pub(super) const HASH_BY_HEIGHT: &str = "hash_by_height";
pub(super) const HEIGHT_BY_HASH: &str = "height_by_hash";
pub(super) const HEADER_BY_HEIGHT: &str = "block_header_by_height";
pub(super) const TRANSACTION_BY_PLACE: &str = "tx_by_loc";
pub(super) const ID_BY_PLACE: &str = "hash_by_tx_loc";

/// Without these, blocks cannot be read.
pub(super) const NEEDED: [&str; 5] = [
    HASH_BY_HEIGHT,
    HEIGHT_BY_HASH,
    HEADER_BY_HEIGHT,
    TRANSACTION_BY_PLACE,
    ID_BY_PLACE,
];

/// The major versions of the state format that have these tables.
pub(super) const MAJORS: std::ops::RangeInclusive<u32> = 26..=29;

/// The table of a pool's trees.
pub(super) fn trees_of(pool: ShieldedPool) -> &'static str {
    match pool {
        ShieldedPool::Sapling => "sapling_note_commitment_tree",
        ShieldedPool::Orchard => "orchard_note_commitment_tree",
        ShieldedPool::Ironwood => "ironwood_note_commitment_tree",
    }
}

/// `H`; `None` if the height does not fit, and so is in no state.
pub(super) fn height_key(height: Height) -> Option<[u8; 3]> {
    match height.get().to_be_bytes() {
        [0, key @ ..] => Some(key),
        _ => None,
    }
}

/// The key behind every `H` and `L` of `height` and below; longer than any, if there is no such height.
pub(super) fn key_above(height: Height) -> Vec<u8> {
    match height.next().and_then(height_key) {
        Some(key) => key.to_vec(),
        None => vec![0xff; 6],
    }
}

/// The height in `H`.
pub(super) fn height(key: &[u8]) -> Option<Height> {
    let [a, b, c] = *key else { return None };
    Height::try_from(u32::from_be_bytes([0, a, b, c])).ok()
}

/// What `L` says: `H`, and the index in the block.
pub(super) fn place(key: &[u8]) -> Option<([u8; 3], u16)> {
    let [a, b, c, i, j] = *key else { return None };
    Some(([a, b, c], u16::from_be_bytes([i, j])))
}

/// A block hash or transaction id, internal order.
pub(super) fn hash(value: &[u8]) -> Option<[u8; 32]> {
    value.try_into().ok()
}

/// How many notes a tree holds.
pub(super) fn tree_size(value: &[u8]) -> Option<u32> {
    let (tag, rest) = value.split_first()?;
    let last: u64 = match tag {
        0 => return Some(0),
        1 => match *rest {
            [small @ ..=250, ..] => small.into(),
            [251, a, b, ..] => u16::from_le_bytes([a, b]).into(),
            [252, a, b, c, d, ..] => u32::from_le_bytes([a, b, c, d]).into(),
            [253, ref number @ ..] => u64::from_le_bytes(*number.first_chunk()?),
            _ => return None,
        },
        _ => return None,
    };
    u32::try_from(last.checked_add(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_big_endian_and_three_bytes_wide() {
        let at = |height| height_key(Height::new(height));
        assert_eq!(at(0), Some([0, 0, 0]));
        assert_eq!(at(0x01_0203), Some([1, 2, 3]));
        assert_eq!(at(0x00ff_ffff), Some([0xff; 3]));
        assert_eq!(at(0x0100_0000), None);
        assert_eq!(height(&[1, 2, 3]), Some(Height::new(0x01_0203)));
        assert_eq!(height(&[1, 2, 3, 4]), None);
        assert_eq!(place(&[1, 2, 3, 4, 5]), Some(([1, 2, 3], 0x0405)));
        assert_eq!(place(&[1, 2, 3]), None);
    }

    #[test]
    fn the_key_above_bounds_every_key_of_a_height() {
        for last in [0, 0xff, 0x00ff_fffe, 0x00ff_ffff] {
            let key = height_key(Height::new(last)).unwrap();
            let above = key_above(Height::new(last));
            let highest_place = [&key[..], &[0xff, 0xff]].concat();
            assert!(above > highest_place && above > key.to_vec(), "{last}");
        }
        assert_eq!(key_above(Height::new(0xff)), [0, 1, 0]);
    }

    #[test]
    fn a_tree_holds_one_note_more_than_the_position_of_its_last() {
        assert_eq!(tree_size(&[0]), Some(0));
        assert_eq!(tree_size(&[0, 1, 7]), Some(0));
        assert_eq!(tree_size(&[1, 0, 9, 9]), Some(1));
        assert_eq!(tree_size(&[1, 250, 0]), Some(251));
        assert_eq!(tree_size(&[1, 251, 0xfb, 0]), Some(252));
        assert_eq!(tree_size(&[1, 252, 0, 0, 1, 0]), Some(0x1_0001));
        assert_eq!(tree_size(&[1, 253, 1, 0, 0, 0, 0, 0, 0, 0]), Some(2));
        // More notes than a tree of depth 32 holds, cut short, or no tree at all.
        assert_eq!(tree_size(&[1, 253, 0, 0, 0, 0, 1, 0, 0, 0]), None);
        assert_eq!(
            tree_size(&[1, 253, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            None
        );
        for wrong in [
            &[][..],
            &[1],
            &[2, 1],
            &[1, 251, 1],
            &[1, 254, 1, 1],
            &[1, 255],
        ] {
            assert_eq!(tree_size(wrong), None, "{wrong:?}");
        }
    }
}
