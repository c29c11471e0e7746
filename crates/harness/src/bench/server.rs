//! The server that is measured, as a child process.
//!
//! In: its plan, the ground it is to stand on, a folder for its data. Out: a running server with an address, told only what an operator would tell
//! it; stopped by SIGTERM, and by SIGKILL if that is not heard. What it prints goes into the run's logs, what it uses into its samples.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use prost::Message;

use super::{
    disk::IndexBytes,
    falsify::Falsifier,
    ground::{Ground, GroundNode},
    machine::{Cores, hold_to, own_cores},
    plan::{Kind, Ready, ServerPlan, fill},
    tls::Authority,
    usage::{Sampler, Usage},
    wire::{Wire, framed},
};
use crate::{
    process::{Process, free_address, output_of},
    proto::{BlockId, ChainSpec, Empty, LightdInfo},
};

const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// How long one look at a server may take while it starts.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks.
const POLL: Duration = Duration::from_millis(10);

/// What a server is started with.
pub struct Setting<'a> {
    /// Its plan.
    pub plan: &'a ServerPlan,
    /// What it stands on.
    pub ground: &'a Ground,
    /// The ground's node.
    pub node: &'a GroundNode,
    /// Where its data and config lie.
    pub folder: &'a Path,
    /// Where its output goes.
    pub log: &'a Path,
    /// Where its samples go.
    pub samples: &'a Path,
    /// Which cores it is held to.
    pub cores: Option<&'a Cores>,
    /// Its certificate.
    pub authority: &'a Authority,
    /// When the samples' seconds began.
    pub since: Instant,
}

/// A running server.
pub struct Server {
    /// Where wallets reach it.
    pub address: SocketAddr,
    /// When its process was started.
    pub started: Instant,
    /// The command line.
    pub command: Vec<String>,
    /// `None` for a node's own service.
    process: Option<Mutex<Process>>,
    id: u32,
    sampler: Sampler,
    falsifier: Option<Falsifier>,
    http: SocketAddr,
    data: PathBuf,
    log: PathBuf,
    /// What its log held before this start.
    logged: u64,
}

impl Server {
    /// Starts it. Does not wait for it.
    ///
    /// # Errors
    ///
    /// When there is no such program, or its files cannot be written.
    pub fn start(setting: &Setting<'_>, tls: bool) -> Result<Server> {
        let plan = setting.plan;
        if plan.kind == Kind::Node {
            return Server::of_node(setting);
        }
        fs::create_dir_all(setting.folder.join("data"))?;
        let (grpc, http) = (free_address()?, free_address()?);
        let value = |word: &str| setting.value(word, grpc, http);
        let mut command = match plan.kind {
            Kind::Program => Command::new(program(&plan.program)?),
            _ => Command::new(&setting.ground.harness),
        };
        if tls && !plan.speaks_tls() {
            bail!("it cannot speak TLS, or the plan has neither tls_arguments nor tls_config");
        }
        if let Some(text) = &plan.config {
            let more = plan.tls_config.as_deref().filter(|_| tls);
            let text = format!("{text}{}", more.unwrap_or_default());
            fs::write(setting.folder.join("config"), fill(&text, value)?)?;
        }
        match plan.kind {
            Kind::Program => {
                let more = match tls {
                    false => Some(&plan.plain_arguments),
                    true => plan.tls_arguments.as_ref(),
                };
                for argument in plan.arguments.iter().chain(more.into_iter().flatten()) {
                    command.arg(fill(argument, value)?);
                }
            }
            kind => {
                command.arg(if kind == Kind::RawSender {
                    "raw-sender"
                } else {
                    "empty-handler"
                });
                command
                    .arg("--expected")
                    .arg(&setting.ground.expected.folder);
                command.args(["--listen", &grpc.to_string()]);
                if kind == Kind::EmptyHandler {
                    let answers = setting.folder.join("answers");
                    super::limits::write_answers(&answers, &setting.ground.methods)?;
                    command.arg("--answers").arg(answers);
                }
            }
        }
        let mut words = vec![command.get_program().to_string_lossy().into_owned()];
        words.extend(
            command
                .get_args()
                .map(|word| word.to_string_lossy().into_owned()),
        );
        let log = match &plan.ready.log_file {
            Some(file) => PathBuf::from(fill(file, value)?),
            None => setting.log.to_owned(),
        };
        let logged = fs::metadata(&log).map_or(0, |data| data.len());
        let own = own_cores();
        if let Some(cores) = setting.cores {
            hold_to(&cores.server)?;
        }
        let started = Instant::now();
        let process = Process::start(&mut command, setting.log);
        if setting.cores.is_some() {
            hold_to(&own)?;
        }
        let process = process?;
        let falsifier = match plan.falsify {
            true => Some(Falsifier::start(grpc)?),
            false => None,
        };
        Ok(Server {
            address: falsifier.as_ref().map_or(grpc, Falsifier::address),
            started,
            command: words,
            id: process.id(),
            sampler: Sampler::start(process.id(), setting.samples, setting.since)?,
            process: Some(Mutex::new(process)),
            falsifier,
            http,
            data: setting.folder.join("data"),
            log,
            logged,
        })
    }

    fn of_node(setting: &Setting<'_>) -> Result<Server> {
        let address = setting
            .node
            .wallet_service()
            .context("the node has no wallet service of its own")?;
        let id = setting.node.id().context("the node has ended")?;
        Ok(Server {
            address,
            started: Instant::now(),
            command: vec!["the regtest zebrad's rpc.lightwalletd_listen_addr".into()],
            process: None,
            id,
            sampler: Sampler::start(id, setting.samples, setting.since)?,
            falsifier: None,
            http: address,
            data: setting.folder.to_owned(),
            log: setting.log.to_owned(),
            logged: 0,
        })
    }

    /// Whether it has a process of its own.
    pub fn own_process(&self) -> bool {
        self.process.is_some()
    }

    /// What its process uses.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.id)
    }

    /// If the plan wants its answers falsified: whether they are from now on.
    pub fn falsify(&self, on: bool) {
        if let Some(falsifier) = &self.falsifier {
            falsifier.switch(on);
        }
    }

    /// Names what runs, in its samples.
    pub fn suite(&self, name: &str) {
        self.sampler.suite(name);
    }

    /// Fails if it has ended by itself.
    ///
    /// # Errors
    ///
    /// With its status and the end of its log.
    pub fn check_running(&self) -> Result<()> {
        let Some(process) = &self.process else {
            return Ok(());
        };
        let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
        match process.exited()? {
            None => Ok(()),
            Some(status) => bail!("it ended with {status}\n{}", process.log_tail()),
        }
    }

    /// Asks `ready` until it yields something, as long as the process runs. A look that fails is no reason to give up.
    ///
    /// # Errors
    ///
    /// With the last reason, when `patience` has passed since the start; or when the process has ended.
    pub fn wait<T>(&self, patience: Duration, mut ready: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            self.check_running()?;
            match ready() {
                Ok(value) => return Ok(value),
                Err(error) if self.started.elapsed() > patience => {
                    return Err(error.context(format!("not in {patience:?}")));
                }
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    /// A new connection.
    ///
    /// # Errors
    ///
    /// When nobody answers.
    pub fn connect(&self) -> Result<Wire> {
        Wire::connect(self.address, None)
    }

    /// The block that it names as the latest.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn latest(&self) -> Result<BlockId> {
        latest(&mut self.connect()?)
    }

    /// Looks once whether its index holds the chain up to `tip`, by the plan's rule.
    ///
    /// # Errors
    ///
    /// When it does not, with what is missing.
    pub fn look_ready(&self, setting: &Setting<'_>, tip: u32) -> Result<()> {
        let latest = self.latest()?;
        ensure!(
            latest.height == u64::from(tip),
            "its latest block is {}, not {tip}",
            latest.height
        );
        self.look(setting, tip, &setting.plan.ready)
    }

    /// Looks once whether it has ended what it does in the background after its index holds the chain up to `tip`.
    ///
    /// # Errors
    ///
    /// When it has not, with what is missing.
    pub fn look_settled(&self, setting: &Setting<'_>, tip: u32) -> Result<()> {
        match &setting.plan.settled {
            None => Ok(()),
            Some(rule) => self.look(setting, tip, rule),
        }
    }

    fn look(&self, setting: &Setting<'_>, tip: u32, rule: &Ready) -> Result<()> {
        let value = |word: &str| match word {
            "next" => Some((tip + 1).to_string()),
            "tip" => Some(tip.to_string()),
            word => setting.value(word, self.address, self.http),
        };
        if let Some(text) = &rule.log {
            let text = fill(text, value)?;
            let bytes = fs::read(&self.log).unwrap_or_default();
            let new = bytes.get(self.logged as usize..).unwrap_or_default();
            let found = new
                .windows(text.len().max(1))
                .any(|window| window == text.as_bytes());
            ensure!(found, "'{text}' is not in its log");
        }
        if let Some(url) = &rule.http {
            let url = fill(url, value)?;
            let agent: ureq::Agent = ureq::Agent::config_builder()
                .timeout_global(Some(LOOK_PATIENCE))
                .build()
                .into();
            let mut page = agent.get(&url).call().with_context(|| url.clone())?;
            if let Some(line) = &rule.http_line {
                let line = fill(line, value)?;
                let page = page.body_mut().read_to_string()?;
                let found = page.lines().any(|told| told == line);
                ensure!(found, "{url} has no line '{line}'");
            }
        }
        Ok(())
    }

    /// The size of its index on the disk, and of the parts that the plan counts apart.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub fn index_bytes(&self, setting: &Setting<'_>) -> Result<IndexBytes> {
        let folder = match &setting.plan.index {
            None => self.data.clone(),
            Some(folder) => {
                let value = |word: &str| setting.value(word, self.address, self.http);
                PathBuf::from(fill(folder, value)?)
            }
        };
        IndexBytes::of(&folder, &setting.plan.parts)
    }

    /// What it says of its version.
    pub fn version(&self, plan: &ServerPlan) -> String {
        if let Some(text) = &plan.version_after {
            let found = program(&plan.program)
                .and_then(|program| Ok(fs::read(program)?))
                .ok()
                .and_then(|bytes| word_after(&bytes, text));
            return found.unwrap_or_else(|| "unknown".into());
        }
        let said = match &plan.version_arguments {
            Some(arguments) => program(&plan.program).and_then(|program| {
                let output = output_of(Command::new(program).args(arguments), LOOK_PATIENCE)?;
                let text = [output.stdout, output.stderr].concat();
                Ok(String::from_utf8_lossy(&text).into_owned())
            }),
            None => self.connect().and_then(|mut wire| {
                let answer = wire.ask("GetLightdInfo", &framed(&Empty {}), LOOK_PATIENCE)?;
                let info = LightdInfo::decode(&answer.first().context("no answer")?[..])?;
                Ok(format!("{} {}", info.vendor, info.version))
            }),
        };
        let said = said.unwrap_or_default();
        match said.lines().map(str::trim).find(|line| !line.is_empty()) {
            Some(line) => line.chars().take(100).collect(),
            None => "unknown".into(),
        }
    }

    /// Ends it as an operator would. Gives how long that took.
    ///
    /// # Errors
    ///
    /// When it had to be killed.
    pub fn stop(self) -> Result<Duration> {
        drop(self.falsifier);
        drop(self.sampler);
        let began = Instant::now();
        if let Some(process) = self.process {
            let mut process = process.into_inner().unwrap_or_else(PoisonError::into_inner);
            process.terminate(STOP_PATIENCE)?;
        }
        Ok(began.elapsed())
    }
}

impl Setting<'_> {
    /// What a placeholder stands for.
    fn value(&self, word: &str, grpc: SocketAddr, http: SocketAddr) -> Option<String> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let url = self.node.url();
        let node = url.trim_start_matches("http://");
        let (host, port) = node.split_once(':').unwrap_or((node, ""));
        Some(match word {
            "node_host" => host.to_owned(),
            "node_port" => port.to_owned(),
            "node_url" => url,
            "grpc" => grpc.to_string(),
            "grpc_port" => grpc.port().to_string(),
            "http" => http.to_string(),
            "data" => path(&self.folder.join("data")),
            "config" => path(&self.folder.join("config")),
            "certificate" => path(&self.authority.certificate),
            "key" => path(&self.authority.key),
            _ => return None,
        })
    }
}

/// `GetLatestBlock`.
///
/// # Errors
///
/// When it is not answered.
pub fn latest(wire: &mut Wire) -> Result<BlockId> {
    let answer = wire.ask("GetLatestBlock", &framed(&ChainSpec {}), LOOK_PATIENCE)?;
    Ok(BlockId::decode(&answer.first().context("no message")?[..])?)
}

/// A program by its path, or by its name: beside this one, or in `PATH`. `$NAME` at the beginning is a variable of the environment.
///
/// # Errors
///
/// When it is not there.
pub fn program(named: &str) -> Result<PathBuf> {
    let named = match named.strip_prefix('$') {
        None => named.to_owned(),
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let value = std::env::var(&rest[..end]).with_context(|| {
                format!("{named}: set the environment variable {}", &rest[..end])
            })?;
            format!("{value}{}", &rest[end..])
        }
    };
    if named.contains('/') {
        ensure!(Path::new(&named).exists(), "there is no program {named}");
        return Ok(named.into());
    }
    let beside = std::env::current_exe()?.with_file_name(&named);
    if beside.exists() {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(&named))
        .find(|path| path.exists())
        .with_context(|| {
            format!("there is no program '{named}' in PATH; --program NAME=PATH names it")
        })
}

/// The printable word that follows `text` in `bytes`, where it is first followed by one.
fn word_after(bytes: &[u8], text: &str) -> Option<String> {
    let mut rest = bytes;
    loop {
        let at = rest
            .windows(text.len().max(1))
            .position(|window| window == text.as_bytes())?;
        rest = &rest[at + text.len()..];
        let word: Vec<u8> = rest
            .iter()
            .copied()
            .take(40)
            .take_while(u8::is_ascii_graphic)
            .collect();
        if !word.is_empty() {
            return String::from_utf8(word).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_a_program() {
        let bytes = b"\0module\tv1\0mod\tmodule\t\0junk module\tv0.5.4\th1:x";
        assert_eq!(word_after(bytes, "module\t").as_deref(), Some("v1"));
        assert_eq!(
            word_after(&bytes[12..], "module\t").as_deref(),
            Some("v0.5.4")
        );
        assert_eq!(word_after(bytes, "nothing"), None);
    }

    #[test]
    fn a_program_is_found_by_path_or_name_and_else_named() {
        assert!(program("sh").unwrap().is_absolute());
        assert_eq!(program("/bin/sh").unwrap(), Path::new("/bin/sh"));
        for missing in ["/no/such/program", "no-such-program", "$NO_SUCH_VARIABLE/x"] {
            let said = format!("{:#}", program(missing).unwrap_err());
            assert!(
                said.contains(
                    missing
                        .trim_start_matches('$')
                        .split('/')
                        .next_back()
                        .unwrap_or_default()
                ) || said.contains("NO_SUCH_VARIABLE"),
                "{said}"
            );
        }
    }
}
