//! Raw blocks of one best chain, for worker threads.

use std::{ops::ControlFlow, time::Duration};

use lightship_chain::{BlockHash, BlockId, Height, HeightRange, RawBlock, ShieldedPool, TreeSizes};

use crate::{Error, Result, SubtreeRoot, TreeState};

/// One node's best chain, as raw blocks. Every method blocks: call it from a worker thread.
///
/// All methods may be called from several threads at once. Each returns within a time the implementation states, so that a
/// worker can look at its stop flag; [`Error`] that [`is_transient`](crate::Error::is_transient) is worth
/// asking again.
pub trait BlockSource: Send + Sync {
    /// The hash of the block at height 0, which names the network.
    ///
    /// # Errors
    ///
    /// Also when the node has no block yet: [`Error::Warming`].
    fn genesis(&self) -> Result<BlockHash>;

    /// The best tip, or `None` while the node has no block. Height and hash are of one block.
    fn tip(&self) -> Result<Option<BlockId>>;

    /// The highest block that no reorg can reach, if the source reads the blocks up to there without the node's help: a node
    /// that is away takes nothing from them. `None`: the source knows of no such block.
    fn final_tip(&self) -> Result<Option<BlockId>> {
        Ok(None)
    }

    /// Whether the source knows final blocks only: then its tip is not the chain's, and says nothing of blocks above it.
    fn sees_final_only(&self) -> bool {
        false
    }

    /// The best chain's hash at `height`, or `None` above the tip.
    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>>;

    /// Lends each block of `range` to `visit`, lowest first, until `visit` breaks (which is success).
    ///
    /// Blocks are asked for by height on the best chain, and two neighbours may come from two branches if the node switches
    /// in between: use it only for heights that no reorg can reach, and check the links.
    ///
    /// # Errors
    ///
    /// [`Error::AboveTip`] if the chain ends inside `range`; the blocks below it have been lent.
    fn blocks(
        &self,
        range: HeightRange,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Lends the one block of that hash, on any branch the node still knows; `Ok(false)` if it knows none. Near the tip
    /// blocks are fetched this way. The header of what is lent hashes to `hash`; whether the rest belongs to it is left to the caller.
    fn block(&self, hash: BlockHash, visit: &mut dyn FnMut(RawBlock<'_>)) -> Result<bool>;

    /// The sizes of the note commitment trees at the end of that block, or `None` if the node does not know the block.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the source knows the block and cannot tell: never zeros instead.
    fn tree_sizes(&self, hash: BlockHash) -> Result<Option<TreeSizes>>;

    /// The note commitment trees at the end of that block, or `None` if the node does not know the block.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the source cannot tell.
    fn tree_state(&self, hash: BlockHash) -> Result<Option<TreeState>> {
        Err(Error::Unsupported {
            what: format!("this source knows no tree states, such as that of block {hash}"),
        })
    }

    /// Roots of complete subtrees of 2^16 notes on the best chain, from index `start` on, at most `limit`; fewer if the source has fewer.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if the source cannot tell.
    fn subtree_roots(
        &self,
        pool: ShieldedPool,
        start: u32,
        limit: u32,
    ) -> Result<Vec<SubtreeRoot>> {
        Err(Error::Unsupported {
            what: format!(
                "this source knows no subtree roots, such as {limit} of {pool} from {start}"
            ),
        })
    }

    /// Returns once the tip is not `seen`, or after `patience`. The tip may have moved, fallen or vanished.
    ///
    /// # Errors
    ///
    /// At once when the node cannot be asked; the caller paces its next attempt.
    fn wait(&self, seen: Option<BlockId>, patience: Duration) -> Result<()>;
}
