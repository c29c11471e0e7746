//! Integration tests of the program and of the workspace as a whole, one binary.
//!
//! A new test goes into the file of its subject: `imports.rs` (who may depend on whom), `cli.rs` (what a user types and sees; `process.rs`
//! starts and stops the program for it), `settings.rs` (the file, `config` and `check`), `hostile.rs` (clients that mean no
//! good, and what is never logged), `tls.rs`, `faults.rs` (what went wrong elsewhere).
//! Tests that need a real node live in `harness` under `e2e::`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cli;
mod faults;
mod hostile;
mod imports;
mod process;
mod settings;
mod tls;
