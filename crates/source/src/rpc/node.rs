//! The node's own answers over JSON-RPC, for asynchronous callers.

use bytes::Bytes;
use lightship_chain::{BlockHash, Height, HeightRange, ShieldedPool, TreeSizes, TxId};

use super::{Endpoint, client::Client, streaming::Streaming};
use crate::{Answer, Node, NodeInfo, NodeTransaction, Submitted, SubtreeRoot, TreeState, Utxo};

/// A node asked over JSON-RPC on the tokio runtime of whoever polls the answers.
///
/// An answer takes at most [`Endpoint::timeout`] plus [`Endpoint::patience`] for each exchange it needs. Made without I/O:
/// credentials are read when first needed, from small files, on the calling thread.
pub struct RpcNode {
    client: Client<Streaming>,
}

impl RpcNode {
    /// A node at `endpoint`.
    pub fn new(endpoint: Endpoint) -> RpcNode {
        let transport = Streaming::new(&endpoint);
        RpcNode {
            client: Client::new(endpoint, transport),
        }
    }
}

impl Node for RpcNode {
    fn info(&self) -> Answer<'_, NodeInfo> {
        Box::pin(self.client.info())
    }

    fn transaction(&self, id: TxId) -> Answer<'_, Option<NodeTransaction>> {
        Box::pin(self.client.transaction(id))
    }

    fn submit(&self, bytes: Bytes) -> Answer<'_, Submitted> {
        Box::pin(self.client.submit(bytes))
    }

    fn mempool(&self) -> Answer<'_, Vec<TxId>> {
        Box::pin(self.client.mempool())
    }

    fn tree_state(&self, hash: BlockHash) -> Answer<'_, Option<TreeState>> {
        Box::pin(self.client.tree_state(hash))
    }

    fn tree_sizes(&self, hash: BlockHash) -> Answer<'_, Option<TreeSizes>> {
        Box::pin(self.client.tree_sizes(hash))
    }

    fn subtree_roots(
        &self,
        pool: ShieldedPool,
        start: u32,
        limit: Option<u32>,
    ) -> Answer<'_, Vec<SubtreeRoot>> {
        Box::pin(self.client.subtree_roots(pool, start, limit))
    }

    fn address_transactions(&self, address: String, range: HeightRange) -> Answer<'_, Vec<TxId>> {
        Box::pin(self.client.address_transactions(address, range))
    }

    fn address_utxos(
        &self,
        addresses: Vec<String>,
        start: Option<Height>,
        max_entries: Option<u32>,
    ) -> Answer<'_, Vec<Utxo>> {
        Box::pin(self.client.address_utxos(addresses, start, max_entries))
    }

    fn address_balance(&self, addresses: Vec<String>) -> Answer<'_, i64> {
        Box::pin(self.client.address_balance(addresses))
    }

    fn hash_at(&self, height: Height) -> Answer<'_, Option<BlockHash>> {
        Box::pin(self.client.hash_at(height))
    }

    fn block(&self, hash: BlockHash) -> Answer<'_, Option<Bytes>> {
        Box::pin(self.client.block(hash))
    }
}
