//! `lightship verify`: every checksum and link of a data directory.

use std::process::ExitCode;

use anyhow::Context;

use crate::cli::VerifyArgs;

/// Prints a line for each thing that is wrong, then a summary; the exit code is 1 if anything was.
///
/// # Errors
///
/// If the directory cannot be read as an index at all.
pub fn verify(typed: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let mut findings = 0u64;
    let summary = lightship_index::verify(&typed.data_dir, &mut |finding| {
        findings += 1;
        println!("{finding}");
    })
    .with_context(|| format!("cannot verify {}", typed.data_dir.display()))?;
    println!("{summary}");
    if findings == 0 {
        println!("nothing is wrong");
        Ok(ExitCode::SUCCESS)
    } else {
        println!("{findings} things are wrong: move the folder away and build the index anew");
        Ok(ExitCode::FAILURE)
    }
}
