//! The folder that a run leaves behind: what `bench` writes and `report` reads.
//!
//! | file | what |
//! |---|---|
//! | `run.json` | one [`Run`]: machine, servers, chains, the plan's text |
//! | `measurements.jsonl` | one [`Measurement`] a line, in the order they were made |
//! | `samples/CHAIN-SERVER.csv` | one [`Sample`] a second of a server's process, with a head line |
//! | `logs/` | what each server printed |
//!
//! Nothing is summed up here: medians, ratios and verdicts are the reader's. A reader takes fields that it does not know, and files that
//! are cut off in the middle of their last line, for a run may be looked at while it goes on.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// The file that holds the [`Run`].
const RUN_FILE: &str = "run.json";
/// The file that holds the [`Measurement`]s.
const MEASUREMENTS_FILE: &str = "measurements.jsonl";
/// The folder of the [`Sample`]s.
const SAMPLES_FOLDER: &str = "samples";
/// The folder of the servers' output.
const LOGS_FOLDER: &str = "logs";

/// One run of the bench, from its start to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The plan's own name.
    pub name: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// When it ended; empty while it goes on.
    #[serde(default)]
    pub finished: String,
    /// The plan's text, as it was read.
    pub plan: String,
    /// The command line of the bench.
    pub command: Vec<String>,
    /// What all that looks random was drawn from.
    pub seed: u64,
    /// Where it ran.
    pub machine: Machine,
    /// What was measured.
    pub servers: Vec<ServerInfo>,
    /// What it stood on.
    pub chains: Vec<ChainInfo>,
    /// What is to be known about the run as a whole, for people: a tool that was not there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// Kernel and version.
    pub kernel: String,
    /// The processor as it names itself.
    pub cpu: String,
    /// Cores that the bench may use.
    pub cores: usize,
    /// All of its memory.
    pub memory_bytes: u64,
    /// Load averages over 1, 5 and 15 minutes before the run.
    pub load_before: [f64; 3],
    /// The same after it.
    #[serde(default)]
    pub load_after: [f64; 3],
    /// How the processor's clock is governed, where the system says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
}

/// What a row of the results belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerKind {
    /// A light wallet server.
    #[default]
    Server,
    /// A physical limit: a plain sender of the same bytes, an empty handler.
    Limit,
}

/// One server of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Its name in the plan, unique.
    pub name: String,
    /// Server or limit.
    pub kind: ServerKind,
    /// What it says of its version; "unknown" if it says nothing.
    pub version: String,
    /// The command line it was started with, the first time.
    pub start: Vec<String>,
    /// The cores that it was held to, if it was.
    #[serde(default)]
    pub pinned_to: Option<Vec<usize>>,
}

/// One chain of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainInfo {
    /// Its name in the plan, unique.
    pub name: String,
    /// Blocks of the best chain, genesis included.
    pub blocks: u64,
    /// Bytes of those blocks as consensus serializes them.
    pub bytes: u64,
    /// The command that makes it again.
    pub command: String,
    /// SHA-256 over the hashes of its blocks (internal order), lowest first; hex.
    pub digest: String,
}

/// Whether more is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    #[default]
    Higher,
    /// Less is better.
    Lower,
}

/// One figure of one server in one round, or the reason why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The suite's name with its version: when what is timed changes, so does the version.
    pub suite: String,
    /// [`ChainInfo::name`].
    pub chain: String,
    /// [`ServerInfo::name`].
    pub server: String,
    /// What a row of a table is: `1,000 blocks, 1 client`. The same for all servers.
    pub case: String,
    /// The round, from 1.
    pub round: u32,
    /// What is measured: `throughput`, `p50`, `p99`, `server cpu`.
    pub metric: String,
    /// Its unit: `blocks/s`, `ms`, `MB`, `CPU s`.
    pub unit: String,
    /// The figure; `None` with an [`Measurement::error`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Whether more is better.
    pub better: Better,
    /// Answers or blocks that were received and prove the figure.
    #[serde(default)]
    pub count: u64,
    /// Over the answers, in hex; the same for all servers that agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Least and most within the round, where one round holds several figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<[f64; 2]>,
    /// Why there is no figure: the server failed, answered wrongly or too late, or cannot do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The same figure as `ghz` found it, right after ours. It looks at status codes only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ghz: Option<f64>,
    /// Why `ghz` was asked and found none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ghz_error: Option<String>,
}

/// A server's process at one moment. CPU and disk are sums since its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Since the bench started the process.
    pub seconds: f64,
    /// The suite that ran; empty between suites.
    pub suite: String,
    /// CPU seconds in user mode.
    pub cpu_user: f64,
    /// CPU seconds in the kernel.
    pub cpu_system: f64,
    /// Anonymous memory, bytes.
    pub rss_anon: u64,
    /// Pages of mapped files, bytes.
    pub rss_file: u64,
    /// Bytes fetched from the disk.
    pub read_bytes: u64,
    /// Bytes sent to the disk.
    pub written_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

impl Sample {
    /// The head line of a file of samples.
    pub const HEAD: &str = "seconds,suite,cpu_user,cpu_system,rss_anon,rss_file,read_bytes,written_bytes,threads,descriptors";

    /// The line for it. Suites' names hold no comma.
    pub fn line(&self) -> String {
        format!(
            "{:.3},{},{:.2},{:.2},{},{},{},{},{},{}",
            self.seconds,
            self.suite,
            self.cpu_user,
            self.cpu_system,
            self.rss_anon,
            self.rss_file,
            self.read_bytes,
            self.written_bytes,
            self.threads,
            self.descriptors
        )
    }

    /// What a line says; `None` if it is none, or cut off.
    pub fn read(line: &str) -> Option<Sample> {
        let fields: Vec<&str> = line.trim_end().split(',').collect();
        let [
            seconds,
            suite,
            user,
            system,
            anon,
            file,
            read,
            written,
            threads,
            descriptors,
        ] = fields[..]
        else {
            return None;
        };
        Some(Sample {
            seconds: seconds.parse().ok()?,
            suite: suite.to_owned(),
            cpu_user: user.parse().ok()?,
            cpu_system: system.parse().ok()?,
            rss_anon: anon.parse().ok()?,
            rss_file: file.parse().ok()?,
            read_bytes: read.parse().ok()?,
            written_bytes: written.parse().ok()?,
            threads: threads.parse().ok()?,
            descriptors: descriptors.parse().ok()?,
        })
    }
}

/// The folder of a run.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// A new folder, which must not hold a run yet.
    ///
    /// # Errors
    ///
    /// If it holds one, or cannot be made.
    pub fn create(path: &Path) -> Result<RunFolder> {
        ensure!(
            !path.join(RUN_FILE).exists(),
            "{} holds a run already: name another folder",
            path.display()
        );
        for folder in [SAMPLES_FOLDER, LOGS_FOLDER] {
            fs::create_dir_all(path.join(folder))
                .with_context(|| format!("making {}", path.display()))?;
        }
        Ok(RunFolder {
            path: path.to_owned(),
        })
    }

    /// The folder of a run that was made.
    pub fn open(path: &Path) -> RunFolder {
        RunFolder {
            path: path.to_owned(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the measurements are kept.
    pub fn measurements_file(&self) -> PathBuf {
        self.path.join(MEASUREMENTS_FILE)
    }

    /// Where what `name` prints is kept.
    pub fn log(&self, name: &str) -> PathBuf {
        self.path.join(LOGS_FOLDER).join(format!("{name}.log"))
    }

    /// Where the samples of a server on a chain are kept.
    pub fn samples_file(&self, chain: &str, server: &str) -> PathBuf {
        self.path
            .join(SAMPLES_FOLDER)
            .join(format!("{chain}-{server}.csv"))
    }

    /// Writes the run's facts, in place of what was there.
    ///
    /// # Errors
    ///
    /// If the disk says so.
    pub fn write_run(&self, run: &Run) -> Result<()> {
        let path = self.path.join(RUN_FILE);
        let draft = self.path.join(".run.json.draft");
        fs::write(&draft, serde_json::to_string_pretty(run)? + "\n")
            .and_then(|()| fs::rename(&draft, &path))
            .with_context(|| format!("writing {}", path.display()))
    }

    /// Adds measurements at the end.
    ///
    /// # Errors
    ///
    /// If the disk says so.
    pub fn append(&self, measurements: &[Measurement]) -> Result<()> {
        let path = self.path.join(MEASUREMENTS_FILE);
        let mut lines = Vec::new();
        for measurement in measurements {
            serde_json::to_writer(&mut lines, measurement)?;
            lines.push(b'\n');
        }
        File::options()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(&lines))
            .with_context(|| format!("writing {}", path.display()))
    }

    /// The run's facts.
    ///
    /// # Errors
    ///
    /// If they are not there or unreadable.
    pub fn run(&self) -> Result<Run> {
        let path = self.path.join(RUN_FILE);
        let text = fs::read(&path).with_context(|| {
            format!(
                "{}: name a folder that `lightship-harness bench --out` made",
                path.display()
            )
        })?;
        serde_json::from_slice(&text).with_context(|| path.display().to_string())
    }

    /// All measurements; none if no suite has ended yet.
    ///
    /// # Errors
    ///
    /// If a line is no measurement, apart from a last one that is cut off.
    pub fn measurements(&self) -> Result<Vec<Measurement>> {
        let path = self.path.join(MEASUREMENTS_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let whole = text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        text[..whole]
            .split(|byte| *byte == b'\n')
            .zip(1..)
            .filter(|(line, _)| !line.trim_ascii().is_empty())
            .map(|(line, number)| {
                serde_json::from_slice(line)
                    .with_context(|| format!("{}, line {number}", path.display()))
            })
            .collect()
    }

    /// The samples of a server on a chain; none if it has no such file. Lines that are no samples are left out.
    ///
    /// # Errors
    ///
    /// If the file is there and cannot be read.
    pub fn samples(&self, chain: &str, server: &str) -> Result<Vec<Sample>> {
        let path = self.samples_file(chain, server);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.lines().filter_map(Sample::read).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement() -> Measurement {
        Measurement {
            suite: "ranges-1".into(),
            chain: "testnet".into(),
            server: "lightship".into(),
            case: "1,000 blocks, 1 client".into(),
            round: 1,
            metric: "throughput".into(),
            unit: "blocks/s".into(),
            value: Some(12.5),
            count: 1_000,
            digest: Some("ab".into()),
            ..Measurement::default()
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let made = RunFolder::create(folder.path()).unwrap();
        let run = Run {
            name: "smoke".into(),
            seed: 7,
            ..Run::default()
        };
        made.write_run(&run).unwrap();
        let failed = Measurement {
            value: None,
            error: Some("a short answer".into()),
            ..measurement()
        };
        made.append(&[measurement()]).unwrap();
        made.append(std::slice::from_ref(&failed)).unwrap();
        let read = RunFolder::open(folder.path());
        assert_eq!(read.run().unwrap(), run);
        assert_eq!(read.measurements().unwrap(), [measurement(), failed]);
    }

    #[test]
    fn a_folder_with_a_run_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let made = RunFolder::create(folder.path()).unwrap();
        made.write_run(&Run::default()).unwrap();
        let said = RunFolder::create(folder.path()).unwrap_err().to_string();
        assert!(said.contains("holds a run already"), "{said}");
    }

    #[test]
    fn a_last_line_that_is_cut_off_is_left_out_and_a_bad_one_before_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let made = RunFolder::create(folder.path()).unwrap();
        assert_eq!(made.measurements().unwrap(), []);
        made.append(&[measurement()]).unwrap();
        let path = folder.path().join(MEASUREMENTS_FILE);
        let whole = fs::read(&path).unwrap();
        let cut = [&whole[..], &whole[..20]].concat();
        fs::write(&path, cut).unwrap();
        assert_eq!(made.measurements().unwrap(), [measurement()]);
        fs::write(&path, [b"nonsense\n", &whole[..]].concat()).unwrap();
        let said = format!("{:#}", made.measurements().unwrap_err());
        assert!(said.contains("line 1"), "{said}");
    }

    #[test]
    fn a_sample_survives_its_line_and_a_cut_one_is_none() {
        let sample = Sample {
            seconds: 1.5,
            suite: "build-1".into(),
            cpu_user: 0.25,
            rss_anon: 4096,
            descriptors: 9,
            ..Sample::default()
        };
        assert_eq!(Sample::read(&sample.line()), Some(sample.clone()));
        assert_eq!(Sample::read(Sample::HEAD), None);
        assert_eq!(Sample::read("1.5,build-1,0.2"), None);
        assert_eq!(
            Sample::HEAD.split(',').count(),
            sample.line().split(',').count()
        );
    }
}
