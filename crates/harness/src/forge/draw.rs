//! Random whole numbers, the same on every machine.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Decisions of the forge. Apart from the bytes of the chain, so that the one does not disturb the other.
#[derive(Clone, Debug)]
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(super) fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// So many random bytes.
    #[cfg(feature = "curves")]
    pub(super) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A canonical element of the fields that nullifiers are of, `[32]` little-endian.
    #[cfg(feature = "curves")]
    pub(super) fn field_element(&mut self) -> [u8; 32] {
        let mut bytes: [u8; 32] = self.bytes();
        bytes[31] &= 0x3f;
        bytes
    }

    #[cfg(feature = "curves")]
    pub(super) fn rng(&mut self) -> &mut ChaCha8Rng {
        &mut self.0
    }

    /// Below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// From `low` through `high`.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `thousandths` times in a thousand.
    pub(super) fn chance(&mut self, thousandths: u64) -> bool {
        self.below(1000) < thousandths
    }

    /// A count with this mean (in thousandths): how many of many unlikely things happen.
    pub(super) fn count(&mut self, thousandths: u64) -> usize {
        if thousandths == 0 {
            return 0;
        }
        // Enough trials that each is unlikely, and no more: bursts are made elsewhere.
        let trials = 32.max(thousandths / 500);
        let threshold = ((u128::from(thousandths) << 32) / u128::from(trials * 1000)) as u64;
        (0..trials)
            .filter(|_| u64::from(self.0.next_u32()) < threshold)
            .count()
    }

    /// From 1 up, with this mean (at least 1).
    pub(super) fn around(&mut self, mean: u64) -> usize {
        self.between(1, 2 * mean.max(1) - 1) as usize
    }

    /// From 1 up, with this mean in thousandths: mostly 1 or 2, now and then many, as payouts are.
    pub(super) fn skewed(&mut self, thousandths: u64) -> usize {
        // Nine in ten have a mean of 1.5, so the tenth makes up for the rest.
        let many = thousandths.saturating_sub(1350) / 100;
        if many >= 1 && self.chance(100) {
            self.around(many)
        } else {
            self.between(1, 2) as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_asked_for() {
        let mut draw = Draw::new(1);
        for thousandths in [20, 500, 3_400, 694_125] {
            let drawn: usize = (0..2_000).map(|_| draw.count(thousandths)).sum();
            let expected = thousandths as usize * 2;
            assert!(
                drawn.abs_diff(expected) < 60 + expected / 10,
                "{drawn} for {expected}"
            );
        }
        for thousandths in [1_500, 2_500, 36_000] {
            let drawn: usize = (0..20_000).map(|_| draw.skewed(thousandths)).sum();
            let expected = thousandths as usize * 20;
            assert!(
                drawn.abs_diff(expected) < expected / 10,
                "{drawn} for {expected}"
            );
        }
    }
}
