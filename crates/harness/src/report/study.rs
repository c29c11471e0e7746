//! What the figures of runs amount to.
//!
//! In: the folders of runs. Out: a table for each run, chain, suite and metric, a row a case, a cell a server. A cell holds the median over the
//! rounds, its spread, and how near it comes to the best server and to the best limit of its row; a row says whether the servers' answers
//! agree. An error is a cell of its own kind: it is never a figure, and no figure of other rounds hides it.

mod cells;
mod tables;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::{
    compat::{self, Compatibility},
    folder_name, read,
    resources::{self, Resources},
};
use crate::bench::record::{Better, Measurement, Run, Sample, ServerKind};

pub(super) use cells::nearness;
use tables::sections;

/// Runs, understood.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    /// Each run, in the order in which they were named.
    pub runs: Vec<RunFacts>,
    /// What could not be read or understood, for people.
    pub notes: Vec<String>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct RunFacts {
    /// The folder's name.
    pub folder: String,
    /// Machine, servers, chains, plan, command.
    pub run: Run,
    /// Servers in the order of the run, then limits, then what only a measurement names.
    pub columns: Vec<Column>,
    /// Every measurement, in the order they were made.
    #[serde(skip)]
    pub measurements: Vec<Measurement>,
    /// A part for each chain and suite.
    pub sections: Vec<Section>,
    /// What each server's process used while each suite ran.
    pub resources: Vec<Resources>,
    /// The samples those are from: chain, server, samples.
    #[serde(skip)]
    pub samples: Vec<(String, String, Vec<Sample>)>,
    /// Verdicts on answers.
    pub compatibility: Compatibility,
    /// How often each server was best, behind, or without a figure.
    pub score: Vec<Score>,
}

/// A suite on a chain.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// The suite's name with its version.
    pub suite: String,
    /// The chain's name.
    pub chain: String,
    /// What is timed, if the suite is known.
    pub about: &'static str,
    /// Where it stands among the suites.
    #[serde(skip)]
    pub order: usize,
    /// Whether all tables have one case, the same: they are then rows of one table.
    pub flat: bool,
    /// A table a metric, all with the same columns.
    pub tables: Vec<Table>,
}

/// A metric of a suite on a chain.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What is measured.
    pub metric: String,
    /// In what.
    pub unit: String,
    /// Whether more is better.
    pub better: Better,
    /// Whether servers are held against each other by it: not where who does more in a given time also takes more.
    pub compared: bool,
    /// Whether ghz gave a second opinion on a row: it has a column of its own then.
    pub ghz: bool,
    /// The columns: names of servers, then of limits.
    pub servers: Vec<Column>,
    /// A row a case.
    pub rows: Vec<Row>,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The server's name.
    pub name: String,
    /// Whether it is a limit.
    pub limit: bool,
}

/// A case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub case: String,
    /// One for each column.
    pub cells: Vec<Cell>,
    /// Whether the answers agree.
    pub proof: Proof,
}

/// One server in one case.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cell {
    /// The middle of the rounds, half way between the two middle ones of an even number; `None` without a figure.
    pub median: Option<f64>,
    /// The least round.
    pub min: Option<f64>,
    /// The most.
    pub max: Option<f64>,
    /// How many rounds gave a figure.
    pub rounds: usize,
    /// How near it comes to the best server of the row: 1 is the best, 0.5 half as good.
    pub to_best: Option<f64>,
    /// The same against the best limit of the row; above 1 it is better than that.
    pub to_limit: Option<f64>,
    /// The best server of the row.
    pub best: bool,
    /// Not the best, but its spread and that of the best overlap.
    pub tie: bool,
    /// Answers that prove the figures: least and most of the rounds.
    pub count: [u64; 2],
    /// Digests of the answers, each once.
    pub digests: Vec<String>,
    /// Why rounds gave no figure, each reason once, with how often.
    pub errors: Vec<(String, usize)>,
    /// The middle of what ghz found of the same in those rounds.
    pub ghz: Option<f64>,
    /// Why it found nothing, each reason once.
    pub ghz_errors: Vec<String>,
}

/// Whether answers agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// No digest was written down.
    #[default]
    None,
    /// One server only.
    Alone,
    /// All servers gave the same answers in all rounds.
    Agree,
    /// They did not.
    Differ,
}

/// How a server did over all rows that hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Its name.
    pub server: String,
    /// Best, of more than one server.
    pub best: usize,
    /// Behind, with an overlapping spread.
    pub tie: usize,
    /// Behind.
    pub behind: usize,
    /// The only one with a figure.
    pub alone: usize,
    /// Without a figure.
    pub failed: usize,
    /// Rows whose answers differ.
    pub disputed: usize,
}

impl Study {
    /// Reads and understands.
    ///
    /// # Errors
    ///
    /// When no folder holds a run.
    pub fn read(paths: &[PathBuf]) -> Result<Study> {
        let mut study = Study {
            runs: Vec::new(),
            notes: Vec::new(),
        };
        for path in paths {
            let name = folder_name(path);
            match read::folder(path) {
                Ok(folder) => {
                    let compatibility = compat::read(path, &mut study.notes);
                    let notes = folder.notes.iter().map(|note| format!("{name}: {note}"));
                    study.notes.extend(notes);
                    let notes = folder.run.notes.iter();
                    study
                        .notes
                        .extend(notes.map(|note| format!("{name}: {note}")));
                    study.add(name, folder, compatibility);
                }
                Err(error) => study.notes.push(format!("{name}: not read: {error:#}")),
            }
        }
        ensure!(
            !study.runs.is_empty(),
            "none of these folders holds a run:\n{}",
            study.notes.join("\n")
        );
        Ok(study)
    }

    /// Whether a run holds figures of a server.
    pub fn names(&self, server: &str) -> bool {
        let mut measurements = self.runs.iter().flat_map(|run| &run.measurements);
        measurements.any(|measurement| measurement.server == server)
    }

    fn add(&mut self, name: String, folder: read::Folder, compatibility: Compatibility) {
        let columns = columns(&folder.run, &folder.measurements);
        let sections = sections(&columns, &folder.measurements);
        if sections.is_empty() {
            self.notes.push(format!("{name}: it holds no measurement"));
        }
        self.runs.push(RunFacts {
            folder: name,
            score: score(&columns, &sections),
            columns,
            sections,
            resources: resources::of(&folder.samples),
            run: folder.run,
            measurements: folder.measurements,
            samples: folder.samples,
            compatibility,
        });
    }
}

impl RunFacts {
    /// Blocks of the chain that a section is about; 0 if the run does not say.
    pub(super) fn blocks_of(&self, section: &Section) -> u64 {
        let mut chains = self.run.chains.iter();
        let chain = chains.find(|chain| chain.name == section.chain);
        chain.map_or(0, |chain| chain.blocks)
    }

    /// Name and start: what tells runs apart.
    pub fn title(&self) -> String {
        match self.run.name.is_empty() {
            true => self.folder.clone(),
            false => format!("{} ({})", self.run.name, self.folder),
        }
    }
}

/// Servers in the order of the run's list, limits last; then those that only a measurement names.
fn columns(run: &Run, measurements: &[Measurement]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for kind in [ServerKind::Server, ServerKind::Limit] {
        let of_kind = run.servers.iter().filter(|server| server.kind == kind);
        columns.extend(of_kind.map(|server| Column {
            name: server.name.clone(),
            limit: kind == ServerKind::Limit,
        }));
    }
    for measurement in measurements {
        if !columns
            .iter()
            .any(|column| column.name == measurement.server)
        {
            columns.push(Column {
                name: measurement.server.clone(),
                limit: false,
            });
        }
    }
    columns
}

fn score(columns: &[Column], sections: &[Section]) -> Vec<Score> {
    let mut scores: Vec<Score> = columns
        .iter()
        .filter(|column| !column.limit)
        .map(|column| Score {
            server: column.name.clone(),
            ..Score::default()
        })
        .collect();
    let tables = sections.iter().flat_map(|section| &section.tables);
    for table in tables.filter(|table| table.compared) {
        for row in &table.rows {
            let servers = table.servers.iter().zip(&row.cells);
            let figures = servers
                .clone()
                .filter(|(column, cell)| !column.limit && cell.median.is_some())
                .count();
            for (column, cell) in servers {
                let Some(score) = scores.iter_mut().find(|score| score.server == column.name)
                else {
                    continue;
                };
                score.disputed +=
                    usize::from(row.proof == Proof::Differ && !cell.digests.is_empty());
                match cell {
                    cell if cell.median.is_none() && cell.errors.is_empty() => {}
                    cell if cell.median.is_none() => score.failed += 1,
                    _ if figures == 1 => score.alone += 1,
                    cell if cell.best => score.best += 1,
                    cell if cell.tie => score.tie += 1,
                    _ => score.behind += 1,
                }
            }
        }
    }
    scores
}
