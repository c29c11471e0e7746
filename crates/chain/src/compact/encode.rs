//! Writes compact messages, fields ascending, lengths by arithmetic.
//!
//! In: views of transactions. Out: bytes appended to a buffer. Shielded elements have one size each, so that a message's length is known
//! before its first byte; only transparent parts are walked twice.

use super::fields::{action, block, chain_metadata, output, spend, transaction, tx_in, tx_out};
use crate::{
    BlockHash, BlockId, Pool, PoolSet, TreeSizes, TxId,
    parse::{Action, Actions, Input, Output, SaplingOutput, Transaction},
};

/// A 32-byte field: tag, length, bytes.
const FIELD_32_BYTES: usize = 34;
/// A `CompactSaplingSpend` as an element of `spends`.
pub(super) const SPEND_BYTES: usize = 2 + FIELD_32_BYTES;
/// A `CompactSaplingOutput` as an element of `outputs`.
pub(super) const OUTPUT_BYTES: usize = 2 + 2 * FIELD_32_BYTES + 54;
/// A `CompactOrchardAction` as an element of `actions` or `ironwoodActions`.
pub(super) const ACTION_BYTES: usize = 3 + 3 * FIELD_32_BYTES + 54;
/// Where the note commitment is in an output and in an action of those sizes.
pub(super) const OUTPUT_NOTE_AT: usize = 4;
pub(super) const ACTION_NOTE_AT: usize = 39;

/// How many bytes `value` takes as a varint.
#[inline]
pub(super) fn varint_bytes(value: u64) -> usize {
    // Seven bits a byte, and one byte for zero.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A varint field, left out when zero.
fn put_number(out: &mut Vec<u8>, tag: u8, value: u64) {
    if value != 0 {
        out.push(tag);
        put_varint(out, value);
    }
}

/// The bytes of a varint field, none when zero.
#[inline]
fn number_bytes(value: u64) -> usize {
    if value == 0 {
        0
    } else {
        1 + varint_bytes(value)
    }
}

fn put_32(out: &mut Vec<u8>, tag: u8, bytes: &[u8; 32]) {
    out.extend_from_slice(&[tag, 32]);
    out.extend_from_slice(bytes);
}

/// Everything in a `CompactBlock` before its transactions.
pub(super) fn put_block_head(out: &mut Vec<u8>, id: BlockId, previous: BlockHash, time: u32) {
    put_number(out, block::HEIGHT, id.height.into());
    put_32(out, block::HASH, id.hash.as_internal());
    put_32(out, block::PREV_HASH, previous.as_internal());
    put_number(out, block::TIME, time.into());
}

/// The last field of a `CompactBlock`: there even when it is empty.
pub(super) fn put_chain_metadata(out: &mut Vec<u8>, sizes: TreeSizes) {
    let fields = [
        (chain_metadata::SAPLING_COMMITMENT_TREE_SIZE, sizes.sapling),
        (chain_metadata::ORCHARD_COMMITMENT_TREE_SIZE, sizes.orchard),
        (
            chain_metadata::IRONWOOD_COMMITMENT_TREE_SIZE,
            sizes.ironwood,
        ),
    ];
    let length: usize = fields
        .iter()
        .map(|&(_, size)| number_bytes(size.into()))
        .sum();
    out.extend_from_slice(&[block::CHAIN_METADATA, length as u8]);
    for (tag, size) in fields {
        put_number(out, tag, size.into());
    }
}

/// The bytes that the shielded parts of `pools` take in a `CompactTx`.
pub(super) fn shielded_bytes(transaction: &Transaction<'_>, pools: PoolSet) -> usize {
    let mut bytes = 0;
    if pools.contains(Pool::Sapling) {
        bytes += transaction.sapling_spends().len() * SPEND_BYTES;
        bytes += transaction.sapling_outputs().len() * OUTPUT_BYTES;
    }
    if pools.contains(Pool::Orchard) {
        bytes += transaction.orchard_actions().len() * ACTION_BYTES;
    }
    if pools.contains(Pool::Ironwood) {
        bytes += transaction.ironwood_actions().len() * ACTION_BYTES;
    }
    bytes
}

/// A `CompactTx` of the default view as an element of `vtx`; its shielded parts take `shielded` bytes.
pub(super) fn put_shielded(
    out: &mut Vec<u8>,
    index: u64,
    txid: TxId,
    full: &Transaction<'_>,
    shielded: usize,
) {
    let length = number_bytes(index) + FIELD_32_BYTES + shielded;
    out.reserve(1 + varint_bytes(length as u64) + length);
    out.push(block::VTX);
    put_varint(out, length as u64);
    put_number(out, transaction::INDEX, index);
    put_32(out, transaction::TXID, txid.as_internal());
    put_sapling(out, full);
    put_actions(out, transaction::ACTIONS, full.orchard_actions());
    put_actions(out, transaction::IRONWOOD_ACTIONS, full.ironwood_actions());
}

/// A `CompactTx` of the companion as an element of `vtx`; with its id if the default view drops the transaction.
pub(super) fn put_transparent(
    out: &mut Vec<u8>,
    index: u64,
    dropped: Option<TxId>,
    full: &Transaction<'_>,
) {
    let id_bytes = if dropped.is_some() { FIELD_32_BYTES } else { 0 };
    let length = number_bytes(index) + id_bytes + transparent_bytes(full);
    out.reserve(1 + varint_bytes(length as u64) + length);
    out.push(block::VTX);
    put_varint(out, length as u64);
    put_number(out, transaction::INDEX, index);
    if let Some(txid) = dropped {
        put_32(out, transaction::TXID, txid.as_internal());
    }
    put_inputs_and_outputs(out, full);
}

/// A `CompactTx` message by itself: index 0, and the parts of `pools`, which take `parts` bytes.
pub(super) fn loose_transaction(
    txid: TxId,
    full: &Transaction<'_>,
    pools: PoolSet,
    parts: usize,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(FIELD_32_BYTES + parts);
    put_32(&mut out, transaction::TXID, txid.as_internal());
    if pools.contains(Pool::Sapling) {
        put_sapling(&mut out, full);
    }
    if pools.contains(Pool::Orchard) {
        put_actions(&mut out, transaction::ACTIONS, full.orchard_actions());
    }
    if pools.contains(Pool::Transparent) {
        put_inputs_and_outputs(&mut out, full);
    }
    if pools.contains(Pool::Ironwood) {
        put_actions(
            &mut out,
            transaction::IRONWOOD_ACTIONS,
            full.ironwood_actions(),
        );
    }
    out
}

fn put_sapling(out: &mut Vec<u8>, full: &Transaction<'_>) {
    for each in full.sapling_spends() {
        out.extend_from_slice(&[transaction::SPENDS, FIELD_32_BYTES as u8]);
        put_32(out, spend::NF, each.nullifier());
    }
    for each in full.sapling_outputs() {
        out.extend_from_slice(&sapling_output(each));
    }
}

fn put_actions(out: &mut Vec<u8>, tag: u8, actions: Actions<'_>) {
    for each in actions {
        out.extend_from_slice(&compact_action(tag, each));
    }
}

/// One element of `outputs`. Put together on the stack, so that the buffer grows once an element.
#[inline]
fn sapling_output(full: SaplingOutput<'_>) -> [u8; OUTPUT_BYTES] {
    let (cmu, rest) = full.compact().split_at(32);
    let (key, ciphertext) = rest.split_at(32);
    let mut out = [0; OUTPUT_BYTES];
    out[..4].copy_from_slice(&[
        transaction::OUTPUTS,
        (OUTPUT_BYTES - 2) as u8,
        output::CMU,
        32,
    ]);
    out[4..36].copy_from_slice(cmu);
    out[36..38].copy_from_slice(&[output::EPHEMERAL_KEY, 32]);
    out[38..70].copy_from_slice(key);
    out[70..72].copy_from_slice(&[output::CIPHERTEXT, 52]);
    out[72..].copy_from_slice(ciphertext);
    out
}

/// One element of `actions` or `ironwoodActions`.
#[inline]
fn compact_action(tag: u8, full: Action<'_>) -> [u8; ACTION_BYTES] {
    let (cmx, rest) = full.compact().split_at(32);
    let (key, ciphertext) = rest.split_at(32);
    let mut out = [0; ACTION_BYTES];
    out[..5].copy_from_slice(&action_head(tag));
    out[5..37].copy_from_slice(full.nullifier());
    out[37..39].copy_from_slice(&[action::CMX, 32]);
    out[39..71].copy_from_slice(cmx);
    out[71..73].copy_from_slice(&[action::EPHEMERAL_KEY, 32]);
    out[73..105].copy_from_slice(key);
    out[105..107].copy_from_slice(&[action::CIPHERTEXT, 52]);
    out[107..].copy_from_slice(ciphertext);
    out
}

/// Tag and length of an action, tag and length of its nullifier.
pub(super) const fn action_head(tag: u8) -> [u8; 5] {
    const LENGTH: usize = ACTION_BYTES - 3;
    [
        tag,
        LENGTH as u8 | 0x80,
        (LENGTH >> 7) as u8,
        action::NULLIFIER,
        32,
    ]
}

/// The bytes that `vin` and `vout` take in a `CompactTx`.
pub(super) fn transparent_bytes(full: &Transaction<'_>) -> usize {
    let inputs: usize = inputs(full).map(|input| 2 + input_bytes(&input)).sum();
    let outputs: usize = full
        .outputs()
        .map(|output| {
            let length = output_bytes(&output);
            1 + varint_bytes(length as u64) + length
        })
        .sum();
    inputs + outputs
}

/// The inputs to show: a coinbase's null input is none.
fn inputs<'a>(full: &Transaction<'a>) -> impl Iterator<Item = Input<'a>> {
    let shown = if full.is_coinbase() { 0 } else { usize::MAX };
    full.inputs().take(shown)
}

fn input_bytes(input: &Input<'_>) -> usize {
    FIELD_32_BYTES + number_bytes(input.prevout_index().into())
}

fn output_bytes(output: &Output<'_>) -> usize {
    number_bytes(output.value()) + script_bytes(output.script())
}

fn script_bytes(script: &[u8]) -> usize {
    match script.len() {
        0 => 0,
        length => 1 + varint_bytes(length as u64) + length,
    }
}

fn put_inputs_and_outputs(out: &mut Vec<u8>, full: &Transaction<'_>) {
    for input in inputs(full) {
        out.extend_from_slice(&[transaction::VIN, input_bytes(&input) as u8]);
        put_32(out, tx_in::PREVOUT_TXID, input.prevout_id());
        put_number(out, tx_in::PREVOUT_INDEX, input.prevout_index().into());
    }
    for output in full.outputs() {
        out.push(transaction::VOUT);
        put_varint(out, output_bytes(&output) as u64);
        put_number(out, tx_out::VALUE, output.value());
        if !output.script().is_empty() {
            out.push(tx_out::SCRIPT_PUB_KEY);
            put_varint(out, output.script().len() as u64);
            out.extend_from_slice(output.script());
        }
    }
}
