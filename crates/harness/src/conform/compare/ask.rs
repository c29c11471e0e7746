//! Asks both servers, again where the chain moved.

use std::{
    collections::HashSet,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use super::{
    allowance::{allow, same},
    fields::{Difference, differences},
    report::{Answers, Asked, Report},
};
use crate::conform::{
    case::Case,
    cases::{GROUPS, Group},
    ground::{Ground, STEADY, Site},
    wire::{Call, Outcome, Wire},
};

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
/// When the node cannot be read, a server cannot be reached or never has a tip, or there is nothing to ask.
pub fn run(options: &Options) -> Result<Report> {
    let site = Site {
        node: &options.node,
        cookie: options.cookie.clone(),
        seed: options.seed,
        most_blocks: options.most_blocks,
    };
    let mut pair = Pair {
        ground: Ground::new(site, [&options.a, &options.b], options.patience)?,
        options,
        asked_before: HashSet::new(),
    };
    let mut asked = Vec::new();
    for group in GROUPS {
        pair.group(group, &mut asked)?;
    }
    ensure!(
        !asked.is_empty(),
        "no method's name contains '{}': nothing was asked",
        options.only.as_deref().unwrap_or_default()
    );
    Ok(Report {
        a: options.a.clone(),
        b: options.b.clone(),
        node: options.node.clone(),
        chain: pair.ground.world.chain.name.clone(),
        tip: pair.ground.world.chain.tip,
        complete: pair.ground.world.chain.complete,
        seed: options.seed,
        strict: options.strict,
        asked,
    })
}

struct Pair<'a> {
    ground: Ground<2>,
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
        let mut made = self.ground.make(group, only)?;
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
                    && self.ground.moved(question.method, &question.name)?;
                if !again {
                    asked.push(answered);
                    break;
                }
                made = self.ground.make(group, only)?;
            }
        }
        Ok(())
    }

    fn ask(&self, question: &Question, rule: &'static str, call: &Call) -> Asked {
        let patience = self.ground.patience;
        let [(_, a), (_, b)] = &self.ground.servers;
        let (a, b) = self.ground.runtime.block_on(async {
            let timed = async |wire: &Wire| {
                let began = Instant::now();
                (wire.call(call, patience).await, began.elapsed())
            };
            tokio::join!(timed(a), timed(b))
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
}

fn find(made: &[Case], question: &Question) -> Option<(&'static str, Call)> {
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
