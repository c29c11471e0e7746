//! Ranges above a gap: final, whole, and sealed before the blocks below them are there.
//!
//! In: the blocks of final ranges, lowest first, on top of a block of which only its name and its tree sizes are known. Out: sealed ranges, the same
//! to the byte as if they had been built in their turn. The end that grows joins them when it gets there; the index compares hash and sizes
//! then, and ranges that do not fit go, for what was built from genesis on was counted and not told. Which blocks, and whether the source
//! stands by the sizes, is left to the caller.

use lightship_chain::{BlockId, Height, HeightRange, TreeSizes, compact::CompactBlock};
use lightship_index::{Error as IndexError, RangeBuilder};

use super::Appender;
use crate::error::Trouble;

/// Ranges on their way.
pub(super) struct Island {
    /// The one that is being written.
    range: Option<RangeBuilder>,
    /// The last block taken; at first the one below the island.
    end: BlockId,
    /// The tree sizes there.
    sizes: TreeSizes,
    /// Where the island is to end.
    through: Height,
    untold: (u64, u64),
}

impl Appender {
    /// Heights that are sealed above a gap, ascending.
    pub(crate) fn islands(&self) -> Vec<HeightRange> {
        self.writer.reader().view().islands()
    }

    /// The highest block of islands that is not above `limit`.
    pub(crate) fn highest_of_islands(&self, limit: Height) -> Option<BlockId> {
        let islands = self.islands();
        let island = islands
            .iter()
            .rev()
            .find(|island| island.first() <= limit)?;
        let height = island.last().min(limit);
        Some(BlockId {
            height,
            hash: self.writer.hash_at(height)?,
        })
    }

    /// Whether ranges may be built above a gap.
    pub(crate) fn may_have_islands(&self) -> bool {
        !self.islands_failed
    }

    /// Begins an island on top of `below`, where the trees have these `sizes`, that is to end at `through`.
    pub(crate) fn begin_island(&mut self, below: BlockId, sizes: TreeSizes, through: Height) {
        self.island = Some(Island {
            range: None,
            end: below,
            sizes,
            through,
            untold: (0, 0),
        });
    }

    /// What is to come of the island that was begun, if that is a part of `wanted`.
    pub(crate) fn rest_of_island(&self, wanted: HeightRange) -> Option<HeightRange> {
        let island = self.island.as_ref()?;
        let rest = HeightRange::new(island.end.height.next()?, island.through)?;
        (rest.first() >= wanted.first() && rest.last() <= wanted.last()).then_some(rest)
    }

    /// Takes the next block of the island.
    ///
    /// # Errors
    ///
    /// `Refused` if it does not follow, and then nothing has changed; `Fatal` if it cannot be written.
    pub(crate) fn take_ahead(&mut self, block: CompactBlock) -> Result<(), Trouble> {
        let Some((end, sizes)) = self
            .island
            .as_ref()
            .map(|island| (island.end, island.sizes))
        else {
            return Err(Trouble::Unusable("no island was begun".into()));
        };
        let block = self.encode(Some(end), sizes, block)?;
        let island = self.island.as_mut().expect("it was there a moment ago");
        let range = match &mut island.range {
            Some(range) => range,
            none => none.insert(
                self.writer
                    .begin_range(block.id.height, sizes, block.previous)?,
            ),
        };
        range.append(&block)?;
        island.end = block.id;
        island.sizes = block.sizes;
        island.untold.0 += 1;
        island.untold.1 += u64::from(block.size_bytes);
        Ok(())
    }

    /// The end of the island's last range and the tree sizes there, once that range is whole and not sealed yet.
    pub(crate) fn whole_ahead(&self) -> Option<(BlockId, TreeSizes)> {
        let island = self.island.as_ref()?;
        let whole = island.range.as_ref()?.is_complete();
        whole.then_some((island.end, island.sizes))
    }

    /// Seals the island's last range, which is whole.
    ///
    /// # Errors
    ///
    /// `Unusable` if it does not link to an island beside it: then all are gone.
    pub(crate) fn seal_ahead(&mut self) -> Result<(), Trouble> {
        let Some(range) = self.island.as_mut().and_then(|island| island.range.take()) else {
            return Ok(());
        };
        match self.writer.seal(range) {
            Err(error @ IndexError::Gap { .. }) => return Err(self.unjoined(error)),
            sealed => sealed?,
        }
        self.tell_of_island();
        self.count_islands();
        Ok(())
    }

    /// Forgets what is not sealed of the island that was begun.
    pub(crate) fn abandon_island(&mut self) {
        self.island = None;
    }

    /// Drops every island: what was taken from genesis on stays.
    pub(crate) fn drop_islands(&mut self, why: &str) -> Result<(), Trouble> {
        self.abandon_island();
        let blocks = self.blocks_in_islands();
        if blocks > 0 {
            let tip = self.writer.tip().map(|tip| tip.height);
            self.writer.truncate_above(tip)?;
            tracing::error!(
                why,
                blocks,
                "the newest blocks, built first, are dropped, and are built in their turn"
            );
        }
        self.count_islands();
        Ok(())
    }

    /// The blocks below do not lead to the islands: those go, and no more are made.
    pub(super) fn refuse_islands(&mut self, error: IndexError) -> Result<(), Trouble> {
        if self.blocks_in_islands() == 0 {
            return Err(error.into());
        }
        self.islands_failed = true;
        self.drop_islands(&format!(
            "they do not fit the blocks below, or the sizes of the trees there: {error}"
        ))
    }

    /// Seals what the tail has of whole ranges through `height`.
    pub(super) fn seal_through(&mut self, height: Height) -> Result<(), Trouble> {
        match self.writer.seal_through(height) {
            Err(error @ IndexError::Gap { .. }) => {
                self.refuse_islands(error)?;
                self.writer.seal_through(height)?;
            }
            sealed => {
                sealed?;
            }
        }
        Ok(())
    }

    /// As [`Appender::refuse_islands`], when a range that was whole is lost by it.
    pub(super) fn unjoined(&mut self, error: IndexError) -> Trouble {
        let why = error.to_string();
        if let Err(trouble) = self.refuse_islands(error) {
            return trouble;
        }
        self.range = None;
        self.end = self.writer.tip();
        self.sizes = self.writer.tip_sizes();
        self.progress.set_indexed(self.end);
        Trouble::Unusable(format!("blocks above a gap were dropped: {why}"))
    }

    /// Where the writer has joined an island, our end is at the island's.
    pub(super) fn follow_join(&mut self) {
        let (Some(tip), Some(end)) = (self.writer.tip(), self.end) else {
            return;
        };
        if tip.height <= end.height {
            return;
        }
        self.tell();
        self.end = Some(tip);
        self.sizes = self.writer.tip_sizes();
        self.progress.set_indexed(self.end);
        self.count_islands();
        tracing::info!(below = %end, end = %tip, "reached the newest blocks, built first");
    }

    pub(super) fn tell_of_island(&mut self) {
        if let Some(island) = &mut self.island {
            let (blocks, bytes) = std::mem::take(&mut island.untold);
            if blocks > 0 {
                self.progress.added_ahead(blocks, bytes);
            }
        }
    }

    pub(super) fn count_islands(&self) {
        self.progress.set_ahead(self.blocks_in_islands());
    }

    fn blocks_in_islands(&self) -> u32 {
        self.islands().into_iter().map(HeightRange::len).sum()
    }
}
