//! The machine: what it is, how busy it was, and which cores are for whom.
//!
//! In: `/proc` and `/sys`. Out: [`Machine`], [`Cores`]. What the system does not say is left empty: a run does not fail for it.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::record::Machine;

/// Fewer cores than this are not split between servers and load.
const CORES_TO_SPLIT: usize = 4;

impl Machine {
    /// This one, now.
    pub fn look() -> Machine {
        let text = |path: &str| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(':'));
            value.map_or(String::new(), |(_, value)| value.trim().to_owned())
        };
        let memory = field(&text("/proc/meminfo"), "MemTotal");
        let kilobytes = memory.split_whitespace().next();
        let kilobytes: u64 = kilobytes.and_then(|word| word.parse().ok()).unwrap_or(0);
        let governor = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        Machine {
            host: text("/proc/sys/kernel/hostname"),
            kernel: format!(
                "{} {}",
                text("/proc/sys/kernel/ostype"),
                text("/proc/sys/kernel/osrelease")
            ),
            cpu: field(&text("/proc/cpuinfo"), "model name"),
            cores: own_cores().len(),
            memory_bytes: kilobytes << 10,
            load_before: load(),
            load_after: [0.0; 3],
            governor: Some(governor).filter(|governor| !governor.is_empty()),
        }
    }
}

/// Load averages over 1, 5 and 15 minutes.
pub fn load() -> [f64; 3] {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut words = text
        .split_whitespace()
        .map(|word| word.parse().unwrap_or(0.0));
    [0; 3].map(|_: u8| words.next().unwrap_or(0.0))
}

/// Which cores are for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Of the server that is measured.
    pub server: Vec<usize>,
    /// Of the load, and of the node.
    pub load: Vec<usize>,
}

impl Cores {
    /// Halves of this process' cores.
    ///
    /// # Errors
    ///
    /// When there are too few to split.
    pub fn split() -> Result<Cores> {
        let own = own_cores();
        ensure!(
            own.len() >= CORES_TO_SPLIT,
            "pin: {} cores are too few to hold servers and load apart; {CORES_TO_SPLIT} are wanted",
            own.len()
        );
        let (load, server) = own.split_at(own.len() / 2);
        Ok(Cores {
            server: server.to_vec(),
            load: load.to_vec(),
        })
    }
}

/// Holds the calling thread, and what it starts from now on, to `cores`.
///
/// # Errors
///
/// When the system refuses.
pub fn hold_to(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// The cores that this thread may use.
pub fn own_cores() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|core| set.is_set(*core))
            .collect(),
        Err(_) => vec![0],
    }
}

/// Now, as RFC 3339 has it, UTC.
pub fn now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    rfc3339(seconds)
}

/// Days are counted in years that begin in March, so that the odd day comes last.
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_the_calendar_has_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_056_785, "2026-11-30T16:39:45Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn a_machine_says_what_it_is() {
        let machine = Machine::look();
        assert!(
            machine.cores > 0 && machine.memory_bytes > 1 << 20,
            "{machine:?}"
        );
        assert!(machine.kernel.starts_with("Linux"), "{machine:?}");
    }
}
