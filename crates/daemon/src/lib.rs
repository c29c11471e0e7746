//! The program's parts: what `main` calls, and what a program with a node of its own inside calls instead.
//!
//! In: what was typed ([`cli`]) or stands in a file ([`layers`]), checked into what is used ([`config`]). Out: a process made of the rooms ([`run`]): a source that
//! feeds ingest, ingest that writes the index, serve that answers from it, signals that end it. What a block means, how it lies on
//! disk and what a wallet is told are the rooms' own affairs.

pub mod check;
pub mod cli;
pub mod config;
mod connect;
pub mod demo;
pub mod layers;
mod meters;
mod open_files;
mod push;
pub mod run;
mod show;
mod signals;
pub mod telemetry;
mod trees;
mod verify;

pub use verify::verify;
