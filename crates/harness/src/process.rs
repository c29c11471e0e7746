//! Child processes and loopback ports.
//!
//! A child logs into a file, is ended as an operator would end it, and never outlives its owner.

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How often something is asked while it is waited for.
const POLL: Duration = Duration::from_millis(20);

/// A loopback address nobody listens on at this moment.
///
/// # Errors
///
/// When the system has no port left.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Asks `ready` until it yields something.
///
/// # Errors
///
/// With the last reason `ready` gave, once `patience` has passed.
pub fn wait_for<T>(
    what: &str,
    patience: Duration,
    mut ready: impl FnMut() -> Result<T>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        match ready() {
            Ok(value) => return Ok(value),
            Err(error) if start.elapsed() > patience => {
                return Err(error.context(format!("waited {patience:?} for {what}")));
            }
            Err(_) => thread::sleep(POLL),
        }
    }
}

/// A running child. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, appending both its outputs to `log`.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub fn start(command: &mut Command, log: &Path) -> Result<Process> {
        let output = File::options().create(true).append(true).open(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {:?}", command.get_program()))?;
        Ok(Process {
            child,
            log: log.to_owned(),
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The status it ended with, or `None` while it runs.
    ///
    /// # Errors
    ///
    /// When the system cannot tell.
    pub fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends SIGTERM and waits until it has ended.
    ///
    /// # Errors
    ///
    /// When it has not ended within `patience`; it is killed then.
    pub fn terminate(&mut self, patience: Duration) -> Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let start = Instant::now();
        while start.elapsed() < patience {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
        self.kill();
        bail!(
            "did not end within {patience:?} of SIGTERM\n{}",
            self.log_tail()
        );
    }

    /// Sends SIGKILL and waits. No chance to clean up, as in a power cut.
    pub fn kill(&mut self) {
        // It may have ended by itself; there is nothing left to do then.
        self.child.kill().ok();
        self.child.wait().ok();
    }

    /// The end of what it logged, for error messages.
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let from = text.len().saturating_sub(4000);
        String::from_utf8_lossy(&text[from..]).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
