//! Workload `index-1`: how close a build of the index over JSON-RPC comes to just having the blocks.
//!
//! Two sides in turns on the same node: `lightship index` into an empty folder, from the start of the process to its end (opening, reading,
//! parsing, writing, syncing); and a bare fetcher that asks for the same blocks over as many connections and decodes the hex, nothing else. The
//! node's caches are warm for both: one pass of the fetcher goes before.

use std::{
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
/// Of one build. Far above any that is worth repeating.
const BUILD_PATIENCE: Duration = Duration::from_secs(6 * 3_600);

/// `lightship-harness bench-build`: Measures building the index from a node against fetching the same blocks (workload index-1).
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
    /// Connections of the bare fetcher, and build threads of lightship
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
        match &self.node {
            Some(url) => self.measure(url, url),
            None => {
                let node = recorded::lengthened_node(self.blocks)?;
                self.measure(&node.rpc_url(), "a zebrad started for this")
            }
        }
    }

    fn measure(&self, url: &str, whose: &str) -> Result<String> {
        let mut record = Run {
            started: machine::now(),
            machine: Machine::look(),
            ..Run::default()
        };
        let tip = JsonRpc::new(url, TIMEOUT).call("getblockcount", serde_json::json!([]))?;
        let tip = u32::try_from(tip.as_u64().context("a height")?)?;
        let (blocks, bytes) = fetch(url, tip, self.connections)?;
        let (mut bare, mut built) = (Samples::default(), Samples::default());
        for _ in 0..self.repeats {
            let start = Instant::now();
            ensure!(
                fetch(url, tip, self.connections)? == (blocks, bytes),
                "the chain moved"
            );
            bare.add(blocks, start.elapsed());
            let start = Instant::now();
            self.build(url)?;
            built.add(blocks, start.elapsed());
        }
        if let Some(out) = &self.out {
            record.finished = machine::now();
            record.machine.load_after = machine::load();
            self.record(out, record, (blocks, bytes), [&built, &bare])?;
        }
        Ok(format!(
            "index-1: {blocks} blocks, {bytes} raw bytes, from {whose}; {} connections\n\
             fetched and hex-decoded: blocks {bare}\n\
             lightship index: blocks {built}\n\
             ratio of the medians {:.2}",
            self.connections,
            built.median() / bare.median(),
        ))
    }

    /// Leaves what `report` reads: ours as a server, the bare fetcher as its limit.
    fn record(
        &self,
        out: &Path,
        record: Run,
        (blocks, bytes): (u64, u64),
        samples: [&Samples; 2],
    ) -> Result<()> {
        let folder = RunFolder::create(out)?;
        let names = ["lightship", "bare-fetcher"];
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
                name: "node".to_owned(),
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
                    suite: "index-1".to_owned(),
                    chain: "node".to_owned(),
                    server: name.to_owned(),
                    case: format!("all blocks, {} connections", self.connections),
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

    fn build(&self, url: &str) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(&self.lightship);
        command
            .args(["index", "--node", url, "--data-dir"])
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
