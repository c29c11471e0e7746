//! The lightwallet protocol v0.5.0 as generated from `/proto`: its messages, the trait of the methods that are answered message
//! by message, and (feature `client`) a client of the whole service.
//!
//! The four methods that answer with compact blocks are not in the generated trait: their messages are stored encoded and go
//! out as they are (see `range`).

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    rustdoc::all,
    reason = "generated; the protocol's own comments are in the .proto files"
)]

tonic::include_proto!("/server/cash.z.wallet.sdk.rpc");

#[cfg(feature = "client")]
mod client {
    tonic::include_proto!("/client/cash.z.wallet.sdk.rpc");
}
#[cfg(feature = "client")]
pub use client::compact_tx_streamer_client::CompactTxStreamerClient;

/// The published files, encoded as a `FileDescriptorSet`: what reflection shows.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
/// The service's full name, as health checks and paths spell it.
pub const SERVICE: &str = "cash.z.wallet.sdk.rpc.CompactTxStreamer";
