//! Subsets of encoded blocks.
//!
//! In: one block as stored, and which parts of it are wanted. Out: one gRPC frame appended to a buffer. Works on encoded bytes in a
//! single pass; elements are kept or skipped as runs, never decoded. What is stored comes from disk, so it is trusted in nothing: anything
//! but the shape that [`super::compact`] writes is [`Malformed`], and a failed call leaves the buffer as it was.
//!
//! Spec: lightwallet protocol v0.5.0, `BlockRange.poolTypes` and the methods named at each function.

#![deny(clippy::indexing_slicing)]

mod message;

use super::{
    encode::{
        ACTION_BYTES, ACTION_NOTE_AT, OUTPUT_BYTES, OUTPUT_NOTE_AT, action_head, put_varint,
        varint_bytes,
    },
    fields::{action, block, transaction},
};
use crate::{Pool, PoolSet, ShieldedPool, tree::TreeNode};
use message::{BlockParts, Companion, ShieldedTransaction, Transactions, elements};

/// The bytes before each message of a gRPC stream: `00` for "not compressed", length `[4]` big-endian.
pub const FRAME_PREFIX_BYTES: usize = 5;

/// Stored bytes that are not a block as this crate encodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored block does not decode: expected {expected} {left} bytes before the end of {part}")]
pub struct Malformed {
    /// What should have been there.
    pub expected: &'static str,
    /// Which of the stored parts.
    pub part: &'static str,
    /// How far from that part's end.
    pub left: usize,
}

/// One block as stored.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The frame without its prefix.
    pub message: &'a [u8],
    /// The companion: [`super::EncodedBlock::transparent`].
    pub transparent: &'a [u8],
}

/// Which transactions a nullifier view keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullifierView {
    /// `GetBlockNullifiers`: every transaction of the block.
    Whole,
    /// `GetBlockRangeNullifiers`: those with a part in one of these pools, and of them the nullifiers of these pools. Transparent is
    /// ignored; no shielded pool at all means every one.
    Pools(PoolSet),
}

/// `GetBlock`: every transaction, every pool.
///
/// # Errors
///
/// [`Malformed`] if the stored bytes do not decode.
pub fn whole(block: Stored<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    framed(out, |out| {
        let parts = BlockParts::read(block.message)?;
        out.extend_from_slice(parts.head);
        joined(&parts, block.transparent, |shielded, transparent| {
            put_joined(out, shielded, transparent, PoolSet::ALL);
            Ok(())
        })?;
        out.extend_from_slice(parts.metadata);
        Ok(())
    })
}

/// `GetBlockRange`: the parts in `pools`, and the transactions that have any.
///
/// # Errors
///
/// [`Malformed`] if the stored bytes do not decode.
pub fn pools(block: Stored<'_>, pools: PoolSet, out: &mut Vec<u8>) -> Result<(), Malformed> {
    framed(out, |out| {
        let parts = BlockParts::read(block.message)?;
        out.extend_from_slice(parts.head);
        if pools.contains(Pool::Transparent) {
            joined(&parts, block.transparent, |shielded, transparent| {
                put_joined_if_any(out, shielded, transparent, pools);
                Ok(())
            })?;
        } else {
            for transaction in parts.transactions() {
                put_joined_if_any(out, Some(transaction?), Companion::EMPTY, pools);
            }
        }
        out.extend_from_slice(parts.metadata);
        Ok(())
    })
}

/// `GetBlockNullifiers` and `GetBlockRangeNullifiers`: ids, Sapling spends, and the nullifiers of actions; tree sizes left out.
///
/// # Errors
///
/// [`Malformed`] if the stored bytes do not decode.
pub fn nullifiers(
    block: Stored<'_>,
    keep: NullifierView,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    framed(out, |out| {
        let parts = BlockParts::read(block.message)?;
        out.extend_from_slice(parts.head);
        match keep {
            NullifierView::Whole => {
                joined(&parts, block.transparent, |shielded, transparent| {
                    let head = shielded.map_or(transparent.head, |shielded| shielded.head);
                    let shielded = shielded.unwrap_or(ShieldedTransaction::EMPTY);
                    put_nullifiers(out, head, shielded, PoolSet::SHIELDED)
                })?;
            }
            NullifierView::Pools(pools) => {
                let pools = match pools.without(Pool::Transparent) {
                    PoolSet::EMPTY => PoolSet::SHIELDED,
                    pools => pools,
                };
                for transaction in parts.transactions() {
                    let transaction = transaction?;
                    if transaction.bytes_in(pools) > 0 {
                        put_nullifiers(out, transaction.head, transaction, pools)?;
                    }
                }
            }
        }
        out.extend_from_slice(&[block::CHAIN_METADATA, 0]);
        Ok(())
    })
}

/// The note commitments that a block adds to the tree of `pool`, in tree order, appended to `notes`. `message` is a frame without its prefix.
///
/// # Errors
///
/// [`Malformed`] if the stored bytes do not decode; `notes` may have grown then.
pub fn notes(
    message: &[u8],
    pool: ShieldedPool,
    notes: &mut Vec<TreeNode>,
) -> Result<(), Malformed> {
    for transaction in BlockParts::read(message)?.transactions() {
        let transaction = transaction?;
        match pool {
            ShieldedPool::Sapling => {
                put_notes::<OUTPUT_BYTES>(transaction.outputs, OUTPUT_NOTE_AT, notes)?;
            }
            ShieldedPool::Orchard => {
                put_notes::<ACTION_BYTES>(transaction.orchard, ACTION_NOTE_AT, notes)?;
            }
            ShieldedPool::Ironwood => {
                put_notes::<ACTION_BYTES>(transaction.ironwood, ACTION_NOTE_AT, notes)?;
            }
        }
    }
    Ok(())
}

fn put_notes<const BYTES: usize>(
    run: &[u8],
    at: usize,
    notes: &mut Vec<TreeNode>,
) -> Result<(), Malformed> {
    let elements = elements::<BYTES>(run)?.iter();
    notes.extend(elements.filter_map(|element| element.get(at..)?.first_chunk()));
    Ok(())
}

/// Runs `write` behind room for a frame's prefix, then fills it in; takes everything back if it fails.
fn framed(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_PREFIX_BYTES]);
    let done = write(out).and_then(|()| close_frame(out, start));
    if done.is_err() {
        out.truncate(start);
    }
    done
}

/// Writes the length of the message that begins behind the prefix at `start` and ends where `out` does.
pub(super) fn close_frame(out: &mut [u8], start: usize) -> Result<(), Malformed> {
    let length = out.len().saturating_sub(start + FRAME_PREFIX_BYTES);
    let prefix = out
        .get_mut(start..)
        .and_then(|frame| frame.first_chunk_mut::<FRAME_PREFIX_BYTES>());
    match (prefix, u32::try_from(length)) {
        (Some(prefix), Ok(length)) => {
            let [a, b, c, d] = length.to_be_bytes();
            *prefix = [0, a, b, c, d];
            Ok(())
        }
        _ => Err(Malformed {
            expected: "a message of less than 4 GiB",
            part: "frame",
            left: 0,
        }),
    }
}

/// Visits every transaction of a block: what the default view has of it, and what the companion has.
fn joined<'a>(
    parts: &BlockParts<'a>,
    transparent: &'a [u8],
    mut visit: impl FnMut(Option<ShieldedTransaction<'a>>, Companion<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut shielded = parts.transactions();
    for companion in Transactions::companion(transparent) {
        let companion = companion?;
        if companion.dropped {
            visit(None, companion)?;
            continue;
        }
        let partner = shielded.next().transpose()?;
        match partner {
            Some(partner) if partner.index == companion.index => visit(Some(partner), companion)?,
            _ => return Err(shielded.malformed("the transaction that the companion goes with")),
        }
    }
    match shielded.next() {
        None => Ok(()),
        Some(_) => Err(shielded.malformed("no transaction without a companion")),
    }
}

/// The transaction with the parts in `pools`, if there are any.
fn put_joined_if_any(
    out: &mut Vec<u8>,
    shielded: Option<ShieldedTransaction<'_>>,
    transparent: Companion<'_>,
    pools: PoolSet,
) {
    let bytes = shielded.map_or(0, |shielded| shielded.bytes_in(pools));
    if bytes + transparent.inputs_and_outputs.len() > 0 {
        put_joined(out, shielded, transparent, pools);
    }
}

/// The transaction with the parts in `pools`; fields ascending, so Ironwood's actions come behind the transparent parts.
fn put_joined(
    out: &mut Vec<u8>,
    shielded: Option<ShieldedTransaction<'_>>,
    transparent: Companion<'_>,
    pools: PoolSet,
) {
    let head = shielded.map_or(transparent.head, |shielded| shielded.head);
    let shielded = shielded.unwrap_or(ShieldedTransaction::EMPTY);
    let pick = |pool, run| if pools.contains(pool) { run } else { &[][..] };
    let runs = [
        head,
        pick(Pool::Sapling, shielded.spends),
        pick(Pool::Sapling, shielded.outputs),
        pick(Pool::Orchard, shielded.orchard),
        transparent.inputs_and_outputs,
        pick(Pool::Ironwood, shielded.ironwood),
    ];
    let length: usize = runs.iter().map(|run| run.len()).sum();
    out.reserve(1 + varint_bytes(length as u64) + length);
    out.push(block::VTX);
    put_varint(out, length as u64);
    for run in runs {
        out.extend_from_slice(run);
    }
}

/// The transaction with `head`, and of the shielded parts in `pools` what spends a note.
fn put_nullifiers(
    out: &mut Vec<u8>,
    head: &[u8],
    shielded: ShieldedTransaction<'_>,
    pools: PoolSet,
) -> Result<(), Malformed> {
    let pick = |pool, run| if pools.contains(pool) { run } else { &[][..] };
    let spends = pick(Pool::Sapling, shielded.spends);
    let orchard = elements::<ACTION_BYTES>(pick(Pool::Orchard, shielded.orchard))?;
    let ironwood = elements::<ACTION_BYTES>(pick(Pool::Ironwood, shielded.ironwood))?;
    // Tag, length, tag, length, nullifier.
    let action_bytes = 2 + 34;
    let length = head.len() + spends.len() + (orchard.len() + ironwood.len()) * action_bytes;
    out.reserve(1 + varint_bytes(length as u64) + length);
    out.push(block::VTX);
    put_varint(out, length as u64);
    out.extend_from_slice(head);
    out.extend_from_slice(spends);
    for (tag, run) in [
        (transaction::ACTIONS, orchard),
        (transaction::IRONWOOD_ACTIONS, ironwood),
    ] {
        for element in run {
            let (head, rest) = element.split_at(action_head(tag).len());
            if head != action_head(tag) {
                return Err(Malformed {
                    expected: "an action that begins with its nullifier",
                    part: "message",
                    left: 0,
                });
            }
            out.extend_from_slice(&[tag, 34, action::NULLIFIER, 32]);
            out.extend_from_slice(rest.split_at(32).0);
        }
    }
    Ok(())
}
