//! The messages of `compact_formats.proto`, declared for an ordinary protobuf codec, and the slow way to each projection.

use lightship_chain::{Pool, PoolSet, compact::project::NullifierView};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CompactBlock {
    #[prost(uint64, tag = "2")]
    pub(crate) height: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) hash: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) prev_hash: Vec<u8>,
    #[prost(uint32, tag = "5")]
    pub(crate) time: u32,
    #[prost(bytes = "vec", tag = "6")]
    pub(crate) header: Vec<u8>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) vtx: Vec<CompactTx>,
    #[prost(message, optional, tag = "8")]
    pub(crate) chain_metadata: Option<ChainMetadata>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct ChainMetadata {
    #[prost(uint32, tag = "1")]
    pub(crate) sapling: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) orchard: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) ironwood: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CompactTx {
    #[prost(uint64, tag = "1")]
    pub(crate) index: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) txid: Vec<u8>,
    #[prost(uint32, tag = "3")]
    pub(crate) fee: u32,
    #[prost(message, repeated, tag = "4")]
    pub(crate) spends: Vec<Spend>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) outputs: Vec<Output>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) actions: Vec<Action>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) vin: Vec<TxIn>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) vout: Vec<TxOut>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) ironwood_actions: Vec<Action>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Spend {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) nf: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Output {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) cmu: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) ephemeral_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) ciphertext: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Action {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) nullifier: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) cmx: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) ephemeral_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) ciphertext: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TxIn {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) prevout_txid: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(crate) prevout_index: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TxOut {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) script_pub_key: Vec<u8>,
}

/// The block with the parts in `pools`, less the transactions that have none.
pub(crate) fn filtered(mut whole: CompactBlock, pools: PoolSet) -> CompactBlock {
    for tx in &mut whole.vtx {
        filter(tx, pools);
    }
    whole.vtx.retain(|tx| !is_bare(tx));
    whole
}

/// The transaction with the parts in `pools`.
pub(crate) fn filter(tx: &mut CompactTx, pools: PoolSet) {
    if !pools.contains(Pool::Transparent) {
        tx.vin.clear();
        tx.vout.clear();
    }
    if !pools.contains(Pool::Sapling) {
        tx.spends.clear();
        tx.outputs.clear();
    }
    if !pools.contains(Pool::Orchard) {
        tx.actions.clear();
    }
    if !pools.contains(Pool::Ironwood) {
        tx.ironwood_actions.clear();
    }
}

/// Whether nothing of any pool is left.
pub(crate) fn is_bare(tx: &CompactTx) -> bool {
    let CompactTx {
        spends,
        outputs,
        actions,
        vin,
        vout,
        ironwood_actions,
        ..
    } = tx;
    spends.is_empty()
        && outputs.is_empty()
        && actions.is_empty()
        && vin.is_empty()
        && vout.is_empty()
        && ironwood_actions.is_empty()
}

/// The block's nullifiers.
pub(crate) fn nullifiers(mut whole: CompactBlock, keep: NullifierView) -> CompactBlock {
    if let NullifierView::Pools(pools) = keep {
        let pools = pools.without(Pool::Transparent);
        let pools = if pools.is_empty() {
            PoolSet::SHIELDED
        } else {
            pools
        };
        whole = filtered(whole, pools);
    }
    for tx in &mut whole.vtx {
        tx.outputs.clear();
        tx.vin.clear();
        tx.vout.clear();
        for action in tx.actions.iter_mut().chain(&mut tx.ironwood_actions) {
            action.cmx.clear();
            action.ephemeral_key.clear();
            action.ciphertext.clear();
        }
    }
    whole.chain_metadata = Some(ChainMetadata::default());
    whole
}
