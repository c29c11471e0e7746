//! The few scripts a made chain needs.
//!
//! Spec: protocol §7.1 leaves scripts to Bitcoin's rules; BIP 34 for the height in a coinbase.

use rand_core::Rng;

use crate::Height;

/// Pays to a public key's hash, `[20]`.
pub fn pay_to_public_key_hash(hash: &[u8; 20]) -> Vec<u8> {
    // OP_DUP OP_HASH160 <20> .. OP_EQUALVERIFY OP_CHECKSIG
    [&[0x76, 0xa9, 0x14], hash.as_slice(), &[0x88, 0xac]].concat()
}

/// Pays to a script's hash, `[20]`.
pub fn pay_to_script_hash(hash: &[u8; 20]) -> Vec<u8> {
    // OP_HASH160 <20> .. OP_EQUAL
    [&[0xa9, 0x14], hash.as_slice(), &[0x87]].concat()
}

/// Pays nobody and carries up to 75 bytes of `data`.
///
/// # Panics
///
/// If `data` is longer.
pub fn data_carrier(data: &[u8]) -> Vec<u8> {
    assert!(data.len() <= 75, "one push opcode carries at most 75 bytes");
    // OP_RETURN <n> ..
    [&[0x6a, data.len() as u8], data].concat()
}

/// What a coinbase input must begin with: its block's height as a script number, smallest form.
///
/// Heights 1 to 16 have opcodes of their own, and a script of one byte is too short to be valid, so these (and genesis) are followed by an
/// empty push. Spec: BIP 34; protocol §7.6, "coinbase".
pub fn coinbase_height(height: Height) -> Vec<u8> {
    match height.get() {
        0 => vec![0x00, 0x00],
        small @ 1..=16 => vec![0x50 + small as u8, 0x00],
        height => {
            // Little-endian with a sign bit on top: a set top bit needs one more byte.
            let width = (u32::BITS - height.leading_zeros()) as usize / 8 + 1;
            let mut script = vec![width as u8];
            script.extend_from_slice(&u64::from(height).to_le_bytes()[..width]);
            script
        }
    }
}

/// The shape of an unlocking script for a public key hash: a signature push `[71]` and a key push `[33]`.
pub(super) fn unlocking(rng: &mut impl Rng) -> Vec<u8> {
    let mut script = vec![0; 1 + 71 + 1 + 33];
    rng.fill_bytes(&mut script);
    // DER: a sequence of two integers of 32 bytes; then SIGHASH_ALL.
    script[..5].copy_from_slice(&[71, 0x30, 0x44, 0x02, 0x20]);
    script[5] &= 0x7f;
    script[37..39].copy_from_slice(&[0x02, 0x20]);
    script[39] &= 0x7f;
    script[71] = 0x01;
    script[72..74].copy_from_slice(&[33, 0x02]);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_height_is_pushed_in_its_smallest_form() {
        let cases: [(u32, &[u8]); 9] = [
            (0, &[0x00, 0x00]),
            (1, &[0x51, 0x00]),
            (16, &[0x60, 0x00]),
            (17, &[0x01, 0x11]),
            (127, &[0x01, 0x7f]),
            (128, &[0x02, 0x80, 0x00]),
            (32_768, &[0x03, 0x00, 0x80, 0x00]),
            (3_543_405, &[0x03, 0x6d, 0x11, 0x36]),
            (Height::MAX.get(), &[0x04, 0xff, 0xff, 0xff, 0x7f]),
        ];
        for (height, script) in cases {
            assert_eq!(coinbase_height(Height::new(height)), script, "{height}");
        }
    }
}
