//! The light wallet protocol's messages and client, generated from `proto/walletrpc`.

#![expect(
    missing_docs,
    clippy::all,
    reason = "generated code, documented in the .proto files"
)]

tonic::include_proto!("cash.z.wallet.sdk.rpc");

/// The protocol's files, compiled: an encoded `FileDescriptorSet` that needs no other.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The protocol's service, by its whole name.
pub const SERVICE: &str = "cash.z.wallet.sdk.rpc.CompactTxStreamer";
