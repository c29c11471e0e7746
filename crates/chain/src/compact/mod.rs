//! Views of blocks to compact blocks, in the encoding that wallets receive.
//!
//! In: a block as a source lends it ([`RawBlock`]). Out: an [`EncodedBlock`], the one form a block has from here on: what the index
//! stores and the wire carries. Narrower and wider forms are cut from those bytes by [`project`]; nothing is decoded to be encoded again.
//! Order and links between blocks are left to whoever stores them.
//!
//! # Invariants
//!
//! - The bytes are those that an ordinary protobuf encoder gives: fields ascending, scalars that are zero left out, `chainMetadata`
//!   always there.
//! - What a block adds to the trees does not depend on the blocks before it. So blocks can be compacted in any order, and
//!   [`CompactBlock::after`] fixes their positions later.
//!
//! Spec: lightwallet protocol v0.5.0, `compact_formats.proto`.

mod encode;
pub mod fields;
pub mod project;

use crate::{
    BlockHash, BlockId, Height, Pool, PoolSet, RawBlock, TreeSizes, TxId,
    parse::{Error, MerkleTree, NextTransaction, Transaction},
};
use encode::{put_block_head, put_chain_metadata, put_shielded, put_transparent};
use project::FRAME_PREFIX_BYTES;

/// A block in compact form whose positions in the note commitment trees are still open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactBlock {
    /// Height as told, hash as computed from the header.
    pub id: BlockId,
    /// The parent that the header names.
    pub previous: BlockHash,
    /// Seconds since 1970, by the miner's clock.
    pub time: u32,
    /// Notes that this block adds to each tree.
    pub notes: TreeSizes,
    /// Transactions in the full block.
    pub transactions: u32,
    /// Bytes of the consensus serialization.
    pub size_bytes: u32,
    /// The frame but for its length and `chainMetadata`.
    frame: Vec<u8>,
    transparent: Vec<u8>,
}

/// A block as the index stores it and the wire carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedBlock {
    /// Height and hash.
    pub id: BlockId,
    /// The parent.
    pub previous: BlockHash,
    /// Seconds since 1970, by the miner's clock.
    pub time: u32,
    /// Notes in each tree at the end of this block.
    pub sizes: TreeSizes,
    /// Transactions in the full block.
    pub transactions: u32,
    /// Bytes of the consensus serialization.
    pub size_bytes: u32,
    /// A gRPC frame: `00`, length `[4]` big-endian, then the `CompactBlock` message in its default view: all shielded pools, transactions
    /// without shielded parts dropped.
    pub frame: Vec<u8>,
    /// What the default view leaves out: for every transaction of the block, in order, a `CompactTx` tagged as field 7 with its index,
    /// its id if the default view drops it, `vin` and `vout`.
    pub transparent: Vec<u8>,
}

/// Parses, compacts and encodes one block.
///
/// Ids that the source gives are taken over, the others are hashed; all of them must add up to the header's merkle root. (What
/// version 5 and later transactions leave out of their ids, proofs and signatures, is not in a compact block either.)
///
/// # Errors
///
/// Any [`Error`]: the bytes are not one whole block.
pub fn compact(height: Height, block: RawBlock<'_>) -> Result<CompactBlock, Error> {
    let (header, mut next) = NextTransaction::of(block)?;
    let id = BlockId {
        height,
        hash: header.hash(),
    };
    let mut frame = Vec::with_capacity(FRAME_BYTES_LEAST);
    frame.extend_from_slice(&[0; FRAME_PREFIX_BYTES]);
    put_block_head(&mut frame, id, header.previous(), header.time());

    let mut transparent = Vec::new();
    let mut notes = TreeSizes::ZERO;
    let mut index = 0;
    let mut ids = MerkleTree::default();
    while let Some((transaction, txid)) = next.next()? {
        let txid = txid.unwrap_or_else(|| transaction.id());
        ids.push(txid);
        let shielded = encode::shielded_bytes(&transaction, PoolSet::SHIELDED);
        if shielded > 0 {
            put_shielded(&mut frame, index, txid, &transaction, shielded);
        }
        let dropped = (shielded == 0).then_some(txid);
        put_transparent(&mut transparent, index, dropped, &transaction);
        notes = add_notes(notes, &transaction);
        index += 1;
    }

    if !ids.is_exactly(header.merkle_root()) {
        return Err(Error::MerkleRoot);
    }
    let size = next.size() as u64;
    let size_bytes = u32::try_from(size).map_err(|_| Error::TooLarge { size })?;
    Ok(CompactBlock {
        id,
        previous: header.previous(),
        time: header.time(),
        notes,
        // A transaction takes bytes, so there are fewer of them.
        transactions: u32::try_from(next.count()).map_err(|_| Error::TooLarge { size })?,
        size_bytes,
        frame,
        transparent,
    })
}

/// Room for a block without shielded transactions: prefix, height, two hashes, time, metadata.
const FRAME_BYTES_LEAST: usize = 128;

/// Counts wrap no earlier than the bytes of a block do, which are held against 32 bits.
fn add_notes(notes: TreeSizes, transaction: &Transaction<'_>) -> TreeSizes {
    TreeSizes {
        sapling: notes
            .sapling
            .wrapping_add(transaction.sapling_outputs().len() as u32),
        orchard: notes
            .orchard
            .wrapping_add(transaction.orchard_actions().len() as u32),
        ironwood: notes
            .ironwood
            .wrapping_add(transaction.ironwood_actions().len() as u32),
    }
}

impl CompactBlock {
    /// The block behind `before`, the tree sizes at the end of its parent. `None` if a tree overflows.
    pub fn after(self, before: TreeSizes) -> Option<EncodedBlock> {
        let sizes = before.checked_add(self.notes)?;
        let mut frame = self.frame;
        put_chain_metadata(&mut frame, sizes);
        project::close_frame(&mut frame, 0).ok()?;
        Some(EncodedBlock {
            id: self.id,
            previous: self.previous,
            time: self.time,
            sizes,
            transactions: self.transactions,
            size_bytes: self.size_bytes,
            frame,
            transparent: self.transparent,
        })
    }
}

/// A transaction outside a block: its id, and the `CompactTx` message with index 0 and the parts that `pools` asks for, or `None` when
/// it has none of those. Inputs are kept, for only a coinbase has none to show.
///
/// # Errors
///
/// Any [`Error`]: `raw` is not one whole transaction.
pub fn transaction(raw: &[u8], pools: PoolSet) -> Result<(TxId, Option<Vec<u8>>), Error> {
    let (transaction, used) = Transaction::parse(raw)?;
    if used < raw.len() {
        return Err(Error::Trailing {
            offset: used,
            left: raw.len() - used,
        });
    }
    let txid = transaction.id();
    let transparent = pools.contains(Pool::Transparent);
    let shielded = encode::shielded_bytes(&transaction, pools);
    let wanted = shielded
        + if transparent {
            encode::transparent_bytes(&transaction)
        } else {
            0
        };
    let message =
        (wanted > 0).then(|| encode::loose_transaction(txid, &transaction, pools, wanted));
    Ok((txid, message))
}
