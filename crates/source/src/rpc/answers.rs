//! The shapes of the node's answers, and what becomes of them.
//!
//! In: JSON as zebrad, zakurad and zcashd write it. Out: the crate's own types, or what was wrong in words. Unknown keys are
//! passed over; a missing one that matters is an error, never a default.

use std::collections::BTreeMap;

use lightship_chain::{BlockHash, BlockId, Height, TreeSizes, TxId, Upgrade, UpgradeActivation};
use serde::Deserialize;
use serde_json::Value;

use crate::{NodeInfo, Place, SubtreeRoot, Utxo};

/// Zebra never replaces a block below this many others.
const MAX_REORG_BLOCKS: i64 = 1000;

/// What was wrong, in words.
pub(super) type Checked<T> = Result<T, String>;

pub(super) fn hash(text: &str) -> Checked<BlockHash> {
    text.parse()
        .map_err(|_| format!("'{text:.80}' is not a block hash"))
}

pub(super) fn txid(text: &str) -> Checked<TxId> {
    text.parse()
        .map_err(|_| format!("'{text:.80}' is not a transaction id"))
}

pub(super) fn height(number: u64) -> Checked<Height> {
    Height::try_from(number).map_err(|error| error.to_string())
}

/// `getbestblockheightandhash`: Zebra writes the hash as 32 numbers in internal order.
#[derive(Deserialize)]
pub(super) struct Best {
    height: u64,
    hash: BestHash,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum BestHash {
    Internal([u8; 32]),
    Display(String),
}

impl Best {
    pub(super) fn id(&self) -> Checked<BlockId> {
        Ok(BlockId {
            height: height(self.height)?,
            hash: match &self.hash {
                BestHash::Internal(bytes) => BlockHash::from_internal(*bytes),
                BestHash::Display(text) => hash(text)?,
            },
        })
    }
}

/// `getblockheader "hash" true`.
#[derive(Deserialize)]
pub(super) struct Header {
    /// zcashd: -1 for a header it knows no more of.
    pub(super) height: i64,
}

/// `getinfo`.
#[derive(Deserialize)]
pub(super) struct Info {
    #[serde(default)]
    build: Option<String>,
    #[serde(default)]
    subversion: Option<String>,
    #[serde(default)]
    version: Option<Value>,
}

/// `getblockchaininfo`.
#[derive(Deserialize)]
pub(super) struct ChainInfo {
    chain: String,
    blocks: u64,
    bestblockhash: String,
    #[serde(default)]
    estimatedheight: Option<u64>,
    #[serde(default)]
    upgrades: BTreeMap<String, Value>,
    #[serde(default)]
    consensus: Option<Consensus>,
}

#[derive(Deserialize)]
struct Consensus {
    chaintip: String,
}

impl ChainInfo {
    pub(super) fn tip(&self) -> Checked<BlockId> {
        Ok(BlockId {
            height: height(self.blocks)?,
            hash: hash(&self.bestblockhash)?,
        })
    }

    pub(super) fn into_node_info(
        self,
        info: Info,
        genesis: Option<BlockHash>,
    ) -> Checked<NodeInfo> {
        let tip = self.tip()?;
        let estimated_height = self
            .estimatedheight
            .and_then(|estimate| height(estimate).ok());
        let chain_tip_branch = match &self.consensus {
            Some(consensus) => u32::from_str_radix(&consensus.chaintip, 16)
                .map_err(|_| format!("'{:.80}' is not a branch id", consensus.chaintip))?,
            None => return Err("no consensus branch".to_owned()),
        };
        let build = info.build.or_else(|| {
            // Nodes too old to name a build still have a version number.
            info.version.map(|version| version.to_string())
        });
        Ok(NodeInfo {
            chain: self.chain,
            genesis,
            tip,
            estimated_height: estimated_height.unwrap_or(tip.height),
            build: build.unwrap_or_default(),
            subversion: info.subversion.unwrap_or_default(),
            upgrades: upgrades(self.upgrades),
            chain_tip_branch,
        })
    }
}

/// Lowest first; of several at one height, in the order in which the protocol made them. What has no height is no plan yet.
fn upgrades(entries: BTreeMap<String, Value>) -> Vec<UpgradeActivation> {
    let mut upgrades: Vec<_> = entries
        .into_iter()
        .filter_map(|(branch, entry)| {
            Some(UpgradeActivation {
                branch_id: u32::from_str_radix(&branch, 16).ok()?,
                name: entry.get("name")?.as_str()?.to_owned(),
                height: height(entry.get("activationheight")?.as_u64()?).ok()?,
            })
        })
        .collect();
    upgrades.sort_by_key(|upgrade| {
        let place = Upgrade::ALL
            .iter()
            .position(|known| known.branch_id() == upgrade.branch_id);
        (upgrade.height, place.unwrap_or(usize::MAX))
    });
    upgrades
}

/// `getblock "hash" 1`, of which only the tree sizes are read. A pool without notes is left out by the node.
#[derive(Deserialize)]
pub(super) struct BlockTrees {
    #[serde(default)]
    trees: Option<Trees>,
}

#[derive(Deserialize)]
struct Trees {
    #[serde(default)]
    sapling: Option<Tree>,
    #[serde(default)]
    orchard: Option<Tree>,
    #[serde(default)]
    ironwood: Option<Tree>,
}

#[derive(Deserialize)]
struct Tree {
    size: u32,
}

impl BlockTrees {
    /// `None` if the node does not tell.
    pub(super) fn sizes(self) -> Option<TreeSizes> {
        let size = |tree: Option<Tree>| tree.map_or(0, |tree| tree.size);
        self.trees.map(|trees| TreeSizes {
            sapling: size(trees.sapling),
            orchard: size(trees.orchard),
            ironwood: size(trees.ironwood),
        })
    }
}

/// `z_gettreestate`.
#[derive(Deserialize)]
pub(super) struct Trees3 {
    pub(super) hash: String,
    pub(super) height: u64,
    pub(super) time: u32,
    #[serde(default)]
    pub(super) sapling: Option<PoolTree>,
    #[serde(default)]
    pub(super) orchard: Option<PoolTree>,
    #[serde(default)]
    pub(super) ironwood: Option<PoolTree>,
}

/// One pool of it.
#[derive(Deserialize)]
pub(super) struct PoolTree {
    /// zcashd: the state is that of this earlier block.
    #[serde(default, rename = "skipHash")]
    skip_hash: Option<String>,
    #[serde(default)]
    commitments: Commitments,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Commitments {
    #[serde(default)]
    final_root: Option<String>,
    #[serde(default)]
    final_state: Option<String>,
}

/// Where a pool's tree is.
pub(super) enum TreeAt {
    /// The pool is not active.
    Nowhere,
    Here(String),
    /// As it was at the end of this block.
    Earlier(BlockHash),
}

impl PoolTree {
    pub(super) fn find(self) -> Checked<TreeAt> {
        let Commitments {
            final_root,
            final_state,
        } = self.commitments;
        match (
            final_state.filter(|state| !state.is_empty()),
            self.skip_hash,
        ) {
            (Some(state), _) => {
                if !state.len().is_multiple_of(2)
                    || !state.bytes().all(|digit| digit.is_ascii_hexdigit())
                {
                    return Err("a tree that is not hexadecimal".to_owned());
                }
                Ok(TreeAt::Here(state))
            }
            (None, Some(earlier)) => Ok(TreeAt::Earlier(hash(&earlier)?)),
            // zcashd shows a root of zeros before activation. Any other root has a tree, and a wallet that is told of none
            // takes the pool for empty.
            (None, None) => match final_root {
                Some(root) if root.bytes().any(|digit| digit != b'0') => {
                    Err("a tree's root without the tree".to_owned())
                }
                _ => Ok(TreeAt::Nowhere),
            },
        }
    }
}

/// `getrawtransaction "id" 1`.
#[derive(Deserialize)]
pub(super) struct Transaction {
    pub(super) hex: String,
    #[serde(default)]
    height: Option<i64>,
    #[serde(default)]
    in_active_chain: Option<bool>,
    #[serde(default)]
    confirmations: Option<i64>,
    #[serde(default)]
    blockhash: Option<String>,
}

/// `getblock "hash" 1`, of which only the transaction ids are read.
#[derive(Deserialize)]
pub(super) struct BlockIds {
    pub(super) tx: Vec<String>,
}

impl Transaction {
    /// The block that is said to hold it.
    pub(super) fn block(&self) -> Checked<Option<BlockHash>> {
        self.blockhash.as_deref().map(hash).transpose()
    }

    /// Whether it lies deeper than any block that can still be replaced.
    pub(super) fn is_final(&self) -> bool {
        self.confirmations
            .is_some_and(|blocks| blocks > MAX_REORG_BLOCKS)
    }

    /// Zebra: height of the best chain, -1 on a side chain, absent in the mempool. Others leave the height out on a side
    /// chain too, and name the block.
    pub(super) fn place(&self) -> Checked<Place> {
        match self.height {
            Some(below) if below < 0 => Ok(Place::SideChain),
            Some(_) if self.in_active_chain == Some(false) => Ok(Place::SideChain),
            Some(at) => Ok(Place::Mined(height(at.unsigned_abs())?)),
            None if self.blockhash.is_some() => Ok(Place::SideChain),
            None => Ok(Place::Mempool),
        }
    }
}

/// `z_getsubtreesbyindex`.
#[derive(Deserialize)]
pub(super) struct Subtrees {
    pool: String,
    start_index: u32,
    subtrees: Vec<Subtree>,
}

#[derive(Deserialize)]
struct Subtree {
    root: String,
    end_height: u64,
}

impl Subtrees {
    pub(super) fn roots(self, pool: &str, start: u32) -> Checked<Vec<SubtreeRoot>> {
        if self.pool != pool || self.start_index != start {
            return Err(format!(
                "subtrees of {:.20} from {}",
                self.pool, self.start_index
            ));
        }
        self.subtrees
            .into_iter()
            .map(|subtree| {
                let mut root = [0; 32];
                const_hex::decode_to_slice(&subtree.root, &mut root)
                    .map_err(|_| format!("'{:.80}' is not a root", subtree.root))?;
                Ok(SubtreeRoot {
                    root,
                    end_height: height(subtree.end_height)?,
                })
            })
            .collect()
    }
}

/// One entry of `getaddressutxos`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddressUtxo {
    address: String,
    txid: String,
    output_index: u32,
    script: String,
    satoshis: i64,
    height: u64,
}

impl AddressUtxo {
    pub(super) fn utxo(self) -> Checked<Utxo> {
        Ok(Utxo {
            txid: txid(&self.txid)?,
            index: self.output_index,
            script: const_hex::decode(&self.script)
                .map_err(|_| "a script that is not hexadecimal".to_owned())?
                .into(),
            value_zat: self.satoshis,
            height: height(self.height)?,
            address: self.address,
        })
    }
}

/// `getaddressbalance`.
#[derive(Deserialize)]
pub(super) struct Balance {
    pub(super) balance: i64,
}
