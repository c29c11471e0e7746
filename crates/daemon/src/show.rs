//! What an operator sees of the build: a bar on a terminal, a line every few seconds otherwise.
//!
//! In: ingest's [`Progress`]. Out: text on standard error, and metrics. At the tip no text: ingest itself logs reorgs and stalls.

use std::{
    io::{self, IsTerminal},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lightship_ingest::{Progress, Snapshot, State, Stop};
use tracing::info;

use crate::meters;

/// How often the bar is redrawn.
const REDRAW: Duration = Duration::from_millis(250);
/// How often a line is logged where there is no terminal.
const LOG_EVERY: Duration = Duration::from_secs(5);
/// A build shorter than this many blocks is not worth a bar.
const WORTH_SHOWING_BLOCKS: u32 = 100;

/// Shows progress on a thread of its own until `stop`.
pub(crate) fn start(progress: Arc<Progress>, bars: MultiProgress, stop: Stop) -> JoinHandle<()> {
    thread::Builder::new()
        .name("progress".into())
        .spawn(move || {
            if io::stderr().is_terminal() {
                draw(&progress, &bars, &stop)
            } else {
                log(&progress, &stop)
            }
        })
        .expect("the system has room for one more thread")
}

fn draw(progress: &Progress, bars: &MultiProgress, stop: &Stop) {
    let style = ProgressStyle::with_template("{msg:>32} [{wide_bar}] {pos}/{len} {prefix}")
        .expect("the template is valid")
        .progress_chars("=> ");
    let mut shown: Option<ProgressBar> = None;
    while !stop.wait_timeout(REDRAW) {
        let now = progress.snapshot();
        meters::set(&now);
        let Some((done, of)) = worth_showing(&now) else {
            if let Some(bar) = shown.take() {
                bar.finish_and_clear();
            }
            continue;
        };
        let bar =
            shown.get_or_insert_with(|| bars.add(ProgressBar::new(0).with_style(style.clone())));
        bar.set_length(u64::from(of));
        bar.set_position(u64::from(done));
        bar.set_message(state(&now.state));
        bar.set_prefix(pace(&now));
    }
    if let Some(bar) = shown {
        bar.finish_and_clear();
    }
}

fn log(progress: &Progress, stop: &Stop) {
    let mut last = Instant::now();
    while !stop.wait_timeout(REDRAW) {
        let now = progress.snapshot();
        meters::set(&now);
        if last.elapsed() < LOG_EVERY {
            continue;
        }
        last = Instant::now();
        if let (Some((done, of)), State::CatchingUp) = (worth_showing(&now), &now.state) {
            info!("indexed {done} of {of} blocks, {}", pace(&now));
        }
    }
}

/// Blocks indexed and blocks there are, while there is a build to watch.
fn worth_showing(now: &Snapshot) -> Option<(u32, u32)> {
    let of = now.target?.height.get() + 1;
    let done = now.indexed.map_or(0, |tip| tip.height.get() + 1) + now.ahead_blocks;
    (of.saturating_sub(done) >= WORTH_SHOWING_BLOCKS).then_some((done, of))
}

fn state(state: &State) -> String {
    match state {
        State::CatchingUp => "indexing".into(),
        State::Following => "following".into(),
        State::Replacing => "changing branch".into(),
        State::Stalled { since, .. } => format!("waiting for the node, {} s", since.as_secs()),
    }
}

/// Rate and time left, such as `812 blocks/s, 14.1 MB/s, about 1 h 05 min left`.
fn pace(now: &Snapshot) -> String {
    let Some(rate) = now.rate else {
        return "rate not known yet".into();
    };
    let speed = format!(
        "{:.0} blocks/s, {:.1} MB/s",
        rate.blocks_per_second,
        rate.bytes_per_second / 1e6
    );
    match now.time_left {
        Some(left) => format!("{speed}, about {} left", duration(left)),
        None => speed,
    }
}

fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min {:02} s", seconds % 60),
        (hours, minutes) => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_for_people() {
        assert_eq!(duration(Duration::from_secs(9)), "9 s");
        assert_eq!(duration(Duration::from_secs(61)), "1 min 01 s");
        assert_eq!(
            duration(Duration::from_secs(3 * 3600 + 5 * 60 + 59)),
            "3 h 05 min"
        );
    }
}
