//! A block as the simulated node keeps it.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use lightship_chain::{
    BlockHash, BlockId, Height, ShieldedPool, TreeSizes, TxId,
    parse::{self, Transaction},
};

use super::{
    archive::{Archive, ArchivedBlock},
    tree::{TreeHash, TreeNode, Trees},
};

/// In block order: id, and where in the block's bytes.
type Index = Vec<(TxId, Range<usize>)>;

/// A block, and what the node works out about it once: all of it when it is taken, or, of a block in an archive, when it is asked for.
pub(super) struct Block {
    pub(super) id: BlockId,
    pub(super) previous: BlockHash,
    pub(super) time: u32,
    pub(super) bytes: Bytes,
    pub(super) header_bytes: usize,
    index: OnceLock<Index>,
    trees: OnceLock<Trees>,
    pub(super) sizes: TreeSizes,
    /// The roots of the subtrees that this block completes, in tree order; not kept of archived blocks.
    pub(super) subtrees: Vec<(ShieldedPool, TreeNode)>,
    archive: Option<Arc<dyn Archive>>,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
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
            index: OnceLock::new(),
            trees: OnceLock::new(),
            sizes: parent.map_or(TreeSizes::ZERO, |parent| parent.sizes),
            subtrees: Vec::new(),
            bytes: Bytes::new(),
            archive: None,
        };
        let mut trees = parent
            .map(|parent| parent.trees().clone())
            .unwrap_or_default();
        for transaction in read.transactions() {
            block.append_notes(&transaction, &mut trees, hash)?;
        }
        let index = index(&read);
        block.bytes = bytes;
        block.index = index.into();
        block.trees = trees.into();
        Ok(block)
    }

    /// A block that an archive keeps.
    pub(super) fn of_archive(
        archive: Arc<dyn Archive>,
        id: BlockId,
        header: parse::Header<'_>,
        block: &ArchivedBlock,
    ) -> Block {
        Block {
            id,
            previous: header.previous(),
            time: header.time(),
            header_bytes: header.bytes().len(),
            bytes: block.bytes.clone(),
            index: OnceLock::new(),
            trees: OnceLock::new(),
            sizes: block.sizes,
            subtrees: Vec::new(),
            archive: Some(archive),
        }
    }

    /// The transactions in block order: id, and where in `bytes`.
    pub(super) fn index(&self) -> &[(TxId, Range<usize>)] {
        self.index.get_or_init(|| {
            parse::Block::parse(&self.bytes)
                .map(|read| index(&read))
                .unwrap_or_default()
        })
    }

    /// The trees at the end of this block.
    pub(super) fn trees(&self) -> &Trees {
        self.trees.get_or_init(|| match &self.archive {
            None => Trees::default(),
            Some(archive) => Trees::of_nodes(self.sizes, |pool, level, index| {
                archive.node(pool, level, index)
            }),
        })
    }

    fn append_notes(
        &mut self,
        transaction: &Transaction<'_>,
        trees: &mut Trees,
        hash: &dyn TreeHash,
    ) -> Result<(), ReadError> {
        let count = |count: usize| u32::try_from(count).map_err(|_| ReadError::Overflow);
        let added = TreeSizes {
            sapling: count(transaction.sapling_outputs().len())?,
            orchard: count(transaction.orchard_actions().len())?,
            ironwood: count(transaction.ironwood_actions().len())?,
        };
        self.sizes = self.sizes.checked_add(added).ok_or(ReadError::Overflow)?;
        let mut append = |pool, note| {
            if let Some(root) = trees.of_mut(pool).append(hash, pool, note) {
                self.subtrees.push((pool, root));
            }
        };
        for output in transaction.sapling_outputs() {
            append(ShieldedPool::Sapling, *output.cmu());
        }
        for action in transaction.orchard_actions() {
            append(ShieldedPool::Orchard, *action.cmx());
        }
        for action in transaction.ironwood_actions() {
            append(ShieldedPool::Ironwood, *action.cmx());
        }
        Ok(())
    }

    /// The consensus serialization of the transaction at `position`.
    pub(super) fn transaction_bytes(&self, position: usize) -> Option<Bytes> {
        let (_, range) = self.index().get(position)?;
        Some(self.bytes.slice(range.clone()))
    }

    /// The transactions, with their ids.
    pub(super) fn transactions(&self) -> impl Iterator<Item = (TxId, Transaction<'_>)> {
        self.index().iter().map(|(id, range)| {
            let (transaction, _) = Transaction::parse(&self.bytes[range.clone()])
                .expect("the block was read to its end before it was kept");
            (*id, transaction)
        })
    }
}

fn index(block: &parse::Block<'_>) -> Index {
    let length: usize = block.transactions().map(|each| each.bytes().len()).sum();
    let mut start = block.bytes().len() - length;
    block
        .transactions()
        .map(|transaction| {
            let end = start + transaction.bytes().len();
            let range = start..end;
            start = end;
            (transaction.id(), range)
        })
        .collect()
}

/// Why bytes cannot be a block here.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Parse(#[from] parse::Error),
    #[error("too many blocks or notes")]
    Overflow,
}
