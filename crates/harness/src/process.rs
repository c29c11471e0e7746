//! Child processes and loopback ports.
//!
//! A child logs into a file, is ended as an operator would end it, and never outlives its owner.

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::channel,
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

/// Runs `command` to its end and gives its status and what it printed. Its standard input is empty.
///
/// # Errors
///
/// When it cannot be started, or has not ended within `patience`; it is killed then.
pub fn output_of(command: &mut Command, patience: Duration) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let id = Pid::from_child(&child);
    let (ended, wait) = channel();
    // Both pipes must be read while it is waited for. Nobody may be there to hear of the end any more.
    thread::spawn(move || ended.send(child.wait_with_output()).ok());
    match wait.recv_timeout(patience) {
        Ok(output) => Ok(output?),
        Err(_) => {
            // It may just have ended.
            kill_process(id, Signal::KILL).ok();
            bail!("{program} did not end within {patience:?}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_waited_for_only_so_long() {
        // More than a pipe holds.
        let mut many = Command::new("sh");
        many.args(["-c", "head -c 300000 /dev/zero; echo said >&2; exit 3"]);
        let output = output_of(&mut many, Duration::from_secs(60)).unwrap();
        assert_eq!(
            (
                output.stdout.len(),
                &output.stderr[..],
                output.status.code()
            ),
            (300_000, &b"said\n"[..], Some(3))
        );
        let began = Instant::now();
        let mut endless = Command::new("sleep");
        let said = output_of(endless.arg("600"), Duration::from_millis(50)).unwrap_err();
        assert!(said.to_string().contains("sleep did not end"), "{said}");
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
