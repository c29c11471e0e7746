//! Figures on their way into the record.

use std::borrow::Cow;

use anyhow::Result;

use super::{
    ghz::Opinion,
    record::{Better, Measurement, RunFolder},
};

/// One figure of a case.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    metric: Cow<'static, str>,
    unit: &'static str,
    value: f64,
    better: Better,
    spread: Option<[f64; 2]>,
    ghz: Option<Result<f64, String>>,
}

impl Figure {
    /// More is better.
    pub fn higher(metric: impl Into<Cow<'static, str>>, unit: &'static str, value: f64) -> Figure {
        Figure {
            metric: metric.into(),
            unit,
            value,
            better: Better::Higher,
            spread: None,
            ghz: None,
        }
    }

    /// Less is better.
    pub fn lower(metric: impl Into<Cow<'static, str>>, unit: &'static str, value: f64) -> Figure {
        Figure {
            better: Better::Lower,
            ..Figure::higher(metric, unit, value)
        }
    }

    /// With what ghz found, if the figure is one that it gives.
    pub fn beside(self, ghz: &Result<Opinion>) -> Figure {
        let theirs = match (&*self.metric, ghz) {
            ("throughput", Ok(opinion)) => Ok(opinion.rate),
            ("p99", Ok(opinion)) => Ok(opinion.p99),
            ("throughput", Err(error)) => Err(shortened(error)),
            _ => return self,
        };
        Figure {
            ghz: Some(theirs),
            ..self
        }
    }

    /// With the least and the most of several.
    pub fn spread(self, least: f64, most: f64) -> Figure {
        Figure {
            spread: Some([least, most]),
            ..self
        }
    }
}

/// What proves a case's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Answers or blocks.
    pub count: u64,
    /// Over the answers, in hex.
    pub digest: Option<String>,
}

/// Writes the measurements of one server on one chain in one round.
pub struct Recorder<'a> {
    /// Where to.
    pub folder: &'a RunFolder,
    /// The chain's name.
    pub chain: &'a str,
    /// The server's name.
    pub server: &'a str,
    /// From 1.
    pub round: u32,
    /// The suite that runs, with its version.
    pub suite: &'static str,
    /// Ends the cases' names; empty but where the same is measured again under other circumstances.
    pub part: &'static str,
    /// Lines with a reason instead of a figure.
    pub failures: u32,
}

impl Recorder<'_> {
    /// Writes figures of a case. One that is no number is written as a failure.
    ///
    /// # Errors
    ///
    /// If the disk says so.
    pub fn figures(&mut self, case: &str, proof: &Proof, figures: &[Figure]) -> Result<()> {
        let mut lines = Vec::new();
        for figure in figures {
            let finite = figure.value.is_finite();
            self.failures += u32::from(!finite);
            lines.push(Measurement {
                metric: figure.metric.clone().into_owned(),
                unit: figure.unit.to_owned(),
                value: Some(figure.value).filter(|_| finite),
                better: figure.better,
                count: proof.count,
                digest: proof.digest.clone(),
                spread: figure
                    .spread
                    .filter(|ends| ends.iter().all(|end| end.is_finite())),
                error: (!finite).then(|| "not a number: too little was measured".to_owned()),
                ghz: figure
                    .ghz
                    .as_ref()
                    .and_then(|ghz| ghz.as_ref().ok())
                    .copied(),
                ghz_error: figure
                    .ghz
                    .as_ref()
                    .and_then(|ghz| ghz.as_ref().err())
                    .cloned(),
                ..self.blank(case)
            });
        }
        self.folder.append(&lines)
    }

    /// Writes why a case has no figure.
    ///
    /// # Errors
    ///
    /// If the disk says so.
    pub fn failure(&mut self, case: &str, metric: &str, error: &anyhow::Error) -> Result<()> {
        self.failures += 1;
        let reason = shortened(error);
        eprintln!("      {}: {case}: {reason}", self.suite);
        self.folder.append(&[Measurement {
            metric: metric.to_owned(),
            error: Some(reason),
            ..self.blank(case)
        }])
    }

    fn blank(&self, case: &str) -> Measurement {
        Measurement {
            suite: self.suite.to_owned(),
            chain: self.chain.to_owned(),
            server: self.server.to_owned(),
            case: format!("{case}{}", self.part),
            round: self.round,
            ..Measurement::default()
        }
    }
}

/// A reason that fits into a table.
fn shortened(error: &anyhow::Error) -> String {
    let mut reason = format!("{error:#}");
    reason.truncate(reason.floor_char_boundary(600));
    reason
}

/// The value that `share` (0 to 1) of them do not exceed: nearest rank. Not a number if there is none.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

/// The middle of sorted values: half way between the two middle ones of an even number, so that neither those who want more nor those who want less are
/// flattered. `None` if there is none.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let high = sorted.get(sorted.len() / 2)?;
    let low = sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(*low, *high))
}

/// Half and 99 of a hundred of some times in milliseconds, with the least and the most. Sorts them.
pub fn latencies(times: &mut [f64]) -> [Figure; 2] {
    times.sort_by(f64::total_cmp);
    let least = times.first().copied().unwrap_or(f64::NAN);
    let most = times.last().copied().unwrap_or(f64::NAN);
    [("p50", 0.5), ("p99", 0.99)].map(|(name, share)| {
        Figure::lower(name, "ms", percentile(times, share)).spread(least, most)
    })
}

/// A number with commas, as cases are named: `10,000`.
pub fn grouped(number: u32) -> String {
    apart(&number.to_string())
}

/// Decimal digits with a comma before each three from the end.
pub fn apart(digits: &str) -> String {
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 client`, `16 clients`.
pub fn counted(number: u32, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let times: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&times, 0.5), 100.0);
        assert_eq!(percentile(&times, 0.99), 198.0);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert!(percentile(&[], 0.5).is_nan());
    }

    #[test]
    fn the_median_lies_between_the_middle_ones() {
        for (sorted, middle) in [
            (&[][..], None),
            (&[3.0], Some(3.0)),
            (&[1.0, 2.0], Some(1.5)),
            (&[1.0, 2.0, 9.0], Some(2.0)),
            (&[1.0, 2.0, 4.0, 9.0], Some(3.0)),
        ] {
            assert_eq!(median(sorted), middle);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        let shown = [1, 999, 1_000, 100_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["1", "999", "1,000", "100,000", "1,234,567"]);
        assert_eq!(counted(1, "client"), "1 client");
        assert_eq!(counted(1_000, "block"), "1,000 blocks");
    }

    #[test]
    fn what_is_no_number_is_a_failure_in_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(folder.path()).unwrap();
        let mut recorder = Recorder {
            folder: &folder,
            chain: "testnet",
            server: "lightship",
            round: 1,
            suite: "latency-1",
            part: "",
            failures: 0,
        };
        recorder
            .figures("GetBlock", &Proof::default(), &latencies(&mut []))
            .unwrap();
        recorder
            .failure("GetBlock", "p50", &anyhow::anyhow!("it hung up"))
            .unwrap();
        let lines = folder.measurements().unwrap();
        assert_eq!(recorder.failures, 3);
        assert!(
            lines
                .iter()
                .all(|line| line.value.is_none() && line.error.is_some())
        );
    }
}
