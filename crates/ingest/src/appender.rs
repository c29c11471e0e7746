//! The end of the index that grows.
//!
//! In: compact blocks, in order. Out: a [`Writer`] that holds them, after each was found to follow the last and its notes
//! were counted. Chooses the way to disk: whole ranges that are final go straight to their sealed files, everything else
//! through the tail. Ranges above a gap are in [`island`]; the end that grows joins them when it gets there. Where blocks come from, and
//! when the chain must shrink, is left to the caller.

mod island;

use std::sync::Arc;

use lightship_chain::{
    BlockHash, BlockId, Height, TreeSizes,
    compact::{CompactBlock, EncodedBlock},
};
use lightship_index::{Error as IndexError, RangeBuilder, StoreId, Truncated, Writer};

use crate::{
    Progress,
    error::{Refusal, Trouble},
};
use island::Island;

/// The writer, and what it is in the middle of.
pub(crate) struct Appender {
    writer: Writer,
    store: StoreId,
    progress: Arc<Progress>,
    batch_blocks: u32,
    /// A range on its way to its sealed files; its blocks are not in the writer yet.
    range: Option<RangeBuilder>,
    end: Option<BlockId>,
    sizes: TreeSizes,
    uncommitted: Batch,
    /// Blocks and bytes taken that the progress has not been told of.
    untold: (u64, u64),
    /// Ranges on their way above a gap.
    island: Option<Island>,
    /// Some did not fit what was built below them: no more are made.
    islands_failed: bool,
}

#[derive(Default)]
struct Batch {
    blocks: u32,
    bytes: usize,
}

/// A head of more bytes than this is committed whatever its number of blocks.
const BATCH_BYTES: usize = 16 << 20;

impl Appender {
    pub(crate) fn new(writer: Writer, progress: Arc<Progress>, batch_blocks: u32) -> Appender {
        let store = writer.store();
        let end = writer.tip();
        progress.set_indexed(end);
        let appender = Appender {
            store,
            end,
            sizes: writer.tip_sizes(),
            range: None,
            uncommitted: Batch::default(),
            untold: (0, 0),
            island: None,
            islands_failed: false,
            writer,
            progress,
            batch_blocks,
        };
        appender.count_islands();
        appender
    }

    pub(crate) fn store(&self) -> StoreId {
        self.store
    }

    /// The last block taken, be it durable or not.
    pub(crate) fn end(&self) -> Option<BlockId> {
        self.end
    }

    /// The tree sizes there.
    pub(crate) fn sizes(&self) -> TreeSizes {
        self.sizes
    }

    /// The height to come; `None` at the last height there is.
    pub(crate) fn next(&self) -> Option<Height> {
        above(self.end)
    }

    /// Our block at `height`, a half-written range and islands left out.
    pub(crate) fn hash_at(&self, height: Height) -> Option<BlockHash> {
        let tip = self.writer.tip()?;
        (height <= tip.height).then(|| self.writer.hash_at(height))?
    }

    /// Whether a range is half written.
    pub(crate) fn is_mid_range(&self) -> bool {
        self.range.is_some()
    }

    pub(crate) fn announce(&mut self, target: Option<BlockId>) {
        self.writer.announce(target);
    }

    /// Takes the next block. Ranges that end at or below `final_through` go straight to their sealed files.
    ///
    /// # Errors
    ///
    /// `Refused` if it does not follow, and then nothing has changed; `Fatal` if it cannot be written.
    pub(crate) fn take(
        &mut self,
        block: CompactBlock,
        final_through: Option<Height>,
    ) -> Result<(), Trouble> {
        let block = self.encode(self.end, self.sizes, block)?;
        let (id, sizes, bytes) = (block.id, block.sizes, block.size_bytes);
        if self.range.is_none() && self.begins_final_range(id.height, final_through) {
            self.commit()?;
            if let Some(below) = id.height.previous() {
                self.seal_through(below)?;
            }
            self.range = Some(
                self.writer
                    .begin_range(id.height, self.sizes, block.previous)?,
            );
        }
        match &mut self.range {
            Some(range) => {
                range.append(&block)?;
                if range.is_complete()
                    && let Some(range) = self.range.take()
                {
                    match self.writer.seal(range) {
                        Err(error @ IndexError::Gap { .. }) => return Err(self.unjoined(error)),
                        sealed => sealed?,
                    }
                }
            }
            None => {
                self.uncommitted.blocks += 1;
                self.uncommitted.bytes += block.frame.len() + block.transparent.len();
                self.writer.append(block)?;
            }
        }
        self.end = Some(id);
        self.sizes = sizes;
        self.untold.0 += 1;
        self.untold.1 += u64::from(bytes);
        self.follow_join();
        if self.uncommitted.blocks >= self.batch_blocks || self.uncommitted.bytes >= BATCH_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    /// Tells the progress what was taken since the last time: a lock a block would be felt.
    pub(crate) fn tell(&mut self) {
        let (blocks, bytes) = std::mem::take(&mut self.untold);
        if blocks > 0
            && let Some(end) = self.end
        {
            self.progress.added(blocks, bytes, end);
        }
        self.tell_of_island();
    }

    /// Makes what was taken through the tail durable and visible.
    pub(crate) fn commit(&mut self) -> Result<(), Trouble> {
        if self.uncommitted.blocks > 0 {
            match self.writer.commit() {
                // What was taken is durable all the same.
                Err(error @ IndexError::Gap { .. }) => self.refuse_islands(error)?,
                committed => committed?,
            }
            self.uncommitted = Batch::default();
        }
        self.tell();
        self.follow_join();
        Ok(())
    }

    /// Seals what lies `depth_blocks` or more below the end.
    pub(crate) fn seal(&mut self, depth_blocks: u32) -> Result<(), Trouble> {
        if self.range.is_none()
            && let Some(end) = self.end
            && let Some(final_through) = end.height.get().checked_sub(depth_blocks)
        {
            self.seal_through(Height::new(final_through))?;
        }
        Ok(())
    }

    /// Forgets a half-written range: back to what the writer holds.
    pub(crate) fn abandon_range(&mut self) {
        if self.range.take().is_some() {
            self.end = self.writer.tip();
            self.sizes = self.writer.tip_sizes();
            self.progress.set_indexed(self.end);
        }
    }

    /// Back to what the disk holds, after a write found it full.
    pub(crate) fn reopen(&mut self) -> Result<(), Trouble> {
        self.range = None;
        self.island = None;
        self.uncommitted = Batch::default();
        self.writer.reopen()?;
        self.end = self.writer.tip();
        self.sizes = self.writer.tip_sizes();
        self.progress.set_indexed(self.end);
        self.count_islands();
        Ok(())
    }

    /// Exchanges the blocks above `keep` for `branch`, lowest first, in one visible step.
    ///
    /// # Errors
    ///
    /// `Refused` if the branch does not follow, and then nothing has changed; `Fatal` if it cannot be written.
    pub(crate) fn replace(
        &mut self,
        keep: Height,
        branch: Vec<CompactBlock>,
    ) -> Result<Truncated, Trouble> {
        self.abandon_range();
        self.abandon_island();
        self.commit()?;
        let view = self.writer.reader().view();
        let Some(ancestor) = view.row(keep) else {
            return Err(Trouble::Unusable(format!("block {keep} is not indexed")));
        };
        let mut end = BlockId {
            height: keep,
            hash: ancestor.hash,
        };
        let mut sizes = ancestor.sizes;
        let mut encoded = Vec::with_capacity(branch.len());
        let mut bytes = 0;
        for block in branch {
            let block = self.encode(Some(end), sizes, block)?;
            (end, sizes) = (block.id, block.sizes);
            bytes += u64::from(block.size_bytes);
            encoded.push(block);
        }
        let blocks = encoded.len() as u64;
        let replaced = self.writer.replace_above(Some(keep), encoded)?;
        (self.end, self.sizes) = (Some(end), sizes);
        self.progress.added(blocks, bytes, end);
        self.count_islands();
        Ok(replaced)
    }

    fn begins_final_range(&self, height: Height, final_through: Option<Height>) -> bool {
        let blocks = self.store.range_blocks.get();
        height.get().is_multiple_of(blocks)
            && height
                .checked_add(blocks - 1)
                .is_some_and(|last| final_through.is_some_and(|through| last <= through))
    }

    /// The block as it is stored, if it is the one that follows `end`, where the trees have these `sizes`.
    fn encode(
        &self,
        end: Option<BlockId>,
        sizes: TreeSizes,
        block: CompactBlock,
    ) -> Result<EncodedBlock, Refusal> {
        let height = block.id.height;
        let expected = above(end).ok_or(Refusal::Overflow { height })?;
        if height != expected {
            return Err(Refusal::Order {
                expected,
                found: height,
            });
        }
        match end {
            Some(end) if block.previous != end.hash => {
                return Err(Refusal::Link {
                    height,
                    expected: end.hash,
                    found: block.previous,
                });
            }
            None if block.id.hash != self.store.genesis => {
                return Err(Refusal::Genesis {
                    expected: self.store.genesis,
                    found: block.id.hash,
                });
            }
            _ => {}
        }
        block.after(sizes).ok_or(Refusal::Overflow { height })
    }
}

/// The height to come after `end`.
fn above(end: Option<BlockId>) -> Option<Height> {
    end.map_or(Some(Height::GENESIS), |end| end.height.next())
}
