//! A run's folder, read as far as it can be: what cannot is named.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::bench::record::{Measurement, Run, RunFolder, Sample};

/// Notes on bad lines of one file; the rest is counted.
const MOST_NOTES: usize = 5;

/// What a folder holds.
pub(super) struct Folder {
    pub(super) run: Run,
    pub(super) measurements: Vec<Measurement>,
    /// Chain, server and samples, in the order of the run's lists.
    pub(super) samples: Vec<(String, String, Vec<Sample>)>,
    /// What could not be read.
    pub(super) notes: Vec<String>,
}

/// Reads a folder.
///
/// # Errors
///
/// When it holds no run.
pub(super) fn folder(path: &Path) -> Result<Folder> {
    let folder = RunFolder::open(path);
    let run = folder.run()?;
    let mut notes = Vec::new();
    let measurements = match measurements(&folder.measurements_file(), &mut notes) {
        Ok(measurements) => measurements,
        Err(error) => {
            notes.push(format!("no measurements: {error:#}"));
            Vec::new()
        }
    };
    if run.finished.is_empty() {
        notes.push("the run has not ended, or was cut off".to_owned());
    }
    let mut samples = Vec::new();
    for chain in &run.chains {
        for server in &run.servers {
            match folder.samples(&chain.name, &server.name) {
                Ok(found) if found.is_empty() => {}
                Ok(found) => samples.push((chain.name.clone(), server.name.clone(), found)),
                Err(error) => notes.push(format!("no samples: {error:#}")),
            }
        }
    }
    Ok(Folder {
        run,
        measurements,
        samples,
        notes,
    })
}

/// Every line that is a measurement; notes on those that are none.
fn measurements(path: &Path, notes: &mut Vec<String>) -> Result<Vec<Measurement>> {
    let text = fs::read(path).with_context(|| path.display().to_string())?;
    let mut found = Vec::new();
    let mut bad = 0;
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Measurement>(line) {
            Ok(measurement) => found.push(measured(measurement)),
            Err(error) => {
                bad += 1;
                if bad <= MOST_NOTES {
                    notes.push(format!(
                        "line {number} of the measurements is none and was left out: {error}"
                    ));
                }
            }
        }
    }
    if bad > MOST_NOTES {
        notes.push(format!(
            "{} more lines of the measurements were left out",
            bad - MOST_NOTES
        ));
    }
    Ok(found)
}

/// A figure that is none is an error, and an error has no figure.
fn measured(mut measurement: Measurement) -> Measurement {
    if measurement.value.is_some_and(|value| !value.is_finite()) {
        measurement.value = None;
    }
    if measurement.value.is_none() && measurement.error.is_none() {
        measurement.error = Some("no figure and no reason were written down".to_owned());
    }
    if measurement.error.is_some() {
        measurement.value = None;
    }
    measurement
}
