//! Conformance: any light wallet server against a naive model of its node's chain.
//!
//! In: the address of a `CompactTxStreamer` and of the node it stands on. Out: a verdict on each of some hundred cases over all its methods, every
//! one with the rule it comes from (`docs/conformance.md`). The model reads the raw blocks of the node's best chain with a reader of its own
//! ([`chain`]) and computes each answer by a scan; it shares no code with the server that is judged here, or with any other. What a case
//! learns from the node itself (tree states, the mempool, verdicts on transactions) it asks of the node's JSON-RPC.

pub mod case;
mod cases;
pub mod chain;
pub mod compare;
mod ground;
pub mod node;
pub(crate) mod random;
mod report;
mod run;
mod wire;

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};

pub use report::{Compared, Judged, Report};
pub use run::{Options, run};

/// `lightship-harness conform`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The server's gRPC address, such as http://127.0.0.1:9067
    #[arg(long, value_name = "URL")]
    server: String,
    /// The JSON-RPC address of the node it stands on
    #[arg(long, value_name = "URL")]
    node: String,
    /// The node's cookie file
    #[arg(long, value_name = "FILE")]
    node_cookie: Option<PathBuf>,
    /// Write the results here as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Known differences, one case or rule a line: they do not count as failures
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// The same seed makes the same cases
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// A longer chain is read in windows of it, and what needs all of it is left out
    #[arg(long, value_name = "BLOCKS", default_value = "20000")]
    sample: u32,
    /// Only methods whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How long an answer may take
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    patience: u64,
}

/// Runs the cases, prints what came of them, and says by its code whether all is as it should be.
///
/// # Errors
///
/// When nothing could be judged, or a file cannot be read or written.
#[expect(clippy::print_stdout, reason = "its answers go to standard output")]
pub fn main(args: Args) -> Result<ExitCode> {
    let report = run(&Options {
        cookie: args.node_cookie,
        seed: args.seed,
        most_blocks: args.sample.max(100),
        only: args.only,
        patience: Duration::from_secs(args.patience),
        ..Options::new(args.server, args.node)
    })?;
    println!("{report}");
    if let Some(path) = args.report {
        let text = serde_json::to_string_pretty(&report.to_json())?;
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    let list = match args.expect {
        Some(path) => fs::read_to_string(&path).with_context(|| path.display().to_string())?,
        None => String::new(),
    };
    let compared = report.compare(&list);
    for name in &compared.gone {
        println!("listed as a difference, and none: {name}");
    }
    if !list.is_empty() {
        println!("{} failures are not on the list", compared.unexpected.len());
    }
    Ok(if compared.unexpected.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
