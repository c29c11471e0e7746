//! Heights that are not indexed yet, read from the node on the fly.
//!
//! In: a height. Out: the compact block, through the same parser as the index is built with, so the bytes are the same. Tree
//! sizes and links are left to the producer, which knows the neighbours.

use std::sync::Arc;

use lightship_chain::{
    BlockHash, Height, RawBlock, TreeSizes,
    compact::{CompactBlock, compact},
};
use lightship_source::Node;
use tokio::sync::Semaphore;

use crate::{aside::aside, errand::errand, status::Refusal};

/// The node as a source of single blocks; shared by all streams.
#[derive(Clone)]
pub(crate) struct Live {
    node: Arc<dyn Node>,
    /// Raw blocks are up to 2 MB: this bounds how many all streams hold together.
    places: Arc<Semaphore>,
}

impl Live {
    /// At most `blocks` are fetched or held raw at once.
    pub(crate) fn new(node: Arc<dyn Node>, blocks: usize) -> Live {
        Live {
            node,
            places: Arc::new(Semaphore::new(blocks)),
        }
    }

    /// The best chain's block at `height`, compacted.
    ///
    /// # Errors
    ///
    /// [`Refusal::Replaced`] if the node's chain does not reach there any more.
    pub(crate) async fn at(&self, height: Height) -> Result<CompactBlock, Refusal> {
        let hash = self.node.hash_at(height).await?.ok_or(Refusal::Replaced)?;
        self.block(height, hash).await
    }

    /// The block of that name, which lies at `height`, compacted.
    ///
    /// # Errors
    ///
    /// [`Refusal::Replaced`] if the node does not know it.
    pub(crate) async fn block(
        &self,
        height: Height,
        hash: BlockHash,
    ) -> Result<CompactBlock, Refusal> {
        let _place = self
            .places
            .acquire()
            .await
            .expect("the semaphore is never closed");
        let raw = self.node.block(hash).await?.ok_or(Refusal::Replaced)?;
        let block = aside("compacting a block", move || {
            compact(height, RawBlock::Whole(&raw)).map_err(|error| {
                tracing::error!(%error, %height, "a block of the node cannot be read");
                Refusal::Unreadable { height }
            })
        })
        .await?;
        if block.id.hash != hash {
            tracing::warn!(%height, asked = %hash, got = %block.id.hash, "the node sent another block");
            return Err(Refusal::NodeAway);
        }
        Ok(block)
    }

    /// Tree sizes at the end of the block of that name.
    ///
    /// # Errors
    ///
    /// Also when the node cannot tell: sizes are never guessed.
    pub(crate) async fn sizes(&self, hash: BlockHash) -> Result<TreeSizes, Refusal> {
        if hash == BlockHash::ZERO {
            return Ok(TreeSizes::ZERO);
        }
        let node = Arc::clone(&self.node);
        errand(async move {
            match node.tree_sizes(hash).await {
                Ok(Some(sizes)) => Ok(sizes),
                Ok(None) => Err(Refusal::Replaced),
                Err(error) => {
                    tracing::debug!(%error, "the node does not tell the tree sizes");
                    Err(Refusal::NodeAway)
                }
            }
        })
        .await
    }
}
