//! Logs: one line an event on standard error, chosen by `RUST_LOG`.
//!
//! While a progress bar is shown, lines are printed above it. No line names a client. A log that cannot be written (its reader is gone, its disk
//! full) is lost and ends nothing.

use std::io::{self, Write};

use indicatif::MultiProgress;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

/// What is logged when `RUST_LOG` does not say otherwise.
const DEFAULT_FILTER: &str = "info,h2=warn,hyper=warn,hyper_util=warn,tonic=warn,tower=warn";

/// Below these levels the HTTP client writes requests out, with the node's password in them: not even `RUST_LOG=trace` goes there.
const NEVER_FINER: [&str; 2] = ["ureq=warn", "ureq_proto=warn"];

/// Starts logging for the whole process; returns the place where bars are drawn.
pub fn start() -> MultiProgress {
    let bars = MultiProgress::new();
    let mut filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    for directive in NEVER_FINER {
        filter = filter.add_directive(directive.parse().expect("these directives are valid"));
    }
    // A second start in one process (tests) keeps the first subscriber.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .with_writer(AboveBars(bars.clone()))
        .try_init();
    bars
}

/// Writes to standard error with any bar out of the way.
struct AboveBars(MultiProgress);

impl<'a> MakeWriter<'a> for AboveBars {
    type Writer = Line<'a>;
    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0)
    }
}

struct Line<'a>(&'a MultiProgress);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The subscriber would report a failure where it failed, and panic.
        let _ = self.0.suspend(|| io::stderr().write_all(bytes));
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
