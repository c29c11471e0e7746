//! One run: from the first question to the source until stop.
//!
//! In: a source, a writer, settings. Out: nothing but the index, the numbers in [`Progress`], and a few log lines. Here are the
//! loop around single [steps](crate::follow), the pauses between attempts that fail, and the decision whether a failure ends
//! the run: what a node does never ends it once it has answered, for a node that is away, restarts, or lies comes back.

use std::{sync::Arc, time::Instant};

use lightship_chain::{BlockHash, BlockId, Height, TreeSizes};
use lightship_index::Writer;
use lightship_source::{BlockSource, Error as SourceError};

use crate::{
    Error, Progress, Result, Settings, Stop, Until,
    appender::Appender,
    ask::{Asker, NoAnswer, Pending},
    error::Trouble,
    follow::{Fetched, Held, Step},
    newest::HeadStart,
    nudge::Looks,
    pace::{LogGate, Pauses},
    progress::Activity,
};

/// Keeps the index on the source's best chain until stopped, or until the tip is reached ([`Until::Tip`]).
///
/// Blocks the calling thread. Returns within a second of [`Stop::stop`]: calls to the source are made on other threads, and
/// one that hangs in it is left behind until the source's own timeout ends it; the writer is closed by then. The disk is
/// waited for: a sync in progress is finished first.
///
/// # Errors
///
/// [`Error::Credentials`] and [`Error::Settings`] before the source's first answer; [`Error::WrongChain`],
/// [`Error::TreeSizes`] and [`Error::Index`] at any time. In all cases the index holds what it held. (A full disk is no error but a
/// stall: the run goes on once there is room.)
pub fn run(
    source: Arc<dyn BlockSource>,
    writer: Writer,
    settings: Settings,
    progress: Arc<Progress>,
    stop: &Stop,
) -> Result<()> {
    let appender = Appender::new(writer, Arc::clone(&progress), settings.batch_blocks.get());
    Run {
        asker: Asker::new(Arc::clone(&source), stop.clone()),
        glancer: Asker::new(Arc::clone(&source), stop.clone()),
        waiter: Asker::new(Arc::clone(&source), stop.clone()),
        waiting: None,
        looks: Looks::new(settings.nudge_gap),
        looked: None,
        pauses: Pauses::new(settings.first_pause, settings.longest_pause),
        gate: LogGate::new(settings.log_every),
        fetched: Fetched::new(settings.max_bytes_in_flight),
        head_start: HeadStart::new(settings.newest_first_rest),
        source,
        appender,
        settings,
        progress,
        stop: stop.clone(),
        target: None,
        glance: None,
        sizes: SizeCheck::default(),
        held: None,
        failed_at: None,
        disk_was_full: false,
        answered: false,
    }
    .go_on()
}

/// What a run holds.
pub(crate) struct Run {
    pub(crate) source: Arc<dyn BlockSource>,
    pub(crate) appender: Appender,
    pub(crate) settings: Settings,
    pub(crate) progress: Arc<Progress>,
    pub(crate) stop: Stop,
    /// The source's tip as last announced.
    pub(crate) target: Option<BlockId>,
    /// Blocks fetched by hash and not taken yet.
    pub(crate) fetched: Fetched,
    /// A rollback that is not followed yet.
    pub(crate) held: Option<Held>,
    /// Asks what this thread needs to know before it goes on.
    pub(crate) asker: Asker,
    /// Asks what this thread wants to know while it goes on.
    glancer: Asker,
    glance: Option<Glance>,
    /// Waits for a new tip while this thread sleeps, or has gone on because it was nudged.
    waiter: Asker,
    waiting: Option<Waiting>,
    looks: Looks,
    /// The tip that a look between two steps has found: the next step's.
    pub(crate) looked: Option<BlockId>,
    sizes: SizeCheck,
    pub(crate) head_start: HeadStart,
    pauses: Pauses,
    gate: LogGate,
    /// Where the last failure was met; growth below it is no success yet.
    failed_at: Option<Height>,
    /// The writer must read the disk again before it can write.
    disk_was_full: bool,
    /// Whether the source has ever answered.
    answered: bool,
}

/// A question under way while blocks are being taken.
enum Glance {
    /// The tip, and the hash where our highest island ends.
    Tip(
        Option<BlockId>,
        Pending<(Option<BlockId>, Option<BlockHash>)>,
    ),
    Sizes(BlockId, TreeSizes, Pending<Option<TreeSizes>>),
}

/// The source waits for its tip to differ from what was seen.
struct Waiting {
    seen: Option<BlockId>,
    pending: Pending<()>,
}

/// When tree sizes were last compared with the source's.
#[derive(Default)]
struct SizeCheck {
    /// Blocks taken then, as [`Progress`] counts them.
    at_block: u64,
    /// The source can never tell: asked once, not again.
    given_up: bool,
}

impl Run {
    fn go_on(mut self) -> Result<()> {
        let ended = loop {
            if self.stop.is_stopped() {
                break Ok(());
            }
            match self.greet_and_step() {
                Ok(Step::Worked) => self.advanced(),
                Ok(Step::AtTip(tip)) => {
                    self.advanced();
                    if self.settings.until == Until::Tip && tip.is_some() {
                        break Ok(());
                    }
                    if let Err(trouble) = self.wait(tip)
                        && let Some(ended) = self.stumble(trouble)
                    {
                        break ended;
                    }
                }
                Err(trouble) => {
                    if let Some(ended) = self.stumble(trouble) {
                        break ended;
                    }
                }
            }
        };
        if ended.is_ok() && !self.disk_was_full {
            // What was taken and is whole stays taken.
            match self.appender.commit() {
                Err(Trouble::Fatal(error)) => return Err(error),
                Err(Trouble::Full(error)) => return Err(error.into()),
                _ => {}
            }
        }
        ended
    }

    fn greet_and_step(&mut self) -> Result<Step, Trouble> {
        if self.disk_was_full {
            self.appender.reopen()?;
            self.disk_was_full = false;
        }
        if !self.answered {
            let theirs = self.ask(|source| source.genesis())?;
            let ours = self.appender.store().genesis;
            if theirs != ours {
                return Err(Error::WrongChain { ours, theirs }.into());
            }
            self.answered = true;
            tracing::info!(genesis = %ours, end = ?self.appender.end().map(|id| id.height.get()), "source answers");
        }
        self.step()
    }

    /// Asks the source.
    pub(crate) fn ask<T, F>(&mut self, question: F) -> Result<T, Trouble>
    where
        T: Send + 'static,
        F: FnOnce(&dyn BlockSource) -> Result<T, SourceError> + Send + 'static,
    {
        let answer = self.asker.ask(question);
        understand(&self.progress, answer)
    }

    /// Makes the source's tip known to readers and watchers.
    pub(crate) fn announce(&mut self, tip: Option<BlockId>) {
        self.progress.set_target(tip);
        if tip != self.target {
            self.target = tip;
            self.appender.announce(tip);
        }
    }

    /// Looks at the source without waiting for it: its tip, and now and then the tree sizes.
    pub(crate) fn glance(&mut self) -> Result<(), Trouble> {
        match self.glance.take() {
            Some(Glance::Tip(island, pending)) => match pending.try_take() {
                None => self.glance = Some(Glance::Tip(island, pending)),
                // Failures show where the blocks are asked for.
                Some(answer) => {
                    if let Ok((tip @ Some(_), found)) = understand(&self.progress, answer) {
                        self.compare_island(island, found)?;
                        let inside = tip.and_then(|tip| {
                            let ours = self.appender.highest_of_islands(tip.height)?;
                            (ours.height == tip.height).then_some(ours)
                        });
                        self.compare_island(inside, tip.map(|tip| tip.hash))?;
                        self.announce(tip);
                    }
                }
            },
            Some(Glance::Sizes(block, counted, pending)) => match pending.try_take() {
                None => self.glance = Some(Glance::Sizes(block, counted, pending)),
                Some(answer) => {
                    let answer = understand(&self.progress, answer);
                    match self.compare(block, counted, answer) {
                        Ok(()) => self.sizes.at_block = self.progress.blocks(),
                        Err(fatal @ Trouble::Fatal(_)) => return Err(fatal),
                        // The comparison stays due; the failure shows where the blocks are asked for.
                        Err(_) => {}
                    }
                }
            },
            None => {
                self.glance = Some(match self.appender.end() {
                    Some(end) if self.sizes_are_due() => {
                        let pending = self
                            .glancer
                            .start(move |source| source.tree_sizes(end.hash));
                        Glance::Sizes(end, self.appender.sizes(), pending)
                    }
                    _ => {
                        let island = self.appender.highest_of_islands(Height::MAX);
                        let pending = self.glancer.start(move |source| {
                            let tip = source.tip()?;
                            let found = island.map(|island| source.hash_at(island.height));
                            Ok((tip, found.transpose()?.flatten()))
                        });
                        Glance::Tip(island, pending)
                    }
                });
            }
        }
        Ok(())
    }

    fn sizes_are_due(&self) -> bool {
        let since = self.progress.blocks().saturating_sub(self.sizes.at_block);
        !self.sizes.given_up && since >= u64::from(self.settings.check_sizes_every_blocks.get())
    }

    /// Compares the tree sizes at our end with the source's, if that is due or `now`.
    pub(crate) fn check_sizes(&mut self, now: bool) -> Result<(), Trouble> {
        let Some(end) = self.appender.end() else {
            return Ok(());
        };
        if self.sizes.given_up || !(now || self.sizes_are_due()) {
            return Ok(());
        }
        let counted = self.appender.sizes();
        let answer = self.ask(move |source| source.tree_sizes(end.hash));
        self.compare(end, counted, answer)?;
        self.sizes.at_block = self.progress.blocks();
        Ok(())
    }

    fn compare(
        &mut self,
        block: BlockId,
        counted: TreeSizes,
        answer: Result<Option<TreeSizes>, Trouble>,
    ) -> Result<(), Trouble> {
        match answer {
            Ok(Some(reported)) if reported == counted => {
                tracing::debug!(%block, "tree sizes agree with the source");
                Ok(())
            }
            Ok(Some(reported)) => Err(Error::TreeSizes {
                block,
                counted,
                reported,
            }
            .into()),
            // It has left the node's chain meanwhile.
            Ok(None) => Ok(()),
            Err(Trouble::Source(error @ SourceError::Unsupported { .. })) => {
                tracing::warn!(%error, "the source cannot tell tree sizes, so they are not compared");
                self.sizes.given_up = true;
                Ok(())
            }
            // One odd answer says nothing of the next.
            Err(Trouble::Source(error @ SourceError::Rpc { .. })) => {
                tracing::warn!(%error, "the source did not tell tree sizes, so they are compared another time");
                Ok(())
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Sleeps until the source's tip is no longer `seen`, without asking more often than the settings say.
    fn wait(&mut self, seen: Option<BlockId>) -> Result<(), Trouble> {
        let began = Instant::now();
        let patience = self.settings.wait;
        let waiting = match self.waiting.take() {
            Some(waiting) => waiting,
            None => Waiting {
                seen,
                pending: self.waiter.start(move |source| source.wait(seen, patience)),
            },
        };
        // A wait that was begun at another tip does not notice when this one is left for that.
        let mut poll = (waiting.seen != seen).then(|| began + self.settings.poll);
        self.waiting = Some(waiting);
        loop {
            let due = self.looks.due(self.stop.bell(), seen);
            self.sleep_until(due.into_iter().chain(poll).min(), due, seen);
            if self.stop.is_stopped() {
                return Err(Trouble::Stopped);
            }
            let answer = self
                .waiting
                .as_ref()
                .and_then(|waiting| waiting.pending.try_take());
            if let Some(answer) = answer {
                self.waiting = None;
                understand(&self.progress, answer)?;
                // A source whose wait returns early must not make this thread spin.
                let end = began + self.settings.poll;
                if end <= Instant::now() || self.look(seen)? {
                    return Ok(());
                }
                poll = Some(end);
            } else if poll.is_some_and(|poll| poll <= Instant::now()) {
                if self.waiting.is_none() || self.look(seen)? {
                    return Ok(());
                }
                poll = Some(Instant::now() + self.settings.poll);
            } else if due.is_some_and(|due| due <= Instant::now()) && self.look(seen)? {
                return Ok(());
            }
        }
    }

    /// Sleeps until then, or the source's word, or a nudge that makes a look `due` at another time.
    fn sleep_until(&self, end: Option<Instant>, due: Option<Instant>, seen: Option<BlockId>) {
        let patience = end.map(|end| end.saturating_duration_since(Instant::now()));
        self.stop.wait_until(patience, || {
            let word = self
                .waiting
                .as_ref()
                .is_some_and(|waiting| waiting.pending.is_ready());
            word || self.looks.due(self.stop.bell(), seen) != due
        });
    }

    /// Whether the source's tip is another than `seen`. The next step goes there.
    fn look(&mut self, seen: Option<BlockId>) -> Result<bool, Trouble> {
        let look = self.looks.begin(self.stop.bell());
        let answer = self.ask(|source| source.tip());
        self.looks
            .end(look, answer.as_ref().ok().copied().flatten());
        let tip = answer?;
        self.looked = tip.filter(|_| tip != seen);
        Ok(tip != seen)
    }

    /// Blocks were taken: a stall is over if they reach beyond where it began.
    pub(crate) fn grew(&mut self) {
        self.appender.tell();
        if self.failed_at < self.appender.end().map(|end| end.height) {
            self.advanced();
        }
    }

    /// Something was achieved: a stall is over.
    pub(crate) fn advanced(&mut self) {
        self.pauses.reset();
        self.failed_at = None;
        if let Some(lasted) = self.progress.resume()
            && self.gate.opens_for_change()
        {
            tracing::info!(?lasted, end = ?self.appender.end().map(|id| id.height.get()), "going on");
        }
    }

    /// An attempt failed: ends the run, or pauses.
    fn stumble(&mut self, trouble: Trouble) -> Option<Result<()>> {
        let (why, loud) = match trouble {
            Trouble::Stopped => return Some(Ok(())),
            Trouble::Fatal(error) => return Some(Err(error)),
            Trouble::Source(error) => {
                if !self.answered && !error.is_transient() {
                    if error.is_credentials() {
                        return Some(Err(Error::Credentials(error)));
                    }
                    if matches!(
                        error,
                        SourceError::Endpoint { .. }
                            | SourceError::File { .. }
                            | SourceError::Io { .. }
                            | SourceError::State { .. }
                    ) {
                        return Some(Err(Error::Settings(error)));
                    }
                }
                (error.to_string(), error.is_credentials())
            }
            Trouble::Unusable(why) => (why, false),
            Trouble::Full(error) => {
                self.disk_was_full = true;
                (format!("the disk is full: {error}"), true)
            }
            Trouble::Refused(refusal) => {
                self.progress.refused_block();
                (refusal.to_string(), true)
            }
        };
        if !self.disk_was_full {
            // Readers see what was taken although no more comes.
            match self.appender.commit() {
                Err(Trouble::Fatal(error)) => return Some(Err(error)),
                Err(Trouble::Full(_)) => self.disk_was_full = true,
                _ => {}
            }
        }
        self.failed_at = self
            .failed_at
            .max(self.appender.end().map(|end| end.height));
        let news = self.progress.stall(why.clone(), self.disk_was_full);
        let pause = self.pauses.next();
        let logged = if news {
            self.gate.opens_for_change()
        } else {
            self.gate.opens_for_repeat()
        };
        if logged {
            let end = self.appender.end().map(|id| id.height.get());
            if loud {
                tracing::error!(why, ?end, "stalled: what is stored stays served");
            } else {
                tracing::warn!(why, ?end, "stalled: what is stored stays served");
            }
        }
        self.stop.wait_timeout(pause).then_some(Ok(()))
    }

    pub(crate) fn set_activity(&self, activity: Activity) {
        if self.progress.set_activity(activity) {
            tracing::debug!(?activity, "state");
        }
    }
}

/// Notes that the source is alive, or sorts what went wrong.
pub(crate) fn understand<T>(
    progress: &Progress,
    answer: Result<T, NoAnswer>,
) -> Result<T, Trouble> {
    match answer {
        Ok(answer) => {
            progress.heard();
            Ok(answer)
        }
        Err(NoAnswer::Stopped) => Err(Trouble::Stopped),
        Err(NoAnswer::Source(error)) => Err(Trouble::Source(error)),
        Err(NoAnswer::Panicked(message)) => {
            Err(Trouble::Unusable(format!("the source panicked: {message}")))
        }
    }
}
