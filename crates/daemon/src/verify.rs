//! `lightship verify`: every checksum and link of a data directory.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context;

use crate::cli::VerifyArgs;

/// Prints a line for each thing that is wrong, then a summary; the exit code is 1 if anything was.
///
/// # Errors
///
/// If the directory cannot be read as an index at all, or the report not written.
pub fn verify(typed: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let mut report = io::stdout().lock();
    let mut told = Ok(());
    let summary = lightship_index::verify(&typed.data_dir, &mut |finding| {
        if told.is_ok() {
            told = writeln!(report, "{finding}");
        }
    })
    .with_context(|| format!("cannot verify {}", typed.data_dir.display()))?;
    let (verdict, code) = match summary.findings {
        0 => ("nothing is wrong".into(), ExitCode::SUCCESS),
        1 => (
            "one thing is wrong: move the folder away and build the index anew".into(),
            ExitCode::FAILURE,
        ),
        more => (
            format!("{more} things are wrong: move the folder away and build the index anew"),
            ExitCode::FAILURE,
        ),
    };
    told.and_then(|()| writeln!(report, "{summary}\n{verdict}"))
        .context("cannot write the report")?;
    Ok(code)
}
