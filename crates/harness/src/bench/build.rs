//! Workloads `index-1` and `state-1`: how close a build of the index comes to just having the blocks.
//!
//! Two sides in turns on the same blocks: `lightship index` into an empty folder, from the start of the process to its end (opening, reading,
//! parsing, writing, syncing); and a bare side that has the same blocks with as many threads, nothing else. Over JSON-RPC (`index-1`) that is a fetcher
//! that asks for them and decodes the hex. From a Zebra node's state (`state-1`) it is a program that scans the same tables, RocksDB being none of this
//! crate's: the example `state_scan` of lightship-source, whose own word for its time is taken, from the opened database on. Caches are
//! warm for both: one pass of the bare side goes before.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;

use super::{
    Samples, machine,
    record::{ChainInfo, Machine, Measurement, Run, RunFolder, ServerInfo, ServerKind},
};
use crate::{json_rpc::JsonRpc, process::output_of, recorded};

/// Blocks in one batch of the bare fetcher: beyond this Zebra gains little.
const BATCH: u32 = 128;
const TIMEOUT: Duration = Duration::from_secs(120);
/// Of one build or scan. Far above any that is worth repeating.
const BUILD_PATIENCE: Duration = Duration::from_secs(6 * 3_600);

/// `lightship-harness bench-build`: Measures building the index against fetching the same blocks from a node (workload index-1) or scanning a state (state-1).
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The program `lightship`
    #[arg(long, value_name = "PROGRAM")]
    pub lightship: PathBuf,
    /// The node's JSON-RPC, without credentials; a regtest zebrad is started for the purpose when left out
    #[arg(long, value_name = "URL")]
    pub node: Option<String>,
    /// Transparent blocks mined on top of the recorded chain, if the node is started for the purpose
    #[arg(
        long,
        value_name = "N",
        default_value = "20000",
        conflicts_with = "node"
    )]
    pub blocks: u32,
    /// A Zebra database's own folder (.../state/v29/mainnet) to build from, in place of a node
    #[arg(long, value_name = "DIR", conflicts_with_all = ["node", "blocks"], requires = "scanner")]
    pub zebra_state: Option<PathBuf>,
    /// The program that scans such a database: the example state_scan of lightship-source
    #[arg(long, value_name = "PROGRAM", requires = "zebra_state")]
    pub scanner: Option<PathBuf>,
    /// Connections or threads of the bare side, and build threads of lightship
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub connections: u32,
    /// Times that each side is measured
    #[arg(long, value_name = "N", default_value = "5")]
    pub repeats: u32,
    /// A folder for the figures, as `report` and `targets` read them; must not hold a run yet
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl Arguments {
    /// Measures and tells.
    ///
    /// # Errors
    ///
    /// When the node or the program fail.
    pub fn run(&self) -> Result<String> {
        match (&self.node, &self.zebra_state, &self.scanner) {
            (_, Some(database), Some(scanner)) => self.measure(&State { database, scanner }),
            (Some(url), ..) => self.measure(&Node::new(url.clone(), url.clone())?),
            _ => {
                let node = recorded::lengthened_node(self.blocks)?;
                let whose = "a zebrad started for this".to_owned();
                self.measure(&Node::new(node.rpc_url(), whose)?)
            }
        }
    }

    fn measure(&self, origin: &dyn Origin) -> Result<String> {
        let mut record = Run {
            started: machine::now(),
            machine: Machine::look(),
            ..Run::default()
        };
        let first = origin.bare(self.connections)?;
        let (blocks, bytes) = (first.blocks, first.bytes);
        let (mut bare, mut built) = (Samples::default(), Samples::default());
        for _ in 0..self.repeats {
            let had = origin.bare(self.connections)?;
            ensure!(
                (had.blocks, had.bytes) == (blocks, bytes),
                "the chain moved"
            );
            bare.add(blocks, had.time);
            let start = Instant::now();
            self.build(origin)?;
            built.add(blocks, start.elapsed());
        }
        let words = origin.words();
        if let Some(out) = &self.out {
            record.finished = machine::now();
            record.machine.load_after = machine::load();
            self.record(out, record, &words, (blocks, bytes), [&built, &bare])?;
        }
        Ok(format!(
            "{}: {blocks} blocks, {bytes} raw bytes, from {}; {} {}\n\
             {}: blocks {bare}\n\
             lightship index: blocks {built}\n\
             ratio of the medians {:.2}",
            words.suite,
            words.whose,
            self.connections,
            words.threads,
            words.bare,
            built.median() / bare.median(),
        ))
    }

    /// Leaves what `report` reads: ours as a server, the bare fetcher as its limit.
    fn record(
        &self,
        out: &Path,
        record: Run,
        words: &Words,
        (blocks, bytes): (u64, u64),
        samples: [&Samples; 2],
    ) -> Result<()> {
        let folder = RunFolder::create(out)?;
        let names = ["lightship", words.limit];
        let kinds = [ServerKind::Server, ServerKind::Limit];
        let servers = names.into_iter().zip(kinds).map(|(name, kind)| ServerInfo {
            name: name.to_owned(),
            kind,
            version: "of this checkout".to_owned(),
            ..ServerInfo::default()
        });
        folder.write_run(&Run {
            name: "bench-build".to_owned(),
            command: vec!["lightship-harness".to_owned(), "bench-build".to_owned()],
            servers: servers.collect(),
            chains: vec![ChainInfo {
                name: words.chain.to_owned(),
                blocks,
                bytes,
                ..ChainInfo::default()
            }],
            ..record
        })?;
        let mut lines = Vec::new();
        for (name, samples) in names.into_iter().zip(samples) {
            for (rate, round) in samples.rates().iter().zip(1..) {
                lines.push(Measurement {
                    suite: words.suite.to_owned(),
                    chain: words.chain.to_owned(),
                    server: name.to_owned(),
                    case: format!("all blocks, {} {}", self.connections, words.threads),
                    round,
                    metric: "throughput".to_owned(),
                    unit: "blocks/s".to_owned(),
                    value: Some(*rate),
                    count: blocks,
                    ..Measurement::default()
                });
            }
        }
        folder.append(&lines)
    }

    fn build(&self, origin: &dyn Origin) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(&self.lightship);
        command
            .arg("index")
            .args(origin.flags())
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(["--build-threads", &self.connections.to_string()]);
        let output = output_of(&mut command, BUILD_PATIENCE)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "lightship index: {}\n{said}",
            output.status
        );
        ensure!(bytes_below(folder.path())? > 0, "it left nothing");
        Ok(())
    }
}

/// Where the blocks come from.
trait Origin {
    /// Has all blocks, with so many threads, and does nothing with them.
    fn bare(&self, threads: u32) -> Result<Had>;
    /// What tells `lightship index` of it.
    fn flags(&self) -> [&OsStr; 2];
    fn words(&self) -> Words;
}

/// What the bare side had, in its own time.
struct Had {
    blocks: u64,
    bytes: u64,
    time: Duration,
}

/// How it is called, in records and to people.
struct Words {
    suite: &'static str,
    chain: &'static str,
    limit: &'static str,
    threads: &'static str,
    bare: &'static str,
    whose: String,
}

struct Node {
    url: String,
    whose: String,
    tip: u32,
}

impl Node {
    fn new(url: String, whose: String) -> Result<Node> {
        let tip = JsonRpc::new(&url, TIMEOUT).call("getblockcount", serde_json::json!([]))?;
        let tip = u32::try_from(tip.as_u64().context("a height")?)?;
        Ok(Node { url, whose, tip })
    }
}

impl Origin for Node {
    fn bare(&self, threads: u32) -> Result<Had> {
        let start = Instant::now();
        let (blocks, bytes) = fetch(&self.url, self.tip, threads)?;
        let time = start.elapsed();
        Ok(Had {
            blocks,
            bytes,
            time,
        })
    }

    fn flags(&self) -> [&OsStr; 2] {
        ["--node".as_ref(), self.url.as_ref()]
    }

    fn words(&self) -> Words {
        Words {
            suite: "index-1",
            chain: "node",
            limit: "bare-fetcher",
            threads: "connections",
            bare: "fetched and hex-decoded",
            whose: self.whose.clone(),
        }
    }
}

struct State<'a> {
    database: &'a Path,
    scanner: &'a Path,
}

impl Origin for State<'_> {
    fn bare(&self, threads: u32) -> Result<Had> {
        let mut command = Command::new(self.scanner);
        command
            .arg("once")
            .arg(self.database)
            .arg(threads.to_string());
        let output = output_of(&mut command, BUILD_PATIENCE)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "{}: {}\n{said}",
            self.scanner.display(),
            output.status
        );
        let scanned = serde_json::from_slice(&output.stdout).ok();
        let had = scanned.and_then(|said: Scanned| {
            Some(Had {
                blocks: said.blocks,
                bytes: said.bytes,
                time: Duration::try_from_secs_f64(said.seconds).ok()?,
            })
        });
        had.with_context(|| {
            format!(
                "{} says nothing of blocks, bytes and seconds: is it state_scan?",
                self.scanner.display()
            )
        })
    }

    fn flags(&self) -> [&OsStr; 2] {
        ["--zebra-state".as_ref(), self.database.as_os_str()]
    }

    fn words(&self) -> Words {
        Words {
            suite: "state-1",
            chain: "state",
            limit: "bare-scan",
            threads: "threads",
            bare: "tables scanned",
            whose: self.database.display().to_string(),
        }
    }
}

/// What the scanner prints.
#[derive(Deserialize)]
struct Scanned {
    blocks: u64,
    bytes: u64,
    seconds: f64,
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_below(&entry.path())?,
            false => entry.metadata()?.len(),
        };
    }
    Ok(bytes)
}

/// Asks for the blocks from genesis to `tip` and decodes them. Returns how many, and their bytes.
fn fetch(url: &str, tip: u32, connections: u32) -> Result<(u64, u64)> {
    let next = AtomicU32::new(0);
    let parts = thread::scope(|scope| {
        let workers: Vec<_> = (0..connections)
            .map(|_| scope.spawn(|| fetch_some(url, tip, &next)))
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow!("a fetcher panicked"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    let sums = parts
        .into_iter()
        .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    ensure!(
        sums.0 == u64::from(tip) + 1,
        "{} blocks of {tip} and genesis",
        sums.0
    );
    Ok(sums)
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: &'a str,
}

fn fetch_some(url: &str, tip: u32, next: &AtomicU32) -> Result<(u64, u64)> {
    let client = JsonRpc::new(url, TIMEOUT);
    let (mut blocks, mut bytes, mut decoded) = (0, 0, Vec::new());
    loop {
        let from = next.fetch_add(BATCH, Ordering::Relaxed);
        if from > tip {
            return Ok((blocks, bytes));
        }
        let to = tip.min(from + BATCH - 1);
        let calls: Vec<String> = (from..=to)
            .map(|height| {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{height},"method":"getblock","params":["{height}",0]}}"#
                )
            })
            .collect();
        let text = client.post(&format!("[{}]", calls.join(",")))?;
        for answer in serde_json::from_str::<Vec<Answer<'_>>>(&text)? {
            decoded.resize(answer.result.len() / 2, 0);
            const_hex::decode_to_slice(answer.result, &mut decoded)?;
            blocks += 1;
            bytes += decoded.len() as u64;
        }
    }
}
