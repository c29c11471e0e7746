//! Reports: what runs of the bench say, for people and for spreadsheets.
//!
//! In: folders that `bench` made ([`crate::bench::record`]), each perhaps with results of `conform` and `compare` in `compat/`. Out: `report.md`, CSV
//! files, and one `report.html` that needs nothing but itself. Medians, spreads, ratios to the best server and to the limit, and whether
//! the answers agree are worked out here ([`study`]); what cannot be read is named in the report and never guessed.
//!
//! Figures are compared only within one run and one chain: different machines never stand in one row. Names and texts of a run are taken for
//! hostile: they are escaped for each form.

mod compat;
mod csv;
mod html;
mod markdown;
mod numbers;
mod plots;
mod read;
mod resources;
pub mod study;
mod suites;
pub mod targets;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The server that is held to the targets unless another is named.
const OURS: &str = "lightship";

/// `lightship-harness report`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The folder for report.md, report.html and the CSV files
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Folders that `bench --out` made
    #[arg(value_name = "RUN_DIR", required = true)]
    pub runs: Vec<PathBuf>,
}

impl Arguments {
    /// Writes the report; says what and where.
    ///
    /// # Errors
    ///
    /// When no folder holds a run, or the report cannot be written.
    pub fn run(&self) -> Result<String> {
        let study = study::Study::read(&self.runs)?;
        fs::create_dir_all(&self.out).with_context(|| self.out.display().to_string())?;
        let mut written = Vec::new();
        let mut write = |name: &str, text: &str| {
            let path = self.out.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            written.push(format!("{} ({} bytes)", path.display(), text.len()));
            anyhow::Ok(())
        };
        write("report.md", &markdown::page(&study))?;
        write("report.html", &html::page(&study)?)?;
        for (name, text) in csv::files(&study) {
            write(name, &text)?;
        }
        for note in &study.notes {
            written.push(format!("note: {note}"));
        }
        Ok(written.join("\n"))
    }
}

/// `lightship-harness targets`.
#[derive(Clone, Debug, clap::Args)]
pub struct TargetArguments {
    /// Folders that `bench --out` made
    #[arg(value_name = "RUN_DIR", required = true)]
    pub runs: Vec<PathBuf>,
    /// The server that is held to the targets
    #[arg(long, value_name = "NAME", default_value = OURS)]
    pub server: String,
}

impl TargetArguments {
    /// The table of targets, each measured or not.
    ///
    /// # Errors
    ///
    /// When no folder holds a run.
    pub fn run(&self) -> Result<String> {
        let study = study::Study::read(&self.runs)?;
        Ok(targets::table(&targets::judge(&study, &self.server)))
    }
}

/// The last part of a path, for people.
fn folder_name(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match whole.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => whole.display().to_string(),
    }
}
