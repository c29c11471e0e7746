//! Integration tests of the program and of the workspace as a whole, one binary.
//!
//! A new test goes into the file of its subject: `imports.rs` (who may depend on whom), `cli.rs` (what a user types and sees; `process.rs`
//! starts and stops the program for it).
//! Tests that need a real node live in `harness` under `e2e::`.

mod cli;
mod imports;
mod process;
