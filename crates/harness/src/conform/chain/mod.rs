//! The model: the node's best chain, read whole and understood the plain way.
//!
//! In: a node's JSON-RPC. Out: each block with everything in it, in memory; what stood where; what the node says of itself. Transaction ids
//! come from the node and are held against the header's merkle root; block hashes are computed; links and tree sizes are checked as they are
//! read, so a model that was loaded is a chain. A chain longer than the limit is read in windows (`complete` is false then), and what needs
//! all of it is left out.

pub mod address;
pub mod ledger;
mod reader;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::{node::Node, random::Random};
use crate::proto::{ChainMetadata, CompactBlock, CompactTx};
use address::Prefixes;
use ledger::Ledger;

/// How many blocks one batch asks for: two of them are below what nodes send in an answer, whatever their size.
const BLOCKS_A_BATCH: usize = 8;
/// Blocks below the first tip by so many are taken for settled: cases that name heights stay below.
const SETTLED_DEPTH: u32 = 12;

/// One block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its height.
    pub height: u32,
    /// Everything that can be in a compact block.
    pub compact: CompactBlock,
    /// Its transactions as consensus serializes them.
    pub raw: Vec<Vec<u8>>,
    /// Their versions.
    pub versions: Vec<u32>,
}

/// An upgrade as the node announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// Branch id, eight hex digits.
    pub branch: String,
    /// Name, as the node spells it.
    pub name: String,
    /// Activation height.
    pub height: u32,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct Chain {
    /// By height; all of them if `complete`.
    pub blocks: BTreeMap<u32, Block>,
    /// Whether every block is there.
    pub complete: bool,
    /// The highest height.
    pub tip: u32,
    /// The highest height that cases name.
    pub settled: u32,
    /// What the node calls it.
    pub name: String,
    /// Of its addresses.
    pub prefixes: Prefixes,
    /// `getblockchaininfo`.
    pub info: Value,
    /// `getinfo`.
    pub about: Value,
    /// Lowest first.
    pub upgrades: Vec<Upgrade>,
    /// Addresses, if `complete`.
    pub ledger: Ledger,
}

/// How much is read.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A longer chain is read in windows.
    pub most_blocks: u32,
    /// Which windows, beside those at the ends and at the upgrades.
    pub seed: u64,
}

impl Chain {
    /// Reads the node's best chain, keeping what is left of the blocks that are known, and the height that counts as settled, if there are any.
    ///
    /// # Errors
    ///
    /// When the node does not answer, changes its chain again and again, or sends what is no chain.
    pub fn load(
        node: &Node,
        bounds: Bounds,
        known: Option<(BTreeMap<u32, Block>, u32)>,
    ) -> Result<Chain> {
        let settled = known.as_ref().map(|(_, settled)| *settled);
        let mut known = known.map(|(blocks, _)| blocks).unwrap_or_default();
        let mut last = None;
        for _ in 0..5 {
            let blocks = std::mem::take(&mut known);
            match Chain::try_load(node, bounds, blocks, settled) {
                Ok(chain) => return Ok(chain),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("no attempt")?).context("reading the node's chain")
    }

    fn try_load(
        node: &Node,
        bounds: Bounds,
        mut blocks: BTreeMap<u32, Block>,
        settled: Option<u32>,
    ) -> Result<Chain> {
        let info = node.call("getblockchaininfo", json!([]))?;
        let tip = u32::try_from(info["blocks"].as_u64().context("a tip")?)?;
        let upgrades = upgrades(&info)?;
        let wanted = wanted(tip, &upgrades, bounds);
        let complete = wanted.len() == tip as usize + 1;
        blocks.retain(|height, _| wanted.contains(height));
        // Those that were replaced lie at the top.
        while let Some(entry) = blocks.last_entry() {
            if node.hash_at(*entry.key())? == entry.get().compact.hash {
                break;
            }
            entry.remove();
        }
        let missing: Vec<u32> = wanted
            .into_iter()
            .filter(|height| !blocks.contains_key(height))
            .collect();
        for few in missing.chunks(BLOCKS_A_BATCH) {
            for (height, raw, verbose) in node.blocks(few)? {
                let before = match height.checked_sub(1) {
                    None => ([0; 32].to_vec(), ChainMetadata::default()),
                    Some(below) => match blocks.get(&below) {
                        Some(block) => facts(block),
                        None => node.facts(below)?,
                    },
                };
                let block = understood(height, &raw, &verbose, before)
                    .with_context(|| format!("block {height}"))?;
                blocks.insert(height, block);
            }
        }
        let best = info["bestblockhash"].as_str().context("a best hash")?;
        let top = blocks.get(&tip).context("the tip")?;
        ensure!(
            display(&top.compact.hash) == best,
            "the node's tip changed while it was read"
        );
        let name = info["chain"].as_str().context("a name")?.to_owned();
        let prefixes = if name == "main" {
            Prefixes::MAIN
        } else {
            Prefixes::TEST
        };
        let ledger = if complete {
            Ledger::scan(blocks.values(), prefixes)
        } else {
            Ledger::default()
        };
        Ok(Chain {
            complete,
            tip,
            settled: settled.unwrap_or(tip.saturating_sub(SETTLED_DEPTH).max(tip.min(1))),
            name,
            prefixes,
            about: node.call("getinfo", json!([]))?,
            info,
            upgrades,
            ledger,
            blocks,
        })
    }

    /// The block at `height`, if it was read.
    pub fn at(&self, height: u32) -> Option<&Block> {
        self.blocks.get(&height)
    }

    /// The tip's block.
    ///
    /// # Panics
    ///
    /// Never: a chain without it is not loaded.
    pub fn top(&self) -> &Block {
        self.blocks
            .get(&self.tip)
            .expect("a loaded chain has its tip")
    }

    /// The blocks of a range, both ends included, in the order of its ends; `None` if one was not read.
    pub fn range(&self, start: u32, end: u32) -> Option<Vec<&Block>> {
        let (low, high) = (start.min(end), start.max(end));
        let mut blocks: Vec<&Block> = (low..=high).map(|at| self.at(at)).collect::<Option<_>>()?;
        if start > end {
            blocks.reverse();
        }
        Some(blocks)
    }

    /// Heights of settled blocks.
    pub fn heights(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.blocks
            .range(1..=self.settled)
            .map(|(height, _)| *height)
    }

    /// Each transaction of a settled block above genesis, with its place.
    pub fn transactions(&self) -> impl Iterator<Item = (&Block, usize, &CompactTx)> {
        self.blocks.range(1..=self.settled).flat_map(|(_, block)| {
            block
                .compact
                .vtx
                .iter()
                .enumerate()
                .map(move |(index, transaction)| (block, index, transaction))
        })
    }

    /// Up to `length` heights around `height` that were read and are settled.
    pub fn window(&self, height: u32, length: u32) -> (u32, u32) {
        let known = |at: &u32| *at <= self.settled && self.blocks.contains_key(at);
        let low = (0..=height)
            .rev()
            .take(length as usize / 2 + 1)
            .take_while(known)
            .last()
            .unwrap_or(height);
        let high = (height..)
            .take((length as usize).saturating_sub((height - low) as usize))
            .take_while(known)
            .last()
            .unwrap_or(height);
        (low, high)
    }

    /// The settled block with the most kinds of parts, and among those with the most transactions.
    pub fn richest(&self) -> u32 {
        self.heights()
            .max_by_key(|height| {
                let vtx = &self.blocks[height].compact.vtx;
                let has = |part: fn(&CompactTx) -> bool| usize::from(vtx.iter().any(part));
                let kinds = has(|tx| !tx.vin.is_empty())
                    + has(|tx| !tx.spends.is_empty())
                    + has(|tx| !tx.outputs.is_empty())
                    + has(|tx| !tx.actions.is_empty())
                    + has(|tx| !tx.ironwood_actions.is_empty());
                (kinds, vtx.len())
            })
            .unwrap_or(0)
    }
}

/// A transaction outside a block, as the mempool shows it: index 0, its id still open; and its bytes.
///
/// # Errors
///
/// When it is none.
pub fn waiting(bytes: &[u8]) -> Result<CompactTx> {
    Ok(reader::transaction(bytes)?.compact)
}

/// Display order: the bytes reversed, in hex.
pub fn display(hash: &[u8]) -> String {
    let mut hash = hash.to_vec();
    hash.reverse();
    const_hex::encode(hash)
}

/// The bytes of a hash in display order, in protocol order.
///
/// # Errors
///
/// When it is not 32 bytes of hex.
pub fn protocol_order(text: &str) -> Result<Vec<u8>> {
    let mut hash = const_hex::decode(text)?;
    ensure!(hash.len() == 32, "{text} is no hash");
    hash.reverse();
    Ok(hash)
}

fn upgrades(info: &Value) -> Result<Vec<Upgrade>> {
    let mut upgrades = Vec::new();
    for (branch, body) in info["upgrades"].as_object().into_iter().flatten() {
        upgrades.push(Upgrade {
            branch: branch.to_lowercase(),
            name: body["name"].as_str().unwrap_or_default().to_owned(),
            height: u32::try_from(body["activationheight"].as_u64().context("a height")?)?,
        });
    }
    upgrades.sort_by_key(|upgrade| upgrade.height);
    Ok(upgrades)
}

/// Which heights are read.
fn wanted(tip: u32, upgrades: &[Upgrade], bounds: Bounds) -> BTreeSet<u32> {
    if tip < bounds.most_blocks {
        return (0..=tip).collect();
    }
    let share = bounds.most_blocks / 8;
    let mut random = Random::new(bounds.seed, "windows");
    let mut wanted: BTreeSet<u32> = (0..share).chain(tip - share..=tip).collect();
    for upgrade in upgrades {
        wanted.extend(upgrade.height.saturating_sub(15)..upgrade.height + 15);
    }
    for _ in 0..bounds.most_blocks / 100 {
        let first = random.below(tip.into()) as u32;
        wanted.extend(first..first + 50);
    }
    wanted.retain(|height| *height <= tip);
    wanted
}

/// A block's hash, and the sizes of the trees at its end.
fn facts(block: &Block) -> (Vec<u8>, ChainMetadata) {
    (
        block.compact.hash.clone(),
        block.compact.chain_metadata.unwrap_or_default(),
    )
}

/// A block as the model has it, from its bytes, from what the node says of it (`hash`, `tx`, and `trees` if it says so), and from the hash
/// and tree sizes of the block below.
pub(crate) fn understood(
    height: u32,
    raw: &[u8],
    verbose: &Value,
    (below, sizes): (Vec<u8>, ChainMetadata),
) -> Result<Block> {
    let read = reader::block(raw)?;
    ensure!(
        Some(display(&read.hash).as_str()) == verbose["hash"].as_str(),
        "the node names another hash"
    );
    ensure!(
        read.previous[..] == below[..],
        "it does not follow the block below"
    );
    let named = verbose["tx"].as_array().context("transaction ids")?;
    ensure!(
        named.len() == read.transactions.len(),
        "as many ids as transactions"
    );
    let mut block = Block {
        height,
        compact: CompactBlock {
            height: height.into(),
            hash: read.hash.to_vec(),
            prev_hash: read.previous.to_vec(),
            time: read.time,
            header: Vec::new(),
            vtx: Vec::new(),
            chain_metadata: None,
        },
        raw: Vec::new(),
        versions: Vec::new(),
    };
    let mut sizes = sizes;
    for ((index, mut transaction), id) in (0..).zip(read.transactions).zip(named) {
        ensure!(
            transaction.coinbase == (index == 0),
            "a coinbase comes first, and once"
        );
        transaction.compact.index = index;
        transaction.compact.txid = protocol_order(id.as_str().context("an id")?)?;
        if transaction.version < 5 {
            ensure!(
                reader::twice(&transaction.bytes)[..] == transaction.compact.txid[..],
                "the node names another id"
            );
        }
        let add = |size: &mut u32, count: usize| *size += count as u32;
        add(
            &mut sizes.sapling_commitment_tree_size,
            transaction.compact.outputs.len(),
        );
        add(
            &mut sizes.orchard_commitment_tree_size,
            transaction.compact.actions.len(),
        );
        add(
            &mut sizes.ironwood_commitment_tree_size,
            transaction.compact.ironwood_actions.len(),
        );
        block.compact.vtx.push(transaction.compact);
        block.raw.push(transaction.bytes);
        block.versions.push(transaction.version);
    }
    let ids = block.compact.vtx.iter().map(|tx| tx.txid.clone()).collect();
    ensure!(
        merkle_root(ids)? == read.merkle_root,
        "the ids have another merkle root"
    );
    for (name, counted) in [
        ("sapling", sizes.sapling_commitment_tree_size),
        ("orchard", sizes.orchard_commitment_tree_size),
        ("ironwood", sizes.ironwood_commitment_tree_size),
    ] {
        if let Some(size) = verbose["trees"][name]["size"].as_u64() {
            ensure!(
                size == u64::from(counted),
                "the node's {name} tree has {size} notes, {counted} were counted"
            );
        }
    }
    block.compact.chain_metadata = Some(sizes);
    Ok(block)
}

fn merkle_root(mut row: Vec<Vec<u8>>) -> Result<[u8; 32]> {
    while row.len() > 1 {
        row = row
            .chunks(2)
            .map(|pair| {
                let right = pair.get(1).unwrap_or(&pair[0]);
                reader::twice(&[&pair[0][..], right].concat()).to_vec()
            })
            .collect();
    }
    match &row[..] {
        [root] => Ok(root[..].try_into()?),
        _ => bail!("a block without transactions"),
    }
}
