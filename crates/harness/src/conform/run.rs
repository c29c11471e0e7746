//! Runs the cases against a server.
//!
//! The chain may move under a run. A case that fails is made anew and tried again when the node's tip or mempool is no longer what it was made
//! from, or the server had not caught up; so a failure that is reported is one between a model and a server that see the same chain.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use super::{
    case::Case,
    cases::{GROUPS, Group},
    ground::{Ground, STEADY, Site},
    report::{Judged, Report},
    wire::Outcome,
};

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
/// When the node cannot be read, the server cannot be reached or does not come to the node's tip, or there is nothing to judge.
pub fn run(options: &Options) -> Result<Report> {
    let site = Site {
        node: &options.node,
        cookie: options.cookie.clone(),
        seed: options.seed,
        most_blocks: options.most_blocks,
    };
    let mut ground = Ground::new(site, [&options.server], options.patience)?;
    let mut judged = Vec::new();
    for group in GROUPS {
        judge(&mut ground, group, options, &mut judged)?;
    }
    ensure!(
        !judged.is_empty(),
        "no method's name contains '{}': nothing was judged",
        options.only.as_deref().unwrap_or_default()
    );
    Ok(Report {
        server: options.server.clone(),
        node: options.node.clone(),
        chain: ground.world.chain.name.clone(),
        tip: ground.world.chain.tip,
        seed: options.seed,
        cases: judged,
    })
}

/// Tries each case of a group; makes the group anew when the ground has moved.
fn judge(
    ground: &mut Ground<1>,
    group: Group,
    options: &Options,
    judged: &mut Vec<Judged>,
) -> Result<()> {
    let only = options.only.as_deref();
    let mut made = ground.make(group, only)?;
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
            let case = &made[at];
            let [(_, server)] = &ground.servers;
            let ask = |call| ground.ask(server, call);
            let outcomes: Vec<Outcome> = case.calls.iter().map(ask).collect();
            let verdict = (case.expectation.check)(&outcomes);
            let again =
                verdict.is_err() && began.elapsed() < STEADY && ground.moved(method, &name)?;
            if !again {
                judged.push(Judged::new(case, verdict, began.elapsed()));
                break;
            }
            made = ground.make(group, only)?;
        }
    }
    Ok(())
}
