//! The protobuf fields of compact blocks: numbers and tags.
//!
//! A tag is the field's number times eight plus its wire type; here 0 (varint) or 2 (a length and as many bytes). All numbers are below
//! 16, so that a tag is one byte.
//!
//! Spec: lightwallet protocol v0.5.0, `compact_formats.proto`; protobuf "Encoding".

/// The tag of a varint field.
pub const fn varint(number: u8) -> u8 {
    number << 3
}

/// The tag of a field that has a length: bytes or a message.
pub const fn sized(number: u8) -> u8 {
    number << 3 | 2
}

/// `CompactBlock`
#[expect(missing_docs, reason = "the constants are the fields' own names")]
pub mod block {
    use super::{sized, varint};
    pub const HEIGHT: u8 = varint(2);
    pub const HASH: u8 = sized(3);
    pub const PREV_HASH: u8 = sized(4);
    pub const TIME: u8 = varint(5);
    pub const VTX: u8 = sized(7);
    pub const CHAIN_METADATA: u8 = sized(8);
}

/// `ChainMetadata`
#[expect(missing_docs, reason = "the constants are the fields' own names")]
pub mod chain_metadata {
    use super::varint;
    pub const SAPLING_COMMITMENT_TREE_SIZE: u8 = varint(1);
    pub const ORCHARD_COMMITMENT_TREE_SIZE: u8 = varint(2);
    pub const IRONWOOD_COMMITMENT_TREE_SIZE: u8 = varint(3);
}

/// `CompactTx`
#[expect(missing_docs, reason = "the constants are the fields' own names")]
pub mod transaction {
    use super::{sized, varint};
    pub const INDEX: u8 = varint(1);
    pub const TXID: u8 = sized(2);
    pub const FEE: u8 = varint(3);
    pub const SPENDS: u8 = sized(4);
    pub const OUTPUTS: u8 = sized(5);
    pub const ACTIONS: u8 = sized(6);
    pub const VIN: u8 = sized(7);
    pub const VOUT: u8 = sized(8);
    pub const IRONWOOD_ACTIONS: u8 = sized(9);
}

/// `CompactSaplingSpend`
#[expect(missing_docs, reason = "the constants are the fields' own names")]
pub mod spend {
    use super::sized;
    pub const NF: u8 = sized(1);
}

/// `CompactSaplingOutput`
#[expect(missing_docs, reason = "the constants are the fields' own names")]
pub mod output {
    use super::sized;
    pub const CMU: u8 = sized(1);
    pub const EPHEMERAL_KEY: u8 = sized(2);
    pub const CIPHERTEXT: u8 = sized(3);
}

/// `CompactOrchardAction`, for Orchard and Ironwood alike
#[expect(missing_docs, reason = "the constants are the fields' own names")]
pub mod action {
    use super::sized;
    pub const NULLIFIER: u8 = sized(1);
    pub const CMX: u8 = sized(2);
    pub const EPHEMERAL_KEY: u8 = sized(3);
    pub const CIPHERTEXT: u8 = sized(4);
}

/// `CompactTxIn`
#[expect(missing_docs, reason = "the constants are the fields' own names")]
pub mod tx_in {
    use super::{sized, varint};
    pub const PREVOUT_TXID: u8 = sized(1);
    pub const PREVOUT_INDEX: u8 = varint(2);
}

/// `TxOut`
#[expect(missing_docs, reason = "the constants are the fields' own names")]
pub mod tx_out {
    use super::{sized, varint};
    pub const VALUE: u8 = varint(1);
    pub const SCRIPT_PUB_KEY: u8 = sized(2);
}
