//! Note commitment trees: states and subtree roots, from the index as far as its trees have grown, and from the node.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use lightship_chain::{BlockHash, BlockId, ShieldedPool, tree::Frontier};
use lightship_index::TreesAt;

use super::{Answers, Found, Picture, Query, hash_readings};
use crate::{
    aside::{aside, height_of, row},
    errand::errand,
    proto,
    status::Refusal,
};

/// The highest index a subtree of 2^16 notes can have in a tree of 2^32.
const MAX_SUBTREE_INDEX: u32 = 65_535;
/// What one root takes in memory while the list is sent: two hashes, their handles, a height.
const ROOT_BYTES: usize = 192;
/// So many are counted before the node is asked; a longer list when it is there.
const USUAL_ROOTS: u32 = 4_096;
/// Block hashes asked for at once, for roots whose block is not indexed yet.
const CONCURRENCY: usize = 8;

impl Query {
    /// `GetTreeState`.
    pub(crate) async fn tree_state(
        &self,
        id: &proto::BlockId,
    ) -> Result<proto::TreeState, Refusal> {
        let picture = self.picture()?;
        if let Some(state) = self.replaced_tree_state(&picture, id).await? {
            return Ok(state);
        }
        let found = self.find(&picture, id).await?;
        let indexed = match found {
            Found::AtHeight(height) => row(&picture.view, height).await?.map(|row| BlockId {
                height,
                hash: row.hash,
            }),
            Found::Indexed(found) => Some(found),
            Found::AtNode(_) => None,
        };
        if let Some(indexed) = indexed
            && let Some(state) = self.indexed_tree_state(&picture, indexed).await?
        {
            return Ok(state);
        }
        let (hash, missing) = match (found, indexed) {
            (Found::AtHeight(_), Some(found)) => (found.hash, Refusal::Replaced),
            (Found::AtHeight(height), None) => (
                self.node.hash_at(height).await?.ok_or(Refusal::Replaced)?,
                Refusal::Replaced,
            ),
            (Found::Indexed(found) | Found::AtNode(found), _) => {
                (found.hash, Refusal::BlockNotFound)
            }
        };
        self.tree_state_of(hash).await?.ok_or(missing)
    }

    /// `GetLatestTreeState`: of the served tip, by hash, so that height, hash and trees are of one block.
    pub(crate) async fn latest_tree_state(&self) -> Result<proto::TreeState, Refusal> {
        (self.look)();
        let picture = self.picture()?;
        let tip = picture.tip;
        if let Some(state) = self.indexed_tree_state(&picture, tip).await? {
            return Ok(state);
        }
        self.tree_state_of(tip.hash).await?.ok_or(Refusal::Replaced)
    }

    /// From the index, if its trees have grown so far. What is damaged there is said and asked of the node.
    async fn indexed_tree_state(
        &self,
        picture: &Picture,
        id: BlockId,
    ) -> Result<Option<proto::TreeState>, Refusal> {
        let Some(trees) = self.trees.clone() else {
            return Ok(None);
        };
        let view = Arc::clone(&picture.view);
        // Hashes some notes, and reads here and there.
        let read = aside("reading a tree state", move || {
            let trees = trees.at(&view, id.height).unwrap_or_else(|error| {
                tracing::error!(%error, block = %id, "the node is asked for a tree state");
                None
            });
            let row = view.row(id.height).filter(|row| row.hash == id.hash);
            Ok(trees.zip(row))
        });
        Ok(read
            .await?
            .map(|(trees, row)| self.state(id, row.time, &trees)))
    }

    /// Of a block asked for by hash that a reorg has taken from the chain, if its trees are remembered: a wallet that has seen the block may still
    /// want to know where it stood.
    async fn replaced_tree_state(
        &self,
        picture: &Picture,
        id: &proto::BlockId,
    ) -> Result<Option<proto::TreeState>, Refusal> {
        let (Some(trees), false) = (&self.trees, id.hash.is_empty()) else {
            return Ok(None);
        };
        let readings = hash_readings(&id.hash)?;
        for hash in readings {
            if height_of(&picture.view, hash).await?.is_some() {
                return Ok(None);
            }
        }
        Ok(readings
            .iter()
            .find_map(|hash| trees.replaced(hash))
            .map(|block| self.state(block.id, block.time, &block.trees)))
    }

    fn state(&self, id: BlockId, time: u32, trees: &TreesAt) -> proto::TreeState {
        let [sapling_tree, orchard_tree, ironwood_tree] = trees.each_ref().map(|tree| {
            let bytes = tree.as_ref().map(Frontier::to_bytes);
            bytes.map(const_hex::encode).unwrap_or_default()
        });
        proto::TreeState {
            network: self.chain_name(),
            height: id.height.into(),
            hash: id.hash.to_string(),
            time,
            sapling_tree,
            orchard_tree,
            ironwood_tree,
        }
    }

    /// From the index, if its trees have grown so far.
    async fn indexed_subtrees(
        &self,
        picture: &Picture,
        (pool, start, limit): (ShieldedPool, u32, u32),
    ) -> Result<Option<Vec<proto::SubtreeRoot>>, Refusal> {
        let Some(trees) = self.trees.clone() else {
            return Ok(None);
        };
        if picture.view.tip() != Some(picture.tip) {
            return Ok(None);
        }
        let view = Arc::clone(&picture.view);
        // Thousands of roots lie all over the index.
        aside("reading subtree roots", move || {
            let subtrees = trees
                .subtrees(&view, pool, start, limit)
                .unwrap_or_else(|error| {
                    tracing::error!(%error, %pool, "the node is asked for subtree roots");
                    None
                });
            let Some(subtrees) = subtrees else {
                return Ok(None);
            };
            let roots = subtrees.into_iter().map(|(root, height)| {
                Some(proto::SubtreeRoot {
                    root_hash: bytes::Bytes::copy_from_slice(&root),
                    completing_block_hash: completing_block_hash(view.hash_at(height)?),
                    completing_block_height: height.into(),
                })
            });
            Ok(roots.collect())
        })
        .await
    }

    async fn tree_state_of(&self, hash: BlockHash) -> Result<Option<proto::TreeState>, Refusal> {
        let Some(state) = self.node.tree_state(hash).await? else {
            return Ok(None);
        };
        if state.id.hash != hash {
            tracing::warn!(asked = %hash, got = %state.id.hash, "the node sent another block's tree state");
            return Err(Refusal::NodeAway);
        }
        Ok(Some(proto::TreeState {
            network: self.chain_name(),
            height: state.id.height.into(),
            hash: state.id.hash.to_string(),
            time: state.time,
            // A pool that is not active is the empty string; an active one without notes never is.
            sapling_tree: state.sapling.unwrap_or_default(),
            orchard_tree: state.orchard.unwrap_or_default(),
            ironwood_tree: state.ironwood.unwrap_or_default(),
        }))
    }

    /// `GetSubtreeRoots`.
    pub(crate) async fn subtree_roots(
        &self,
        request: &proto::GetSubtreeRootsArg,
    ) -> Result<Answers<proto::SubtreeRoot>, Refusal> {
        let pool = match request.shielded_protocol {
            0 => ShieldedPool::Sapling,
            1 => ShieldedPool::Orchard,
            2 => ShieldedPool::Ironwood,
            value => return Err(Refusal::UnknownShieldedPool { value }),
        };
        let start = request.start_index;
        if start > MAX_SUBTREE_INDEX {
            return Err(Refusal::SubtreeIndex { start });
        }
        let all = MAX_SUBTREE_INDEX + 1 - start;
        let limit = match request.max_entries {
            0 => None,
            entries if entries >= all => None,
            entries => Some(entries),
        };
        let picture = self.picture()?;
        let asked = (pool, start, limit.unwrap_or(all));
        if let Some(roots) = self.indexed_subtrees(&picture, asked).await? {
            let lease = self.memory.try_ready(roots.len() * ROOT_BYTES)?;
            return Ok(Box::pin(stream::iter(roots).map(move |root| {
                let _lease = &lease;
                Ok(root)
            })));
        }
        let most = limit.unwrap_or(all).min(USUAL_ROOTS) as usize;
        let asking = self.memory.question(most * ROOT_BYTES).await?;
        let mut roots = self.node.subtree_roots(pool, start, limit).await?;
        roots.truncate(limit.unwrap_or(all) as usize);
        // A subtree that a block above the served tip completed is not complete yet as this call sees it.
        let served = roots
            .iter()
            .position(|root| root.end_height > picture.tip.height)
            .unwrap_or(roots.len());
        roots.truncate(served);
        let node = Arc::clone(&self.node);
        let lease = asking.resize(roots.len() * ROOT_BYTES).await?;
        let answers = stream::iter(roots)
            .map(move |root| {
                let _lease = &lease;
                let (view, node) = (Arc::clone(&picture.view), Arc::clone(&node));
                async move {
                    let hash = match row(&view, root.end_height).await? {
                        Some(row) => row.hash,
                        None => errand(async move { Ok(node.hash_at(root.end_height).await?) })
                            .await?
                            .ok_or(Refusal::Replaced)?,
                    };
                    Ok(proto::SubtreeRoot {
                        root_hash: bytes::Bytes::copy_from_slice(&root.root),
                        completing_block_hash: completing_block_hash(hash),
                        completing_block_height: root.end_height.into(),
                    })
                }
            })
            .buffered(CONCURRENCY);
        Ok(Box::pin(answers))
    }
}

/// The one `bytes` field that carries a hash in display order: deployed servers do, and comparisons are made with them.
fn completing_block_hash(hash: BlockHash) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(&hash.to_display_order())
}
