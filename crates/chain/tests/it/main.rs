//! What the crate promises, tested from outside.
//!
//! A new test goes where its subject is: recorded answers for vendored blocks in `vectors`, the wider collection of real blocks (read
//! from the folder that `LIGHTSHIP_SHARED` names, skipped without it) in `shared`, bytes that lie in `untrusted`, subsets of encoded
//! blocks in `projection`. `reference` is the ordinary protobuf codec that the encoder is held against.

#![allow(
    clippy::unwrap_used,
    reason = "the whole binary is tests, but clippy sees only what is under #[test]"
)]

mod allocations;
mod projection;
mod reference;
mod samples;
mod shared;
mod untrusted;
mod vectors;
