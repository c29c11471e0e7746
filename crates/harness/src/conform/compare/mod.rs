//! Two servers beside one node, asked the same.
//!
//! In: two addresses of `CompactTxStreamer` and that of the node both stand on. Out: which answers differ and in what field, counts per method,
//! and a digest of everything that each of them said. The questions are those of [`super`], by the same seed; what the model expects is left
//! out, so this says nothing about who is right. Both are asked at the same time, and a difference counts only when the node's tip and mempool
//! stayed as they were and both servers show that tip.
//!
//! What may differ without anyone being wrong is in [`allowance`], each with a name; nothing else is looked past.

pub mod allowance;
mod ask;
mod fields;
mod report;

use std::{fs, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};

pub use ask::{Options, run};
pub use fields::Difference;
pub use report::{Answers, Asked, Report};

/// `lightship-harness compare`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// One server's gRPC address, such as http://127.0.0.1:9067
    #[arg(long, value_name = "URL")]
    a: String,
    /// The other's
    #[arg(long, value_name = "URL")]
    b: String,
    /// The JSON-RPC address of the node that both stand on
    #[arg(long, value_name = "URL")]
    node: String,
    /// The node's cookie file
    #[arg(long, value_name = "FILE")]
    node_cookie: Option<PathBuf>,
    /// Write the results here as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Known differences, one case or rule a line, as for conform: they do not count
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// The same seed asks the same
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// A longer chain is read in windows of it, and addresses are left out
    #[arg(long, value_name = "BLOCKS", default_value = "20000")]
    sample: u32,
    /// Only methods whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How long an answer may take
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    patience: u64,
    /// Look past nothing, not even what docs/differences.md explains
    #[arg(long)]
    strict: bool,
}

/// Asks, prints what differs, and says by its code whether nothing did.
///
/// # Errors
///
/// When nothing could be compared, or a file cannot be read or written.
#[expect(clippy::print_stdout, reason = "its answers go to standard output")]
pub fn main(args: Args) -> Result<ExitCode> {
    let report = run(&Options {
        cookie: args.node_cookie,
        seed: args.seed,
        most_blocks: args.sample.max(100),
        only: args.only,
        patience: Duration::from_secs(args.patience),
        strict: args.strict,
        ..Options::new(args.a, args.b, args.node)
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
        println!(
            "{} differences are not on the list",
            compared.unexpected.len()
        );
    }
    Ok(if compared.unexpected.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
