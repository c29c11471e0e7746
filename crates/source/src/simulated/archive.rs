//! The lower part of a chain, kept outside memory.
//!
//! In: someone who can find blocks, transactions, tree nodes and events of addresses in a long chain, say in mapped files ([`Archive`]). Out: what
//! the node needs of its first blocks. The node keeps only the blocks above them, so a chain of any length can be answered for.
//!
//! # Invariants
//!
//! - The blocks a node stands on are never replaced: no reorg reaches them.
//! - What an archive has above them is not seen: the chain ends where the node says.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use lightship_chain::{
    BlockHash, BlockId, Height, ShieldedPool, TreeSizes, TxId,
    parse::{self, Transaction},
};

use super::{
    Address, SUBTREE_LEVEL, TreeNode,
    block::Block,
    ledger::{OutPoint, OutputPlace, Unspent},
};
use crate::SubtreeRoot;

/// A block of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedBlock {
    /// Its hash.
    pub hash: BlockHash,
    /// The trees' sizes at its end.
    pub sizes: TreeSizes,
    /// The consensus serialization.
    pub bytes: Bytes,
}

/// An output or input of an address in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Of the block.
    pub height: Height,
    /// Of the transaction in the block.
    pub position: u32,
    /// Of the output or input in the transaction.
    pub index: u32,
    /// In zatoshi.
    pub value_zat: u64,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An output pays to it, and is spent at that height, if anywhere in the archive.
    Paid {
        /// Of the block that spends the output.
        spent_at: Option<Height>,
    },
    /// An input spends what it was paid.
    Spends,
}

/// A chain that answers questions without being in memory. Heights count from genesis.
pub trait Archive: Send + Sync {
    /// How many blocks there are.
    fn blocks(&self) -> u32;
    /// The block at `height`.
    fn block(&self, height: Height) -> Option<ArchivedBlock>;
    /// Where the block of that hash is.
    fn height_of(&self, hash: &BlockHash) -> Option<Height>;
    /// The block and the position in it of a transaction.
    fn place_of(&self, id: &TxId) -> Option<(Height, u32)>;
    /// The node `index` of `level` (leaves: 0) of a note commitment tree, if all leaves below it are there.
    fn node(&self, pool: ShieldedPool, level: u8, index: u32) -> Option<TreeNode>;
    /// All events of an address from the block at `from` on, in chain order.
    fn events(&self, address: Address, from: Height) -> Box<dyn Iterator<Item = Event> + '_>;
    /// Where the output at that place, which pays to `address` (`None`: to no standard one), is spent.
    fn spent_at(
        &self,
        address: Option<Address>,
        height: Height,
        position: u32,
        index: u32,
    ) -> Option<Height>;
    /// The sum of all outputs unspent at the end of the block at `height`, in zatoshi.
    fn transparent_zat(&self, height: Height) -> u64;
    /// The size of all blocks up to and with that at `height`, about.
    fn bytes_through(&self, height: Height) -> u64;
}

/// The first blocks of an archive, as the bottom of a node's chain.
#[derive(Clone)]
pub(super) struct Base {
    archive: Arc<dyn Archive>,
    blocks: u32,
}

impl Base {
    pub(super) fn new(archive: Arc<dyn Archive>, blocks: u32) -> Base {
        let blocks = blocks.min(archive.blocks());
        Base { archive, blocks }
    }

    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    fn has(&self, height: Height) -> bool {
        height.get() < self.blocks
    }

    /// The height of the highest block; `None` if there is none.
    fn top(&self) -> Option<Height> {
        self.blocks.checked_sub(1).map(Height::new)
    }

    pub(super) fn id(&self, height: Height) -> Option<BlockId> {
        let found = self.has(height).then(|| self.archive.block(height))??;
        Some(BlockId {
            height,
            hash: found.hash,
        })
    }

    pub(super) fn block(&self, height: Height) -> Option<Arc<Block>> {
        let found = self.has(height).then(|| self.archive.block(height))??;
        let (header, _) = parse::Header::parse(&found.bytes).ok()?;
        Some(Arc::new(Block::of_archive(
            Arc::clone(&self.archive),
            BlockId {
                height,
                hash: found.hash,
            },
            header,
            &found,
        )))
    }

    pub(super) fn height_of(&self, hash: &BlockHash) -> Option<Height> {
        self.archive
            .height_of(hash)
            .filter(|height| self.has(*height))
    }

    pub(super) fn place_of(&self, id: &TxId) -> Option<(Height, usize)> {
        let (height, position) = self.archive.place_of(id)?;
        self.has(height).then_some((height, position as usize))
    }

    /// The output, if no block here spends it.
    pub(super) fn unspent(&self, outpoint: &OutPoint) -> Option<Unspent> {
        let (height, position) = self.place_of(&outpoint.0)?;
        let block = self.archive.block(height)?;
        let read = parse::Block::parse(&block.bytes).ok()?;
        let transaction = read.transactions().nth(position)?;
        let place = (height, u32::try_from(position).ok()?, outpoint.1);
        self.output(place, &transaction)
    }

    fn output(&self, place: OutputPlace, transaction: &Transaction<'_>) -> Option<Unspent> {
        let output = transaction.outputs().nth(place.2 as usize)?;
        let address = Address::of_script(output.script());
        let spent = self
            .archive
            .spent_at(address, place.0, place.1, place.2)
            .is_some_and(|height| self.has(height));
        (!spent).then(|| Unspent {
            place,
            value_zat: output.value(),
            script: Bytes::copy_from_slice(output.script()),
            coinbase: transaction.is_coinbase(),
            address,
        })
    }

    /// Unspent outputs of an address, in chain order. Each is read from its block.
    pub(super) fn unspent_of(
        &self,
        address: Address,
    ) -> impl Iterator<Item = (OutPoint, Unspent)> + '_ {
        self.events(address, Height::GENESIS)
            .filter_map(|event| match event.kind {
                EventKind::Paid { spent_at }
                    if !spent_at.is_some_and(|height| self.has(height)) =>
                {
                    let block = self.archive.block(event.height)?;
                    let read = parse::Block::parse(&block.bytes).ok()?;
                    let transaction = read.transactions().nth(event.position as usize)?;
                    let place = (event.height, event.position, event.index);
                    let unspent = self.output(place, &transaction)?;
                    Some(((transaction.id(), event.index), unspent))
                }
                _ => None,
            })
    }

    /// Events of an address in these blocks.
    pub(super) fn events(
        &self,
        address: Address,
        from: Height,
    ) -> impl Iterator<Item = Event> + '_ {
        self.archive
            .events(address, from)
            .take_while(|event| self.has(event.height))
    }

    pub(super) fn total_zat(&self) -> u64 {
        self.top()
            .map_or(0, |top| self.archive.transparent_zat(top))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.top().map_or(0, |top| self.archive.bytes_through(top))
    }

    /// How many subtrees of a pool are complete.
    pub(super) fn subtrees(&self, pool: ShieldedPool) -> u32 {
        let sizes = self.top().and_then(|top| self.archive.block(top));
        sizes.map_or(0, |block| block.sizes.of(pool)) >> SUBTREE_LEVEL
    }

    /// Roots of complete subtrees by number.
    pub(super) fn subtree_roots(
        &self,
        pool: ShieldedPool,
        numbers: Range<u32>,
    ) -> impl Iterator<Item = SubtreeRoot> + '_ {
        numbers.filter_map(move |number| {
            let notes = (number + 1) << SUBTREE_LEVEL;
            let (mut low, mut high) = (0, self.blocks);
            // The first block with so many notes at its end.
            while low < high {
                let middle = low + (high - low) / 2;
                let block = self.archive.block(Height::new(middle))?;
                if block.sizes.of(pool) < notes {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            Some(SubtreeRoot {
                root: self.archive.node(pool, SUBTREE_LEVEL, number)?,
                end_height: Height::new(low),
            })
        })
    }
}
