//! What questions stand on: a node, the model of its chain, and the servers beside it.
//!
//! In: addresses. Out: answers of servers, and whether the ground has moved since a question was made. Left to others: what is asked
//! ([`cases`](super::cases)) and what an answer should be.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use prost::Message as _;
use tokio::runtime::Runtime;

use super::{
    case::{Case, call},
    cases::{Group, World},
    chain::{Bounds, Chain, display},
    node::Node,
    wire::{Call, Outcome, Wire},
};
use crate::proto::{BlockId, ChainSpec};

/// How long a question is asked anew while the ground moves.
pub(super) const STEADY: Duration = Duration::from_secs(120);
/// How long servers may take to show the node's tip.
const CATCH_UP: Duration = Duration::from_secs(60);
/// Between two looks at a tip.
const POLL: Duration = Duration::from_millis(100);
/// Longer than a server needs to see a change of the mempool.
const MEMPOOL_SETTLES: Duration = Duration::from_millis(1_200);

/// The node that all stands on, and how much of its chain is looked at.
pub(super) struct Site<'a> {
    pub(super) node: &'a str,
    pub(super) cookie: Option<PathBuf>,
    pub(super) seed: u64,
    pub(super) most_blocks: u32,
}

/// A node's chain and so many servers on it.
pub(super) struct Ground<const SERVERS: usize> {
    pub(super) runtime: Runtime,
    pub(super) world: World,
    /// Addresses and connections.
    pub(super) servers: [(String, Wire); SERVERS],
    bounds: Bounds,
    /// How long an answer may take.
    pub(super) patience: Duration,
}

impl<const SERVERS: usize> Ground<SERVERS> {
    /// Reads the chain, connects to `servers`, and waits for them to show its tip.
    pub(super) fn new(
        site: Site<'_>,
        servers: [&str; SERVERS],
        patience: Duration,
    ) -> Result<Ground<SERVERS>> {
        let node = Node::new(site.node, site.cookie);
        let bounds = Bounds {
            most_blocks: site.most_blocks,
            seed: site.seed,
        };
        // A thread of its own for the connections, which must answer the servers' pings while questions are made.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let world = World {
            chain: Chain::load(&node, bounds, None)?,
            mempool: node.mempool()?,
            node,
            seed: site.seed,
        };
        let mut connected = Vec::with_capacity(SERVERS);
        for url in servers {
            connected.push((url.to_owned(), runtime.block_on(Wire::connect(url))?));
        }
        let Ok(servers) = connected.try_into() else {
            unreachable!("each was connected");
        };
        let ground = Ground {
            runtime,
            world,
            servers,
            bounds,
            patience,
        };
        ground.wait_for_servers()?;
        Ok(ground)
    }

    /// The cases of a group on the chain as it is known.
    pub(super) fn make(&self, group: Group, only: Option<&str>) -> Result<Vec<Case>> {
        self.world.make(group, only)
    }

    /// Whether there is a reason to ask again what `method` was asked in case `name`; brings the model up to date.
    pub(super) fn moved(&mut self, method: &str, name: &str) -> Result<bool> {
        if method.contains("Mempool") || name.contains("wait") {
            thread::sleep(MEMPOOL_SETTLES);
        }
        let best = self.world.node.best()?;
        let stale = best != display(&self.world.chain.top().compact.hash);
        let behind = self.servers.iter().any(|(_, wire)| {
            let tip = self.tip(wire).ok();
            tip.is_none_or(|tip| display(&tip.hash) != best)
        });
        if stale {
            // Not two of it at a time.
            let known = &mut self.world.chain;
            let known = (std::mem::take(&mut known.blocks), known.settled);
            self.world.chain = Chain::load(&self.world.node, self.bounds, Some(known))?;
        }
        if stale || behind {
            self.wait_for_servers()?;
        }
        let mempool = self.world.node.mempool()?;
        let changed = mempool != self.world.mempool;
        self.world.mempool = mempool;
        Ok(stale || behind || changed)
    }

    /// What a server says.
    pub(super) fn ask(&self, wire: &Wire, call: &Call) -> Outcome {
        self.runtime.block_on(wire.call(call, self.patience))
    }

    fn tip(&self, wire: &Wire) -> Result<BlockId> {
        let outcome = self.ask(wire, &call("GetLatestBlock", &ChainSpec {}));
        let message = outcome.messages.first();
        let message = message.with_context(|| format!("GetLatestBlock: {:?}", outcome.end))?;
        Ok(BlockId::decode(&message[..])?)
    }

    /// Returns once all show the node's tip. Goes on with what there is if one never does: the answers will tell.
    fn wait_for_servers(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let best = self.world.node.best()?;
            let tips: Vec<_> = self
                .servers
                .iter()
                .map(|(url, wire)| (url, self.tip(wire)))
                .collect();
            let shows_best =
                |tip: &Result<BlockId>| tip.as_ref().is_ok_and(|tip| display(&tip.hash) == best);
            if tips.iter().all(|(_, tip)| shows_best(tip)) {
                return Ok(());
            }
            if began.elapsed() > CATCH_UP {
                for (url, tip) in tips {
                    tip.with_context(|| format!("the server at {url} never had a tip"))?;
                }
                return Ok(());
            }
            thread::sleep(POLL);
        }
    }
}
