//! Whether the newest blocks still come first.
//!
//! In: each attempt that failed, and each range that was sealed above the gap. Out: whether to try again now. What fails is tried again a few times at
//! once, then after rests in which the gap is filled, each twice as long as the last up to a bound. How often there is another rest depends on what
//! failed: a source that is away comes back some day, one that answers and whose answers are of no use is asked after a few rests more and no longer.

use std::time::{Duration, Instant};

use lightship_source::Error as SourceError;

use crate::{error::Trouble, pace::Pauses};

/// Attempts in a row that may fail before the first rest. After a rest one is enough for the next.
const MOST_FAILURES: u32 = 5;
/// Rests in a row that answers of no use may bring about; then it is over for this process.
const MOST_RESTS: u32 = 6;
/// The longest rest is so many times the first.
const LONGEST_REST: u32 = 8;

/// What failed while a part of the newest blocks was being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The source answered, and the answer is of no use.
    Answer,
    /// The source was away.
    Away,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct HeadStart {
    failures: u32,
    rests: Pauses,
    /// Rests in a row that answers brought about.
    rests_for_answers: u32,
    /// When the rest ends.
    until: Option<Instant>,
    over: bool,
}

impl HeadStart {
    /// That rests so long the first time.
    pub(crate) fn new(first_rest: Duration) -> HeadStart {
        HeadStart {
            failures: 0,
            rests: Pauses::new(first_rest, first_rest.saturating_mul(LONGEST_REST)),
            rests_for_answers: 0,
            until: None,
            over: false,
        }
    }

    /// Whether it is over for this process.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether the gap is to be filled meanwhile.
    pub(crate) fn rests(&mut self, now: Instant) -> bool {
        self.until = self.until.filter(|until| now < *until);
        self.until.is_some()
    }

    /// A range was sealed above the gap.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
        self.rests_for_answers = 0;
        self.rests.reset();
        self.until = None;
    }

    /// An attempt failed; `at_sizes` when what was asked for are tree sizes, for which the blocks of the gap do not wait.
    pub(crate) fn failed(&mut self, trouble: &Trouble, at_sizes: bool, now: Instant) {
        let failure = match trouble {
            // It cannot tell, and will not learn it.
            Trouble::Source(error @ SourceError::Unsupported { .. }) if at_sizes => {
                tracing::warn!(%error, "the source cannot tell tree sizes, so the newest blocks come in their turn");
                self.over = true;
                return;
            }
            // An answer that cannot be read is no sign of a source that is away: it may never get better.
            Trouble::Source(error)
                if error.is_transient() && !matches!(error, SourceError::Shape { .. }) =>
            {
                Failure::Away
            }
            Trouble::Source(_) | Trouble::Unusable(_) | Trouble::Refused(_) => Failure::Answer,
            Trouble::Stopped | Trouble::Full(_) | Trouble::Fatal(_) => return,
        };
        if failure == Failure::Away && !at_sizes {
            // Neither are the blocks of the gap to be had: nothing is gained by turning to them.
            return;
        }
        self.failures += 1;
        if self.failures < MOST_FAILURES {
            return;
        }
        self.failures = MOST_FAILURES - 1;
        self.rests_for_answers += u32::from(failure == Failure::Answer);
        self.over = self.rests_for_answers > MOST_RESTS;
        if self.over {
            tracing::warn!(
                ?trouble,
                "the newest blocks cannot be had first, as often as it was tried: they come in their turn"
            );
            return;
        }
        let rest = self.rests.next();
        tracing::warn!(
            ?trouble,
            ?rest,
            "the newest blocks cannot be had first: the others come meanwhile, and these are tried for again"
        );
        self.until = now.checked_add(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(60);

    fn away() -> Trouble {
        Trouble::Source(SourceError::Unreachable {
            node: "here".to_owned(),
            reason: "refused".to_owned(),
        })
    }

    fn odd() -> Trouble {
        Trouble::Source(SourceError::Rpc {
            method: "getblock".to_owned(),
            code: -1,
            message: "odd".to_owned(),
        })
    }

    /// The rests that follow as long as each attempt fails at tree sizes, at most `most` of them.
    fn rests(head_start: &mut HeadStart, trouble: fn() -> Trouble, most: usize) -> Vec<u64> {
        let mut now = Instant::now();
        let mut rests = Vec::new();
        while rests.len() < most && !head_start.is_over() {
            if head_start.rests(now) {
                let end = head_start.until.unwrap();
                rests.push((end - now).as_secs());
                assert!(head_start.rests(end - Duration::from_nanos(1)));
                now = end;
            } else {
                head_start.failed(&trouble(), true, now);
            }
        }
        rests
    }

    #[test]
    fn some_attempts_come_before_the_first_rest_and_one_before_each_further() {
        let mut head_start = HeadStart::new(REST);
        let now = Instant::now();
        for _ in 1..MOST_FAILURES {
            head_start.failed(&odd(), true, now);
            assert!(!head_start.rests(now));
        }
        head_start.failed(&odd(), true, now);
        assert!(head_start.rests(now) && !head_start.rests(now + REST));
        head_start.failed(&odd(), true, now + REST);
        assert!(head_start.rests(now + REST));
    }

    #[test]
    fn rests_for_answers_of_no_use_are_few_and_grow() {
        let mut head_start = HeadStart::new(REST);
        let found = rests(&mut head_start, odd, 100);
        assert_eq!(found, [60, 120, 240, 480, 480, 480]);
        assert!(head_start.is_over());
    }

    #[test]
    fn a_source_that_is_away_is_asked_again_however_long() {
        let mut head_start = HeadStart::new(REST);
        assert_eq!(rests(&mut head_start, away, 200)[198..], [480, 480]);
        assert!(!head_start.is_over());
    }

    #[test]
    fn a_range_that_is_sealed_makes_good_what_failed_before() {
        let mut head_start = HeadStart::new(REST);
        assert_eq!(rests(&mut head_start, odd, 6).len(), 6);
        head_start.succeeded();
        assert_eq!(rests(&mut head_start, odd, 100).len(), 6);
    }

    #[test]
    fn what_is_not_the_fault_of_the_newest_blocks_does_not_count() {
        let mut head_start = HeadStart::new(REST);
        let now = Instant::now();
        for _ in 0..100 {
            // The blocks of the gap are not to be had either.
            head_start.failed(&away(), false, now);
            head_start.failed(&Trouble::Stopped, true, now);
        }
        assert!(!head_start.rests(now) && !head_start.is_over());
    }

    #[test]
    fn a_source_that_can_never_tell_is_asked_once() {
        let mut head_start = HeadStart::new(REST);
        let never = Trouble::Source(SourceError::Unsupported {
            what: "tree sizes".to_owned(),
        });
        head_start.failed(&never, true, Instant::now());
        assert!(head_start.is_over());
    }
}
