//! `lightship`: see `lightship --help`.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use lightship_daemon::{check, cli::Command, demo, layers, run, telemetry, verify};

fn main() -> ExitCode {
    let layers::Parsed { command, settings } = match layers::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        // Help and version come this way too.
        Err(layers::Refused::Typed(error)) => error.exit(),
        Err(layers::Refused::File(problem)) => {
            let problem = anyhow::Error::from(problem);
            let _ = writeln!(io::stderr(), "lightship: {problem:#}");
            return ExitCode::from(check::WRONG_SETTINGS);
        }
    };
    let bars = telemetry::start();
    let done = match command {
        Command::Demo(args) => demo::demo(&args, bars),
        Command::Serve(args) => run::serve(&args, bars),
        Command::Index(args) => run::index(&args, bars),
        Command::Config(_) => print(&layers::show(&settings)),
        Command::Check(args) => check::check(&args),
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

fn print(text: &str) -> anyhow::Result<ExitCode> {
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
