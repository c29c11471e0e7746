//! What a server's process took while each suite ran, from the samples of a second.

use serde::Serialize;

use crate::bench::record::Sample;

/// A server on a chain while a suite ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Resources {
    /// The chain's name.
    pub chain: String,
    /// The server's name.
    pub server: String,
    /// The suite; empty between suites.
    pub suite: String,
    /// Seconds that were sampled.
    pub seconds: f64,
    /// CPU seconds.
    pub cpu: f64,
    /// The most anonymous memory, bytes.
    pub anon: u64,
    /// The most pages of mapped files, bytes.
    pub file: u64,
    /// Bytes fetched from the disk.
    pub read: u64,
    /// Bytes sent to the disk.
    pub written: u64,
    /// The most threads.
    pub threads: u64,
    /// The most open descriptors.
    pub descriptors: u64,
}

/// Adds samples up. What a process did from one sample to the next belongs to the suite of the later one.
pub(super) fn of(samples: &[(String, String, Vec<Sample>)]) -> Vec<Resources> {
    let mut all = Vec::new();
    for (chain, server, samples) in samples {
        let mut mine: Vec<Resources> = Vec::new();
        let mut last = Sample::default();
        for sample in samples {
            let at = match mine.iter().position(|known| known.suite == sample.suite) {
                Some(at) => at,
                None => {
                    mine.push(Resources {
                        chain: chain.clone(),
                        server: server.clone(),
                        suite: sample.suite.clone(),
                        ..Resources::default()
                    });
                    mine.len() - 1
                }
            };
            let known = &mut mine[at];
            // The clock runs on over a restart within a round, and begins anew with the next round.
            let began = match sample.seconds < last.seconds {
                true => 0.0,
                false => last.seconds,
            };
            known.seconds += sample.seconds - began;
            // Sums that have fallen are those of a new process.
            let cpu = |sample: &Sample| sample.cpu_user + sample.cpu_system;
            let anew = cpu(sample) < cpu(&last) || sample.seconds < last.seconds;
            let before = if anew { Sample::default() } else { last };
            known.cpu += cpu(sample) - cpu(&before);
            known.read += sample.read_bytes.saturating_sub(before.read_bytes);
            known.written += sample.written_bytes.saturating_sub(before.written_bytes);
            known.anon = known.anon.max(sample.rss_anon);
            known.file = known.file.max(sample.rss_file);
            known.threads = known.threads.max(sample.threads);
            known.descriptors = known.descriptors.max(sample.descriptors);
            last = sample.clone();
        }
        all.extend(mine);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_go_to_their_suites_and_a_new_process_begins_at_nothing() {
        let sample = |seconds, suite: &str, cpu_user, rss_anon| Sample {
            seconds,
            suite: suite.to_owned(),
            cpu_user,
            rss_anon,
            ..Sample::default()
        };
        let samples = vec![
            sample(1.0, "build-1", 0.5, 10),
            sample(2.0, "build-1", 1.0, 30),
            // A restart within the round: its whole time since the round's beginning was once counted again.
            sample(2.5, "restart-1", 0.1, 8),
            sample(3.0, "idle-1", 0.2, 20),
            // The next round.
            sample(0.5, "idle-1", 0.2, 5),
        ];
        let found = of(&[("c".into(), "s".into(), samples)]);
        let told: Vec<_> = found
            .iter()
            .map(|each| (each.suite.as_str(), each.seconds, each.anon))
            .collect();
        assert_eq!(
            told,
            [
                ("build-1", 2.0, 30),
                ("restart-1", 0.5, 8),
                ("idle-1", 1.0, 20)
            ]
        );
        for (each, cpu) in found.iter().zip([1.0, 0.1, 0.3]) {
            assert!((each.cpu - cpu).abs() < 1e-9, "{each:?}");
        }
    }
}
