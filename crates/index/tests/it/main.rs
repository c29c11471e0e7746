//! The index from outside, as one binary. A new test goes to the file of what it shows: what a store answers (`store`), what is left after the
//! power goes (`crash`), what damaged files lead to (`rot`), whether any order of steps agrees with a simple model (`model`), what checking a whole store finds (`verify`), whether its
//! note commitment trees are right (`trees`), also after the power goes (`tree_crash`). What they share
//! is the disk in memory (`disk`) and the chains (`chains`).
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, and helpers of tests are no tests to clippy"
)]

mod chains;
mod crash;
mod disk;
mod model;
mod rot;
mod store;
mod tree_crash;
mod trees;
mod verify;
