//! One consistent picture of the chain, to read from.

use std::sync::Arc;

use bytes::Bytes;
use lightship_chain::{BlockHash, BlockId, Height, HeightRange, TreeSizes};

use crate::{Result, Row, StoreId};

/// One consistent picture. Immutable; lives as long as anyone holds it.
pub struct View {}

/// A block as stored; the bytes are lent from the mapping, not copied.
#[derive(Clone, Debug)]
pub struct StoredBlock {
    /// What is known without decoding.
    pub row: Row,
    /// The gRPC frame: `00`, length `[4]` big-endian, `CompactBlock` in its default view.
    pub frame: Bytes,
    /// The transparent companion: a field-7 `CompactTx` for every transaction.
    pub transparent: Bytes,
}

/// Frames of consecutive heights in one slice.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The heights.
    pub range: HeightRange,
    /// Their frames, one after the other.
    pub bytes: Bytes,
}

/// The pieces of a range, lowest first; ends early at the first height that is not in the index.
pub struct Frames {}

impl View {
    /// Grows with each publication.
    pub fn generation(&self) -> u64 {
        unimplemented!()
    }
    /// What the store is.
    pub fn store(&self) -> StoreId {
        unimplemented!()
    }
    /// The highest block of the contiguous chain from genesis.
    pub fn tip(&self) -> Option<BlockId> {
        unimplemented!()
    }
    /// The sizes of the trees at the tip.
    pub fn tip_sizes(&self) -> TreeSizes {
        unimplemented!()
    }
    /// The best tip known to the writer, maybe above what is indexed.
    pub fn target(&self) -> Option<BlockId> {
        unimplemented!()
    }
    /// The last height of the contiguous sealed ranges.
    pub fn sealed_through(&self) -> Option<Height> {
        unimplemented!()
    }
    /// Whether the block at `height` is in the index, islands included.
    pub fn covers(&self, _height: Height) -> bool {
        unimplemented!()
    }
    /// What is known of the block at `height`.
    pub fn row(&self, _height: Height) -> Option<Row> {
        unimplemented!()
    }
    /// Where the block of that name is, if it is in this picture.
    pub fn height_of(&self, _hash: &BlockHash) -> Option<Height> {
        unimplemented!()
    }
    /// The block at `height`.
    pub fn block(&self, _height: Height) -> Result<Option<StoredBlock>> {
        unimplemented!()
    }
    /// Default-view frames of consecutive heights as few large slices of at most `max_bytes` (at least one whole block).
    pub fn frames(self: &Arc<View>, _range: HeightRange, _max_bytes: usize) -> Frames {
        unimplemented!()
    }
}

impl Iterator for Frames {
    type Item = Result<Piece>;
    fn next(&mut self) -> Option<Result<Piece>> {
        unimplemented!()
    }
}
