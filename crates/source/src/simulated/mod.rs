//! A full node that is not there: an in-memory chain with branches, a mempool and an address index.
//!
//! In: blocks, made to order ([`lightship_chain::build`]) or recorded, orders to change the branch, and faults to commit ([`Faults`]). Out: what
//! a node with that chain answers, through [`BlockSource`](crate::BlockSource), [`Node`](crate::Node) and JSON-RPC in the shapes of zebrad 7.0.
//! Feeds the tests of every room, and the demo.
//!
//! Left to real nodes: consensus. A block is taken if it can be read and its parent is known; nothing is verified. Tree nodes are combined with a
//! [stand-in hash](StandIn) unless [`SimulatedNode::with_hash`] gets the real one. Values of shielded pools are not kept.
//!
//! # Invariants
//!
//! - Every answer comes from one state of the chain: changes happen under one lock, a reorg in one step.
//! - A block once taken is never forgotten; it answers by hash whatever the best chain is.

mod address;
mod answer;
mod archive;
mod block;
mod chain;
pub mod demo;
mod faults;
pub mod http;
mod ledger;
mod node;
mod query;
mod source;
mod tree;

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use bytes::Bytes;
use lightship_chain::{
    BlockHash, BlockId, TxId,
    build::{Activations, Built, BuiltBlock, ChainBuilder, Coinbase, Unbuildable},
    parse::{self, Transaction},
};

pub use address::Address;
pub use answer::RpcError;
pub use archive::{Archive, ArchivedBlock, Event, EventKind};
pub use faults::{Fault, Faults, Rule};
pub use tree::{DEPTH, SUBTREE_LEVEL, StandIn, TreeHash, TreeNode};

use archive::Base;
use chain::Chain;

/// The version it claims: the node whose answers it imitates.
pub const BUILD: &str = "7.0.0";
/// What it calls itself to peers.
pub const SUBVERSION: &str = "/Zebra:7.0.0/";

/// Why a block or transaction cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The bytes are none.
    #[error(transparent)]
    Parse(#[from] parse::Error),
    /// No known block has that hash.
    #[error("block {parent} is not known")]
    Orphan {
        /// The block missing.
        parent: BlockHash,
    },
    /// The block does not stand on the tip.
    #[error("the block's parent is {parent}, which is not the tip")]
    NotOnTip {
        /// The block's parent.
        parent: BlockHash,
    },
    /// The branch leaves the best chain below blocks that are never replaced.
    #[error("the first {blocks} blocks are in an archive and cannot be replaced")]
    Archived {
        /// How many these are.
        blocks: usize,
    },
    /// More blocks or notes than a chain holds.
    #[error("too many blocks or notes")]
    Overflow,
    /// The coinbase asked for cannot be built.
    #[error(transparent)]
    Unbuildable(#[from] Unbuildable),
}

/// An in-memory node. Clones are handles on the same node.
#[derive(Clone)]
pub struct SimulatedNode {
    shared: Arc<Shared>,
}

struct Shared {
    chain: RwLock<Chain>,
    /// Counts changes of the tip, for those who wait.
    changes: Mutex<u64>,
    moved: Condvar,
    faults: Faults,
}

impl SimulatedNode {
    /// A node without a block.
    pub fn new(activations: Activations) -> SimulatedNode {
        SimulatedNode::with_hash(activations, Arc::new(StandIn))
    }

    /// A node without a block that hashes its trees with `hash`.
    pub fn with_hash(activations: Activations, hash: Arc<dyn TreeHash>) -> SimulatedNode {
        SimulatedNode::of_chain(Chain::new(activations, hash))
    }

    /// A node whose best chain is the first `blocks` blocks of `archive`, which stay where they are: no reorg reaches them. `hash` is what the
    /// archive's trees are hashed with.
    pub fn on_archive(
        activations: Activations,
        hash: Arc<dyn TreeHash>,
        archive: Arc<dyn Archive>,
        blocks: u32,
    ) -> SimulatedNode {
        SimulatedNode::of_chain(Chain::on(activations, hash, Base::new(archive, blocks)))
    }

    fn of_chain(chain: Chain) -> SimulatedNode {
        SimulatedNode {
            shared: Arc::new(Shared {
                chain: RwLock::new(chain),
                changes: Mutex::new(0),
                moved: Condvar::new(),
                faults: Faults::default(),
            }),
        }
    }

    /// A node whose best chain is `blocks`, genesis first.
    ///
    /// # Errors
    ///
    /// If one is no block, or does not stand on the one before it.
    pub fn from_blocks<B: Into<Bytes>>(
        activations: Activations,
        blocks: impl IntoIterator<Item = B>,
    ) -> Result<SimulatedNode, Unfit> {
        let node = SimulatedNode::new(activations);
        for block in blocks {
            node.extend(block)?;
        }
        Ok(node)
    }

    /// Puts a block on the tip. Its transactions leave the mempool, and so do those that spend the same outputs.
    ///
    /// # Errors
    ///
    /// If it is no block, or its parent is not the tip; nothing has changed then.
    pub fn extend(&self, block: impl Into<Bytes>) -> Result<BlockId, Unfit> {
        self.replace(0, [block.into()])
    }

    /// Takes the top `depth` blocks off the best chain and puts `blocks`, lowest first, in their place, in one step. How many come back is free:
    /// a shorter branch may be the heavier one.
    ///
    /// # Errors
    ///
    /// If the blocks are none, or do not stand on what is left and on each other. The best chain has not changed then.
    pub fn reorg<B: Into<Bytes>>(
        &self,
        depth: u32,
        blocks: impl IntoIterator<Item = B>,
    ) -> Result<Option<BlockId>, Unfit> {
        let blocks: Vec<Bytes> = blocks.into_iter().map(Into::into).collect();
        if blocks.is_empty() {
            return Ok(self.rollback(depth));
        }
        self.replace(depth, blocks).map(Some)
    }

    /// Takes the top `depth` blocks off the best chain, except those of an archive, and puts nothing in their place. Gives the new tip.
    pub fn rollback(&self, depth: u32) -> Option<BlockId> {
        let mut chain = self.chain_mut();
        let left = chain.len().saturating_sub(depth as usize);
        let tip = chain.top(left.max(chain.archived()));
        chain
            .set_tip(tip.map(|tip| tip.hash))
            .expect("blocks of the best chain are known");
        drop(chain);
        self.announce();
        tip
    }

    fn replace(
        &self,
        depth: u32,
        blocks: impl IntoIterator<Item = Bytes>,
    ) -> Result<BlockId, Unfit> {
        let mut chain = self.chain_mut();
        let left = chain.len().saturating_sub(depth as usize);
        let mut tip = chain.top(left);
        for block in blocks {
            let (header, _) = parse::Header::parse(&block)?;
            let parent = header.previous();
            if parent != tip.map_or(BlockHash::ZERO, |tip| tip.hash) {
                return Err(Unfit::NotOnTip { parent });
            }
            tip = Some(chain.add(block)?.id);
        }
        let tip = tip.ok_or(Unfit::Orphan {
            parent: BlockHash::ZERO,
        })?;
        chain.set_tip(Some(tip.hash))?;
        drop(chain);
        self.announce();
        Ok(tip)
    }

    /// Keeps a block on a side branch. The best chain stays as it is.
    ///
    /// # Errors
    ///
    /// If it is no block, or its parent is not known.
    pub fn add_side(&self, block: impl Into<Bytes>) -> Result<BlockId, Unfit> {
        Ok(self.chain_mut().add(block.into())?.id)
    }

    /// Makes a block of any branch the tip, in one step, whatever its height.
    ///
    /// # Errors
    ///
    /// If it is not known.
    pub fn switch_to(&self, tip: BlockHash) -> Result<(), Unfit> {
        self.chain_mut().set_tip(Some(tip))?;
        self.announce();
        Ok(())
    }

    /// The tip, unasked: no fault befalls this call.
    pub fn best(&self) -> Option<BlockId> {
        self.chain().tip().map(|tip| tip.id)
    }

    /// The best chain's block at that height, unasked.
    pub fn best_at(&self, height: lightship_chain::Height) -> Option<Bytes> {
        self.chain().at(height).map(|block| block.bytes.clone())
    }

    /// Lets a transaction wait to be mined, without looking at what it spends.
    ///
    /// # Errors
    ///
    /// If the bytes are no transaction.
    pub fn mempool_add(&self, transaction: impl Into<Bytes>) -> Result<TxId, Unfit> {
        let bytes = transaction.into();
        let (read, used) = Transaction::parse(&bytes)?;
        let id = read.id();
        let bytes = bytes.slice(..used);
        self.chain_mut().pool(id, bytes);
        Ok(id)
    }

    /// Lets a transaction wait no longer. `false` if it did not wait.
    pub fn mempool_remove(&self, id: TxId) -> bool {
        self.chain_mut().mempool.remove(&id).is_some()
    }

    /// The transactions that wait, in order of arrival, ready to be put into a block.
    pub fn mempool_transactions(&self) -> Vec<Built> {
        let chain = self.chain();
        let mut waiting: Vec<_> = chain.mempool.iter().collect();
        waiting.sort_unstable_by_key(|(_, pooled)| pooled.arrival);
        waiting
            .into_iter()
            .map(|(id, pooled)| Built {
                id: *id,
                bytes: pooled.bytes.to_vec(),
            })
            .collect()
    }

    /// Writes the next block with all that waits in it, and puts it on the tip. `chain` must stand on the tip.
    ///
    /// # Errors
    ///
    /// If `chain` stands elsewhere, or the coinbase cannot be built.
    pub fn mine(&self, chain: &mut ChainBuilder, coinbase: Coinbase) -> Result<BuiltBlock, Unfit> {
        let block = chain.next_block(coinbase, &self.mempool_transactions())?;
        self.extend(block.bytes.clone())?;
        Ok(block)
    }

    /// What goes wrong, and how often each method was called.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Takes a transaction as `sendrawtransaction` does: refuses what cannot be read (-22), and what is known, mined or spends what is not there or
    /// spent already (-25). Signatures and proofs are not looked at.
    fn accept(&self, bytes: Bytes) -> Result<TxId, RpcError> {
        let unreadable = || RpcError::new(-22, "transaction deserialization failed");
        let (transaction, used) = Transaction::parse(&bytes).map_err(|_| unreadable())?;
        if used != bytes.len() {
            return Err(unreadable());
        }
        let id = transaction.id();
        let refuse = |why: &str| {
            Err(RpcError::new(
                -25,
                format!("failed to validate tx: {id}, error: {why}"),
            ))
        };
        if transaction.is_coinbase() {
            return refuse("coinbase transactions are not allowed in the mempool");
        }
        let mut chain = self.chain_mut();
        if chain.mempool.contains_key(&id) {
            return refuse("transaction already exists in mempool");
        }
        if chain
            .find(&id)
            .is_some_and(|(block, _)| chain.is_best(&block))
        {
            return refuse("transaction is already in the best chain");
        }
        for outpoint in chain::outpoints(&transaction) {
            let pooled = |parent: &chain::Pooled| {
                Transaction::parse(&parent.bytes)
                    .is_ok_and(|(parent, _)| outpoint.1 < parent.outputs().len() as u32)
            };
            let exists = chain.ledger.unspent(&outpoint).is_some()
                || chain.mempool.get(&outpoint.0).is_some_and(pooled);
            if !exists {
                return refuse(
                    "could not find transparent input UTXO in the best chain or mempool",
                );
            }
            if chain.pooled_spender(&outpoint).is_some() {
                return refuse("transaction spends an output that another in the mempool spends");
            }
        }
        chain.pool(id, bytes.clone());
        Ok(id)
    }

    /// In the order of their ids' text, as Zebra lists them.
    fn mempool_ids(&self) -> Vec<TxId> {
        let mut ids: Vec<_> = self.chain().mempool.keys().copied().collect();
        ids.sort_unstable_by_key(|id| id.to_display_order());
        ids
    }

    fn chain(&self) -> RwLockReadGuard<'_, Chain> {
        self.shared
            .chain
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn chain_mut(&self) -> RwLockWriteGuard<'_, Chain> {
        self.shared
            .chain
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> MutexGuard<'_, u64> {
        self.shared
            .changes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes who waits for a new tip. Never called with the chain locked: who waits looks at the chain with the counter locked.
    fn announce(&self) {
        *self.changes() += 1;
        self.shared.moved.notify_all();
    }
}

impl std::fmt::Debug for SimulatedNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedNode")
            .field("tip", &self.best())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
