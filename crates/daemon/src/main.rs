//! `lightship`: see `lightship --help`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;
use lightship_daemon::{
    cli::{Cli, Command},
    demo, run, telemetry, verify,
};

fn main() -> ExitCode {
    let command = Cli::parse().command.unwrap_or_else(Command::demo);
    let bars = telemetry::start();
    let done = match command {
        Command::Demo(args) => demo::demo(&args, bars),
        Command::Serve(args) => run::serve(&args, bars),
        Command::Index(args) => run::index(&args, bars),
        Command::Verify(args) => verify(&args),
    };
    match done {
        Ok(code) => code,
        Err(problem) => {
            // Where nobody reads, the exit code has to do.
            let _ = writeln!(io::stderr(), "lightship: {problem:#}");
            ExitCode::FAILURE
        }
    }
}
