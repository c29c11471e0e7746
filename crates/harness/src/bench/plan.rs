//! What a run is to do: the plan file.
//!
//! In: TOML. Out: a [`Plan`] that holds together, with every name that is used defined. A key that is not known is a mistake, not
//! a remark: it is refused with the place where it stands.
//!
//! Words in braces within a server's arguments, config and rules are replaced when it starts; [`PLACEHOLDERS`] lists them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Deserializer, de::Error};

use crate::{
    bench::record::ServerKind,
    forge::{file::Trees, profile::Profile},
};

mod suites;

pub use suites::{
    BuildPlan, ConcurrencyPlan, DownloadPlan, GhzPlan, IdlePlan, LatencyPlan, MempoolPlan, Pace,
    RangesPlan, ReorgPlan, RestartPlan, RpcPlan, Suites, TipPlan, TlsPlan,
};

/// Words that are replaced: what they stand for is documented in `bench/README.md`.
pub const PLACEHOLDERS: [&str; 13] = [
    "node_url",
    "node_host",
    "node_port",
    "cookie_file",
    "grpc",
    "grpc_port",
    "http",
    "data",
    "config",
    "certificate",
    "key",
    "next",
    "tip",
];

/// A plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Names the run.
    pub name: String,
    /// Decides every request.
    pub seed: u64,
    /// Times that each server is measured.
    pub rounds: u32,
    /// Hold the servers to some cores and the load to others; wants 4 cores.
    #[serde(default)]
    pub pin: bool,
    /// What they stand on.
    pub chains: Vec<ChainPlan>,
    /// What is measured.
    pub servers: Vec<ServerPlan>,
    /// What is measured of them.
    pub suites: Suites,
}

/// A chain: exactly one of `forge`, `file` and `regtest`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainPlan {
    /// Its name.
    pub name: String,
    /// Made by the forge.
    pub forge: Option<ForgePlan>,
    /// A chain file that is there.
    pub file: Option<PathBuf>,
    /// A real node in regtest with the recorded chain.
    #[serde(default)]
    pub regtest: bool,
    /// So many blocks at the top come only while the bench runs, for the suites that follow the tip.
    #[serde(default)]
    pub spare_blocks: u32,
    /// Only these servers stand on it; all if left out.
    pub servers: Option<Vec<String>>,
    /// Only these suites; all of the plan if left out.
    pub suites: Option<Vec<String>>,
    /// Only so many clients at a time in the suite `concurrency`; all of the plan if left out.
    pub most_clients: Option<u32>,
    /// Times that each server is measured on it; the plan's if left out.
    pub rounds: Option<u32>,
    /// Rounds that begin with an empty store on it; the build suite's if left out.
    pub builds: Option<u32>,
}

/// What the forge is told.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForgePlan {
    /// Which chain it imitates.
    #[serde(deserialize_with = "parsed")]
    pub profile: Profile,
    /// Blocks, genesis included.
    pub blocks: u32,
    /// Its seed.
    pub seed: u64,
    /// How note commitment trees are hashed: `stand-in`, or `consensus`, in a build with the feature `curves`. A server that hashes them
    /// itself finds that a stand-in is none, and asks the node.
    #[serde(default = "stand_in")]
    pub trees: Trees,
}

fn stand_in() -> Trees {
    Trees::StandIn
}

/// What stands behind a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A program that stands beside the node.
    #[default]
    Program,
    /// The light wallet service of the regtest node itself.
    Node,
    /// Limit: writes the same bytes to a socket, without a protocol.
    RawSender,
    /// Limit: a tonic handler that answers from a table.
    EmptyHandler,
}

impl Kind {
    /// How it counts in the results.
    pub fn counts_as(self) -> ServerKind {
        match self {
            Kind::Program | Kind::Node => ServerKind::Server,
            Kind::RawSender | Kind::EmptyHandler => ServerKind::Limit,
        }
    }
}

/// A server and how it is started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPlan {
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub kind: Kind,
    /// The program: a path, or a name to be found in `PATH`. `$NAME` at its beginning is a variable of the environment.
    #[serde(default)]
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// More of them when it is to speak TLS, in place of `plain_arguments`; without them it cannot.
    pub tls_arguments: Option<Vec<String>>,
    /// More of them when it is not to.
    #[serde(default)]
    pub plain_arguments: Vec<String>,
    /// Text of the file at `{config}`.
    pub config: Option<String>,
    /// Text at the end of that file when it is to speak TLS, with or in place of `tls_arguments`.
    pub tls_config: Option<String>,
    /// How to tell that its index holds the whole chain.
    #[serde(default)]
    pub ready: Ready,
    /// How to tell that it has done what it goes on with in the background after that, before anything but the build is measured.
    pub settled: Option<Ready>,
    /// The folder whose size is the index', `{data}` unless told.
    pub index: Option<String>,
    /// Parts of that folder that are counted apart: a name each, with the files by their paths in it. `*` stands for any letters but `/`.
    #[serde(default)]
    pub parts: BTreeMap<String, Vec<String>>,
    /// The program's file holds its version after this text (Go writes the modules of a program into it).
    pub version_after: Option<String>,
    /// Arguments that make the program say its version; `GetLightdInfo` is asked without.
    pub version_arguments: Option<Vec<String>>,
    /// Change a byte of its answers on the way, in every suite: proves that the suites notice.
    #[serde(default)]
    pub falsify: bool,
}

/// When an index holds the whole chain. All that is given must hold, and `GetLatestBlock` must name the tip.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Its output holds this, in the file `{data}`-based `log_file` or in what it prints.
    pub log: Option<String>,
    /// A file that it logs into, instead of printing.
    pub log_file: Option<String>,
    /// This address answers 200 to a GET.
    pub http: Option<String>,
    /// And with a page that has this line.
    pub http_line: Option<String>,
}

/// The suites' names with their versions, in the order in which they run.
pub const SUITES: [&str; 12] = [
    "build-1",
    "restart-1",
    "idle-1",
    "latency-1",
    "ranges-2",
    "concurrency-2",
    "download-1",
    "rpc-1",
    "tls-1",
    "tip-2",
    "reorg-2",
    "mempool-1",
];

/// A suite's name without its version.
pub fn plain_name(suite: &str) -> &str {
    match suite.rsplit_once('-') {
        Some((name, version)) if version.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => suite,
    }
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    ///
    /// When it is no TOML, has unknown keys, lacks known ones, or does not hold together.
    pub fn read(text: &str) -> Result<Plan> {
        let plan: Plan = toml::from_str(text).map_err(|error| anyhow::anyhow!("{error}"))?;
        plan.check()?;
        Ok(plan)
    }

    /// Whether a chain of a real `zebrad` has servers to measure.
    pub fn wants_zebrad(&self) -> bool {
        self.chains
            .iter()
            .any(|chain| chain.regtest && self.servers.iter().any(|server| chain.carries(server)))
    }

    /// Leaves of the suites and servers only those that are named; an empty list names all.
    ///
    /// # Errors
    ///
    /// When a name is not in the plan.
    pub fn restrict(&mut self, suites: &[String], servers: &[String]) -> Result<()> {
        for name in suites {
            ensure!(
                SUITES.iter().any(|suite| plain_name(suite) == name),
                "--only {name}: there is no such suite"
            );
        }
        for name in servers {
            ensure!(
                self.servers.iter().any(|server| server.name == *name),
                "--servers {name}: the plan has no such server"
            );
        }
        if !servers.is_empty() {
            self.servers.retain(|server| servers.contains(&server.name));
        }
        for chain in &mut self.chains {
            if !suites.is_empty() {
                let before = chain.suites.take();
                let kept = |suite: &&String| before.as_ref().is_none_or(|all| all.contains(suite));
                chain.suites = Some(suites.iter().filter(kept).cloned().collect());
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        ensure!(self.rounds > 0, "rounds: at least 1");
        ensure!(!self.chains.is_empty(), "a plan has a chain");
        ensure!(!self.servers.is_empty(), "a plan has a server");
        let mut names = BTreeSet::new();
        let chains = self.chains.iter().map(|chain| &chain.name);
        for name in self.servers.iter().map(|server| &server.name).chain(chains) {
            let fits =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            ensure!(
                !name.is_empty() && name.bytes().all(fits) && !name.starts_with('.'),
                "the name '{name}': letters, digits, dots and dashes only, for files are named after it"
            );
            ensure!(names.insert(name), "the name '{name}' is there twice");
        }
        for chain in &self.chains {
            chain
                .check(self)
                .with_context(|| format!("chain '{}'", chain.name))?;
        }
        for server in &self.servers {
            server
                .check()
                .with_context(|| format!("server '{}'", server.name))?;
        }
        self.suites.check()
    }
}

impl ChainPlan {
    fn check(&self, plan: &Plan) -> Result<()> {
        let given = [self.forge.is_some(), self.file.is_some(), self.regtest];
        ensure!(
            given.iter().filter(|given| **given).count() == 1,
            "one of forge, file and regtest"
        );
        if let Some(forge) = &self.forge {
            ensure!(
                forge.blocks > self.spare_blocks.saturating_add(100),
                "forge.blocks: at least 100 more than spare_blocks"
            );
        }
        ensure!(
            !self.regtest || self.spare_blocks == 0,
            "spare_blocks: a regtest node has none"
        );
        for name in self.servers.iter().flatten() {
            ensure!(
                plan.servers.iter().any(|server| server.name == *name),
                "servers: the plan has no '{name}'"
            );
        }
        for name in self.suites.iter().flatten() {
            ensure!(
                SUITES.iter().any(|suite| plain_name(suite) == name),
                "suites: there is no '{name}'"
            );
        }
        Ok(())
    }

    /// Whether a suite, by its name with version, is run on it.
    pub fn runs(&self, suite: &str) -> bool {
        self.suites
            .as_ref()
            .is_none_or(|suites| suites.iter().any(|name| name == plain_name(suite)))
    }

    /// Whether a server stands on it. A node's own service stands on its node only.
    pub fn carries(&self, server: &ServerPlan) -> bool {
        (server.kind != Kind::Node || self.regtest)
            && self
                .servers
                .as_ref()
                .is_none_or(|servers| servers.contains(&server.name))
    }
}

impl ServerPlan {
    fn check(&self) -> Result<()> {
        ensure!(
            (self.kind == Kind::Program) != self.program.is_empty(),
            "program: given for kind program, and for it alone"
        );
        let texts = self
            .arguments
            .iter()
            .chain(&self.plain_arguments)
            .chain(self.tls_arguments.iter().flatten())
            .chain(&self.config)
            .chain(&self.tls_config)
            .chain(&self.index)
            .chain(self.ready.texts())
            .chain(self.settled.iter().flat_map(Ready::texts));
        for text in texts {
            fill(text, |_| Some(String::new()))?;
        }
        ensure!(
            self.tls_config.is_none() || self.config.is_some(),
            "tls_config: it is the end of config, and there is none"
        );
        for rule in [Some(&self.ready), self.settled.as_ref()] {
            ensure!(
                rule.is_none_or(|rule| rule.http_line.is_none() || rule.http.is_some()),
                "http_line: of which page? http names it"
            );
        }
        ensure!(
            self.parts
                .iter()
                .all(|(name, files)| !name.is_empty() && !files.is_empty()),
            "parts: a name and at least one pattern each"
        );
        Ok(())
    }

    /// Whether the plan knows how it is told to speak TLS.
    pub fn speaks_tls(&self) -> bool {
        self.tls_arguments.is_some() || self.tls_config.is_some()
    }
}

impl Ready {
    /// Its texts with words in braces.
    fn texts(&self) -> impl Iterator<Item = &String> {
        let all = [&self.log, &self.log_file, &self.http, &self.http_line];
        all.into_iter().flatten()
    }
}

/// `text` with each `{word}` replaced. Braces around anything that is no placeholder's spelling stay (a config file may be JSON).
///
/// # Errors
///
/// When `value` has none for a word, or the word is no placeholder.
pub fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> Result<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let word = after.split_once('}').filter(|(word, _)| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        });
        match word {
            None => {
                filled.push('{');
                rest = after;
            }
            Some((word, after)) => {
                if !PLACEHOLDERS.contains(&word) {
                    bail!("{{{word}}}: the placeholders are {PLACEHOLDERS:?}");
                }
                let value =
                    value(word).with_context(|| format!("{{{word}}}: there is none here"))?;
                filled.push_str(&value);
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

fn parsed<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests;
