//! Our parser and encoder against `zcash_primitives`, which decodes every field of a transaction into curve points and back.
//!
//! `reference` turns what it decodes into a `CompactBlock` the slow way; a test reads the same bytes both ways and compares the
//! encoded messages and the ids.

mod blocks;
mod reference;
mod transactions;
#[cfg(feature = "curves")]
mod trees;
