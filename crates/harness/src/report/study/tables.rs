//! Measurements, sorted into tables: a section a chain and suite, a table a metric, a row a case.

use std::collections::BTreeMap;

use super::{
    Cell, Column, Row, Section, Table,
    cells::{cell, row},
};
use crate::{
    bench::record::{Better, Measurement},
    report::suites,
};

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

pub(super) fn sections(columns: &[Column], measurements: &[Measurement]) -> Vec<Section> {
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
                    && !tables.iter().any(|table| table.ghz)
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
    let rows: Vec<Row> = rows.collect();
    let asked = |cell: &Cell| cell.ghz.is_some() || !cell.ghz_errors.is_empty();
    Table {
        ghz: rows.iter().any(|row| row.cells.iter().any(asked)),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        better,
        compared,
        rows,
        servers: columns.to_vec(),
    }
}
