//! All blocks the simulated node has seen, which of them are the best chain, and what follows from that.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use lightship_chain::{
    BlockHash, BlockId, Height, Network, ShieldedPool, TxId,
    build::Activations,
    parse::{self, Transaction},
};

use super::{
    Unfit,
    archive::Base,
    block::{Block, ReadError},
    ledger::{Ledger, OutPoint},
    tree::TreeHash,
};
use crate::SubtreeRoot;

/// A transaction that waits to be mined.
#[derive(Clone, Debug)]
pub(super) struct Pooled {
    pub(super) bytes: Bytes,
    /// Which came first.
    pub(super) arrival: u64,
    /// The tip's height when it came.
    pub(super) height: Height,
    /// The tip's time when it came: the node has no clock of its own.
    pub(super) time: u32,
}

/// Where a transaction lies in a block.
pub(super) type Place = (BlockHash, usize);

pub(super) struct Chain {
    pub(super) network: Network,
    pub(super) activations: Activations,
    pub(super) hash: Arc<dyn TreeHash>,
    /// Below all that follows, if there is one.
    base: Option<Base>,
    blocks: HashMap<BlockHash, Arc<Block>>,
    /// The best chain above the archive, by height.
    best: Vec<Arc<Block>>,
    best_bytes: usize,
    places: HashMap<TxId, Vec<Place>>,
    pub(super) ledger: Ledger,
    subtrees: [Vec<SubtreeRoot>; 3],
    pub(super) mempool: BTreeMap<TxId, Pooled>,
    arrivals: u64,
}

impl Chain {
    pub(super) fn new(activations: Activations, hash: Arc<dyn TreeHash>) -> Chain {
        Chain {
            network: Network::Regtest,
            activations,
            hash,
            base: None,
            blocks: HashMap::new(),
            best: Vec::new(),
            best_bytes: 0,
            places: HashMap::new(),
            ledger: Ledger::default(),
            subtrees: Default::default(),
            mempool: BTreeMap::new(),
            arrivals: 0,
        }
    }

    /// A chain that begins as an archive's.
    pub(super) fn on(activations: Activations, hash: Arc<dyn TreeHash>, base: Base) -> Chain {
        let genesis = base.id(Height::GENESIS);
        Chain {
            network: genesis
                .and_then(|id| Network::from_genesis(id.hash))
                .unwrap_or(Network::Regtest),
            ledger: Ledger::on(base.clone()),
            base: Some(base),
            ..Chain::new(activations, hash)
        }
    }

    pub(super) fn base(&self) -> Option<&Base> {
        self.base.as_ref()
    }

    /// How many blocks are an archive's, and stay.
    pub(super) fn archived(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.blocks() as usize)
    }

    /// Keeps a block on a branch that is already known. The best chain stays as it is.
    pub(super) fn add(&mut self, bytes: Bytes) -> Result<Arc<Block>, Unfit> {
        let (header, _) = parse::Header::parse(&bytes)?;
        let previous = header.previous();
        let parent = match self.by_hash(&previous) {
            Some(parent) => Some(parent),
            None if previous == BlockHash::ZERO => None,
            None => return Err(Unfit::Orphan { parent: previous }),
        };
        if let Some(known) = self.by_hash(&header.hash()) {
            return Ok(known);
        }
        let block = Block::read(bytes, parent.as_deref(), &*self.hash)?;
        let block = Arc::new(block);
        for (position, (id, _)) in block.index().iter().enumerate() {
            let places = self.places.entry(*id).or_default();
            places.push((block.id.hash, position));
        }
        self.blocks.insert(block.id.hash, Arc::clone(&block));
        Ok(block)
    }

    /// Makes a known block the tip, whatever its height; `None`: no block is left on the best chain. An archive's blocks stay.
    pub(super) fn set_tip(&mut self, tip: Option<BlockHash>) -> Result<(), Unfit> {
        let mut branch = Vec::new();
        let mut at = tip;
        // Down from the new tip to the best chain.
        let fork = loop {
            let Some(hash) = at else { break 0 };
            let block = self.by_hash(&hash).ok_or(Unfit::Orphan { parent: hash })?;
            if self.is_best(&block) {
                break block.id.height.get() as usize + 1;
            }
            at = (block.previous != BlockHash::ZERO).then_some(block.previous);
            branch.push(block);
        };
        if fork < self.archived() {
            return Err(Unfit::Archived {
                blocks: self.archived(),
            });
        }
        while self.len() > fork {
            self.disconnect();
        }
        for block in branch.into_iter().rev() {
            self.connect(block);
        }
        Ok(())
    }

    fn connect(&mut self, block: Arc<Block>) {
        if block.id.height == Height::GENESIS {
            self.network = Network::from_genesis(block.id.hash).unwrap_or(Network::Regtest);
        }
        self.ledger.connect(&block);
        for (pool, root) in &block.subtrees {
            self.subtrees[*pool as usize].push(SubtreeRoot {
                root: *root,
                end_height: block.id.height,
            });
        }
        self.drop_mined(&block);
        self.best_bytes += block.bytes.len();
        self.best.push(block);
    }

    fn disconnect(&mut self) {
        let Some(block) = self.best.pop() else { return };
        self.ledger.disconnect(&block);
        self.best_bytes -= block.bytes.len();
        for (pool, _) in &block.subtrees {
            self.subtrees[*pool as usize].pop();
        }
    }

    /// What a block mines, and what spends the same outputs, waits no longer.
    fn drop_mined(&mut self, block: &Block) {
        if self.mempool.is_empty() {
            return;
        }
        let mut spent = HashSet::new();
        for (id, transaction) in block.transactions() {
            self.mempool.remove(&id);
            spent.extend(outpoints(&transaction));
        }
        self.mempool.retain(|_, pooled| {
            Transaction::parse(&pooled.bytes)
                .is_ok_and(|(each, _)| outpoints(&each).all(|outpoint| !spent.contains(&outpoint)))
        });
    }

    /// Lets a transaction wait to be mined, unasked.
    pub(super) fn pool(&mut self, id: TxId, bytes: Bytes) {
        self.arrivals += 1;
        let (height, time) = self
            .tip()
            .map_or((Height::GENESIS, 0), |tip| (tip.id.height, tip.time));
        let pooled = Pooled {
            bytes,
            arrival: self.arrivals,
            height,
            time,
        };
        self.mempool.entry(id).or_insert(pooled);
    }

    /// The transaction of the mempool that spends `outpoint`.
    pub(super) fn pooled_spender(&self, outpoint: &OutPoint) -> Option<TxId> {
        self.mempool.iter().find_map(|(id, pooled)| {
            let (transaction, _) = Transaction::parse(&pooled.bytes).ok()?;
            outpoints(&transaction)
                .any(|each| each == *outpoint)
                .then_some(*id)
        })
    }

    pub(super) fn tip(&self) -> Option<Arc<Block>> {
        self.top(self.len()).and_then(|tip| self.at(tip.height))
    }

    /// How many blocks the best chain has.
    pub(super) fn len(&self) -> usize {
        self.archived() + self.best.len()
    }

    /// The size of the best chain.
    pub(super) fn best_bytes(&self) -> u64 {
        self.base.as_ref().map_or(0, Base::bytes) + self.best_bytes as u64
    }

    /// The block that is on top if only `blocks` are left.
    pub(super) fn top(&self, blocks: usize) -> Option<BlockId> {
        let highest = Height::try_from(blocks.checked_sub(1)? as u64).ok()?;
        match self.above(highest) {
            Some(block) => Some(block.id),
            None => self.base.as_ref()?.id(highest),
        }
    }

    /// The best chain's block above the archive.
    fn above(&self, height: Height) -> Option<&Arc<Block>> {
        let above = (height.get() as usize).checked_sub(self.archived())?;
        self.best.get(above)
    }

    pub(super) fn at(&self, height: Height) -> Option<Arc<Block>> {
        match self.above(height) {
            Some(block) => Some(Arc::clone(block)),
            None => self.base.as_ref()?.block(height),
        }
    }

    /// On any branch.
    pub(super) fn by_hash(&self, hash: &BlockHash) -> Option<Arc<Block>> {
        if let Some(block) = self.blocks.get(hash) {
            return Some(Arc::clone(block));
        }
        let base = self.base.as_ref()?;
        base.block(base.height_of(hash)?)
    }

    pub(super) fn is_best(&self, block: &Block) -> bool {
        match self.above(block.id.height) {
            Some(best) => best.id.hash == block.id.hash,
            None => self
                .base
                .as_ref()
                .and_then(|base| base.id(block.id.height))
                .is_some_and(|best| best == block.id),
        }
    }

    /// Where a mined transaction lies: in the best chain if it is there, else in the branch seen first.
    pub(super) fn find(&self, id: &TxId) -> Option<(Arc<Block>, usize)> {
        let mut found = None;
        for (hash, position) in self.places.get(id).map_or(&[][..], |places| places) {
            let block = self.blocks.get(hash)?;
            if self.is_best(block) {
                return Some((Arc::clone(block), *position));
            }
            found = found.or(Some((Arc::clone(block), *position)));
        }
        let archived = self.base.as_ref().and_then(|base| {
            let (height, position) = base.place_of(id)?;
            Some((base.block(height)?, position))
        });
        archived.or(found)
    }

    pub(super) fn subtrees(&self, pool: ShieldedPool) -> &[SubtreeRoot] {
        &self.subtrees[pool as usize]
    }

    /// The blocks above every fork that are not best: the tips of side branches.
    pub(super) fn side_tips(&self) -> Vec<BlockId> {
        let parents: HashSet<_> = self.blocks.values().map(|block| block.previous).collect();
        let mut tips: Vec<_> = self
            .blocks
            .values()
            .filter(|block| !parents.contains(&block.id.hash) && !self.is_best(block))
            .map(|block| block.id)
            .collect();
        tips.sort_by_key(|id| (std::cmp::Reverse(id.height), id.hash));
        tips
    }
}

/// What a transaction spends, a coinbase nothing.
pub(super) fn outpoints(transaction: &Transaction<'_>) -> impl Iterator<Item = OutPoint> {
    transaction
        .inputs()
        .filter(|input| !input.is_null())
        .map(|input| {
            (
                TxId::from_internal(*input.prevout_id()),
                input.prevout_index(),
            )
        })
}

impl From<ReadError> for Unfit {
    fn from(error: ReadError) -> Unfit {
        match error {
            ReadError::Parse(source) => Unfit::Parse(source),
            ReadError::Overflow => Unfit::Overflow,
        }
    }
}
