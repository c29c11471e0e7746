//! What can be asked, over either transport.
//!
//! In: the crate's types. Out: the crate's types. Here is known which method answers what on which node, which error codes mean
//! "there is none", and what each node does not do by itself.
//!
//! Measured on zebrad 7.0.0: `getblock` says -8 for an unknown block; `getblockhash` above the tip says -1, its code for
//! anything; `getaddresstxids` moves a range that lies above the tip down to the tip; `getrawtransaction` gives a transaction of a
//! side chain the height it has there and the best chain's block at that height.

use std::collections::BTreeSet;

use bytes::Bytes;
use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, ShieldedPool, TreeSizes, TxId, parse,
};
use serde_json::json;

use super::{
    answers::{
        AddressUtxo, Balance, Best, BlockIds, BlockTrees, ChainInfo, Checked, Header, Info,
        PoolTree, Subtrees, Transaction, TreeAt, Trees3, hash, height, txid,
    },
    client::{Client, Repeat, refused, shape},
    transport::Transport,
};
use crate::{
    Error, NodeInfo, NodeTransaction, Place, Result, Submitted, SubtreeRoot, TreeState, Utxo,
};

/// "Miscellaneous": Zebra's code for what has no other.
const MISC: i32 = -1;
/// Unknown block or transaction.
const INVALID_ADDRESS_OR_KEY: i32 = -5;
/// A height above the tip; on Zebra, an unknown hash.
const INVALID_PARAMETER: i32 = -8;
const METHOD_NOT_FOUND: i32 = -32601;
const UNKNOWN_BLOCK: &[i32] = &[INVALID_ADDRESS_OR_KEY, INVALID_PARAMETER];
/// What `sendrawtransaction` says of a transaction it does not want: undecodable, -22; refused, -25 and -26; already mined, -27.
const REFUSALS: &[i32] = &[-22, -25, -26, -27];

/// Notes in a subtree, and subtrees in a tree: 2^16 each.
const SUBTREES: u32 = 1 << 16;
/// Zebra's own bound on one answer.
const MAX_UTXOS: u32 = 100_000;
/// A transaction that changes its block more often while it is looked at is looked at again by the caller.
const MAX_REORGS_AT_ONCE: u32 = 3;
/// zcashd points at most once for each pool; a node that keeps pointing is broken.
const MAX_SKIPS: usize = 16;

impl<T: Transport> Client<T> {
    pub(super) async fn tip(&self) -> Result<Option<BlockId>> {
        const METHOD: &str = "getbestblockheightandhash";
        let reply = self.call(METHOD, NOTHING).await?;
        if reply.refused_with(&[METHOD_NOT_FOUND]) {
            return self.tip_in_two_steps().await;
        }
        if let Some(refusal) = reply.refusal()
            && refusal.code == MISC
            && refusal.message.contains("No blocks in state")
        {
            return Ok(None);
        }
        let best: Best = reply.value()?;
        checked(METHOD, best.id()).map(Some)
    }

    /// zcashd has no method for both: the hash first, then its height, which belongs to that hash whatever happens in between.
    async fn tip_in_two_steps(&self) -> Result<Option<BlockId>> {
        let best: String = self.call("getbestblockhash", NOTHING).await?.value()?;
        let hash = checked("getbestblockhash", hash(&best))?;
        let header: Header = self
            .call("getblockheader", json!([best, true]))
            .await?
            .value()?;
        let number = u64::try_from(header.height).unwrap_or(u64::MAX);
        let height = checked("getblockheader", height(number))?;
        Ok(Some(BlockId { height, hash }))
    }

    pub(super) async fn hash_at(&self, height: Height) -> Result<Option<BlockHash>> {
        const METHOD: &str = "getblockhash";
        let reply = self.call(METHOD, (height.get(),)).await?;
        if reply.refused_with(&[INVALID_PARAMETER]) {
            return Ok(None);
        }
        if reply.refused_with(&[MISC]) {
            // Zebra says -1 to this and to everything that fails inside; its tip tells which it was.
            return match self.tip().await? {
                Some(tip) if tip.height >= height => Err(reply
                    .result()
                    .err()
                    .unwrap_or_else(|| shape(METHOD, "a refusal"))),
                _ => Ok(None),
            };
        }
        let text: String = reply.value()?;
        checked(METHOD, hash(&text)).map(Some)
    }

    pub(super) async fn block(&self, hash: BlockHash) -> Result<Option<Bytes>> {
        const METHOD: &str = "getblock";
        let reply = self.call(METHOD, (hash.to_string(), 0)).await?;
        if reply.refused_with(UNKNOWN_BLOCK) {
            return Ok(None);
        }
        let bytes = reply.hex()?;
        // The one question whose answer can be checked against itself.
        let header = parse::Header::parse(&bytes).map(|(header, _)| header.hash());
        match header {
            Ok(found) if found == hash => Ok(Some(bytes)),
            Ok(found) => Err(shape(METHOD, format!("block {found} instead of {hash}"))),
            Err(error) => Err(shape(METHOD, error.to_string())),
        }
    }

    pub(super) async fn tree_sizes(&self, hash: BlockHash) -> Result<Option<TreeSizes>> {
        let reply = self.call("getblock", (hash.to_string(), 1)).await?;
        if reply.refused_with(UNKNOWN_BLOCK) {
            return Ok(None);
        }
        let trees: BlockTrees = reply.value()?;
        match trees.sizes() {
            Some(sizes) => Ok(Some(sizes)),
            None => Err(Error::Unsupported {
                what: "the node's getblock does not tell the sizes of the note commitment trees"
                    .to_owned(),
            }),
        }
    }

    pub(super) async fn info(&self) -> Result<NodeInfo> {
        let info: Info = self.call("getinfo", NOTHING).await?.value()?;
        let chain: ChainInfo = self.call("getblockchaininfo", NOTHING).await?.value()?;
        let genesis = self.hash_at(Height::GENESIS).await?;
        checked("getblockchaininfo", chain.into_node_info(info, genesis))
    }

    pub(super) async fn transaction(&self, id: TxId) -> Result<Option<NodeTransaction>> {
        for _ in 0..MAX_REORGS_AT_ONCE {
            let Some(transaction) = self.raw_transaction(id).await? else {
                return Ok(None);
            };
            let bytes = const_hex::decode(&transaction.hex)
                .map_err(|error| shape(TRANSACTION, error.to_string()))?;
            let mut place = checked(TRANSACTION, transaction.place())?;
            if let Place::Mined(height) = place
                && !transaction.is_final()
            {
                // A wallet counts on a payment that is told to be mined, and the node tells so of replaced blocks too.
                match self.is_in(id, height, &transaction).await? {
                    Some(true) => {}
                    Some(false) => place = Place::SideChain,
                    None => continue,
                }
            }
            return Ok(Some(NodeTransaction {
                bytes: bytes.into(),
                place,
            }));
        }
        Err(shape(TRANSACTION, "a block that is gone when asked for"))
    }

    async fn raw_transaction(&self, id: TxId) -> Result<Option<Transaction>> {
        let reply = self.call(TRANSACTION, (id.to_string(), 1)).await?;
        if let Some(refusal) = reply.refusal()
            && refusal.code == INVALID_ADDRESS_OR_KEY
        {
            // zcashd without its index knows no mined transaction: that is not "there is none".
            if refusal.message.contains("txindex") {
                return Err(Error::Unsupported {
                    what: "the node has no transaction index: set txindex=1 in zcash.conf"
                        .to_owned(),
                });
            }
            return Ok(None);
        }
        reply.value().map(Some)
    }

    /// Whether the block that is said to hold `id` at `height` holds it. `None` if that block is no longer there.
    async fn is_in(
        &self,
        id: TxId,
        height: Height,
        transaction: &Transaction,
    ) -> Result<Option<bool>> {
        let block = match checked(TRANSACTION, transaction.block())? {
            Some(block) => Some(block),
            None => self.hash_at(height).await?,
        };
        let Some(block) = block else { return Ok(None) };
        let reply = self.call("getblock", (block.to_string(), 1)).await?;
        if reply.refused_with(UNKNOWN_BLOCK) {
            return Ok(None);
        }
        let ids: BlockIds = reply.value()?;
        Ok(Some(ids.tx.contains(&id.to_string())))
    }

    pub(super) async fn submit(&self, bytes: Bytes) -> Result<Submitted> {
        const METHOD: &str = "sendrawtransaction";
        let reply = self
            .call_with(METHOD, (const_hex::encode(&bytes),), Repeat::IfUnheard)
            .await?;
        if let Some(refusal) = reply.refusal()
            && REFUSALS.contains(&refusal.code)
        {
            return Ok(Submitted::Rejected {
                code: refusal.code,
                message: refusal.message.clone(),
            });
        }
        let id: String = reply.value()?;
        checked(METHOD, txid(&id)).map(Submitted::Accepted)
    }

    pub(super) async fn mempool(&self) -> Result<Vec<TxId>> {
        const METHOD: &str = "getrawmempool";
        let ids: Vec<String> = self.call(METHOD, NOTHING).await?.value()?;
        checked(METHOD, ids.iter().map(|id| txid(id)).collect())
    }

    pub(super) async fn tree_state(&self, block: BlockHash) -> Result<Option<TreeState>> {
        let Some(trees) = self.trees(block).await? else {
            return Ok(None);
        };
        Ok(Some(TreeState {
            id: BlockId {
                height: checked(TREES, height(trees.height))?,
                hash: block,
            },
            time: trees.time,
            sapling: self.tree(trees.sapling, |trees| trees.sapling).await?,
            orchard: self.tree(trees.orchard, |trees| trees.orchard).await?,
            ironwood: self.tree(trees.ironwood, |trees| trees.ironwood).await?,
        }))
    }

    async fn trees(&self, block: BlockHash) -> Result<Option<Trees3>> {
        let reply = self.call(TREES, (block.to_string(),)).await?;
        if reply.refused_with(UNKNOWN_BLOCK) {
            return Ok(None);
        }
        let trees: Trees3 = reply.value()?;
        if checked(TREES, hash(&trees.hash))? != block {
            return Err(shape(TREES, format!("the trees of block {}", trees.hash)));
        }
        Ok(Some(trees))
    }

    /// Follows the pointers of one pool to the block that holds its tree.
    async fn tree(
        &self,
        tree: Option<PoolTree>,
        of: fn(Trees3) -> Option<PoolTree>,
    ) -> Result<Option<String>> {
        let mut tree = tree;
        for _ in 0..=MAX_SKIPS {
            let Some(found) = tree else { return Ok(None) };
            match checked(TREES, found.find())? {
                TreeAt::Nowhere => return Ok(None),
                TreeAt::Here(state) => return Ok(Some(state)),
                TreeAt::Earlier(block) => {
                    let trees = self.trees(block).await?;
                    tree = match trees.and_then(of) {
                        Some(tree) => Some(tree),
                        None => return Err(shape(TREES, "a pointer to a block without the tree")),
                    };
                }
            }
        }
        Err(shape(TREES, "pointers that lead nowhere"))
    }

    pub(super) async fn subtree_roots(
        &self,
        pool: ShieldedPool,
        start: u32,
        limit: Option<u32>,
    ) -> Result<Vec<SubtreeRoot>> {
        const METHOD: &str = "z_getsubtreesbyindex";
        // Nodes count subtrees in 16 bits, and refuse more.
        if start >= SUBTREES || limit == Some(0) {
            return Ok(Vec::new());
        }
        let subtrees: Subtrees = match limit.filter(|limit| *limit < SUBTREES) {
            Some(limit) => self.call(METHOD, (pool.name(), start, limit)).await?,
            None => self.call(METHOD, (pool.name(), start)).await?,
        }
        .value()?;
        let mut roots = checked(METHOD, subtrees.roots(pool.name(), start))?;
        roots.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        Ok(roots)
    }

    pub(super) async fn address_transactions(
        &self,
        address: String,
        range: HeightRange,
    ) -> Result<Vec<TxId>> {
        const METHOD: &str = "getaddresstxids";
        // Zebra moves a range that lies above the tip down to the tip, and its answer does not say so: the tip is looked at
        // before and after. zcashd refuses a range that ends above the tip.
        let Some(tip) = self.tip().await? else {
            return Ok(Vec::new());
        };
        let last = range.last().min(tip.height);
        // A start or end of 0 means the whole chain to nodes. Genesis itself touches no address: its one output pays to a bare key.
        let first = range.first().max(Height::new(1));
        if last < first {
            return Ok(Vec::new());
        }
        let question = json!([{
            "addresses": [address],
            "start": first.get(),
            "end": last.get(),
        }]);
        let ids: Vec<String> = self.call(METHOD, question).await?.value()?;
        if self.tip().await?.is_none_or(|tip| tip.height < first) {
            return Ok(Vec::new());
        }
        let mut seen = BTreeSet::new();
        let ids: Vec<TxId> = checked(METHOD, ids.iter().map(|id| txid(id)).collect())?;
        Ok(ids.into_iter().filter(|id| seen.insert(*id)).collect())
    }

    pub(super) async fn address_utxos(
        &self,
        addresses: Vec<String>,
        start: Option<Height>,
        max_entries: Option<u32>,
    ) -> Result<Vec<Utxo>> {
        const METHOD: &str = "getaddressutxos";
        let addresses = BTreeSet::from_iter(addresses);
        if addresses.is_empty() {
            return Ok(Vec::new());
        }
        let start = start.unwrap_or(Height::GENESIS);
        let most = max_entries.filter(|most| *most != 0);
        let question = json!([{
            "addresses": addresses,
            "startHeight": start.get(),
            // Without a bound the node refuses to send more than this, which is better than a list cut short.
            "maxEntries": most.filter(|most| *most <= MAX_UTXOS).unwrap_or(0),
        }]);
        let entries: Vec<AddressUtxo> = self.call(METHOD, question).await?.value()?;
        let utxos = entries.into_iter().map(AddressUtxo::utxo).collect();
        let mut utxos: Vec<Utxo> = checked(METHOD, utxos)?;
        // zcashd knows neither bound, and orders by height alone.
        utxos.retain(|utxo| utxo.height >= start);
        utxos.sort_by_key(|utxo| utxo.height);
        utxos.truncate(most.map_or(usize::MAX, |most| most as usize));
        Ok(utxos)
    }

    pub(super) async fn address_balance(&self, addresses: Vec<String>) -> Result<i64> {
        let addresses = BTreeSet::from_iter(addresses);
        if addresses.is_empty() {
            return Ok(0);
        }
        let question = json!([{ "addresses": addresses }]);
        let balance: Balance = self.call("getaddressbalance", question).await?.value()?;
        Ok(balance.balance)
    }

    /// The raw blocks of consecutive heights, as the hexadecimal text the node sent, up to the first it does not have.
    pub(super) async fn blocks_by_height(&self, range: HeightRange) -> Result<HexBlocks> {
        const METHOD: &str = "getblock";
        let params = range.iter().map(|height| (height.to_string(), 0));
        if range.len() == 1 {
            let reply = self.call(METHOD, (range.first().to_string(), 0)).await?;
            if reply.refused_with(UNKNOWN_BLOCK) {
                return Ok(HexBlocks::default());
            }
            let block = reply.result()?;
            return Ok(HexBlocks {
                answer_bytes: block.len(),
                blocks: vec![block],
            });
        }
        let batch = self
            .batch(METHOD, params)
            .await?
            .map_err(|refusal| refused(METHOD, refusal))?;
        let mut blocks = Vec::with_capacity(batch.outcomes.len());
        for outcome in batch.outcomes {
            match outcome {
                Ok(block) => blocks.push(block),
                Err(refusal) if UNKNOWN_BLOCK.contains(&refusal.code) => break,
                Err(refusal) => return Err(refused(METHOD, refusal)),
            }
        }
        Ok(HexBlocks {
            answer_bytes: batch.bytes,
            blocks,
        })
    }
}

/// Blocks as JSON strings of hexadecimal digits.
#[derive(Default)]
pub(super) struct HexBlocks {
    pub(super) answer_bytes: usize,
    pub(super) blocks: Vec<Bytes>,
}

const TREES: &str = "z_gettreestate";
const TRANSACTION: &str = "getrawtransaction";
const NOTHING: [(); 0] = [];

fn checked<V>(method: &'static str, value: Checked<V>) -> Result<V> {
    value.map_err(|what| shape(method, what))
}
