//! `lightship verify`: every checksum and link of a data directory, and on request every note of its trees.

use std::{
    io::{self, Write},
    num::NonZeroUsize,
    process::ExitCode,
    thread,
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
    let mut tell = |finding: &dyn std::fmt::Display| {
        if told.is_ok() {
            told = writeln!(report, "{finding}");
        }
    };
    let dir = &typed.data_dir;
    let summary = lightship_index::verify(dir, &mut |finding| tell(&finding))
        .with_context(|| format!("cannot verify {}", dir.display()))?;
    // Trees are made from the blocks, so they say nothing while those are wrong.
    let trees = if typed.trees && summary.findings == 0 {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let hash = lightship_merkle::Consensus;
        let trees = lightship_index::verify_trees(dir, &hash, threads, &mut |wrong| tell(wrong))
            .with_context(|| format!("cannot verify the trees of {}", dir.display()))?;
        Some(trees)
    } else {
        None
    };
    tell(&summary);
    if let Some(trees) = &trees {
        tell(trees);
    }
    let (verdict, code) = match summary.findings {
        0 if trees.is_some_and(|trees| trees.findings > 0) => (
            "the blocks are in order, a file of the trees is not: remove it and those after it, they are made anew"
                .into(),
            ExitCode::FAILURE,
        ),
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
    tell(&verdict);
    told.context("cannot write the report")?;
    Ok(code)
}
