//! What a cell and a row hold: the median of rounds, its spread, how near it comes to the best, and whether answers agree.

use super::{Cell, Column, Proof, Row};
use crate::{
    bench::{
        figures::median,
        record::{Better, Measurement},
    },
    report::numbers,
};

pub(super) fn cell<'a>(measurements: impl Iterator<Item = &'a Measurement>) -> Cell {
    let mut cell = Cell::default();
    let (mut values, mut ghz) = (Vec::new(), Vec::new());
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
        ghz.extend(measurement.ghz.filter(|value| value.is_finite()));
        if let Some(error) = &measurement.ghz_error
            && !cell.ghz_errors.contains(error)
        {
            cell.ghz_errors.push(error.clone());
        }
        if let Some(error) = &measurement.error {
            match cell.errors.iter_mut().find(|(known, _)| known == error) {
                Some((_, times)) => *times += 1,
                None => cell.errors.push((error.clone(), 1)),
            }
        }
    }
    values.sort_by(f64::total_cmp);
    ghz.sort_by(f64::total_cmp);
    cell.rounds = values.len();
    cell.median = median(&values);
    cell.ghz = median(&ghz);
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
pub(in crate::report) fn nearness(value: f64, other: f64, better: Better) -> Option<f64> {
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

pub(super) fn row(case: &str, columns: &[Column], mut cells: Vec<Cell>, better: Better) -> Row {
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

impl Cell {
    /// The figure, or that there is none.
    pub(in crate::report) fn text(&self) -> String {
        match self.median {
            Some(median) => numbers::figure(median),
            None if self.errors.is_empty() => String::new(),
            None => "failed".to_owned(),
        }
    }
}
