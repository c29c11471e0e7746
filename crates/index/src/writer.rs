//! The one writing process's handle.

use std::path::Path;

use lightship_chain::{BlockHash, BlockId, Height, TreeSizes, compact::EncodedBlock};

use crate::{Reader, Result, StoreId};

/// The one writing process's handle. Holds the lock.
pub struct Writer {}

/// A range on its way to being sealed; `Send`, so that many can be built at once.
pub struct RangeBuilder {}

/// What [`Writer::truncate_above`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Truncated {
    /// Blocks dropped, head included.
    pub blocks: u32,
    /// Sealed ranges dropped or taken apart, islands included: more than 0 is worth a warning.
    pub unsealed_ranges: u32,
}

impl Writer {
    /// Opens the store in `dir`, making it if the folder is empty or missing, and recovers from a crash.
    pub fn open(_dir: &Path, _id: StoreId) -> Result<Writer> {
        unimplemented!()
    }
    /// Where others read what is written here.
    pub fn reader(&self) -> Reader {
        unimplemented!()
    }
    /// The last block, head included.
    pub fn tip(&self) -> Option<BlockId> {
        unimplemented!()
    }
    /// The sizes of the trees at the tip, head included.
    pub fn tip_sizes(&self) -> TreeSizes {
        unimplemented!()
    }
    /// The name of the block at `height`, head included.
    pub fn hash_at(&self, _height: Height) -> Option<BlockHash> {
        unimplemented!()
    }
    /// Puts a block on the head: not durable and not visible before [`Writer::commit`].
    pub fn append(&mut self, _block: EncodedBlock) -> Result<()> {
        unimplemented!()
    }
    /// Makes the head durable (one write, one sync) and visible (one view).
    pub fn commit(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// Drops the blocks above `keep` (`None`: all), durably, and publishes.
    pub fn truncate_above(&mut self, _keep: Option<Height>) -> Result<Truncated> {
        unimplemented!()
    }
    /// Seals each complete range of the tail whose last height is at most `height`; returns how many.
    pub fn seal_through(&mut self, _height: Height) -> Result<u32> {
        unimplemented!()
    }
    /// Begins one complete range, written straight to its sealed files.
    pub fn begin_range(
        &self,
        _first: Height,
        _before: TreeSizes,
        _previous: BlockHash,
    ) -> Result<RangeBuilder> {
        unimplemented!()
    }
    /// Makes a complete range part of the store.
    pub fn seal(&mut self, _range: RangeBuilder) -> Result<()> {
        unimplemented!()
    }
    /// The best tip known, maybe above what is indexed; published, not stored.
    pub fn announce(&mut self, _target: Option<BlockId>) {
        unimplemented!()
    }
}

impl RangeBuilder {
    /// Streams the next block to the temporary files. The block that completes the range also makes them durable.
    pub fn append(&mut self, _block: &EncodedBlock) -> Result<()> {
        unimplemented!()
    }
    /// Whether every height is there.
    pub fn is_complete(&self) -> bool {
        unimplemented!()
    }
    /// The last block appended.
    pub fn tip(&self) -> Option<BlockId> {
        unimplemented!()
    }
}
