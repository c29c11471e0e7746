//! The judge.
//!
//! In: addresses of servers and nodes, or the programs themselves. Out: verdicts and figures. It speaks only the public protocols, so it
//! judges any server alike. What makes it heavy (another implementation's parser, a wallet) is in its tests and benchmarks; the
//! fixtures here are light:
//!
//! * [`zebrad`] runs a real node in regtest, [`recorded`] keeps a chain mined once with coinbases of every pool;
//! * [`conform`] judges a server's every method against a naive model of its node's chain;
//! * [`forge`] makes long chains that look like the real ones, [`stub`] serves them as a node would;
//! * [`lightship`] runs our own program as a child;
//! * [`mod@bench`] measures whole systems, [`report`] makes tables and pictures of what it leaves;
//! * [`grpc`] is a client that sees bytes, not messages; [`proto`] the generated one; [`json_rpc`] talks to the node.

pub mod bench;
pub mod conform;
pub mod forge;
pub mod grpc;
pub mod json_rpc;
pub mod lightship;
pub mod process;
pub mod proto;
pub mod recorded;
pub mod report;
pub mod stub;
pub mod zebrad;
