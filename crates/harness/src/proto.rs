//! The light wallet protocol's messages and client, generated from `proto/walletrpc`.

#![expect(
    missing_docs,
    clippy::all,
    reason = "generated code, documented in the .proto files"
)]

tonic::include_proto!("cash.z.wallet.sdk.rpc");
