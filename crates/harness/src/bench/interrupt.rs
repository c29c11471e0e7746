//! Children that do not outlive the bench, whatever ends it.
//!
//! A child is killed when its owner is dropped, but nothing is dropped when a signal ends the program. So a thread waits for SIGINT and SIGTERM, kills
//! this process' children as `/proc` lists them, removes the servers' stores, and ends the program.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::run::WORK_PREFIX;

/// Looks at the children after a signal: one may be started while the others are killed.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// From now on SIGINT and SIGTERM kill the children, remove the work folders below `folder` and end the program with code 130.
///
/// # Errors
///
/// When the system lets no signal be waited for.
pub fn watch(folder: &Path) -> Result<()> {
    let folder = folder.to_owned();
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
        for _ in 0..LOOKS {
            for id in children(std::process::id()) {
                // One that has ended is not there any more.
                kill_process(id, Signal::KILL).ok();
            }
            thread::sleep(PAUSE);
        }
        for work in work_folders(&folder) {
            // What cannot be removed is left for whoever looks into the run's folder.
            fs::remove_dir_all(work).ok();
        }
        std::process::exit(130);
    });
    Ok(())
}

/// The processes whose parent is `parent`.
fn children(parent: u32) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let id: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name may hold anything, but no parenthesis comes after it; then come the state and the parent.
            let (_, fields) = stat.rsplit_once(')')?;
            let found: u32 = fields.split_whitespace().nth(1)?.parse().ok()?;
            (found == parent).then(|| Pid::from_raw(id)).flatten()
        })
        .collect()
}

fn work_folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(WORK_PREFIX))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_by_its_parent() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let id = Pid::from_raw(child.id() as i32).unwrap();
        assert!(children(std::process::id()).contains(&id));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children(std::process::id()).contains(&id));
    }
}
