//! `lightship-harness bench`.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};

use super::{interrupt, plan::Plan, record::RunFolder, run};
use crate::zebrad;

/// `lightship-harness bench`: Measures the servers of a plan, one at a time, and leaves a folder with every figure.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// What is measured: a TOML file, such as bench/plans/smoke.toml
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,
    /// The folder for the results; must not hold a run yet
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Only these suites of the plan
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only these servers of the plan
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub servers: Vec<String>,
    /// In place of the plan's rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Where a server's program lies, or that of ghz, in place of the plan's
    #[arg(long = "program", value_name = "NAME=PATH")]
    pub programs: Vec<String>,
    /// A folder in which forged chains are kept and, if they were made the same way, taken from again
    #[arg(long, value_name = "DIR")]
    pub chains: Option<PathBuf>,
    /// Fail when any line of the record is an error
    #[arg(long)]
    pub strict: bool,
}

impl Arguments {
    /// Measures and says where the figures lie.
    ///
    /// # Errors
    ///
    /// When the plan cannot be read, a chain not be made, the record not be written; with `--strict` also when anything failed.
    pub fn run(&self) -> Result<String> {
        let text = fs::read_to_string(&self.plan)
            .with_context(|| format!("reading {}", self.plan.display()))?;
        let mut plan = Plan::read(&text).with_context(|| self.plan.display().to_string())?;
        plan.restrict(&self.only, &self.servers)?;
        if let Some(rounds) = self.rounds {
            plan.rounds = rounds;
            for chain in &mut plan.chains {
                chain.rounds = None;
            }
        }
        for named in &self.programs {
            let (name, path) = named
                .split_once('=')
                .with_context(|| format!("--program {named}: say NAME=PATH"))?;
            let server = plan.servers.iter_mut().find(|server| server.name == name);
            let ghz = plan.suites.rpc.as_mut().and_then(|rpc| rpc.ghz.as_mut());
            let program = match (server, ghz) {
                (Some(server), _) => &mut server.program,
                (None, Some(ghz)) if name == "ghz" => &mut ghz.program,
                _ => bail!("--program {named}: the plan has no '{name}'"),
            };
            path.clone_into(program);
        }
        // Said now, and not when the chains before it have been measured.
        if plan.wants_zebrad() {
            zebrad::program()?;
        }
        let folder = RunFolder::create(&self.out)?;
        interrupt::watch(&self.out)?;
        let summary = run::run(
            &plan,
            &text,
            &folder,
            &std::env::current_exe()?,
            self.chains.as_deref(),
        )?;
        if self.strict && summary.failures > 0 {
            bail!(
                "{} lines of {} have a reason instead of a figure",
                summary.failures,
                self.out.join("measurements.jsonl").display()
            );
        }
        Ok(format!(
            "{}: {} lines have a reason instead of a figure",
            self.out.display(),
            summary.failures
        ))
    }
}
