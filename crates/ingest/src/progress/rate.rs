//! The arithmetic of rates and of the time left.
//!
//! In: totals at moments. Out: means over a sliding window, and how long the rest takes at that pace. Pure: time is an
//! argument, counted from any fixed moment.

use std::{collections::VecDeque, time::Duration};

use lightship_chain::Height;

/// A pace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Blocks a second.
    pub blocks_per_second: f64,
    /// Bytes of consensus serialization a second.
    pub bytes_per_second: f64,
}

/// Totals at moments of the recent past.
#[derive(Clone, Debug)]
pub struct Window {
    length: Duration,
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    blocks: u64,
    bytes: u64,
}

impl Window {
    /// Samples kept: their spacing is the window's length over this.
    const SAMPLES: u32 = 60;
    /// A mean over less than this fraction of the window is noise, and not given.
    const LEAST: u32 = 15;

    /// Means over `length`.
    pub fn new(length: Duration) -> Window {
        Window {
            length,
            samples: VecDeque::new(),
        }
    }

    /// The totals at `now`. Cheap to call often: samples too near to the last are not kept.
    pub fn record(&mut self, now: Duration, blocks: u64, bytes: u64) {
        let spacing = self.length / Window::SAMPLES;
        if self
            .samples
            .back()
            .is_some_and(|last| now.saturating_sub(last.at) < spacing)
        {
            return;
        }
        while self
            .samples
            .front()
            .is_some_and(|first| now.saturating_sub(first.at) > self.length)
        {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            at: now,
            blocks,
            bytes,
        });
    }

    /// The mean pace between the oldest sample inside the window and `now`, when the totals are these. A standstill shows:
    /// it falls towards zero. `None` while too little time was seen.
    pub fn rate(&self, now: Duration, blocks: u64, bytes: u64) -> Option<Rate> {
        let Some(oldest) = self
            .samples
            .iter()
            .find(|sample| now.saturating_sub(sample.at) <= self.length)
        else {
            // Nothing was added for a whole window.
            return (!self.samples.is_empty()).then_some(Rate {
                blocks_per_second: 0.0,
                bytes_per_second: 0.0,
            });
        };
        let elapsed = now.saturating_sub(oldest.at);
        if elapsed < self.length / Window::LEAST || elapsed.is_zero() {
            return None;
        }
        let seconds = elapsed.as_secs_f64();
        Some(Rate {
            blocks_per_second: blocks.saturating_sub(oldest.blocks) as f64 / seconds,
            bytes_per_second: bytes.saturating_sub(oldest.bytes) as f64 / seconds,
        })
    }
}

/// How long the blocks between `indexed` and `target` take at `rate`.
///
/// By blocks, for the bytes of blocks not yet seen are unknown: over stretches of chain whose blocks grow it is too short.
/// `None` when there is no target, no pace, or the answer would be past a year and so means nothing.
pub fn time_left(
    indexed: Option<Height>,
    target: Option<Height>,
    rate: Option<Rate>,
) -> Option<Duration> {
    const YEAR: f64 = 365.0 * 86_400.0;
    let target = u64::from(target?) + 1;
    let done = indexed.map_or(0, |height| u64::from(height) + 1);
    let blocks = target.saturating_sub(done);
    if blocks == 0 {
        return Some(Duration::ZERO);
    }
    let seconds = blocks as f64 / rate?.blocks_per_second;
    (seconds <= YEAR).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace(blocks_per_second: f64) -> Option<Rate> {
        Some(Rate {
            blocks_per_second,
            bytes_per_second: 0.0,
        })
    }

    #[test]
    fn a_steady_pace_is_its_mean() {
        let mut window = Window::new(30 * SECOND);
        for second in 0..100u32 {
            let done = u64::from(second);
            window.record(SECOND * second, done * 50, done * 7_000);
        }
        let rate = window.rate(99 * SECOND, 99 * 50, 99 * 7_000).unwrap();
        assert_eq!(
            (rate.blocks_per_second, rate.bytes_per_second),
            (50.0, 7_000.0)
        );
    }

    #[test]
    fn only_the_recent_past_counts() {
        let mut window = Window::new(30 * SECOND);
        for second in 0..=100u32 {
            window.record(SECOND * second, u64::from(second) * 1_000, 0);
        }
        // Slower by a hundred from second 100 on.
        for second in 101..=140u32 {
            window.record(SECOND * second, 100_000 + u64::from(second - 100) * 10, 0);
        }
        let rate = window.rate(140 * SECOND, 100_400, 0).unwrap();
        assert_eq!(rate.blocks_per_second, 10.0);
    }

    #[test]
    fn a_standstill_falls_to_zero() {
        let mut window = Window::new(30 * SECOND);
        for second in 0..=10u32 {
            window.record(SECOND * second, u64::from(second) * 100, 0);
        }
        let soon = window.rate(20 * SECOND, 1_000, 0).unwrap();
        let later = window.rate(35 * SECOND, 1_000, 0).unwrap();
        let much_later = window.rate(500 * SECOND, 1_000, 0).unwrap();
        assert!(soon.blocks_per_second > later.blocks_per_second);
        assert_eq!(much_later.blocks_per_second, 0.0);
        assert_eq!(
            time_left(Some(Height::new(1)), Some(Height::new(2)), Some(much_later)),
            None
        );
    }

    #[test]
    fn too_little_time_gives_no_rate() {
        let mut window = Window::new(30 * SECOND);
        assert_eq!(window.rate(SECOND, 0, 0), None);
        window.record(SECOND, 1_000, 0);
        assert_eq!(window.rate(SECOND, 1_000, 0), None);
        assert_eq!(window.rate(SECOND * 2, 2_000, 0), None);
        assert!(window.rate(SECOND * 4, 3_000, 0).is_some());
    }

    #[test]
    fn samples_are_bounded_however_often_they_come() {
        let mut window = Window::new(30 * SECOND);
        for milli in 0..120_000u32 {
            window.record(Duration::from_millis(milli.into()), milli.into(), 0);
        }
        assert!(window.samples.len() <= 62, "{}", window.samples.len());
    }

    #[test]
    fn the_time_left_counts_the_blocks_that_are_missing() {
        let heights = |indexed: Option<u32>, target: u32| {
            (indexed.map(Height::new), Some(Height::new(target)))
        };
        let (indexed, target) = heights(Some(99), 199);
        assert_eq!(time_left(indexed, target, pace(10.0)), Some(10 * SECOND));
        let (indexed, target) = heights(None, 99);
        assert_eq!(time_left(indexed, target, pace(10.0)), Some(10 * SECOND));
        let (indexed, target) = heights(Some(100), 99);
        assert_eq!(time_left(indexed, target, None), Some(Duration::ZERO));
    }

    #[test]
    fn without_a_pace_or_a_target_the_time_left_is_unknown() {
        let five = Some(Height::new(5));
        assert_eq!(time_left(five, None, pace(10.0)), None);
        assert_eq!(time_left(None, five, None), None);
        assert_eq!(time_left(None, five, pace(0.0)), None);
        assert_eq!(time_left(None, five, pace(1e-12)), None);
    }
}
