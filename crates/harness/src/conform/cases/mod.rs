//! The cases, by what they ask for.
//!
//! In: the model and a seed. Out: the same cases each time. A case's name does not depend on the tip, so that it can be made again when the
//! chain has moved under it.

mod addresses;
mod blocks;
mod mempool;
mod nullifiers;
mod ranges;
mod server;
mod transactions;
mod trees;
mod utxos;

use std::collections::HashSet;

use anyhow::Result;
use tonic::Code;

use super::{
    case::{Case, Expectation},
    chain::{Block, Chain},
    node::{Node, Waiting},
    random::Random,
    wire::Call,
};
use crate::proto::{self, BlockId};

/// What cases are made from.
pub(super) struct World {
    /// The node's chain.
    pub(super) chain: Chain,
    /// Its mempool.
    pub(super) mempool: Vec<Waiting>,
    /// The node.
    pub(super) node: Node,
    /// Chooses among what the chain has.
    pub(super) seed: u64,
}

/// Makes the cases of a kind.
pub(super) type Group = fn(&World) -> Result<Vec<Case>>;

/// All cases, by kind.
pub(super) const GROUPS: [Group; 9] = [
    server::cases,
    blocks::cases,
    ranges::cases,
    nullifiers::cases,
    transactions::cases,
    addresses::cases,
    utxos::cases,
    trees::cases,
    mempool::cases,
];

const INVALID: &[Code] = &[Code::InvalidArgument];
const ABOVE: &[Code] = &[Code::OutOfRange];
const UNKNOWN: &[Code] = &[Code::NotFound];
/// A request message above the limit: implementations of gRPC differ here.
const TOO_LARGE: &[Code] = &[Code::OutOfRange, Code::ResourceExhausted];

/// A height that no request can mean.
const HUGE: [(u64, &str); 4] = [
    (1 << 31, "2^31"),
    ((1 << 32) + 5, "2^32+5"),
    (1 << 63, "2^63"),
    (u64::MAX, "2^64-1"),
];

/// Cases of one method.
struct Cases<'a> {
    method: &'static str,
    list: &'a mut Vec<Case>,
}

impl Cases<'_> {
    fn add(
        &mut self,
        rule: &'static str,
        name: impl Into<String>,
        call: Call,
        expectation: Expectation,
    ) {
        self.add_all(rule, name, vec![call], expectation);
    }

    fn add_all(
        &mut self,
        rule: &'static str,
        name: impl Into<String>,
        calls: Vec<Call>,
        expectation: Expectation,
    ) {
        self.list.push(Case {
            method: self.method,
            name: name.into(),
            rule,
            calls,
            expectation,
        });
    }
}

impl World {
    /// The cases of a group whose method's name contains `only`.
    pub(super) fn make(&self, group: Group, only: Option<&str>) -> Result<Vec<Case>> {
        let mut made = group(self)?;
        if let Some(only) = only {
            made.retain(|case| case.method.contains(only));
        }
        // On a short chain, chance and interest meet: one name is one case.
        let mut names = HashSet::new();
        made.retain(|case| names.insert((case.method, case.name.clone())));
        Ok(made)
    }

    fn random(&self, word: &str) -> Random {
        Random::new(self.seed, word)
    }

    /// Settled heights worth a look, each with why: ends, upgrades and their neighbours, the first of each kind, and some at random.
    fn heights(&self, random: usize, word: &str) -> Vec<(u32, String)> {
        let chain = &self.chain;
        let mut heights = vec![
            (1, "1".to_owned()),
            (chain.settled, format!("{}, settled", chain.settled)),
            (
                chain.richest(),
                format!("{}, of many kinds", chain.richest()),
            ),
        ];
        for upgrade in &chain.upgrades {
            for (height, side) in [
                (upgrade.height.saturating_sub(1), "before "),
                (upgrade.height, ""),
                (upgrade.height + 1, "after "),
            ] {
                heights.push((height, format!("{height}, {side}{}", upgrade.name)));
            }
        }
        type Part = fn(&proto::CompactTx) -> usize;
        let parts: [(&str, Part); 6] = [
            ("transparent spend", |tx| tx.vin.len()),
            ("Sapling spend", |tx| tx.spends.len()),
            ("Sapling output", |tx| tx.outputs.len()),
            ("Orchard action", |tx| tx.actions.len()),
            ("Ironwood action", |tx| tx.ironwood_actions.len()),
            ("transparent output to many", |tx| tx.vout.len() / 3),
        ];
        for (what, part) in parts {
            if let Some((block, ..)) = chain.transactions().find(|(_, _, tx)| part(tx) > 0) {
                heights.push((block.height, format!("{}, first {what}", block.height)));
            }
        }
        let known: Vec<u32> = chain.heights().collect();
        let mut chance = self.random(word);
        for _ in 0..random {
            let height = known[chance.below(known.len() as u64) as usize];
            heights.push((height, format!("{height}, by chance")));
        }
        let mut seen = HashSet::new();
        heights.retain(|(height, _)| {
            (1..=chain.settled).contains(height)
                && chain.at(*height).is_some()
                && seen.insert(*height)
        });
        heights
    }
}

fn at(height: u64) -> BlockId {
    BlockId {
        height,
        hash: Vec::new(),
    }
}

fn by_hash(block: &Block) -> BlockId {
    BlockId {
        height: 0,
        hash: block.compact.hash.clone(),
    }
}

fn reversed(hash: &[u8]) -> Vec<u8> {
    hash.iter().rev().copied().collect()
}
