//! From a block's hash to where it may be.
//!
//! In: hashes with their heights. Out: heights at which a hash may lie; whoever asks compares the hash in its own picture. An open-addressed
//! table of heights alone, 4 bytes a slot, at most half full: 8 bytes a block, for the hashes lie in the rows.
//!
//! One table serves every view: the writer adds to it before it publishes, and nothing is ever taken out, so an older view finds all it
//! found before, and what a newer one added, or a reorg left behind, fails its comparison.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use lightship_chain::{BlockHash, Height};

/// From a block's hash to where it may be.
pub(crate) struct Lookup {
    /// A height plus one, or 0. The number of slots is a power of two.
    slots: Box<[AtomicU32]>,
    used: AtomicUsize,
}

impl Lookup {
    /// A table with room for `blocks` and as many again.
    pub(crate) fn with_room(blocks: usize) -> Lookup {
        let slots = (blocks.max(512) * 2).next_power_of_two();
        Lookup {
            slots: (0..slots).map(|_| AtomicU32::new(0)).collect(),
            used: AtomicUsize::new(0),
        }
    }

    /// Whether `blocks` more leave the table at most half full.
    pub(crate) fn has_room(&self, blocks: usize) -> bool {
        self.used.load(Ordering::Relaxed) + blocks <= self.slots.len() / 2
    }

    /// Hashes are random but for the zeros at their end, where the work shows; the start is spread over the table all the same, for
    /// chains made in tests have hashes of their own kind.
    fn start(&self, hash: &BlockHash) -> usize {
        let [a, b, c, d, e, f, g, h, ..] = *hash.as_internal();
        let spread =
            u64::from_le_bytes([a, b, c, d, e, f, g, h]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> 32) as usize & (self.slots.len() - 1)
    }

    /// Adds a block. There must be room.
    pub(crate) fn add(&self, hash: &BlockHash, height: Height) {
        let mut slot = self.start(hash);
        while self.slots[slot].load(Ordering::Relaxed) != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        // The release of the view that is published next makes this visible to whoever reads that view.
        self.slots[slot].store(height.get() + 1, Ordering::Relaxed);
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    /// Heights at which the block may be.
    pub(crate) fn candidates(&self, hash: &BlockHash) -> impl Iterator<Item = Height> {
        let start = self.start(hash);
        (0..self.slots.len()).map_while(move |step| {
            let slot = (start + step) & (self.slots.len() - 1);
            let stored = self.slots[slot].load(Ordering::Relaxed).checked_sub(1)?;
            Height::try_from(stored).ok()
        })
    }

    /// The bytes of the table.
    #[cfg(test)]
    pub(crate) fn table_bytes(&self) -> usize {
        self.slots.len() * size_of::<AtomicU32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(height: u32) -> BlockHash {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&height.to_be_bytes());
        BlockHash::from_internal(bytes)
    }

    #[test]
    fn every_block_is_found_and_no_other_hash_searches_long() {
        let lookup = Lookup::with_room(100_000);
        for height in 0..100_000 {
            lookup.add(&hash(height), Height::new(height));
        }
        assert!(lookup.table_bytes() <= 100_000 * 16);
        let longest = (0..100_000)
            .map(|height| {
                let at = lookup
                    .candidates(&hash(height))
                    .position(|found| found.get() == height);
                at.expect("the block was added")
            })
            .max();
        assert!(longest < Some(64), "{longest:?}");
        let misses: usize = (200_000..210_000)
            .map(|height| lookup.candidates(&hash(height)).count())
            .sum();
        assert!(misses < 40_000, "{misses}");
    }

    #[test]
    fn a_table_is_never_more_than_half_full() {
        let lookup = Lookup::with_room(512);
        assert!(lookup.has_room(512) && !lookup.has_room(513));
    }
}
