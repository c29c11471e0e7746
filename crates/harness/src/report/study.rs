//! What the figures of runs amount to.
//!
//! In: the folders of runs. Out: a table for each run, chain, suite and metric, a row a case, a cell a server. A cell holds the median over the
//! rounds, its spread, and how near it comes to the best server and to the best limit of its row; a row says whether the servers' answers
//! agree. An error is a cell of its own kind: it is never a figure, and no figure of other rounds hides it.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::{
    compat::{self, Compatibility},
    folder_name, numbers, read,
    resources::{self, Resources},
    suites,
};
use crate::bench::record::{Better, Measurement, Run, Sample, ServerKind};

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
    /// The middle of the rounds (the lower middle of an even number); `None` without a figure.
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

/// Keeps the order in which keys first came.
struct Grouped<K, V>(Vec<(K, V)>);

impl<K: PartialEq, V: Default> Grouped<K, V> {
    fn entry(&mut self, key: K) -> &mut V {
        let at = match self.0.iter().position(|(known, _)| *known == key) {
            Some(at) => at,
            None => {
                self.0.push((key, V::default()));
                self.0.len() - 1
            }
        };
        &mut self.0[at].1
    }
}

impl<K, V> Default for Grouped<K, V> {
    fn default() -> Self {
        Grouped(Vec::new())
    }
}

/// A metric of a suite and what it was measured in.
type Metric<'a> = (&'a str, &'a str, Better);

fn sections(columns: &[Column], measurements: &[Measurement]) -> Vec<Section> {
    let mut suites_found: BTreeMap<(&str, &str), Vec<&Measurement>> = BTreeMap::new();
    for measurement in measurements {
        let key = (measurement.chain.as_str(), measurement.suite.as_str());
        suites_found.entry(key).or_default().push(measurement);
    }
    let mut sections: Vec<Section> = suites_found
        .into_iter()
        .map(|((chain, suite), lines)| {
            let known = suites::known(suite);
            let mut columns = columns.to_vec();
            columns.retain(|column| lines.iter().any(|line| line.server == column.name));
            let tables = tables(suite, &columns, &lines);
            let case = tables
                .first()
                .and_then(|table| table.rows.first())
                .map(|row| &row.case);
            Section {
                flat: tables.len() > 1
                    && tables.iter().all(|table| {
                        table.rows.len() == 1 && table.rows.first().map(|row| &row.case) == case
                    }),
                suite: suite.to_owned(),
                chain: chain.to_owned(),
                about: known.map_or("", |known| known.about),
                order: known.map_or(usize::MAX, |known| known.order),
                tables,
            }
        })
        .collect();
    sections.sort_by(|a, b| {
        let key = |section: &Section| (section.chain.clone(), section.order, section.suite.clone());
        key(a).cmp(&key(b))
    });
    sections
}

/// The tables of one suite on one chain.
fn tables(suite: &str, columns: &[Column], lines: &[&Measurement]) -> Vec<Table> {
    let mut metrics: Grouped<Metric<'_>, Vec<&str>> = Grouped::default();
    for line in lines.iter().filter(|line| line.value.is_some()) {
        let cases = metrics.entry((&line.metric, &line.unit, line.better));
        if !cases.contains(&line.case.as_str()) {
            cases.push(&line.case);
        }
    }
    let known: Vec<&str> = metrics
        .0
        .iter()
        .flat_map(|(_, cases)| cases)
        .copied()
        .collect();
    let mut tables: Vec<Table> = metrics
        .0
        .iter()
        .map(|(metric, cases)| {
            let of = |case: &str, server: &str| matching(lines, *metric, case, server, &known);
            table(
                columns,
                *metric,
                suites::compared(suite, metric.0),
                cases,
                of,
            )
        })
        .collect();
    tables.sort_by_key(|table| suites::rank(&table.metric));
    // Cases that nobody has a figure for: a suite that a server cannot run stands in the other tables, unless there are none.
    let has_figures = |server: &str| {
        let mut valued = lines.iter().filter(|line| line.value.is_some());
        valued.any(|line| line.server == server)
    };
    let mut lost: Vec<&str> = Vec::new();
    for line in lines {
        let shown = known.contains(&line.case.as_str())
            || (!known.is_empty() && !has_figures(&line.server));
        if !shown && !lost.contains(&line.case.as_str()) {
            lost.push(&line.case);
        }
    }
    if !lost.is_empty() {
        let of = |case: &str, server: &str| -> Vec<&Measurement> {
            let of_case = lines.iter().copied();
            of_case
                .filter(|line| line.case == case && line.server == server)
                .collect()
        };
        let metric = ("no figure", "", Better::Higher);
        tables.push(table(columns, metric, true, &lost, of));
    }
    tables
}

/// The lines that decide a cell: its figures; the failures of its case, of this metric or of the whole case; and where the server has no figure
/// in the suite, the reasons it gave for cases of another name.
fn matching<'a>(
    lines: &[&'a Measurement],
    (metric, unit, better): Metric<'_>,
    case: &str,
    server: &str,
    known: &[&str],
) -> Vec<&'a Measurement> {
    let mine = lines.iter().copied().filter(|line| line.server == server);
    let of_case: Vec<&Measurement> = mine.clone().filter(|line| line.case == case).collect();
    let is_figure = |line: &Measurement| {
        line.value.is_some()
            && (line.metric.as_str(), line.unit.as_str(), line.better) == (metric, unit, better)
    };
    let measured_in = |round: u32| {
        of_case
            .iter()
            .any(|line| is_figure(line) && line.round == round)
    };
    let fails_here = |line: &Measurement| {
        line.value.is_none() && (line.metric == metric || !measured_in(line.round))
    };
    let here: Vec<&Measurement> = of_case
        .iter()
        .copied()
        .filter(|line| is_figure(line) || fails_here(line))
        .collect();
    if !here.is_empty() || mine.clone().any(|line| line.value.is_some()) {
        return here;
    }
    mine.filter(|line| !known.contains(&line.case.as_str()))
        .collect()
}

fn table<'a>(
    columns: &[Column],
    (metric, unit, better): Metric<'_>,
    compared: bool,
    cases: &[&str],
    of: impl Fn(&str, &str) -> Vec<&'a Measurement>,
) -> Table {
    let rows = cases.iter().map(|case| {
        let cells = columns
            .iter()
            .map(|column| cell(of(case, &column.name).into_iter()));
        let mut row = row(case, columns, cells.collect(), better);
        for cell in row.cells.iter_mut().filter(|_| !compared) {
            (cell.best, cell.tie) = (false, false);
            (cell.to_best, cell.to_limit) = (None, None);
        }
        row
    });
    Table {
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        better,
        compared,
        rows: rows.collect(),
        servers: columns.to_vec(),
    }
}

fn cell<'a>(measurements: impl Iterator<Item = &'a Measurement>) -> Cell {
    let mut cell = Cell::default();
    let mut values = Vec::new();
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut counts: Option<[u64; 2]> = None;
    for measurement in measurements {
        if let Some(value) = measurement.value {
            values.push(value);
            let [low, high] = measurement.spread.unwrap_or([value, value]);
            // The spread of a round is told for what is within it (a slowest client), not for the median of rounds.
            if low <= value && value <= high && measurement.spread.is_some() {
                least = least.min(low);
                most = most.max(high);
            }
            let count = measurement.count;
            counts = Some(counts.map_or([count, count], |[low, high]| {
                [low.min(count), high.max(count)]
            }));
        }
        if let Some(digest) = &measurement.digest
            && !cell.digests.contains(digest)
        {
            cell.digests.push(digest.clone());
        }
        if let Some(error) = &measurement.error {
            match cell.errors.iter_mut().find(|(known, _)| known == error) {
                Some((_, times)) => *times += 1,
                None => cell.errors.push((error.clone(), 1)),
            }
        }
    }
    values.sort_by(f64::total_cmp);
    cell.rounds = values.len();
    cell.median = values.get(values.len().saturating_sub(1) / 2).copied();
    // With one round only, the spread within it is all there is.
    let single = values.len() == 1 && least <= most;
    cell.min = if single {
        Some(least)
    } else {
        values.first().copied()
    };
    cell.max = if single {
        Some(most)
    } else {
        values.last().copied()
    };
    cell.count = counts.unwrap_or_default();
    cell
}

/// How near `value` comes to `other`: 1 if equal, below if worse. `None` where a ratio says nothing.
pub(super) fn nearness(value: f64, other: f64, better: Better) -> Option<f64> {
    let (over, under) = match better {
        Better::Higher => (value, other),
        Better::Lower => (other, value),
    };
    if over == under {
        return Some(1.0);
    }
    let ratio = over / under;
    (ratio.is_finite() && ratio >= 0.0).then_some(ratio)
}

/// The better one.
fn best_of(better: Better, values: impl Iterator<Item = f64>) -> Option<f64> {
    match better {
        Better::Higher => values.max_by(f64::total_cmp),
        Better::Lower => values.min_by(f64::total_cmp),
    }
}

fn row(case: &str, columns: &[Column], mut cells: Vec<Cell>, better: Better) -> Row {
    let best_among = |limit: bool, cells: &[Cell]| {
        let of_kind = columns
            .iter()
            .zip(cells)
            .filter(|(column, _)| column.limit == limit);
        // What failed in some rounds is no winner by the others.
        best_of(
            better,
            of_kind
                .filter(|(_, cell)| cell.errors.is_empty())
                .filter_map(|(_, cell)| cell.median),
        )
    };
    let best = best_among(false, &cells);
    let limit = best_among(true, &cells);
    let figures = columns
        .iter()
        .zip(&cells)
        .filter(|(column, cell)| !column.limit && cell.median.is_some());
    let alone = figures.count() < 2;
    for (column, cell) in columns.iter().zip(&mut cells) {
        let Some(median) = cell.median else {
            continue;
        };
        cell.to_limit = limit.and_then(|limit| nearness(median, limit, better));
        // Nobody wins alone.
        if column.limit || alone {
            continue;
        }
        cell.to_best = best.and_then(|best| nearness(median, best, better));
        cell.best = Some(median) == best && cell.errors.is_empty();
    }
    let winner = cells.iter().find(|cell| cell.best).cloned();
    for (column, cell) in columns.iter().zip(&mut cells) {
        if let Some(winner) = &winner
            && !cell.best
            && !column.limit
            && cell.rounds > 1
            && winner.rounds > 1
        {
            cell.tie = cell.min <= winner.max && winner.min <= cell.max;
        }
    }
    Row {
        case: case.to_owned(),
        proof: proof(columns, &cells),
        cells,
    }
}

fn proof(columns: &[Column], cells: &[Cell]) -> Proof {
    let mut servers = 0;
    let mut digests: Vec<&String> = Vec::new();
    for (column, cell) in columns.iter().zip(cells) {
        // A limit sends bytes of the same size, not always the same bytes.
        if column.limit || cell.digests.is_empty() {
            continue;
        }
        servers += 1;
        digests.extend(&cell.digests);
    }
    digests.sort();
    digests.dedup();
    match (servers, digests.len()) {
        (0, _) => Proof::None,
        (_, 2..) => Proof::Differ,
        (1, _) => Proof::Alone,
        _ => Proof::Agree,
    }
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

impl Cell {
    /// The figure, or that there is none.
    pub(super) fn text(&self) -> String {
        match self.median {
            Some(median) => numbers::figure(median),
            None if self.errors.is_empty() => String::new(),
            None => "failed".to_owned(),
        }
    }
}
