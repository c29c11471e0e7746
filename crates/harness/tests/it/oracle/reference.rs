//! From bytes to compact messages by way of `zcash_primitives`: nothing here shares code with what it judges.

use std::io::{Cursor, Read};

use lightship_harness::proto::{
    ChainMetadata, CompactBlock, CompactOrchardAction, CompactSaplingOutput, CompactSaplingSpend,
    CompactTx, CompactTxIn, TxOut,
};
use orchard::bundle::{Authorization, Bundle};
use zcash_primitives::{block::BlockHeader, transaction::Transaction};
use zcash_protocol::{consensus::BranchId, value::ZatBalance};

/// A transaction read from the start of `bytes`, and how many bytes it took.
pub(crate) fn read_transaction(bytes: &[u8]) -> std::io::Result<(Transaction, usize)> {
    let mut reader = Cursor::new(bytes);
    // The branch is only used for versions below 5, and only kept, not judged.
    let transaction = Transaction::read(&mut reader, BranchId::Canopy)?;
    Ok((transaction, reader.position() as usize))
}

/// The block with every transaction and every pool, tree sizes counted from zero.
pub(crate) fn compact_block(height: u64, bytes: &[u8]) -> std::io::Result<CompactBlock> {
    let mut reader = Cursor::new(bytes);
    let header = BlockHeader::read(&mut reader)?;
    let count = read_count(&mut reader)?;
    let mut sizes = ChainMetadata::default();
    let mut vtx = Vec::new();
    for index in 0..count {
        let from = reader.position() as usize;
        let (transaction, used) = read_transaction(&bytes[from..])?;
        reader.set_position((from + used) as u64);
        let compact = compact_transaction(index, &transaction);
        sizes.sapling_commitment_tree_size += compact.outputs.len() as u32;
        sizes.orchard_commitment_tree_size += compact.actions.len() as u32;
        sizes.ironwood_commitment_tree_size += compact.ironwood_actions.len() as u32;
        vtx.push(compact);
    }
    assert_eq!(reader.position() as usize, bytes.len(), "bytes are left");
    Ok(CompactBlock {
        height,
        hash: header.hash().0.to_vec(),
        prev_hash: header.prev_block.0.to_vec(),
        time: header.time,
        vtx,
        chain_metadata: Some(sizes),
        ..CompactBlock::default()
    })
}

/// The transaction at `index` of its block, every pool.
pub(crate) fn compact_transaction(index: u64, transaction: &Transaction) -> CompactTx {
    let mut compact = CompactTx {
        index,
        txid: transaction.txid().as_ref().to_vec(),
        ..CompactTx::default()
    };
    put_transparent(&mut compact, transaction);
    if let Some(sapling) = transaction.sapling_bundle() {
        compact.spends = sapling
            .shielded_spends()
            .iter()
            .map(|spend| CompactSaplingSpend {
                nf: spend.nullifier().0.to_vec(),
            })
            .collect();
        compact.outputs = sapling
            .shielded_outputs()
            .iter()
            .map(|output| CompactSaplingOutput {
                cmu: output.cmu().to_bytes().to_vec(),
                ephemeral_key: output.ephemeral_key().0.to_vec(),
                ciphertext: output.enc_ciphertext()[..52].to_vec(),
            })
            .collect();
    }
    compact.actions = actions(transaction.orchard_bundle());
    compact.ironwood_actions = actions(transaction.ironwood_bundle());
    compact
}

fn put_transparent(compact: &mut CompactTx, transaction: &Transaction) {
    let Some(transparent) = transaction.transparent_bundle() else {
        return;
    };
    if !transparent.is_coinbase() {
        compact.vin = transparent
            .vin
            .iter()
            .map(|input| CompactTxIn {
                prevout_txid: input.prevout().hash().to_vec(),
                prevout_index: input.prevout().n(),
            })
            .collect();
    }
    compact.vout = transparent
        .vout
        .iter()
        .map(|output| TxOut {
            value: output.value().into_u64(),
            script_pub_key: output.script_pubkey().0.0.clone(),
        })
        .collect();
}

fn actions<A: Authorization>(bundle: Option<&Bundle<A, ZatBalance>>) -> Vec<CompactOrchardAction> {
    let actions = bundle.into_iter().flat_map(|bundle| bundle.actions());
    actions
        .map(|action| {
            let note = action.encrypted_note();
            CompactOrchardAction {
                nullifier: action.nullifier().to_bytes().to_vec(),
                cmx: action.cmx().to_bytes().to_vec(),
                ephemeral_key: note.epk_bytes.to_vec(),
                ciphertext: note.enc_ciphertext.as_ref()[..52].to_vec(),
            }
        })
        .collect()
}

/// Drops what the default view drops: transparent parts, and transactions that have no others.
pub(crate) fn default_view(mut block: CompactBlock) -> CompactBlock {
    for transaction in &mut block.vtx {
        transaction.vin.clear();
        transaction.vout.clear();
    }
    block.vtx.retain(|transaction| {
        !(transaction.spends.is_empty()
            && transaction.outputs.is_empty()
            && transaction.actions.is_empty()
            && transaction.ironwood_actions.is_empty())
    });
    block
}

fn read_count(reader: &mut impl Read) -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    reader.read_exact(&mut bytes[..1])?;
    let width = match bytes[0] {
        0xfd => 2,
        0xfe => 4,
        0xff => 8,
        small => return Ok(u64::from(small)),
    };
    bytes = [0; 8];
    reader.read_exact(&mut bytes[..width])?;
    Ok(u64::from_le_bytes(bytes))
}
