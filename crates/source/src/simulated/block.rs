//! A block as the simulated node keeps it.

use std::ops::Range;

use bytes::Bytes;
use lightship_chain::{
    BlockHash, BlockId, Height, ShieldedPool, TreeSizes, TxId,
    parse::{self, Transaction},
};

use super::tree::{TreeHash, TreeNode, Trees};

/// A block, and what the node works out about it once.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) id: BlockId,
    pub(super) previous: BlockHash,
    pub(super) time: u32,
    pub(super) bytes: Bytes,
    pub(super) header_bytes: usize,
    /// In block order: id, and where in `bytes`.
    pub(super) index: Vec<(TxId, Range<usize>)>,
    /// At the end of this block.
    pub(super) trees: Trees,
    pub(super) sizes: TreeSizes,
    /// The roots of the subtrees that this block completes, in tree order.
    pub(super) subtrees: Vec<(ShieldedPool, TreeNode)>,
}

impl Block {
    /// Reads a block that stands on `parent` (`None`: a genesis block).
    pub(super) fn read(
        bytes: Bytes,
        parent: Option<&Block>,
        hash: &dyn TreeHash,
    ) -> Result<Block, ReadError> {
        let read = parse::Block::parse(&bytes)?;
        let header = read.header();
        let height = match parent {
            None => Height::GENESIS,
            Some(parent) => parent.id.height.next().ok_or(ReadError::Overflow)?,
        };
        let mut block = Block {
            id: BlockId {
                height,
                hash: header.hash(),
            },
            previous: header.previous(),
            time: header.time(),
            header_bytes: header.bytes().len(),
            index: Vec::with_capacity(read.transactions().len()),
            trees: parent
                .map(|parent| parent.trees.clone())
                .unwrap_or_default(),
            sizes: parent.map_or(TreeSizes::ZERO, |parent| parent.sizes),
            subtrees: Vec::new(),
            bytes: Bytes::new(),
        };
        let first = bytes.len()
            - read
                .transactions()
                .map(|each| each.bytes().len())
                .sum::<usize>();
        let mut start = first;
        for transaction in read.transactions() {
            let end = start + transaction.bytes().len();
            block.index.push((transaction.id(), start..end));
            start = end;
            block.append_notes(&transaction, hash)?;
        }
        block.bytes = bytes;
        Ok(block)
    }

    fn append_notes(
        &mut self,
        transaction: &Transaction<'_>,
        hash: &dyn TreeHash,
    ) -> Result<(), ReadError> {
        let count = |count: usize| u32::try_from(count).map_err(|_| ReadError::Overflow);
        let added = TreeSizes {
            sapling: count(transaction.sapling_outputs().len())?,
            orchard: count(transaction.orchard_actions().len())?,
            ironwood: count(transaction.ironwood_actions().len())?,
        };
        self.sizes = self.sizes.checked_add(added).ok_or(ReadError::Overflow)?;
        for output in transaction.sapling_outputs() {
            self.append(ShieldedPool::Sapling, *output.cmu(), hash);
        }
        for action in transaction.orchard_actions() {
            self.append(ShieldedPool::Orchard, *action.cmx(), hash);
        }
        for action in transaction.ironwood_actions() {
            self.append(ShieldedPool::Ironwood, *action.cmx(), hash);
        }
        Ok(())
    }

    fn append(&mut self, pool: ShieldedPool, note: TreeNode, hash: &dyn TreeHash) {
        if let Some(root) = self.trees.of_mut(pool).append(hash, pool, note) {
            self.subtrees.push((pool, root));
        }
    }

    /// The consensus serialization of the transaction at `position`.
    pub(super) fn transaction_bytes(&self, position: usize) -> Option<Bytes> {
        let (_, range) = self.index.get(position)?;
        Some(self.bytes.slice(range.clone()))
    }

    /// The transactions, with their ids.
    pub(super) fn transactions(&self) -> impl Iterator<Item = (TxId, Transaction<'_>)> {
        self.index.iter().map(|(id, range)| {
            let (transaction, _) = Transaction::parse(&self.bytes[range.clone()])
                .expect("the block was read to its end before it was kept");
            (*id, transaction)
        })
    }
}

/// Why bytes cannot be a block here.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Parse(#[from] parse::Error),
    #[error("too many blocks or notes")]
    Overflow,
}
