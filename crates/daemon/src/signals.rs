//! Signals: SIGINT or SIGTERM asks for an orderly stop, and a second one ends the process at once; SIGHUP reads the certificate again.

use std::{io, process, sync::Arc};

use lightship_serve::Certificate;
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

/// Reads `certificate` again on each SIGHUP, which otherwise would end the process. Must be called inside the runtime.
///
/// # Errors
///
/// If the operating system refuses a signal handler.
#[cfg(unix)]
pub(crate) fn reload_on_hang_up(certificate: Option<Arc<Certificate>>) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            let Some(certificate) = certificate.clone() else {
                info!("SIGHUP: there is no certificate to read again");
                continue;
            };
            // A panic there is the runtime's to report.
            let _ = tokio::task::spawn_blocking(move || certificate.reload()).await;
        }
    });
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn reload_on_hang_up(_: Option<Arc<Certificate>>) -> io::Result<()> {
    Ok(())
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
