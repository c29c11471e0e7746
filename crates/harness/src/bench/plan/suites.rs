//! What a plan says of each suite.
//!
//! In: the `[suites]` table. Out: one struct a suite, with the numbers that it runs by. A suite that is left out does not run.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Deserializer, de::Error};

/// The suites of a plan; those that are left out do not run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are the suites' own names")]
pub struct Suites {
    pub build: Option<BuildPlan>,
    pub restart: Option<RestartPlan>,
    pub idle: Option<IdlePlan>,
    pub latency: Option<LatencyPlan>,
    pub ranges: Option<RangesPlan>,
    pub concurrency: Option<ConcurrencyPlan>,
    pub download: Option<DownloadPlan>,
    pub rpc: Option<RpcPlan>,
    pub tls: Option<TlsPlan>,
    pub tip: Option<TipPlan>,
    pub reorg: Option<ReorgPlan>,
    pub mempool: Option<MempoolPlan>,
}

/// From an empty store to the whole chain.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildPlan {
    /// Rounds that begin with an empty store, unless a chain says otherwise; later ones begin with a copy of what the last of these left.
    pub rounds: u32,
    /// How long it may take.
    #[serde(deserialize_with = "duration")]
    pub patience: Duration,
}

/// From a stop to serving again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartPlan {
    /// How long it may take.
    #[serde(deserialize_with = "duration")]
    pub patience: Duration,
}

/// Nobody asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdlePlan {
    /// How long nobody asks.
    #[serde(deserialize_with = "duration")]
    pub time: Duration,
}

/// One call after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyPlan {
    /// Calls of each method.
    pub requests: u32,
    /// No further call of a method after this.
    #[serde(deserialize_with = "duration")]
    pub time: Duration,
    /// Methods that are asked once more at the very end, when the node has been killed.
    #[serde(default)]
    pub node_off: Vec<String>,
}

/// Ranges of many sizes, one client.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangesPlan {
    /// Blocks a range.
    pub sizes: Vec<u32>,
    /// How long each size is asked for.
    #[serde(deserialize_with = "duration")]
    pub time: Duration,
}

/// Many clients at a time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConcurrencyPlan {
    /// How many.
    pub clients: Vec<u32>,
    /// Blocks a range.
    pub sizes: Vec<u32>,
    /// How long each case takes.
    #[serde(deserialize_with = "duration")]
    pub time: Duration,
}

/// All blocks, as a new wallet wants them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DownloadPlan {
    /// Blocks a range.
    pub span: u32,
    /// How long it may take.
    #[serde(deserialize_with = "duration")]
    pub patience: Duration,
}

/// Every unary method by many workers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RpcPlan {
    /// How many.
    pub workers: Vec<u32>,
    /// How long each case takes.
    #[serde(deserialize_with = "duration")]
    pub time: Duration,
    /// Only these methods; all if left out.
    pub methods: Option<Vec<String>>,
    /// Methods that are asked once more at the very end, when the node has been killed.
    #[serde(default)]
    pub node_off: Vec<String>,
    /// A second opinion.
    pub ghz: Option<GhzPlan>,
}

/// The same cases once more by `ghz`, where it is installed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GhzPlan {
    /// The program: a path, or a name to be found in `PATH`.
    #[serde(default = "ghz")]
    pub program: String,
    /// Of which methods.
    pub methods: Vec<String>,
    /// With how many workers, of those that the suite has.
    pub workers: Vec<u32>,
    /// How long each case takes.
    #[serde(deserialize_with = "duration")]
    pub time: Duration,
}

fn ghz() -> String {
    "ghz".to_owned()
}

/// The same over TLS.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsPlan {
    /// Blocks a range.
    pub sizes: Vec<u32>,
    /// How long each case takes.
    #[serde(deserialize_with = "duration")]
    pub time: Duration,
}

/// New blocks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TipPlan {
    /// How long a server may take to a new block.
    #[serde(deserialize_with = "duration")]
    pub patience: Duration,
    /// Each with blocks so often, and so many.
    pub paces: Vec<Pace>,
}

/// A stretch of new blocks.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// From one block to the next.
    #[serde(deserialize_with = "duration")]
    pub every: Duration,
    /// How many.
    pub blocks: u32,
}

/// Branches that are replaced.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorgPlan {
    /// Blocks that are replaced, a reorg each.
    pub depths: Vec<u32>,
    /// How long a server may take to the new branch.
    #[serde(deserialize_with = "duration")]
    pub patience: Duration,
}

/// Transactions that wait.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MempoolPlan {
    /// Streams that are open at a time, a case each.
    pub subscribers: Vec<u32>,
    /// Transactions that come.
    pub transactions: u32,
    /// How long each may take to all streams.
    #[serde(deserialize_with = "duration")]
    pub patience: Duration,
}

impl Suites {
    /// Whether a suite, by its name without a version, is to run.
    pub fn holds(&self, suite: &str) -> bool {
        match suite {
            "build" => self.build.is_some(),
            "restart" => self.restart.is_some(),
            "idle" => self.idle.is_some(),
            "latency" => self.latency.is_some(),
            "ranges" => self.ranges.is_some(),
            "concurrency" => self.concurrency.is_some(),
            "download" => self.download.is_some(),
            "rpc" => self.rpc.is_some(),
            "tls" => self.tls.is_some(),
            "tip" => self.tip.is_some(),
            "reorg" => self.reorg.is_some(),
            "mempool" => self.mempool.is_some(),
            _ => false,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let mut counts: Vec<(&str, &[u32])> = Vec::new();
        if let Some(plan) = &self.ranges {
            counts.push(("suites.ranges.sizes", &plan.sizes));
        }
        if let Some(plan) = &self.concurrency {
            counts.push(("suites.concurrency.sizes", &plan.sizes));
            counts.push(("suites.concurrency.clients", &plan.clients));
        }
        if let Some(plan) = &self.rpc {
            counts.push(("suites.rpc.workers", &plan.workers));
        }
        if let Some(plan) = &self.tls {
            counts.push(("suites.tls.sizes", &plan.sizes));
        }
        if let Some(plan) = &self.mempool {
            counts.push(("suites.mempool.subscribers", &plan.subscribers));
        }
        for (name, counts) in counts {
            ensure!(
                counts.iter().all(|count| (1..=1_000_000).contains(count)),
                "{name}: numbers from 1 to 1,000,000"
            );
        }
        if let Some(plan) = &self.download {
            ensure!(plan.span > 0, "suites.download.span: at least 1");
        }
        Ok(())
    }
}

/// Durations are written `500ms`, `25s`, `10m`.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    crate::stub::command::duration(&text).map_err(D::Error::custom)
}
