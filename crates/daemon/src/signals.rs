//! SIGINT and SIGTERM: the first asks for an orderly stop, the second ends the process at once.

use std::{io, process};

use tokio::sync::watch;
use tracing::{info, warn};

/// The exit code of a process that was told twice to stop: 128 + SIGINT, as shells report it.
const IMPATIENT: i32 = 130;

/// Turns true when the process is asked to stop. Must be called inside the runtime.
///
/// # Errors
///
/// If the operating system refuses a signal handler.
pub(crate) fn stop_requested() -> io::Result<watch::Receiver<bool>> {
    let (tell, told) = watch::channel(false);
    let mut signals = Signals::new()?;
    tokio::spawn(async move {
        let name = signals.next().await;
        info!("{name}: stopping");
        // Nobody listens any more: then the process is ending anyway.
        let _ = tell.send(true);
        let name = signals.next().await;
        warn!("{name} again: ending at once");
        process::exit(IMPATIENT);
    });
    Ok(told)
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals)
    }

    async fn next(&mut self) -> &'static str {
        // Without a console there is no interrupt to wait for; the process is ended from outside.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "interrupt"
    }
}
