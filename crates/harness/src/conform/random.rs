//! Numbers that look random: the same seed, the same numbers, everywhere.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// From a seed, and a word that keeps one user's numbers apart from another's.
    pub(crate) fn new(seed: u64, word: &str) -> Random {
        let mut random = Random(seed);
        for byte in word.bytes() {
            random.0 ^= u64::from(byte);
            random.next();
        }
        random
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// One of `0..bound`; 0 if there is none.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        match bound {
            0 => 0,
            bound => self.next() % bound,
        }
    }

    /// 32 bytes.
    pub(crate) fn hash(&mut self) -> [u8; 32] {
        let mut hash = [0; 32];
        for word in hash.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        hash
    }
}
