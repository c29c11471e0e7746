//! Measurements of whole systems, by their public interfaces.
//!
//! In: addresses of servers or nodes, and how often to repeat. Out: figures with their spread, each beside a count and a digest of what
//! was received, so that a fast wrong answer shows. Comparisons take turns within one run, for a machine's speed drifts.
//!
//! * [`run`] does what a [`plan`] says and leaves a folder that [`record`] describes; [`command`] is its command line.
//! * [`ground`] is what servers stand on (chain and node; [`chains`] forges it), [`expected`] and [`questions`] are what they should answer.
//! * [`server`] runs one of them; [`usage`], [`disk`] and [`machine`] look at it from outside.
//! * [`suites`] measure; [`drain`], [`ask`] and [`wire`] are their load, [`ghz`] a second opinion, [`limits`] the servers that do only the sending.
//! * [`falsify`] makes answers wrong on their way, so that a test can see each suite notice.
//! * [`ranges`] and [`mod@build`] are two small measurements that need no plan.

pub mod ask;
pub mod build;
pub mod chains;
pub mod command;
pub mod disk;
pub mod drain;
pub mod expected;
pub mod falsify;
pub mod figures;
pub mod ghz;
pub mod ground;
pub mod interrupt;
pub mod limits;
pub mod machine;
pub mod plan;
pub mod questions;
pub mod ranges;
pub mod record;
pub mod run;
pub mod server;
pub mod suites;
pub mod tls;
pub mod usage;
pub mod wire;

use std::{fmt, time::Duration};

/// Repeats of one measurement.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a rate: `count` things in `time`, per second.
    pub fn add(&mut self, count: u64, time: Duration) {
        self.0.push(count as f64 / time.as_secs_f64());
        self.0.sort_by(f64::total_cmp);
    }

    /// Each, the least first, per second.
    pub fn rates(&self) -> &[f64] {
        &self.0
    }

    /// The middle of them, as [`figures::median`] has it. Zero when there are none.
    pub fn median(&self) -> f64 {
        figures::median(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(least), Some(most)) = (self.0.first(), self.0.last()) else {
            return f.write_str("nothing measured");
        };
        let median = self.median();
        let repeats = self.0.len();
        write!(
            f,
            "{median:.0}/s (median of {repeats}; {least:.0} to {most:.0})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_the_spread_are_told() {
        let mut samples = Samples::default();
        assert_eq!(samples.to_string(), "nothing measured");
        for count in [300, 100, 200] {
            samples.add(count, Duration::from_secs(1));
        }
        assert_eq!(samples.to_string(), "200/s (median of 3; 100 to 300)");
        samples.add(800, Duration::from_secs(1));
        assert_eq!(samples.to_string(), "250/s (median of 4; 100 to 800)");
    }
}
