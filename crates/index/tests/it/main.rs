//! The index from outside, as one binary. A new test goes to the file of what it shows: what a store answers (`store`).
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, and helpers of tests are no tests to clippy"
)]

mod store;
