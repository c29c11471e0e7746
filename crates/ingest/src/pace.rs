//! How often: pauses between attempts, and log lines about them.
//!
//! In: failures. Out: growing pauses, and a yes or no to each log line. Both bounded, for a node may be away for days.

use std::time::{Duration, Instant};

/// Pauses that double up to a bound.
#[derive(Debug)]
pub(crate) struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pauses {
    pub(crate) fn new(first: Duration, longest: Duration) -> Pauses {
        Pauses {
            first,
            longest,
            next: first,
        }
    }

    /// The pause to make now.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2);
        pause
    }

    /// Back to the first.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Lets a log line about a lasting state through once an interval, and lines about changes until there are too many.
#[derive(Debug)]
pub(crate) struct LogGate {
    every: Duration,
    opened: Option<Instant>,
    interval_began: Instant,
    changes: u32,
}

impl LogGate {
    /// Changes let through an interval: a node that flaps is not a reason to fill a disk.
    const CHANGES: u32 = 10;

    pub(crate) fn new(every: Duration) -> LogGate {
        LogGate {
            every,
            opened: None,
            interval_began: Instant::now(),
            changes: 0,
        }
    }

    /// For a line about a change.
    pub(crate) fn opens_for_change(&mut self) -> bool {
        if self.interval_began.elapsed() >= self.every {
            self.interval_began = Instant::now();
            self.changes = 0;
        }
        self.changes += 1;
        let opens = self.changes <= LogGate::CHANGES;
        if opens {
            self.opened = Some(Instant::now());
        }
        opens
    }

    /// For a line that says the same again.
    pub(crate) fn opens_for_repeat(&mut self) -> bool {
        let opens = self
            .opened
            .is_none_or(|opened| opened.elapsed() >= self.every);
        if opens {
            self.opened = Some(Instant::now());
        }
        opens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_start_over() {
        let mut pauses = Pauses::new(Duration::from_millis(250), Duration::from_secs(1));
        let millis: Vec<_> = (0..5).map(|_| pauses.next().as_millis()).collect();
        assert_eq!(millis, [250, 500, 1_000, 1_000, 1_000]);
        pauses.reset();
        assert_eq!(pauses.next().as_millis(), 250);
    }

    #[test]
    fn log_lines_are_bounded() {
        let mut gate = LogGate::new(Duration::from_secs(3_600));
        assert!(gate.opens_for_change());
        assert!(!(0..1_000).any(|_| gate.opens_for_repeat()));
        assert_eq!((0..1_000).filter(|_| gate.opens_for_change()).count(), 9);

        let mut quick = LogGate::new(Duration::from_millis(10));
        assert!(quick.opens_for_change());
        std::thread::sleep(Duration::from_millis(15));
        assert!(quick.opens_for_repeat());
        assert!(!quick.opens_for_repeat());
    }
}
