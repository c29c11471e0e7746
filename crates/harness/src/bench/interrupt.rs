//! Children that do not outlive the bench, whatever ends it.
//!
//! A [`Process`] is killed when it is dropped, but nothing is dropped when a signal ends the program. So each child's id is on a list, and
//! a thread that waits for SIGINT and SIGTERM kills the listed ones before it ends the program.

use std::{
    collections::BTreeSet,
    ops::{Deref, DerefMut},
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::process::Process;

static CHILDREN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn children() -> MutexGuard<'static, BTreeSet<u32>> {
    CHILDREN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child on the list.
#[derive(Debug)]
pub struct Guarded(Process);

impl Guarded {
    /// As [`Process::start`].
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub fn start(command: &mut Command, log: &Path) -> Result<Guarded> {
        // The list is held meanwhile, so that no signal falls between the start and the entry.
        let mut children = children();
        let process = Process::start(command, log)?;
        children.insert(process.id());
        Ok(Guarded(process))
    }
}

impl Deref for Guarded {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.0
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        children().remove(&self.0.id());
        // Only now may the id be another's.
        self.0.kill();
    }
}

/// From now on SIGINT and SIGTERM kill the children and end the program with code 130.
///
/// # Errors
///
/// When the system lets no signal be waited for.
pub fn watch() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        )
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        for id in children().iter() {
            if let Some(id) = i32::try_from(*id).ok().and_then(Pid::from_raw) {
                // One that has ended is not there any more.
                kill_process(id, Signal::KILL).ok();
            }
        }
        std::process::exit(130);
    });
    Ok(())
}
