//! The stub: a node's JSON-RPC over a chain file, in bounded memory.
//!
//! In: a chain file (forged, or recorded and indexed), orders on the command line and on a control port. Out: zebrad's answers over HTTP,
//! for any server to index; a tip that moves, reorgs and a mempool, on a schedule or when told; every fault of the simulated node.
//!
//! The answers are the simulated node's ([`lightship_source::simulated`]), which stands on the mapped file and holds only the last
//! thousand blocks in memory. What is not here: verification.
//!
//! # Invariants
//!
//! - The best chain is the file's wherever no reorg replaced it, and goes back to it: as long as the file has higher blocks, the block after a
//!   reorg is the file's.

mod archive;
pub mod command;
mod control;
mod fault;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use lightship_chain::{
    BlockHash, BlockId, Height, TxId,
    build::{Activations, Built},
    parse::{Block, Header},
};
use lightship_source::simulated::SimulatedNode;

use crate::forge::{
    Live,
    file::{ChainFile, SideBlock},
};

pub use control::serve as serve_control;
pub use fault::FaultWords;

/// How deep a reorg may reach, as Zebra has it.
const WINDOW_BLOCKS: u32 = 1_000;
/// So many blocks are looked at for coins that the mempool may spend.
const LEARNED_BLOCKS: u32 = 50;
/// Transactions that wait, before the oldest are dropped.
const MOST_WAITING: usize = 10_000;

/// A node over a chain file. Clones are handles on the same node.
#[derive(Clone)]
pub struct Stub {
    node: SimulatedNode,
    file: ChainFile,
    future: Arc<Mutex<Future>>,
}

/// Where the next blocks and transactions come from.
struct Future {
    live: Live,
    /// Side branches of the file that are not known to the node yet, the lowest first.
    side: Vec<SideBlock>,
    /// Transactions of the file's next block that have not come to the mempool.
    upcoming: Vec<Built>,
    upcoming_of: Option<Height>,
}

impl Stub {
    /// A node whose tip is the file's block at `start`, or its highest if it has none such.
    ///
    /// # Errors
    ///
    /// If the file is no chain file or inconsistent, or this build cannot hash trees as its index did.
    pub fn open(path: &Path, start: Option<Height>) -> Result<Stub> {
        let file = ChainFile::open_or_index(path)?;
        let hash = file.trees().hash()?;
        let activations = file.about().activations()?;
        ensure!(file.blocks() > 0, "the chain file has no block");
        let top = Height::new(file.blocks() - 1);
        let start = start.map_or(top, |start| start.min(top));
        let archived = (start.get() + 1).saturating_sub(WINDOW_BLOCKS);
        let node =
            SimulatedNode::on_archive(activations.clone(), hash, Arc::new(file.clone()), archived);
        let mut live = Live::new(u64::from(file.blocks()), activations);
        for height in (archived..=start.get()).map(Height::new) {
            let block = file.block(height).context("the chain file is cut off")?;
            let id = node.extend(block.clone())?;
            if height.get() + LEARNED_BLOCKS > start.get() {
                live.learn(id, &block);
            }
        }
        let mut side: Vec<_> = file
            .side_blocks()
            .filter(|block| block.height.get() > archived)
            .collect();
        // Stable: a block stays behind its parent.
        side.sort_by_key(|block| block.height);
        let stub = Stub {
            node,
            file,
            future: Arc::new(Mutex::new(Future {
                live,
                side,
                upcoming: Vec::new(),
                upcoming_of: None,
            })),
        };
        stub.know_side_branches();
        Ok(stub)
    }

    /// The node, to be served and told faults.
    pub fn node(&self) -> &SimulatedNode {
        &self.node
    }

    /// The chain's activation heights.
    pub fn activations(&self) -> Result<Activations> {
        self.file.about().activations()
    }

    /// Adds one block on the tip: the file's next one, or, above the file's end, a made one with what waits in the mempool. After a reorg the
    /// file's branch comes back with it.
    ///
    /// # Errors
    ///
    /// If the file is inconsistent.
    pub fn mine(&self) -> Result<BlockId> {
        let tip = self.node.best().context("a stub has blocks")?;
        let next = tip.height.next().context("no chain grows that long")?;
        if let Some(row) = self.file.row(next) {
            self.return_to_file(next)?;
            let block = self.file.block(next).context("the chain file is cut off")?;
            let id = BlockId {
                height: next,
                hash: row.hash,
            };
            self.future().live.learn(id, &block);
            self.know_side_branches();
            return Ok(id);
        }
        let waiting = self.node.mempool_transactions();
        let block = self
            .future()
            .live
            .block(tip, self.time_after(tip)?, &waiting);
        Ok(self.node.extend(block.bytes)?)
    }

    /// Makes the file's block at `target` the tip, with all below it.
    fn return_to_file(&self, target: Height) -> Result<()> {
        let mut missing = Vec::new();
        let mut at = target;
        loop {
            let block = self.file.block(at).context("the chain file is cut off")?;
            let known = self.node.best_at(at).is_some_and(|best| best == block);
            if known {
                break;
            }
            missing.push(block);
            let Some(below) = at.previous() else { break };
            at = below;
        }
        for block in missing.into_iter().rev() {
            self.node.add_side(block)?;
        }
        let row = self.file.row(target).context("the chain file is cut off")?;
        Ok(self.node.switch_to(row.hash)?)
    }

    /// Replaces the top `depth` blocks by `blocks` others: a side branch of the file that fits, or made ones. Gives the new tip.
    ///
    /// # Errors
    ///
    /// If the chain has no such block.
    pub fn reorg(&self, depth: u32, blocks: u32) -> Result<Option<BlockId>> {
        if blocks == 0 {
            return Ok(self.node.rollback(depth));
        }
        let tip = self.node.best().context("a stub has blocks")?;
        let fork = self.best_id(tip.height.saturating_sub(depth))?;
        let wanted = fork.height.checked_add(blocks).context("too many blocks")?;
        if let Some(side) = self.recorded_branch(fork, wanted) {
            self.node.switch_to(side)?;
            return Ok(self.node.best());
        }
        let mut parent = fork;
        let mut time = self.time_after(fork)?;
        let mut branch = Vec::new();
        let mut future = self.future();
        for _ in 0..blocks {
            let transactions: Vec<Built> = (0..3)
                .filter_map(|_| future.live.transaction(parent))
                .collect();
            let block = future.live.block(parent, time, &transactions);
            parent = block.id;
            time = time.saturating_add(1);
            branch.push(block.bytes);
        }
        drop(future);
        let replaced = tip.height.get() - fork.height.get();
        Ok(self.node.reorg(replaced, branch)?)
    }

    /// The tip of a side branch of the file from `fork` up to the height `wanted`.
    fn recorded_branch(&self, fork: BlockId, wanted: Height) -> Option<BlockHash> {
        let mut ends = vec![fork.hash];
        let branch = self
            .file
            .side_blocks()
            .filter(|block| fork.height < block.height && block.height <= wanted);
        let mut found = None;
        for block in branch {
            if ends.contains(&block.previous) {
                ends.push(block.hash);
                if block.height == wanted {
                    found = Some(block.hash);
                }
            }
        }
        found
    }

    /// Lets a transaction come to the mempool: one of the file's next block, else a made one.
    pub fn add_to_mempool(&self) -> Result<Option<TxId>> {
        let tip = self.node.best().context("a stub has blocks")?;
        let next = tip.height.next();
        let mut future = self.future();
        if future.upcoming_of != next {
            future.upcoming_of = next;
            future.upcoming = next
                .and_then(|next| self.file.block(next))
                .map(|block| payments(&block))
                .transpose()?
                .unwrap_or_default();
        }
        let built = match future.upcoming.pop() {
            Some(built) => Some(built),
            None => future.live.transaction(tip),
        };
        drop(future);
        let Some(built) = built else { return Ok(None) };
        let waiting = self.node.mempool_transactions();
        if waiting.len() >= MOST_WAITING {
            for old in &waiting[..waiting.len() - MOST_WAITING + 1] {
                self.node.mempool_remove(old.id);
            }
        }
        Ok(Some(self.node.mempool_add(built.bytes)?))
    }

    /// Lets the node know the file's side branches as far up as the tip has come.
    fn know_side_branches(&self) {
        let Some(tip) = self.node.best() else { return };
        let mut future = self.future();
        let due = future
            .side
            .partition_point(|block| block.height.get() <= tip.height.get());
        for block in future.side.drain(..due) {
            // One that stands on a block the node never saw stays unknown.
            let _ = self.node.add_side(block.bytes);
        }
    }

    fn best_id(&self, height: Height) -> Result<BlockId> {
        let block = self
            .node
            .best_at(height)
            .context("no block at that height")?;
        let (header, _) = Header::parse(&block)?;
        Ok(BlockId {
            height,
            hash: header.hash(),
        })
    }

    /// Now, but later than the block.
    fn time_after(&self, id: BlockId) -> Result<u32> {
        let block = self
            .node
            .best_at(id.height)
            .context("no block at that height")?;
        let (header, _) = Header::parse(&block)?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let now = u32::try_from(now).unwrap_or(u32::MAX);
        Ok(now.max(header.time().saturating_add(1)))
    }

    fn future(&self) -> MutexGuard<'_, Future> {
        self.future.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All transactions of a block but the coinbase.
fn payments(block: &[u8]) -> Result<Vec<Built>> {
    Ok(Block::parse(block)?
        .transactions()
        .skip(1)
        .map(|transaction| Built {
            id: transaction.id(),
            bytes: transaction.bytes().to_vec(),
        })
        .collect())
}
