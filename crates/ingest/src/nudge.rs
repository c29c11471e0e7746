//! Wakes a run that sleeps at the tip, so that it looks at the source before its poll is due.
//!
//! In: questions about the tip from those who serve it ([`Nudge::ask`]), and tips named by a node that pushes
//! ([`Nudge::name`]). Out: a look of the run, soon; never an answer, for nobody waits here. How soon is bounded
//! ([`Settings::nudge_gap`](crate::Settings::nudge_gap)): many callers cost the node no more than one, and no callers nothing.
//!
//! A named tip is no more than a reason to look: what is indexed is what the source itself says afterwards.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lightship_chain::BlockId;

use crate::stop::Inner;

/// What the callers leave behind.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    asked: AtomicBool,
    named: Mutex<Option<BlockId>>,
}

impl Bell {
    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    fn named(&self) -> Option<BlockId> {
        *self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the run that was given the same [`Stop`](crate::Stop). Clones are one.
#[derive(Clone, Debug)]
pub struct Nudge {
    inner: Arc<Inner>,
}

impl Nudge {
    pub(crate) fn new(inner: Arc<Inner>) -> Nudge {
        Nudge { inner }
    }

    /// Somebody wants to know the tip. Nothing is waited for; until the run has taken notice of the last time, this costs one
    /// atomic load.
    pub fn ask(&self) {
        let asked = &self.inner.bell.asked;
        if !asked.load(Ordering::Relaxed) && !asked.swap(true, Ordering::AcqRel) {
            self.inner.ring();
        }
    }

    /// A node says that this is its tip. It need not be true.
    pub fn name(&self, tip: BlockId) {
        let before = {
            let mut named = self
                .inner
                .bell
                .named
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            named.replace(tip)
        };
        if before != Some(tip) {
            self.inner.ring();
        }
    }
}

/// When a run may look. Looks for callers and looks for names are bounded each by itself, so that a name never waits for the
/// callers' turn.
#[derive(Debug)]
pub(crate) struct Looks {
    gap: Duration,
    began: Instant,
    /// The end of the last look at all, and how long it took.
    last: Option<(Instant, Duration)>,
    /// The same of the last one for a name.
    last_named: Option<(Instant, Duration)>,
    /// The name last looked for, and how often; [`Looks::TRIES`] once it was found.
    looked_for: Option<(BlockId, u32)>,
}

impl Looks {
    /// A named tip that the source has not got is looked for so often, with gaps that double: nodes announce a block a moment
    /// before they call it their tip. After that it is left to the poll.
    const TRIES: u32 = 6;

    pub(crate) fn new(gap: Duration) -> Looks {
        Looks {
            gap,
            began: Instant::now(),
            last: None,
            last_named: None,
            looked_for: None,
        }
    }

    /// From when on a run that has `seen` this tip has a reason to look and may; `None` without a reason.
    pub(crate) fn due(&self, bell: &Bell, seen: Option<BlockId>) -> Option<Instant> {
        let asked = bell.is_asked().then(|| self.opens(self.last, 0));
        let named = bell.named().filter(|named| Some(*named) != seen);
        let named = named.and_then(|named| {
            let tries = self.tries(named);
            (tries < Looks::TRIES).then(|| self.opens(self.last_named, tries))
        });
        match (asked, named) {
            (Some(asked), Some(named)) => Some(asked.min(named)),
            (one, other) => one.or(other),
        }
    }

    /// Callers from now on want another look.
    pub(crate) fn begin(&mut self, bell: &Bell) -> Look {
        bell.asked.store(false, Ordering::Release);
        Look {
            began: Instant::now(),
            named: bell.named(),
        }
    }

    /// The source said that its tip is `found`, or nothing.
    pub(crate) fn end(&mut self, look: Look, found: Option<BlockId>) {
        let end = (Instant::now(), look.began.elapsed());
        self.last = Some(end);
        if let Some(named) = look.named {
            let tries = self.tries(named);
            if tries < Looks::TRIES {
                self.last_named = Some(end);
            }
            self.looked_for = Some(match found == Some(named) {
                true => (named, Looks::TRIES),
                false => (named, (tries + 1).min(Looks::TRIES)),
            });
        }
    }

    fn tries(&self, named: BlockId) -> u32 {
        match self.looked_for {
            Some((before, tries)) if before == named => tries,
            _ => 0,
        }
    }

    /// A node has at least as much time for others as for us, however slow it is.
    fn opens(&self, last: Option<(Instant, Duration)>, tries: u32) -> Instant {
        match last {
            Some((ended, took)) => ended + (self.gap * 2u32.pow(tries)).max(took),
            None => self.began,
        }
    }
}

/// A look on its way.
#[derive(Debug)]
pub(crate) struct Look {
    began: Instant,
    named: Option<BlockId>,
}

#[cfg(test)]
mod tests {
    use lightship_chain::{BlockHash, Height};

    use super::*;
    use crate::Stop;

    const GAP: Duration = Duration::from_secs(10);

    fn block(height: u32) -> BlockId {
        BlockId {
            height: Height::new(height),
            hash: BlockHash::ZERO,
        }
    }

    /// In how many gaps the next look is due.
    fn gaps(looks: &Looks, stop: &Stop, seen: u32) -> Option<u32> {
        let due = looks.due(stop.bell(), Some(block(seen)))?;
        let left = due.saturating_duration_since(Instant::now());
        Some((left.as_secs_f64() / GAP.as_secs_f64()).ceil() as u32)
    }

    #[test]
    fn a_look_is_due_at_once_and_the_next_one_after_a_gap() {
        let stop = Stop::new();
        let mut looks = Looks::new(GAP);
        assert_eq!(gaps(&looks, &stop, 1), None);
        stop.nudge().ask();
        stop.nudge().ask();
        assert_eq!(gaps(&looks, &stop, 1), Some(0));
        let look = looks.begin(stop.bell());
        looks.end(look, Some(block(1)));
        assert_eq!(gaps(&looks, &stop, 1), None, "both callers had their look");
        stop.nudge().ask();
        assert_eq!(gaps(&looks, &stop, 1), Some(1));
    }

    #[test]
    fn who_asks_during_a_look_gets_another() {
        let stop = Stop::new();
        let mut looks = Looks::new(GAP);
        let look = looks.begin(stop.bell());
        stop.nudge().ask();
        looks.end(look, Some(block(1)));
        assert_eq!(gaps(&looks, &stop, 1), Some(1));
    }

    #[test]
    fn a_name_does_not_wait_for_the_callers_turn_and_is_forgotten_when_found() {
        let stop = Stop::new();
        let mut looks = Looks::new(GAP);
        let look = looks.begin(stop.bell());
        looks.end(look, Some(block(1)));
        stop.nudge().name(block(1));
        assert_eq!(gaps(&looks, &stop, 1), None, "it is the tip already");
        stop.nudge().name(block(2));
        assert_eq!(gaps(&looks, &stop, 1), Some(0));
        let look = looks.begin(stop.bell());
        looks.end(look, Some(block(2)));
        assert_eq!(gaps(&looks, &stop, 2), None);
        assert_eq!(gaps(&looks, &stop, 1), None, "also after it was left again");
    }

    #[test]
    fn a_name_that_the_source_does_not_have_is_looked_for_less_and_less_and_then_no_more() {
        let stop = Stop::new();
        let mut looks = Looks::new(GAP);
        stop.nudge().name(block(9));
        let mut seen = Vec::new();
        while let Some(left) = gaps(&looks, &stop, 1) {
            seen.push(left);
            let look = looks.begin(stop.bell());
            looks.end(look, Some(block(1)));
        }
        assert_eq!(seen, [0, 2, 4, 8, 16, 32]);
        stop.nudge().name(block(9));
        assert_eq!(gaps(&looks, &stop, 1), None, "said again it is no news");
        stop.nudge().name(block(10));
        assert_eq!(
            gaps(&looks, &stop, 1),
            Some(1),
            "another one is, in its turn"
        );
    }
}
