//! The judge's own checks, in one binary.
//!
//! Where a new test goes: `bench` if it is about measuring; `e2e` if it needs a running node (`LIGHTSHIP_ZEBRAD`, see `.ci/zebrad`); `compare` if it is about two servers
//! held against each other; `forge` and `stub` if it is about made-up chains; `slow` if it is about our program
//! under load or behind other programs; `oracle` if it holds our parser
//! against another implementation; `report` if it is about what is made of runs. Real chain data beyond what the packages carry is found by `LIGHTSHIP_SHARED`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod compare;
mod e2e;
mod forge;
mod oracle;
mod report;
mod slow;
mod stub;
