//! Our own program as a child process, told only what an operator would tell it.
//!
//! In: the program (see [`binary`]) and [`Options`]. Out: a running server and its addresses. Dropping it kills it and removes its data.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::OnceLock,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::{
    process::{Process, free_address, output_of, wait_for},
    zebrad::Zebrad,
};

/// For a run that ends by itself. A long chain is looked through in less.
const END_PATIENCE: Duration = Duration::from_secs(1_800);
const METRICS_TIMEOUT: Duration = Duration::from_secs(10);
/// Twice what the program allows itself after SIGTERM.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
/// For cargo to build the program from nothing, on a machine that has much else to do.
const BUILD_PATIENCE: Duration = Duration::from_secs(3_600);

/// The program: `$LIGHTSHIP_BIN`, or what `cargo build` makes of the source beside this crate (once a process).
///
/// # Errors
///
/// When it does not build.
pub fn binary() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(named) = env::var_os("LIGHTSHIP_BIN").filter(|path| !path.is_empty()) {
        return Ok(named.into());
    }
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(anyhow::Error::msg)
}

/// A test must not judge yesterday's program, so it is built; a build of what is built already takes a moment.
fn build() -> Result<PathBuf> {
    // Cargo leaves test binaries in `<target>/<profile>/deps`, programs in `<target>/<profile>`.
    let here = env::current_exe()?;
    let profile = here.ancestors().skip(1).find(|dir| !dir.ends_with("deps"));
    let profile = profile.context("a folder above the test binary")?;
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args([
        "build",
        "--package",
        "lightship-daemon",
        "--bin",
        "lightship",
    ]);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let target = profile.parent().context("a target folder")?;
    command
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let built = output_of(&mut command, BUILD_PATIENCE)
        .context("building lightship; LIGHTSHIP_BIN names one that is built")?;
    ensure!(
        built.status.success(),
        "building lightship: {}\n{}",
        built.status,
        String::from_utf8_lossy(&built.stderr)
    );
    Ok(profile.join("lightship"))
}

/// Whether the program was built with `--zebra-state`.
///
/// # Errors
///
/// When it does not build or run.
pub fn reads_zebra_state() -> Result<bool> {
    let folder = TempDir::with_prefix("lightship-")?;
    let mut command = Command::new(binary()?);
    command
        .args(["index", "--zebra-state"])
        .arg(folder.path())
        .arg("--data-dir")
        .arg(folder.path().join("data"));
    let output = output_of(&mut command, END_PATIENCE)?;
    Ok(!String::from_utf8_lossy(&output.stderr).contains("was built without it"))
}

/// What it is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's JSON-RPC.
    pub node_url: String,
    /// The node's cookie file.
    pub node_cookie: Option<PathBuf>,
    /// The node's state folder, to be read from disk.
    pub zebra_state: Option<PathBuf>,
    /// The node's indexer service.
    pub zebra_indexer: Option<String>,
    /// Milliseconds between two looks at the node's tip and mempool that nobody asks for; the default ones when `None`.
    pub poll: Option<u64>,
    /// Heights in each sealed range; the default one when `None`.
    pub range_blocks: Option<u32>,
}

impl Options {
    /// Beside `node`, with ranges small enough that a chain of thousands has many.
    pub fn beside(node: &Zebrad) -> Options {
        Options {
            node_url: node.rpc_url(),
            node_cookie: node.cookie().map(Path::to_owned),
            zebra_state: None,
            zebra_indexer: None,
            poll: None,
            range_blocks: Some(64),
        }
    }
}

/// A running (or stopped) server with a data folder of its own.
#[derive(Debug)]
pub struct Lightship {
    process: Option<Process>,
    options: Options,
    folder: TempDir,
    grpc: SocketAddr,
    http: SocketAddr,
}

impl Lightship {
    /// Starts `lightship serve` on an empty data folder. Does not wait for it.
    ///
    /// # Errors
    ///
    /// When there is no program or it cannot be started.
    pub fn start(options: Options) -> Result<Lightship> {
        let mut server = Lightship {
            process: None,
            options,
            folder: TempDir::with_prefix("lightship-")?,
            grpc: free_address()?,
            http: free_address()?,
        };
        server.resume()?;
        Ok(server)
    }

    /// Starts it again on the same data and addresses. Does not wait for it.
    ///
    /// # Errors
    ///
    /// When it runs already or cannot be started.
    pub fn resume(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "it runs already");
        let mut command = Command::new(binary()?);
        command
            .arg("serve")
            .arg("--node")
            .arg(&self.options.node_url);
        if let Some(cookie) = &self.options.node_cookie {
            command.arg("--node-cookie").arg(cookie);
        }
        if let Some(state) = &self.options.zebra_state {
            command.arg("--zebra-state").arg(state);
        }
        if let Some(url) = &self.options.zebra_indexer {
            command.args(["--zebra-indexer", url]);
        }
        if let Some(poll) = self.options.poll {
            let poll = poll.to_string();
            command.args(["--tip-poll", &poll, "--mempool-poll", &poll]);
        }
        command.arg("--data-dir").arg(self.data_dir());
        if let Some(blocks) = self.options.range_blocks {
            command.arg("--range-blocks").arg(blocks.to_string());
        }
        command
            .args(["--grpc-listen", &self.grpc.to_string()])
            .args(["--http-listen", &self.http.to_string()]);
        self.process = Some(Process::start(
            &mut command,
            &self.folder.path().join("log"),
        )?);
        Ok(())
    }

    /// Ends it as an operator would; its data stays for [`Lightship::resume`].
    ///
    /// # Errors
    ///
    /// When it does not end in time, or ends with a failure.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            let status = process.terminate(STOP_PATIENCE)?;
            ensure!(
                status.success(),
                "it ended with {status}\n{}",
                process.log_tail()
            );
        }
        Ok(())
    }

    /// Ends it as a power cut would; its data stays for [`Lightship::resume`].
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Fails if it has ended by itself.
    ///
    /// # Errors
    ///
    /// With its status and the end of its log.
    pub fn check_running(&mut self) -> Result<()> {
        let process = self.process.as_mut().context("it was stopped")?;
        match process.exited()? {
            None => Ok(()),
            Some(status) => bail!("it ended with {status}\n{}", process.log_tail()),
        }
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// The end of its log, while it runs.
    pub fn log_tail(&self) -> String {
        self.process
            .as_ref()
            .map(Process::log_tail)
            .unwrap_or_default()
    }

    /// Runs `lightship verify` on its data.
    ///
    /// # Errors
    ///
    /// When it cannot be run.
    pub fn verify(&self) -> Result<(ExitStatus, String)> {
        self.verify_with(&[])
    }

    /// The same with the note commitment trees.
    ///
    /// # Errors
    ///
    /// When it cannot be run.
    pub fn verify_trees(&self) -> Result<(ExitStatus, String)> {
        self.verify_with(&["--trees"])
    }

    fn verify_with(&self, more: &[&str]) -> Result<(ExitStatus, String)> {
        let mut command = Command::new(binary()?);
        command
            .arg("verify")
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(more);
        let output = output_of(&mut command, END_PATIENCE)?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok((output.status, text))
    }

    /// What `/metrics` says at this moment.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn metrics(&self) -> Result<String> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(METRICS_TIMEOUT))
            .build()
            .into();
        let url = format!("{}/metrics", self.http_url());
        Ok(agent.get(&url).call()?.body_mut().read_to_string()?)
    }

    /// Waits until each of `lines` is in `/metrics`.
    ///
    /// # Errors
    ///
    /// When one is not within `patience`, or the server has ended.
    pub fn wait_for_metrics(&mut self, lines: &[String], patience: Duration) -> Result<()> {
        wait_for("its metrics", patience, || {
            self.check_running()?;
            let text = self.metrics()?;
            for wanted in lines {
                ensure!(
                    text.lines().any(|line| line == wanted),
                    "not '{wanted}': {text}"
                );
            }
            Ok(())
        })
    }

    /// Where it keeps its index.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Where wallets reach it.
    pub fn grpc_url(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// Where operators reach it.
    pub fn http_url(&self) -> String {
        format!("http://{}", self.http)
    }
}
