//! `lightship-harness`: the judge's program.

#![expect(clippy::print_stdout, reason = "its answers go to standard output")]

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Judges light wallet servers by their public protocols.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Mines the regtest chain that the checks stand on into the cache, unless it is there, and prints its folder.
    RecordChain,
    Forge(lightship_harness::forge::command::ForgeArguments),
    Index(lightship_harness::forge::command::IndexArguments),
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::RecordChain => {
            println!("{}", lightship_harness::recorded::folder()?.display());
        }
        Command::Forge(arguments) => println!("{}", arguments.run()?),
        Command::Index(arguments) => println!("{}", arguments.run()?),
    }
    Ok(())
}
