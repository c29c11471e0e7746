//! Runs the cases against a server.
//!
//! The chain may move under a run. A case that fails is made anew and tried again when the node's tip or mempool is no longer what it was made
//! from, or the server had not caught up; so a failure that is reported is one between a model and a server that see the same chain.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use prost::Message;
use tokio::runtime::Runtime;

use super::{
    case::{Case, call},
    cases::{GROUPS, Group, World},
    chain::{Bounds, Chain},
    node::Node,
    report::{Judged, Report},
    wire::{Call, Outcome, Wire},
};
use crate::proto::{BlockId, ChainSpec};

/// How long a case is made anew while the chain moves.
const STEADY: Duration = Duration::from_secs(120);
/// How long the server may take to see the node's tip.
const CATCH_UP: Duration = Duration::from_secs(60);
/// Between two looks at a tip.
const POLL: Duration = Duration::from_millis(100);
/// Longer than a server needs to see a change of the mempool.
const MEMPOOL_SETTLES: Duration = Duration::from_millis(1_200);

/// What is judged, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's gRPC address (`http://host:port`).
    pub server: String,
    /// Its node's JSON-RPC address (`http://host:port`).
    pub node: String,
    /// The node's cookie file.
    pub cookie: Option<PathBuf>,
    /// Chooses heights, transactions and addresses.
    pub seed: u64,
    /// A longer chain is read in windows.
    pub most_blocks: u32,
    /// Only methods whose name contains this.
    pub only: Option<String>,
    /// How long an answer may take.
    pub patience: Duration,
}

impl Options {
    /// With the defaults.
    pub fn new(server: impl Into<String>, node: impl Into<String>) -> Options {
        Options {
            server: server.into(),
            node: node.into(),
            cookie: None,
            seed: 1,
            most_blocks: 20_000,
            only: None,
            patience: Duration::from_secs(30),
        }
    }
}

/// Reads the node's chain and runs every case.
///
/// # Errors
///
/// When the node cannot be read, or the server cannot be reached or does not come to the node's tip.
pub fn run(options: &Options) -> Result<Report> {
    let node = Node::new(&options.node, options.cookie.clone());
    let bounds = Bounds {
        most_blocks: options.most_blocks,
        seed: options.seed,
    };
    // A thread of its own for the connection, which must answer the server's pings while cases are made.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let world = World {
        chain: Chain::load(&node, bounds, None)?,
        mempool: node.mempool()?,
        node,
        seed: options.seed,
    };
    let wire = runtime.block_on(Wire::connect(&options.server))?;
    let mut judge = Judge {
        runtime,
        wire,
        world,
        bounds,
        patience: options.patience,
    };
    judge.wait_for_server()?;
    let mut judged = Vec::new();
    for group in GROUPS {
        judge.group(group, options, &mut judged)?;
    }
    Ok(Report {
        server: options.server.clone(),
        node: options.node.clone(),
        chain: judge.world.chain.name.clone(),
        tip: judge.world.chain.tip,
        seed: options.seed,
        cases: judged,
    })
}

struct Judge {
    runtime: Runtime,
    wire: Wire,
    world: World,
    bounds: Bounds,
    patience: Duration,
}

impl Judge {
    fn make(&self, group: Group, options: &Options) -> Result<Vec<Case>> {
        self.world.make(group, options.only.as_deref())
    }

    /// Tries each case of a group; makes the group anew when the chain has moved.
    fn group(&mut self, group: Group, options: &Options, judged: &mut Vec<Judged>) -> Result<()> {
        let mut made = self.make(group, options)?;
        let names: Vec<(&'static str, String)> = made
            .iter()
            .map(|case| (case.method, case.name.clone()))
            .collect();
        for (method, name) in names {
            let began = Instant::now();
            let found = |made: &[Case]| {
                made.iter()
                    .position(|case| case.method == method && case.name == name)
            };
            // What is not there any more was about a transaction that waited: no fault of the server.
            while let Some(at) = found(&made) {
                let verdict = self.try_case(&made[at]);
                let again =
                    verdict.is_err() && began.elapsed() < STEADY && self.moved(&made[at])?;
                if !again {
                    judged.push(Judged::new(&made[at], verdict, began.elapsed()));
                    break;
                }
                made = self.make(group, options)?;
            }
        }
        Ok(())
    }

    fn try_case(&self, case: &Case) -> Result<(), String> {
        let outcomes: Vec<Outcome> = case.calls.iter().map(|call| self.ask(call)).collect();
        (case.expectation.check)(&outcomes)
    }

    fn ask(&self, call: &Call) -> Outcome {
        if call.patience <= self.patience {
            return self.runtime.block_on(self.wire.call(call));
        }
        let mut call = call.clone();
        call.patience = self.patience;
        self.runtime.block_on(self.wire.call(&call))
    }

    /// Whether there is a reason to try a failed case again; brings the model up to date.
    fn moved(&mut self, case: &Case) -> Result<bool> {
        let waits = case.method.contains("Mempool") || case.name.contains("wait");
        if waits {
            thread::sleep(MEMPOOL_SETTLES);
        }
        let best = self.world.node.best()?;
        let stale = best != super::chain::display(&self.world.chain.top().compact.hash);
        let behind = self
            .server_tip()
            .ok()
            .is_none_or(|tip| super::chain::display(&tip.hash) != best);
        if stale {
            let known = self.world.chain.clone();
            self.world.chain = Chain::load(&self.world.node, self.bounds, Some(known))?;
        }
        if stale || behind {
            self.wait_for_server()?;
        }
        let mempool = self.world.node.mempool()?;
        let changed = mempool != self.world.mempool;
        self.world.mempool = mempool;
        Ok(stale || behind || changed)
    }

    fn server_tip(&self) -> Result<BlockId> {
        let outcome = self.ask(&call("GetLatestBlock", &ChainSpec {}));
        let message = outcome.messages.first();
        let message = message.with_context(|| format!("GetLatestBlock: {:?}", outcome.end))?;
        Ok(BlockId::decode(&message[..])?)
    }

    /// Returns once the server's tip is the node's. Goes on with what there is if it never is: the cases will tell.
    fn wait_for_server(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            let best = self.world.node.best()?;
            let tip = self.server_tip();
            if tip
                .as_ref()
                .is_ok_and(|tip| super::chain::display(&tip.hash) == best)
            {
                return Ok(());
            }
            if began.elapsed() > CATCH_UP {
                return match tip {
                    Ok(_) => Ok(()),
                    Err(error) => Err(error.context("the server never had a tip")),
                };
            }
            thread::sleep(POLL);
        }
    }
}
