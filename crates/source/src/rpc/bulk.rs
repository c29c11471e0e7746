//! How many blocks to ask for at once.
//!
//! HTTP and JSON cost a node more than a small block does, so blocks are asked for in batches; a large batch costs memory on
//! both sides and makes everyone wait. The size follows the bytes: it aims at a few MiB of hexadecimal text and backs away from
//! whatever the node finds hard.

use std::time::Duration;

/// The first batch, when nothing is known of the blocks.
const FIRST: u32 = 16;
/// Beyond this, a batch saves nothing any more.
const MOST: u32 = 512;
/// What one answer should weigh, in bytes of hexadecimal text.
const TARGET_BYTES: usize = 4 << 20;
/// Blocks of this much text gain nothing from company.
const ALONE_BYTES: usize = 1_000_000;
/// An answer that takes longer is too much for the node.
const TOO_LONG: Duration = Duration::from_secs(2);
/// The next blocks may be heavier than the last: grow at most so many times a step.
const GROWTH: u32 = 4;

/// The size of the next batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSize {
    blocks: u32,
    /// What the node was last able to do; lifted slowly.
    ceiling: u32,
}

impl BatchSize {
    pub(super) fn new() -> BatchSize {
        BatchSize {
            blocks: FIRST,
            ceiling: MOST,
        }
    }

    /// At least 1.
    pub(super) fn blocks(self) -> u32 {
        self.blocks
    }

    /// After a batch that was answered.
    pub(super) fn answered(&mut self, blocks: u32, bytes: usize, took: Duration) {
        if took > TOO_LONG {
            self.failed();
            return;
        }
        self.ceiling = (self.ceiling + self.ceiling.div_ceil(8)).min(MOST);
        let each = bytes / (blocks.max(1) as usize) + 1;
        let fitting = if each > ALONE_BYTES {
            1
        } else {
            u32::try_from(TARGET_BYTES / each).unwrap_or(MOST)
        };
        self.blocks = fitting.min(self.blocks * GROWTH).min(self.ceiling).max(1);
    }

    /// After a batch that failed in a way a smaller one may not.
    pub(super) fn failed(&mut self) {
        self.blocks = (self.blocks / 2).max(1);
        self.ceiling = self.blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(20);

    #[test]
    fn small_blocks_come_in_large_batches_and_large_ones_alone() {
        let mut size = BatchSize::new();
        for _ in 0..5 {
            let blocks = size.blocks();
            size.answered(blocks, blocks as usize * 3_300, QUICK);
        }
        assert_eq!(size.blocks(), MOST);
        size.answered(MOST, MOST as usize * 100_000, QUICK);
        assert_eq!(size.blocks(), 41);
        size.answered(41, 41 * 1_100_000, QUICK);
        assert_eq!(size.blocks(), 1);
    }

    #[test]
    fn growth_is_gradual_and_slowness_halves() {
        let mut size = BatchSize::new();
        size.answered(16, 16, QUICK);
        assert_eq!(size.blocks(), 64);
        size.answered(64, 64, Duration::from_secs(3));
        assert_eq!(size.blocks(), 32);
        size.answered(32, 32, QUICK);
        assert_eq!(size.blocks(), 36);
    }

    #[test]
    fn one_block_is_the_smallest_batch() {
        let mut size = BatchSize::new();
        for _ in 0..6 {
            size.failed();
        }
        assert_eq!(size.blocks(), 1);
        size.answered(0, 0, QUICK);
        assert_eq!(size.blocks(), 2);
    }
}
