//! `lightship-harness`: the judge's program.

#![expect(clippy::print_stdout, reason = "its answers go to standard output")]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use lightship_harness::conform;

/// Judges light wallet servers by their public protocols.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Mines the regtest chain that the checks stand on into the cache, unless it is there, and prints its folder
    RecordChain,
    /// Measures the servers of a plan, one at a time, and leaves a folder with every figure
    Bench(lightship_harness::bench::command::Arguments),
    /// A limit for the bench: writes a chain's compact blocks to plain sockets
    #[command(hide = true)]
    RawSender(lightship_harness::bench::limits::raw_sender::Arguments),
    /// A limit for the bench: gRPC from a table
    #[command(hide = true)]
    EmptyHandler(lightship_harness::bench::limits::empty_handler::Arguments),
    /// Runs a zebrad with that chain until a line comes on the standard input or that ends, and prints its addresses
    RunNode,
    /// Measures how fast one client receives compact blocks (workload ranges-1)
    BenchRanges(lightship_harness::bench::ranges::Arguments),
    /// Measures building the index from a node against fetching the same blocks (workload index-1)
    BenchBuild(lightship_harness::bench::build::Arguments),
    Forge(lightship_harness::forge::command::ForgeArguments),
    Index(lightship_harness::forge::command::IndexArguments),
    Pack(lightship_harness::forge::pack::PackArguments),
    Stub(lightship_harness::stub::command::StubArguments),
    /// Judges a server's every method against a naive model of its node's chain
    Conform(conform::Args),
    /// Asks two servers of the same node the same, by every method, and says where their answers differ
    Compare(conform::compare::Args),
    /// Makes report.md, report.html and CSV files of runs of the bench
    Report(lightship_harness::report::Arguments),
    /// Prints the wanted speeds and whether runs of the bench meet them
    Targets(lightship_harness::report::TargetArguments),
}

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Conform(args) => return conform::main(args),
        Command::Compare(args) => return conform::compare::main(args),
        Command::RecordChain => {
            println!("{}", lightship_harness::recorded::folder()?.display());
        }
        Command::Bench(arguments) => println!("{}", arguments.run()?),
        Command::RawSender(arguments) => arguments.run()?,
        Command::EmptyHandler(arguments) => arguments.run()?,
        Command::Report(arguments) => println!("{}", arguments.run()?),
        Command::Targets(arguments) => println!("{}", arguments.run()?),
        Command::RunNode => {
            let node = lightship_harness::recorded::node()?;
            println!(
                "JSON-RPC {}, light wallet service {}",
                node.rpc_url(),
                node.lightwalletd_url()
            );
            std::io::stdin().read_line(&mut String::new())?;
        }
        Command::BenchRanges(arguments) => println!("{}", arguments.run()?),
        Command::BenchBuild(arguments) => println!("{}", arguments.run()?),
        Command::Forge(arguments) => println!("{}", arguments.run()?),
        Command::Index(arguments) => println!("{}", arguments.run()?),
        Command::Pack(arguments) => println!("{}", arguments.run()?),
        Command::Stub(arguments) => arguments.run()?,
    }
    Ok(ExitCode::SUCCESS)
}
