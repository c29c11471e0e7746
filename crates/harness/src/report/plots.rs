//! Curves of a report: figures over a number in the cases' names (clients, workers, blocks), and samples over time.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    numbers,
    study::{RunFacts, Table},
};
use crate::bench::record::Sample;

/// Points of a curve over time; more than a screen shows are thinned out.
const MOST_POINTS: usize = 600;
/// Fewer points make no curve.
const LEAST_POINTS: usize = 3;

/// One picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Plot {
    /// What is shown.
    pub(super) title: String,
    /// Of the horizontal axis.
    pub(super) across: String,
    /// Of the vertical axis.
    pub(super) unit: String,
    /// Both axes grow by factors.
    pub(super) log: bool,
    /// One a server.
    pub(super) curves: Vec<Curve>,
}

/// One line of a picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Curve {
    /// The server's name.
    pub(super) name: String,
    /// Whether it is a limit.
    pub(super) limit: bool,
    /// Which of the run's servers: the same colour everywhere.
    pub(super) nth: usize,
    /// Ascending.
    pub(super) x: Vec<f64>,
    /// One for each of `x`.
    pub(super) y: Vec<f64>,
}

/// What a case's name may count, by its words.
const COUNTED: [&[&str]; 4] = [
    &["clients", "client"],
    &["workers", "worker"],
    &["subscribers", "subscriber", "streams", "stream"],
    &["blocks", "block"],
];

/// Curves of a table: one picture for the cases that differ in nothing but one number.
pub(super) fn of_table(table: &Table, names: &[String]) -> Vec<Plot> {
    let mut plots = Vec::new();
    if !table.compared {
        return plots;
    }
    for words in COUNTED {
        let mut groups: BTreeMap<String, Vec<(f64, usize)>> = BTreeMap::new();
        for (nth, row) in table.rows.iter().enumerate() {
            if let Some(number) = numbers::before(&row.case, words) {
                let rest = without(&row.case, words);
                groups.entry(rest).or_default().push((number, nth));
            }
        }
        for (rest, mut points) in groups {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points.dedup_by(|a, b| a.0 == b.0);
            if points.len() < LEAST_POINTS {
                continue;
            }
            let curves = table.servers.iter().enumerate().map(|(column, server)| {
                let of_server = points.iter().filter_map(|&(x, row)| {
                    // A logarithm wants what is above zero.
                    let y = table.rows[row].cells[column].median?;
                    (x > 0.0 && y > 0.0).then_some((x, rounded(y)))
                });
                let (x, y) = of_server.unzip();
                Curve {
                    name: server.name.clone(),
                    limit: server.limit,
                    nth: place(names, &server.name),
                    x,
                    y,
                }
            });
            let title = match rest.is_empty() {
                true => table.metric.clone(),
                false => format!("{}: {rest}", table.metric),
            };
            plots.push(Plot {
                title,
                across: words[0].to_owned(),
                unit: table.unit.clone(),
                log: true,
                curves: curves.filter(|curve| !curve.x.is_empty()).collect(),
            });
        }
    }
    plots
}

/// The case's name without the number and its word.
fn without(case: &str, words: &[&str]) -> String {
    let parts: Vec<&str> = case.split(", ").collect();
    let others = parts
        .iter()
        .filter(|part| numbers::before(part, words).is_none());
    let rest: Vec<&str> = others.copied().collect();
    // A part that says more than the number keeps the rest of its words.
    let mixed = parts
        .iter()
        .filter(|part| numbers::before(part, words).is_some() && part.split(' ').count() > 2);
    let mut text = rest.join(", ");
    for part in mixed {
        let words: Vec<&str> = part
            .split(' ')
            .filter(|word| !word.starts_with(|letter: char| letter.is_ascii_digit()))
            .collect();
        text.push_str(if text.is_empty() { "" } else { ", " });
        text.push_str(&words.join(" "));
    }
    text
}

/// What is drawn of a sample and the one before it.
type Of = fn(&Sample, &Sample) -> Option<f64>;

const OVER_TIME: [(&str, &str, Of); 7] = [
    ("CPU", "cores", |now, then| {
        rate(
            now.cpu_user + now.cpu_system - then.cpu_user - then.cpu_system,
            now,
            then,
        )
    }),
    ("anonymous memory", "MB", |now, _| {
        Some(now.rss_anon as f64 / 1e6)
    }),
    ("file-backed memory", "MB", |now, _| {
        Some(now.rss_file as f64 / 1e6)
    }),
    ("read from disk", "MB/s", |now, then| {
        let bytes = now.read_bytes as f64 - then.read_bytes as f64;
        rate(bytes / 1e6, now, then)
    }),
    ("written to disk", "MB/s", |now, then| {
        let bytes = now.written_bytes as f64 - then.written_bytes as f64;
        rate(bytes / 1e6, now, then)
    }),
    ("threads", "", |now, _| Some(now.threads as f64)),
    ("descriptors", "", |now, _| Some(now.descriptors as f64)),
];

fn rate(difference: f64, now: &Sample, then: &Sample) -> Option<f64> {
    let seconds = now.seconds - then.seconds;
    (seconds > 0.0 && difference >= 0.0).then(|| difference / seconds)
}

/// Pictures over time for a chain: one a quantity, a line a server.
pub(super) fn over_time(run: &RunFacts, chain: &str, names: &[String]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (title, unit, of) in OVER_TIME {
        let mut curves = Vec::new();
        for (_, server, samples) in run.samples.iter().filter(|(on, ..)| on == chain) {
            let (x, y) = curve(samples, of);
            if x.len() >= LEAST_POINTS {
                curves.push(Curve {
                    name: server.clone(),
                    limit: false,
                    nth: place(names, server),
                    x,
                    y,
                });
            }
        }
        if !curves.is_empty() {
            plots.push(Plot {
                title: title.to_owned(),
                across: "seconds of sampling".to_owned(),
                unit: unit.to_owned(),
                log: false,
                curves,
            });
        }
    }
    plots
}

/// Points that ascend in time though processes are started anew, the highest of each stretch where there are too many.
fn curve(samples: &[Sample], of: Of) -> (Vec<f64>, Vec<f64>) {
    let mut points = Vec::new();
    let (mut before, mut offset, mut last) = (Sample::default(), 0.0, 0.0);
    for sample in samples {
        if sample.seconds < before.seconds {
            offset = last;
            before = Sample::default();
        }
        last = offset + sample.seconds.max(0.0);
        if let Some(value) = of(sample, &before).filter(|value| value.is_finite())
            && last.is_finite()
        {
            points.push((last, value));
        }
        before = sample.clone();
    }
    points.dedup_by(|a, b| a.0 <= b.0);
    let stretch = points.len().div_ceil(MOST_POINTS).max(1);
    points
        .chunks(stretch)
        .map(|few| {
            let highest = few.iter().map(|point| point.1).fold(0.0, f64::max);
            (rounded(few[0].0), rounded(highest))
        })
        .unzip()
}

fn place(names: &[String], name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or(0)
}

/// Five digits are more than a picture shows, and shorter in the page.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_ascend_over_a_restart_and_long_runs_are_thinned_out() {
        let sample = |seconds: f64, cpu_user: f64| Sample {
            seconds,
            cpu_user,
            ..Sample::default()
        };
        let (x, y) = curve(
            &[sample(1.0, 1.0), sample(2.0, 1.5), sample(1.0, 0.25)],
            OVER_TIME[0].2,
        );
        assert_eq!((x, y), (vec![1.0, 2.0, 3.0], vec![1.0, 0.5, 0.25]));
        let many: Vec<Sample> = (1..5_000).map(|nth| sample(nth.into(), 0.0)).collect();
        let (x, _) = curve(&many, OVER_TIME[5].2);
        assert!(
            x.len() <= MOST_POINTS && x.len() > MOST_POINTS / 2,
            "{}",
            x.len()
        );
        assert!(x.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_case_loses_the_number_that_a_curve_is_over() {
        let clients = COUNTED[0];
        assert_eq!(without("1,000 blocks, 64 clients", clients), "1,000 blocks");
        assert_eq!(without("GetBlock, 64 workers", COUNTED[1]), "GetBlock");
        assert_eq!(
            without("GetBlock by 64 workers", COUNTED[1]),
            "GetBlock by workers"
        );
    }
}
