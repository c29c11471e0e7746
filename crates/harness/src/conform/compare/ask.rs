//! Asks both servers, again where the chain moved.

use std::{
    collections::HashSet,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use prost::Message;
use tokio::runtime::Runtime;

use super::{
    allowance::{allow, same},
    fields::{Difference, differences},
    report::{Answers, Asked, Report},
};
use crate::{
    conform::{
        case::call,
        cases::{GROUPS, Group, World},
        chain::{Bounds, Chain, display},
        node::Node,
        wire::{Call, Outcome, Wire},
    },
    proto::{BlockId, ChainSpec},
};

/// How long a question is asked anew while the chain moves.
const STEADY: Duration = Duration::from_secs(120);
/// How long the servers may take to show the node's tip.
const CATCH_UP: Duration = Duration::from_secs(60);
/// Between two looks at a tip.
const POLL: Duration = Duration::from_millis(100);
/// Longer than a server needs to see a change of the mempool.
const MEMPOOL_SETTLES: Duration = Duration::from_millis(1_200);

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// One server's gRPC address (`http://host:port`).
    pub a: String,
    /// The other's.
    pub b: String,
    /// The JSON-RPC address of the node both stand on (`http://host:port`).
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
    /// Look past nothing.
    pub strict: bool,
}

impl Options {
    /// With the defaults.
    pub fn new(a: impl Into<String>, b: impl Into<String>, node: impl Into<String>) -> Options {
        Options {
            a: a.into(),
            b: b.into(),
            node: node.into(),
            cookie: None,
            seed: 1,
            most_blocks: 20_000,
            only: None,
            patience: Duration::from_secs(30),
            strict: false,
        }
    }
}

/// Reads the node's chain and asks both servers every question.
///
/// # Errors
///
/// When the node cannot be read, or a server cannot be reached or never has a tip.
pub fn run(options: &Options) -> Result<Report> {
    let node = Node::new(&options.node, options.cookie.clone());
    let bounds = Bounds {
        most_blocks: options.most_blocks,
        seed: options.seed,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let world = World {
        chain: Chain::load(&node, bounds, None)?,
        mempool: node.mempool()?,
        node,
        seed: options.seed,
    };
    let a = runtime.block_on(Wire::connect(&options.a))?;
    let b = runtime.block_on(Wire::connect(&options.b))?;
    let mut pair = Pair {
        runtime,
        a,
        b,
        world,
        bounds,
        options,
        asked_before: HashSet::new(),
    };
    pair.wait_for_servers()?;
    let mut asked = Vec::new();
    for group in GROUPS {
        pair.group(group, &mut asked)?;
    }
    Ok(Report {
        a: options.a.clone(),
        b: options.b.clone(),
        node: options.node.clone(),
        chain: pair.world.chain.name.clone(),
        tip: pair.world.chain.tip,
        complete: pair.world.chain.complete,
        seed: options.seed,
        strict: options.strict,
        asked,
    })
}

struct Pair<'a> {
    runtime: Runtime,
    a: Wire,
    b: Wire,
    world: World,
    bounds: Bounds,
    options: &'a Options,
    /// Questions of earlier cases: many cases look at one answer from several sides.
    asked_before: HashSet<(String, Vec<Vec<u8>>)>,
}

/// One question of a group: the case it is from, and its place among the case's calls.
struct Question {
    method: &'static str,
    name: String,
    nth: usize,
}

impl Pair<'_> {
    fn group(&mut self, group: Group, asked: &mut Vec<Asked>) -> Result<()> {
        let only = self.options.only.as_deref();
        let mut made = self.world.make(group, only)?;
        let mut questions = Vec::new();
        for case in &made {
            for (nth, call) in case.calls.iter().enumerate() {
                let key = (call.method.clone(), call.messages.clone());
                // The words of a refusal are judged by the case, so this is no repetition.
                if self.asked_before.insert(key) {
                    questions.push(Question {
                        method: case.method,
                        name: case.name.clone(),
                        nth,
                    });
                }
            }
        }
        for question in questions {
            let began = Instant::now();
            // What is not there any more was about a transaction that waited.
            while let Some((rule, call)) = find(&made, &question) {
                let answered = self.ask(&question, rule, &call);
                let again = !answered.differences.is_empty()
                    && began.elapsed() < STEADY
                    && self.moved(&question)?;
                if !again {
                    asked.push(answered);
                    break;
                }
                made = self.world.make(group, only)?;
            }
        }
        Ok(())
    }

    fn ask(&self, question: &Question, rule: &'static str, call: &Call) -> Asked {
        let mut call = call.clone();
        call.patience = call.patience.min(self.options.patience);
        let (a, b) = self.runtime.block_on(async {
            let timed = async |wire: &Wire| {
                let began = Instant::now();
                (wire.call(&call).await, began.elapsed())
            };
            tokio::join!(timed(&self.a), timed(&self.b))
        });
        let ((a, took_a), (b, took_b)) = (a, b);
        let (a, b, allowed) = match self.options.strict {
            true => (a, b, Vec::new()),
            false => allow(&call.method, rule, a, b),
        };
        Asked {
            method: call.method.clone(),
            of: question.method,
            name: question.name.clone(),
            nth: question.nth,
            rule,
            request: call.text.clone(),
            differences: all_differences(&call.method, &a, &b),
            allowed,
            a: Answers::new(&a, took_a),
            b: Answers::new(&b, took_b),
        }
    }

    /// Whether there is a reason to ask again; brings the model up to date.
    fn moved(&mut self, question: &Question) -> Result<bool> {
        if question.method.contains("Mempool") || question.name.contains("wait") {
            thread::sleep(MEMPOOL_SETTLES);
        }
        let best = self.world.node.best()?;
        let stale = best != display(&self.world.chain.top().compact.hash);
        let behind = [&self.a, &self.b].into_iter().any(|wire| {
            let tip = self.tip(wire);
            tip.is_ok_and(|tip| display(&tip.hash) != best)
        });
        if stale {
            let known = self.world.chain.clone();
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

    fn tip(&self, wire: &Wire) -> Result<BlockId> {
        let outcome = self
            .runtime
            .block_on(wire.call(&call("GetLatestBlock", &ChainSpec {})));
        let message = outcome.messages.first();
        let message = message.with_context(|| format!("GetLatestBlock: {:?}", outcome.end))?;
        Ok(BlockId::decode(&message[..])?)
    }

    /// Returns once both show the node's tip. Goes on with what there is if one never does: the answers will tell.
    fn wait_for_servers(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            let best = self.world.node.best()?;
            let tips = [
                ("a", &self.options.a, self.tip(&self.a)),
                ("b", &self.options.b, self.tip(&self.b)),
            ];
            let caught_up = tips
                .iter()
                .all(|(.., tip)| tip.as_ref().is_ok_and(|tip| display(&tip.hash) == best));
            if caught_up {
                return Ok(());
            }
            if began.elapsed() > CATCH_UP {
                for (side, url, tip) in tips {
                    tip.with_context(|| format!("server {side} ({url}) never had a tip"))?;
                }
                return Ok(());
            }
            thread::sleep(POLL);
        }
    }
}

fn find(made: &[crate::conform::case::Case], question: &Question) -> Option<(&'static str, Call)> {
    let case = made
        .iter()
        .find(|case| case.method == question.method && case.name == question.name)?;
    Some((case.rule, case.calls.get(question.nth)?.clone()))
}

/// Messages and end.
fn all_differences(method: &str, a: &Outcome, b: &Outcome) -> Vec<Difference> {
    if same(a, b) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let code = |outcome: &Outcome| match &outcome.end {
        None => "(no end in time)".to_owned(),
        Some((code, _)) => format!("{code:?}"),
    };
    if code(a) != code(b) {
        found.push(Difference::new("(code)", code(a), code(b)));
    }
    let words = |outcome: &Outcome| match &outcome.end {
        None => String::new(),
        Some((_, words)) => words.clone(),
    };
    if words(a) != words(b) {
        found.push(Difference::new("(words)", words(a), words(b)));
    }
    // One side refused: that its messages are missing says nothing more.
    if !(code(a) != code(b) && (a.messages.is_empty() || b.messages.is_empty())) {
        found.extend(differences(method, &a.messages, &b.messages));
    }
    found
}
