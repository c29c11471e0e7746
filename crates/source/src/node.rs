//! What serve passes through to a node, and the shapes of its answers.
//!
//! Every answer distinguishes "there is none" (`None`, or an empty list the node itself sent) from "it could not be asked"
//! (an [`Error`](crate::Error)): a wallet that is told "nothing" while the node is away believes that its money is gone.

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, ShieldedPool, TreeSizes, TxId, UpgradeActivation,
};

use crate::Result;

/// A node's reply on its way. Dropping it abandons the question.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What only a full node can answer. Asynchronous, `std` futures only; every answer comes or fails within a bounded time.
pub trait Node: Send + Sync {
    /// What the node says of itself and of its chain.
    fn info(&self) -> Answer<'_, NodeInfo>;

    /// A transaction by id, from the mempool or any branch; `None` if the node knows none.
    fn transaction(&self, id: TxId) -> Answer<'_, Option<NodeTransaction>>;

    /// Offers the consensus serialization of a transaction to the network. A refusal is an answer, not an error.
    fn submit(&self, bytes: Bytes) -> Answer<'_, Submitted>;

    /// The ids of all transactions that wait to be mined, in no promised order.
    fn mempool(&self) -> Answer<'_, Vec<TxId>>;

    /// The note commitment trees at the end of that block; `None` if the node does not know the block.
    fn tree_state(&self, hash: BlockHash) -> Answer<'_, Option<TreeState>>;

    /// How many notes each tree holds at the end of that block; `None` if the node does not know the block.
    fn tree_sizes(&self, hash: BlockHash) -> Answer<'_, Option<TreeSizes>>;

    /// Roots of complete subtrees of 2^16 notes, from index `start` on, at most `limit` (`None`: all).
    fn subtree_roots(
        &self,
        pool: ShieldedPool,
        start: u32,
        limit: Option<u32>,
    ) -> Answer<'_, Vec<SubtreeRoot>>;

    /// Ids of the best chain's transactions in `range` that spend from or pay to a transparent address, each once, in order
    /// of (height, position in the block). Never one outside `range`, also when `range` reaches above the tip.
    fn address_transactions(&self, address: String, range: HeightRange) -> Answer<'_, Vec<TxId>>;

    /// Unspent outputs of transparent addresses, mined at `start` (`None`: 0) or above, in order of (height, position in the
    /// block, output index), at most `max_entries` (`None` or 0: all). An address given twice counts once.
    fn address_utxos(
        &self,
        addresses: Vec<String>,
        start: Option<Height>,
        max_entries: Option<u32>,
    ) -> Answer<'_, Vec<Utxo>>;

    /// The sum of the unspent outputs of transparent addresses, in zatoshi, from one view of the chain. An address given
    /// twice counts once.
    fn address_balance(&self, addresses: Vec<String>) -> Answer<'_, i64>;

    /// The best chain's hash at `height`, or `None` above the tip.
    fn hash_at(&self, height: Height) -> Answer<'_, Option<BlockHash>>;

    /// The consensus serialization of a block, for heights not indexed yet; `None` if the node does not know it.
    fn block(&self, hash: BlockHash) -> Answer<'_, Option<Bytes>>;
}

/// What a node says of itself and of its chain, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The node's name for the chain: `main`, `test`, sometimes `regtest`. Zebra says `test` on regtest, so networks are told
    /// apart by [`NodeInfo::genesis`].
    pub chain: String,
    /// The first block, or `None` while the node has none.
    pub genesis: Option<BlockHash>,
    /// The node's best block.
    pub tip: BlockId,
    /// Where the node believes the network's tip to be, by clock; the tip's own height if it does not say. Meaningless on regtest.
    pub estimated_height: Height,
    /// The node's version, as it writes it.
    pub build: String,
    /// What the node calls itself to its peers, such as `/Zebra:7.0.0/`.
    pub subversion: String,
    /// Every upgrade the node knows, past and to come, lowest first; ones unknown to this program included.
    pub upgrades: Vec<UpgradeActivation>,
    /// Consensus branch of the tip block, 0 before Overwinter.
    pub chain_tip_branch: u32,
}

/// A transaction, and where the node found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTransaction {
    /// The consensus serialization.
    pub bytes: Bytes,
    /// Where it lies.
    pub place: Place,
}

/// Where a transaction lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the best chain, at this height.
    Mined(Height),
    /// Waiting to be mined.
    Mempool,
    /// Only in a branch that is not the best chain.
    SideChain,
}

/// What became of an offered transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The node took it, or already had it and said so with its id.
    Accepted(TxId),
    /// The node refused it. Wallets match on the node's words, so both are passed on unchanged.
    Rejected {
        /// The node's error code: -25 for any refusal from Zebra; zcashd tells -22, -25, -26 and -27 apart.
        code: i32,
        /// The node's reason.
        message: String,
    },
}

/// The note commitment trees at the end of a block.
///
/// A tree is the hexadecimal text of the node's `finalState`, the encoding that wallets' tree libraries read; `None` means
/// that the pool is not active at that height. An active pool without a note is the empty tree's encoding, `000000`, never `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeState {
    /// The block whose end this is.
    pub id: BlockId,
    /// The block's time, seconds since 1970.
    pub time: u32,
    /// [Sapling onwards]
    pub sapling: Option<String>,
    /// [NU5 onwards]
    pub orchard: Option<String>,
    /// [NU6.3 onwards]
    pub ironwood: Option<String>,
}

/// The root of a complete subtree of 2^16 notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubtreeRoot {
    /// `[32]` in the order in which the tree hashes it; nodes print it so, unreversed.
    pub root: [u8; 32],
    /// The block that holds the subtree's last note.
    pub end_height: Height,
}

/// An unspent transparent output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Utxo {
    /// The address it pays to.
    pub address: String,
    /// The transaction that made it.
    pub txid: TxId,
    /// Its position among that transaction's outputs.
    pub index: u32,
    /// The locking script.
    pub script: Bytes,
    /// Its value, in zatoshi.
    pub value_zat: i64,
    /// The block that holds the transaction.
    pub height: Height,
}
