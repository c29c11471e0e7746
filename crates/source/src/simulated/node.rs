//! The simulated node as a [`Node`], without a transport in between.
//!
//! Each answer is worked out by the same functions that JSON-RPC answers with.

use bytes::Bytes;
use lightship_chain::{BlockHash, Height, HeightRange, ShieldedPool, TreeSizes, TxId};

use super::{BUILD, SUBVERSION, SimulatedNode, address::Address, answer::RpcError, faults::NAME};
use crate::{
    Answer, Error, Node, NodeInfo, NodeTransaction, Place, Result, Submitted, SubtreeRoot,
    TreeState, Utxo,
};

impl SimulatedNode {
    /// Lets the faults have their way, then asks.
    fn ask<'a, T: Send + 'a>(
        &'a self,
        method: &'static str,
        question: impl FnOnce(&SimulatedNode) -> Result<T> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            self.faults().strike_async(method).await?;
            question(self)
        })
    }
}

/// As a client of JSON-RPC would see it.
fn refused(method: &'static str) -> impl FnOnce(RpcError) -> Error {
    move |error| Error::Rpc {
        method: method.to_owned(),
        code: error.code,
        message: error.message,
    }
}

impl Node for SimulatedNode {
    fn info(&self) -> Answer<'_, NodeInfo> {
        self.ask("getblockchaininfo", |node| {
            let chain = node.chain();
            let tip = chain.tip().ok_or_else(|| Error::Warming {
                node: NAME.to_owned(),
                message: "no blocks in state".to_owned(),
            })?;
            Ok(NodeInfo {
                chain: chain.network_name().to_owned(),
                genesis: chain.at(Height::GENESIS).map(|block| block.id.hash),
                tip: tip.id,
                estimated_height: tip.id.height,
                build: BUILD.to_owned(),
                subversion: SUBVERSION.to_owned(),
                upgrades: chain.activations.announced(),
                chain_tip_branch: chain.activations.branch_id(tip.id.height),
            })
        })
    }

    fn transaction(&self, id: TxId) -> Answer<'_, Option<NodeTransaction>> {
        self.ask("getrawtransaction", move |node| {
            let chain = node.chain();
            if let Some(pooled) = chain.mempool.get(&id) {
                return Ok(Some(NodeTransaction {
                    bytes: pooled.bytes.clone(),
                    place: Place::Mempool,
                }));
            }
            Ok(chain.find(&id).and_then(|(block, position)| {
                Some(NodeTransaction {
                    bytes: block.transaction_bytes(position)?,
                    place: if chain.is_best(&block) {
                        Place::Mined(block.id.height)
                    } else {
                        Place::SideChain
                    },
                })
            }))
        })
    }

    fn submit(&self, bytes: Bytes) -> Answer<'_, Submitted> {
        self.ask("sendrawtransaction", move |node| {
            Ok(match node.accept(bytes) {
                Ok(id) => Submitted::Accepted(id),
                Err(RpcError { code, message }) => Submitted::Rejected { code, message },
            })
        })
    }

    fn mempool(&self) -> Answer<'_, Vec<TxId>> {
        self.ask("getrawmempool", |node| Ok(node.mempool_ids()))
    }

    fn tree_state(&self, hash: BlockHash) -> Answer<'_, Option<TreeState>> {
        self.ask("z_gettreestate", move |node| {
            Ok(node.chain().tree_state(hash))
        })
    }

    fn tree_sizes(&self, hash: BlockHash) -> Answer<'_, Option<TreeSizes>> {
        self.ask("getblock", move |node| {
            Ok(node.chain().by_hash(&hash).map(|block| block.sizes))
        })
    }

    fn subtree_roots(
        &self,
        pool: ShieldedPool,
        start: u32,
        limit: Option<u32>,
    ) -> Answer<'_, Vec<SubtreeRoot>> {
        self.ask("z_getsubtreesbyindex", move |node| {
            Ok(node.chain().subtrees_from(pool, start, limit).to_vec())
        })
    }

    fn address_transactions(&self, address: String, range: HeightRange) -> Answer<'_, Vec<TxId>> {
        self.ask("getaddresstxids", move |node| {
            let chain = node.chain();
            let addresses = chain
                .addresses(&[address])
                .map_err(refused("getaddresstxids"))?;
            Ok(chain.transactions_of(&addresses, range))
        })
    }

    fn address_utxos(
        &self,
        addresses: Vec<String>,
        start: Option<Height>,
        max_entries: Option<u32>,
    ) -> Answer<'_, Vec<Utxo>> {
        self.ask("getaddressutxos", move |node| {
            let chain = node.chain();
            let addresses = chain
                .addresses(&addresses)
                .map_err(refused("getaddressutxos"))?;
            Ok(chain.utxos_of(&addresses, start.unwrap_or(Height::GENESIS), max_entries))
        })
    }

    fn address_balance(&self, addresses: Vec<String>) -> Answer<'_, i64> {
        self.ask("getaddressbalance", move |node| {
            let chain = node.chain();
            let addresses: Vec<Address> = chain
                .addresses(&addresses)
                .map_err(refused("getaddressbalance"))?;
            Ok(chain.balance_of(&addresses).0)
        })
    }

    fn hash_at(&self, height: Height) -> Answer<'_, Option<BlockHash>> {
        self.ask("getblockhash", move |node| {
            Ok(node.chain().at(height).map(|block| block.id.hash))
        })
    }

    fn block(&self, hash: BlockHash) -> Answer<'_, Option<Bytes>> {
        self.ask("getblock", move |node| {
            Ok(node.chain().by_hash(&hash).map(|block| block.bytes.clone()))
        })
    }
}
