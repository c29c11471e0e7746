//! A whole run: chains, rounds, servers, suites, one after the other.
//!
//! In: a plan and an empty folder. Out: the folder filled ([`super::record`]). One server runs at a time, each time beside a node started for it at
//! the same tip. Its store is empty in the first rounds, as many as the plan says, and after that a copy of what the build left; so is the
//! chain that it sees. Servers take turns within a round, and the order is turned by one each round, for a machine's speed drifts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, anyhow};

use super::{
    figures::Recorder,
    ghz::Ghz,
    ground::{Ground, GroundNode},
    machine::{self, Cores, hold_to},
    plan::{ChainPlan, Kind, Plan, SUITES, ServerPlan, plain_name},
    record::{Machine, Run, RunFolder, ServerInfo, ServerKind},
    server::{Server, Setting},
    suites::{self, Stage},
    tls::Authority,
};

/// Begins the name of the folder of chains and stores, which goes with the end of the run.
pub(super) const WORK_PREFIX: &str = "work-";

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines with a reason instead of a figure.
    pub failures: u32,
}

/// The suites that a limit takes part in.
fn limits_part(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::RawSender => &["ranges-2", "concurrency-2", "download-1"],
        Kind::EmptyHandler => &[
            "latency-1",
            "ranges-2",
            "concurrency-2",
            "download-1",
            "rpc-1",
        ],
        Kind::Program | Kind::Node => &SUITES,
    }
}

/// Runs `plan`, whose text is `text`, into `folder`. `harness` is the program `lightship-harness`; `chains` a folder in which forged chains are kept, or taken from.
///
/// # Errors
///
/// When a chain cannot be made or the record not be written. What a server does wrong is a line in the record, not an error.
pub fn run(
    plan: &Plan,
    text: &str,
    folder: &RunFolder,
    harness: &Path,
    chains: Option<&Path>,
) -> Result<Summary> {
    let cores = match plan.pin {
        true => Some(Cores::split()?),
        false => None,
    };
    if let Some(cores) = &cores {
        hold_to(&cores.load)?;
    }
    let mut record = Run {
        name: plan.name.clone(),
        started: machine::now(),
        plan: text.to_owned(),
        command: std::env::args()
            .enumerate()
            .map(|(at, word)| if at == 0 { file_name(&word) } else { word })
            .collect(),
        seed: plan.seed,
        machine: Machine::look(),
        ..Run::default()
    };
    folder.write_run(&record)?;
    // Beside the record, so that it lies on the disk that was chosen for the run, and goes with the end of the run.
    let work = tempfile::Builder::new()
        .prefix(WORK_PREFIX)
        .tempdir_in(folder.path())?;
    let authority = Authority::make(work.path())?;
    let ghz = second_opinion(plan, work.path(), &mut record)?;
    let chains = chains.unwrap_or(work.path());
    let mut summary = Summary::default();
    for chain in &plan.chains {
        if !plan.servers.iter().any(|server| chain.carries(server)) {
            continue;
        }
        eprintln!("chain {}: preparing", chain.name);
        let log = folder.log("node");
        let ground = Ground::prepare(chain, harness, (work.path(), chains), plan.seed, &log)
            .with_context(|| format!("chain '{}'", chain.name))?;
        record.chains.push(ground.info.clone());
        folder.write_run(&record)?;
        let servers: Vec<&ServerPlan> = plan
            .servers
            .iter()
            .filter(|server| chain.carries(server))
            .collect();
        // Whoever did not come up in one round is not waited for again.
        let mut given_up = BTreeSet::new();
        for round in 1..=chain.rounds.unwrap_or(plan.rounds) {
            for turn in 0..servers.len() {
                let server = servers[(turn + round as usize - 1) % servers.len()];
                let suites: Vec<&'static str> = SUITES
                    .into_iter()
                    .filter(|suite| {
                        plan.suites.holds(plain_name(suite))
                            && chain.runs(suite)
                            && limits_part(server.kind).contains(suite)
                    })
                    .collect();
                let turn = Turn {
                    plan,
                    chain,
                    ground: &ground,
                    server,
                    suites,
                    cores: cores.as_ref(),
                    authority: &authority,
                    folder,
                    work: work.path(),
                    chains,
                    ghz: ghz.as_ref(),
                    round,
                };
                eprintln!("  round {round}: {} on {}", server.name, chain.name);
                if given_up.contains(&server.name) {
                    let mut recorder = turn.recorder();
                    let error = anyhow!("it did not come up in a round before");
                    recorder.failure("the server", "up", &error)?;
                    let left = turn.suites.iter().copied();
                    lost(&mut recorder, left.filter(|suite| *suite != "build-1"))?;
                    summary.failures += recorder.failures;
                } else if !turn.run(&mut record, &mut summary)? {
                    given_up.insert(&server.name);
                }
            }
        }
        // A chain of a million blocks and its stores need not wait for the next one's.
        for server in servers {
            for place in ["running", "built"] {
                remove(
                    &work
                        .path()
                        .join(format!("{}-{}-{place}", chain.name, server.name)),
                )?;
            }
        }
    }
    record.finished = machine::now();
    record.machine.load_after = machine::load();
    folder.write_run(&record)?;
    Ok(summary)
}

/// The ghz of the plan; that there is none is a remark in the record, not an error.
fn second_opinion(plan: &Plan, work: &Path, record: &mut Run) -> Result<Option<Ghz>> {
    let Some(wanted) = plan.suites.rpc.as_ref().and_then(|rpc| rpc.ghz.as_ref()) else {
        return Ok(None);
    };
    let folder = work.join("ghz");
    fs::create_dir_all(&folder)?;
    let found = Ghz::find(&wanted.program, &folder);
    let note = match &found {
        Ok(ghz) => format!("second opinion on calls: ghz {}", ghz.version),
        Err(error) => format!("no second opinion on calls: {error:#}"),
    };
    eprintln!("{note}");
    record.notes.push(note);
    Ok(found.ok())
}

/// How far a turn has come.
struct Course {
    /// Whether the server came up.
    up: bool,
    /// The suites that have not begun.
    left: Vec<&'static str>,
}

impl Course {
    fn begin(&mut self, suite: &'static str) -> &'static str {
        self.left.retain(|left| *left != suite);
        suite
    }
}

/// Writes that suites were not measured, for a server has failed; a suite without a line would look as if it had not been wanted.
fn lost(recorder: &mut Recorder<'_>, suites: impl Iterator<Item = &'static str>) -> Result<()> {
    let error = anyhow!("not measured: it had failed before, in {}", recorder.suite);
    for suite in suites {
        recorder.suite = suite;
        recorder.failure("the server", "up", &error)?;
    }
    Ok(())
}

/// One server in one round.
struct Turn<'a> {
    plan: &'a Plan,
    chain: &'a ChainPlan,
    ground: &'a Ground,
    server: &'a ServerPlan,
    suites: Vec<&'static str>,
    cores: Option<&'a Cores>,
    authority: &'a Authority,
    folder: &'a RunFolder,
    work: &'a Path,
    chains: &'a Path,
    ghz: Option<&'a Ghz>,
    round: u32,
}

impl Turn<'_> {
    fn place(&self, word: &str) -> PathBuf {
        self.work
            .join(format!("{}-{}-{word}", self.ground.name, self.server.name))
    }

    fn recorder(&self) -> Recorder<'_> {
        Recorder {
            folder: self.folder,
            chain: &self.ground.name,
            server: &self.server.name,
            round: self.round,
            suite: "build-1",
            part: "",
            failures: 0,
        }
    }

    /// Gives whether the server came up.
    fn run(&self, record: &mut Run, summary: &mut Summary) -> Result<bool> {
        let mut recorder = self.recorder();
        let mut course = Course {
            up: false,
            left: self.suites.clone(),
        };
        if let Err(error) = self.suites(record, &mut recorder, &mut course) {
            recorder.failure("the server", "up", &error)?;
            // What follows would have been measured: none of it was.
            lost(&mut recorder, course.left.iter().copied())?;
        }
        summary.failures += recorder.failures;
        Ok(course.up)
    }

    fn suites(
        &self,
        record: &mut Run,
        recorder: &mut Recorder<'_>,
        course: &mut Course,
    ) -> Result<()> {
        let plans = &self.plan.suites;
        let runs = |suite: &str| self.suites.contains(&suite);
        let node = GroundNode::start(self.ground, &self.folder.log("node"))?;
        let store = self.place("running");
        remove(&store)?;
        fs::create_dir_all(&store)?;
        let builds = plans.build.as_ref().map_or(1, |build| build.rounds);
        let builds = self.chain.builds.unwrap_or(builds).max(1);
        let built = self.place("built");
        let fresh = self.round <= builds || !built.exists();
        if !fresh {
            copy_tree(&built, &store)?;
        }
        let log = self.folder.log(&self.server.name);
        let samples = self
            .folder
            .samples_file(&self.ground.name, &self.server.name);
        let setting = Setting {
            plan: self.server,
            ground: self.ground,
            node: &node,
            folder: &store,
            log: &log,
            samples: &samples,
            cores: self.cores,
            authority: self.authority,
            since: Instant::now(),
        };
        let patience = plans
            .build
            .as_ref()
            .map_or(std::time::Duration::from_secs(600), |build| build.patience);
        let mut stage = Stage {
            plan: self.plan,
            setting: &setting,
            recorder,
            ghz: self.ghz,
        };
        let mut server = Server::start(&setting, false)?;
        stage.recorder.suite = course.begin("build-1");
        server.suite("build-1");
        let measured = fresh && plans.build.is_some() && runs("build-1");
        suites::build(&mut stage, &server, patience, measured)?;
        course.up = true;
        self.introduce(record, &server)?;
        let last_build = self.round == builds;
        let more_rounds = self.round < self.rounds();
        let keep = || match last_build && more_rounds {
            true => copy_tree(&store, &built),
            false => Ok(()),
        };
        let restart = plans.restart.as_ref().filter(|_| runs("restart-1"));
        if restart.is_some() || (last_build && more_rounds && server.own_process()) {
            stage.recorder.suite = course.begin("restart-1");
            let patience = restart.map_or(patience, |plan| plan.patience);
            server = suites::restart(&mut stage, server, patience, restart.is_some(), keep)?;
        }
        for suite in &self.suites {
            stage.recorder.suite = course.begin(suite);
            server.suite(suite);
            let began = Instant::now();
            let failures = stage.recorder.failures;
            server.falsify(true);
            match plain_name(suite) {
                "idle" => on(&plans.idle, |plan| suites::idle(&mut stage, &server, plan))?,
                "latency" => on(&plans.latency, |plan| {
                    suites::latency(&mut stage, &server, plan)
                })?,
                "ranges" => on(&plans.ranges, |plan| {
                    suites::ranges(&mut stage, &server, plan)
                })?,
                "concurrency" => on(&plans.concurrency, |plan| {
                    let most = self.chain.most_clients.unwrap_or(u32::MAX);
                    suites::concurrency(&mut stage, &server, plan, most)
                })?,
                "download" => on(&plans.download, |plan| {
                    suites::download(&mut stage, &server, plan)
                })?,
                "rpc" => on(&plans.rpc, |plan| suites::rpc(&mut stage, &server, plan))?,
                "tls" if plans.tls.is_some() => {
                    server = self.over_tls(&mut stage, server, patience)?;
                }
                "tip" => on(&plans.tip, |plan| suites::tip(&mut stage, &server, plan))?,
                "reorg" => on(&plans.reorg, |plan| {
                    suites::reorg(&mut stage, &server, plan)
                })?,
                "mempool" => on(&plans.mempool, |plan| {
                    suites::mempool(&mut stage, &server, plan)
                })?,
                // The build and the restart went before.
                _ => {}
            }
            server.falsify(false);
            server.suite("");
            if began.elapsed().as_millis() > 0 {
                eprintln!(
                    "    {suite}: {:.1} s, {} failures",
                    began.elapsed().as_secs_f64(),
                    stage.recorder.failures - failures
                );
            }
            // The suites that are left have no server any more.
            server
                .check_running()
                .with_context(|| format!("after {suite}"))?;
        }
        // A limit has no node, and a node's own service goes with it.
        let may = |suite| runs(suite) && self.server.kind == Kind::Program;
        let latency = plans.latency.as_ref();
        let latency = latency.filter(|plan| may("latency-1") && !plan.node_off.is_empty());
        let rpc = plans.rpc.as_ref();
        let rpc = rpc.filter(|plan| may("rpc-1") && !plan.node_off.is_empty());
        if latency.is_some() || rpc.is_some() {
            suites::without_node(&mut stage, &server, latency, rpc)?;
        }
        server.stop().map(drop)
    }

    fn rounds(&self) -> u32 {
        self.chain.rounds.unwrap_or(self.plan.rounds)
    }

    /// Starts the server anew with TLS, measures, and starts it anew without.
    fn over_tls(
        &self,
        stage: &mut Stage<'_, '_>,
        server: Server,
        patience: std::time::Duration,
    ) -> Result<Server> {
        let Some(plan) = &self.plan.suites.tls else {
            return Ok(server);
        };
        if !server.own_process() || !self.server.speaks_tls() {
            let error = anyhow!("it cannot speak TLS, or the plan does not say how");
            stage.recorder.failure("all cases", "throughput", &error)?;
            return Ok(server);
        }
        server.stop()?;
        let secure = Server::start(stage.setting, true)?;
        secure.suite("tls-1");
        let client = &self.authority.client;
        let up = secure.wait(patience, || {
            let mut wire = super::wire::Wire::connect(secure.address, Some(client))?;
            let latest = super::server::latest(&mut wire)?;
            anyhow::ensure!(
                latest.height == u64::from(self.ground.tip),
                "not at the tip"
            );
            Ok(())
        });
        secure.falsify(true);
        match up {
            Ok(()) => suites::tls(stage, &secure, plan)?,
            Err(error) => stage.recorder.failure("all cases", "throughput", &error)?,
        }
        secure.stop()?;
        let server = Server::start(stage.setting, false)?;
        server.wait(patience, || server.latest().map(drop))?;
        Ok(server)
    }

    /// A command line as others may repeat it.
    fn shown(&self, command: &[String]) -> Vec<String> {
        let places = [(self.work, "WORK"), (self.chains, "CHAINS")];
        command
            .iter()
            .enumerate()
            .map(|(at, word)| match at {
                0 => file_name(word),
                _ => places.iter().fold(word.clone(), |word, (place, name)| {
                    word.replace(&*place.to_string_lossy(), name)
                }),
            })
            .collect()
    }

    /// Writes down who the server is, the first time it is up.
    fn introduce(&self, record: &mut Run, server: &Server) -> Result<()> {
        if record
            .servers
            .iter()
            .any(|known| known.name == self.server.name)
        {
            return Ok(());
        }
        let kind = self.server.kind.counts_as();
        record.servers.push(ServerInfo {
            name: self.server.name.clone(),
            kind,
            version: match kind {
                ServerKind::Server => server.version(self.server),
                ServerKind::Limit => {
                    concat!("lightship-harness ", env!("CARGO_PKG_VERSION")).into()
                }
            },
            start: self.shown(&server.command),
            pinned_to: self.cores.map(|cores| cores.server.clone()),
        });
        self.folder.write_run(record)
    }
}

/// A path's last part: where a program lies on this machine is nobody's business.
fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(
        || path.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn on<P>(plan: &Option<P>, suite: impl FnOnce(&P) -> Result<()>) -> Result<()> {
    plan.as_ref().map_or(Ok(()), suite)
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()? {
            kind if kind.is_dir() => copy_tree(&entry.path(), &target)?,
            kind if kind.is_file() => {
                fs::copy(entry.path(), target)?;
            }
            // A socket is no part of a store.
            _ => {}
        }
    }
    Ok(())
}
