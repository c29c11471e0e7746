//! What each method answers, without transport.
//!
//! In: a decoded request, and one view of the chain taken when the call begins. Out: a decoded answer, a stream of them, or a
//! [`Refusal`]. What the index holds is answered from the view; what only the node knows is asked of it, and an answer that
//! cannot be had is a refusal, never an empty success.

mod addresses;
mod block;
mod info;
mod transactions;
mod trees;

use std::{pin::Pin, sync::Arc};

use futures_util::Stream;
use lightship_chain::{BlockHash, BlockId, Height, Network};
use lightship_index::{Reader, Trees, View};
use lightship_source::Node;

use crate::{
    aside, info::Info, limits::hash_bytes, memory::Memory, mempool::Mempool, proto, range::Live,
    settings::Settings, status::Refusal, tip::served_tip,
};

/// Answers of a streaming method.
pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Refusal>> + Send>>;

/// Everything an answer is made from; one for the whole server.
pub(crate) struct Query {
    pub(crate) reader: Reader,
    pub(crate) trees: Option<Arc<Trees>>,
    pub(crate) node: Arc<dyn Node>,
    /// [`Backend::look`](crate::Backend::look).
    pub(crate) look: Arc<dyn Fn() + Send + Sync>,
    pub(crate) live: Live,
    pub(crate) info: Arc<Info>,
    pub(crate) mempool: Mempool,
    pub(crate) memory: Memory,
    pub(crate) settings: Settings,
    pub(crate) pings: std::sync::atomic::AtomicI64,
}

/// What a call is answered from.
pub(crate) struct Picture {
    pub(crate) view: Arc<View>,
    pub(crate) tip: BlockId,
}

/// Which block a `BlockID` means, once it is understood. It is not above the tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The one at that height; nobody has looked for it yet.
    AtHeight(Height),
    /// In the index, by its hash.
    Indexed(BlockId),
    /// Not in the index, by its hash: as the node has it.
    AtNode(BlockId),
}

impl Query {
    /// The picture of this moment.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotReady`] while there is no tip.
    pub(crate) fn picture(&self) -> Result<Picture, Refusal> {
        let view = self.reader.view();
        let tip = served_tip(&view).ok_or(Refusal::NotReady)?;
        Ok(Picture { view, tip })
    }

    /// `GetLatestBlock`.
    pub(crate) fn latest_block(&self) -> Result<proto::BlockId, Refusal> {
        (self.look)();
        let tip = self.picture()?.tip;
        Ok(proto::BlockId {
            height: tip.height.into(),
            hash: wire_hash(tip.hash),
        })
    }

    pub(crate) fn network(&self) -> Network {
        self.reader.view().store().network
    }

    /// What a `BlockID` means: a hash counts before a height, in protocol order first and in display order second.
    ///
    /// Height 0 without a hash is the genesis block; methods for which it is not check before.
    pub(crate) async fn find(
        &self,
        picture: &Picture,
        id: &proto::BlockId,
    ) -> Result<Found, Refusal> {
        let (height, found) = if id.hash.is_empty() {
            let height = Height::try_from(id.height)?;
            (height, Found::AtHeight(height))
        } else {
            self.find_hash(picture, hash_readings(&id.hash)?).await?
        };
        let tip = picture.tip.height;
        if height > tip {
            (self.look)();
            return Err(Refusal::AboveTip { height, tip });
        }
        Ok(found)
    }

    async fn find_hash(
        &self,
        picture: &Picture,
        readings: [BlockHash; 2],
    ) -> Result<(Height, Found), Refusal> {
        for hash in readings {
            if let Some(height) = aside::height_of(&picture.view, hash).await? {
                return Ok((height, Found::Indexed(BlockId { height, hash })));
            }
        }
        // The index may be incomplete or a block behind; whether the hash is unknown is then the node's to say.
        for hash in readings {
            if let Some(state) = self.node.tree_state(hash).await? {
                let height = state.id.height;
                return if self.node.hash_at(height).await? == Some(hash) {
                    Ok((height, Found::AtNode(BlockId { height, hash })))
                } else {
                    Err(Refusal::BlockNotFound)
                };
            }
        }
        Err(Refusal::BlockNotFound)
    }
}

/// What the hash of a `BlockID` may mean: protocol order first, display order second.
fn hash_readings(hash: &[u8]) -> Result<[BlockHash; 2], Refusal> {
    let bytes = hash_bytes("hash", hash)?;
    Ok([
        BlockHash::from_internal(bytes),
        BlockHash::from_display_order(bytes),
    ])
}

/// A block hash in a `bytes` field: protocol order.
pub(crate) fn wire_hash(hash: BlockHash) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(hash.as_internal())
}
