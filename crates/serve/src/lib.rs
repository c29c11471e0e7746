//! Answers wallets: the lightwallet protocol v0.5.0 over gRPC, health, reflection, metrics.
//!
//! In: an index to read ([`lightship_index::Reader`]) and a node to ask ([`lightship_source::Node`]). Out: answers on a gRPC listener and,
//! for the operator, on an HTTP one. The one asynchronous room. Building the index is left to `ingest`, which is not known here;
//! configuration and signals are left to the program.
//!
//! Where to read: `query` is what each method answers, without transport; `range` is how blocks stream out of the index; `status`
//! is the one table of what wallets are told when something is wrong; `grpc` and `server` put it on the wire, `web` does for browsers,
//! `tls` in private.

mod accept;
mod address;
mod answer;
mod aside;
mod backend;
mod clients;
mod connection;
mod errand;
mod grpc;
mod http;
mod info;
mod limits;
mod listen;
mod memory;
mod mempool;
mod method;
mod outstanding;
pub mod proto;
mod query;
mod range;
mod readiness;
mod server;
mod settings;
mod stall;
mod status;
mod telemetry;
mod tip;
mod tls;
mod waiting;
mod web;
mod wire;

pub use backend::{Backend, NodeHealth};
pub use clients::{AddressBlock, Clients, NoAddressBlock};
pub use server::{Error, serve};
pub use settings::{Build, Http2, Limits, Readiness, Settings};
pub use status::Refusal;
pub use telemetry::install as install_metrics;
pub use tip::served_tip;
pub use tls::{Certificate, CertificateError};
pub use waiting::waiting;
pub use web::Origins;
