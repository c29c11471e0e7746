//! Which final blocks come next: the newest first, then from genesis on.
//!
//! In: how far the index is, how far the source's final blocks reach. Out: an index with one more part of them. A wallet made or opened lately asks for
//! the newest blocks, so while the index is far behind, the newest [`newest_first_blocks`](crate::Settings::newest_first_blocks) are
//! sealed above the gap, in [parts](BATCH_RANGES), the newest part first; then the gap is filled from its lower end, and now and then what has
//! become final meanwhile is added above. A range cannot be built without the tree sizes below it: the source tells them, and again those at the
//! range's end, where they must be what the blocks add up to. What it told is trusted until the end that grows gets there, and not longer.
//! How the blocks come is left to [`bulk`](crate::bulk), how they lie on disk to the [appender](crate::appender).
//!
//! # Invariants
//!
//! - Islands hold blocks that were final, of the source's best chain. That chain is compared at their highest block before each part, and about once
//!   a second meanwhile; one that differs takes them all away.
//! - The walk by hash never meets one.

use std::num::NonZeroU32;

use lightship_chain::{BlockHash, BlockId, Height, HeightRange};
use lightship_source::Error as SourceError;

use crate::{error::Trouble, run::Run};

/// Ranges that are built in one go above the gap. More keep the workers busier, fewer bring the very newest earlier.
const BATCH_RANGES: u32 = 8;
/// With fewer ranges than this below the newest blocks, these come in their turn.
const LEAST_GAP_RANGES: u32 = 8;
/// After so many ranges of the gap it is looked for what has become final.
const FILL_RANGES: u32 = 64;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Whole ranges above a gap.
    Ahead(HeightRange),
    /// The heights above our end.
    InTurn(HeightRange),
}

/// What comes next when our end is below `next`, blocks through `last` are final, and `islands` are there already; `None` if nothing does.
fn next_part(
    next: Height,
    last: Height,
    range_blocks: NonZeroU32,
    newest_blocks: u32,
    islands: &[HeightRange],
) -> Option<Part> {
    let range = range_blocks.get();
    let blocks = last.get() + 1;
    let window = blocks.saturating_sub(newest_blocks) / range * range;
    let gap = u64::from(range) * u64::from(LEAST_GAP_RANGES);
    let far = newest_blocks > 0 && u64::from(window) >= u64::from(next.get()) + gap;
    if far && let Some(part) = newest_missing(window, blocks / range * range, range, islands) {
        return Some(Part::Ahead(part));
    }
    let mut through = last;
    if far {
        let some = (next.get() / range).saturating_add(FILL_RANGES);
        through = Height::new(last.get().min(some.saturating_mul(range) - 1));
    }
    if let Some(below) = islands.first().and_then(|island| island.first().previous()) {
        through = through.min(below);
    }
    HeightRange::new(next, through).map(Part::InTurn)
}

/// The highest heights from `first` to below `end`, both multiples of `range`, that no island has; as many ranges as go in one part.
fn newest_missing(
    first: u32,
    end: u32,
    range: u32,
    islands: &[HeightRange],
) -> Option<HeightRange> {
    let is_missing = |start: &u32| {
        let start = Height::new(*start);
        !islands
            .iter()
            .any(|island| island.first() <= start && start <= island.last())
    };
    let starts = || {
        (first / range..end / range)
            .rev()
            .map(|number| number * range)
    };
    let highest = starts().find(is_missing)?;
    let lowest = starts()
        .skip_while(|start| *start > highest)
        .take_while(is_missing)
        .take(BATCH_RANGES as usize)
        .last()?;
    HeightRange::new(Height::new(lowest), Height::new(highest + range - 1))
}

/// Whether the newest blocks still come first.
#[derive(Debug, Default)]
pub(crate) struct HeadStart {
    /// Attempts in a row that failed, but for a source that was away.
    failures: u32,
    given_up: bool,
}

impl HeadStart {
    /// So often the newest blocks are tried for; then they wait, lest they hold up the others.
    const MOST_FAILURES: u32 = 5;

    /// An attempt failed.
    fn failed(&mut self, trouble: &Trouble) {
        let counts = match trouble {
            // An answer that cannot be read is no sign of a node that is away: it may never get better.
            Trouble::Source(error) => {
                !error.is_transient() || matches!(error, SourceError::Shape { .. })
            }
            Trouble::Unusable(_) | Trouble::Refused(_) => true,
            Trouble::Stopped | Trouble::Full(_) | Trouble::Fatal(_) => false,
        };
        self.failures += u32::from(counts);
        if self.failures >= HeadStart::MOST_FAILURES && !self.given_up {
            tracing::warn!(
                ?trouble,
                "the newest blocks cannot be had first; they come in their turn"
            );
            self.given_up = true;
        }
    }
}

impl Run {
    /// Takes a part of the blocks from `next`, right above our end, to `last`, all of them final.
    pub(crate) fn take_some_final(&mut self, next: Height, last: Height) -> Result<(), Trouble> {
        let islands = self.appender.islands();
        if islands.first().is_some_and(|island| island.first() <= next) {
            // A crash came between the last block below an island and the finding that the two do not fit.
            return self
                .appender
                .drop_islands("they do not follow the block below them");
        }
        let newest_blocks = match self.head_start.given_up || !self.appender.may_have_islands() {
            true => 0,
            false => self.settings.newest_first_blocks,
        };
        let range_blocks = self.appender.store().range_blocks;
        match next_part(next, last, range_blocks, newest_blocks, &islands) {
            Some(Part::Ahead(range)) => {
                let built = self.build_ahead(range);
                if let Err(trouble) = &built {
                    self.head_start.failed(trouble);
                }
                built
            }
            Some(Part::InTurn(range)) => {
                self.appender.abandon_island();
                self.fill(range)
            }
            None => Ok(()),
        }
    }

    /// Seals the whole ranges of `range` above a gap; goes on where a failure ended the last attempt.
    fn build_ahead(&mut self, range: HeightRange) -> Result<(), Trouble> {
        // It was whole, and only the question for its sizes failed.
        if self.finish_range()? {
            return Ok(());
        }
        let rest = match self.appender.rest_of_island(range) {
            Some(rest) => rest,
            None if self.begin(range)? => range,
            None => return Ok(()),
        };
        tracing::debug!(%rest, "the newest blocks come first");
        let built = self.each_block(rest, |run, block| {
            run.appender.take_ahead(block)?;
            run.finish_range().map(drop)
        });
        if matches!(built, Ok(()) | Err(Trouble::Refused(_))) {
            self.appender.abandon_island();
        }
        built
    }

    /// Asks for what must be known below `range`; whether the source can tell it.
    fn begin(&mut self, range: HeightRange) -> Result<bool, Trouble> {
        let Some(below) = range.first().previous() else {
            return Ok(false);
        };
        let answer = self.ask(move |source| {
            let Some(hash) = source.hash_at(below)? else {
                return Ok(None);
            };
            Ok(source.tree_sizes(hash)?.map(|sizes| (hash, sizes)))
        });
        match answer {
            Ok(Some((hash, sizes))) => {
                let below = BlockId {
                    height: below,
                    hash,
                };
                self.appender.begin_island(below, sizes, range.last());
                Ok(true)
            }
            Ok(None) => Err(Trouble::Unusable(format!(
                "the source does not know block {below}, far below its tip"
            ))),
            Err(Trouble::Source(
                error @ (SourceError::Unsupported { .. } | SourceError::Rpc { .. }),
            )) => {
                tracing::warn!(%error, "the source cannot tell tree sizes, so the newest blocks come in their turn");
                self.head_start.given_up = true;
                Ok(false)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// If a range above the gap is whole, compares its tree sizes with the source's, and seals it; whether one was.
    fn finish_range(&mut self) -> Result<bool, Trouble> {
        let Some((block, counted)) = self.appender.whole_ahead() else {
            return Ok(false);
        };
        match self.ask(move |source| source.tree_sizes(block.hash))? {
            Some(reported) if reported == counted => {
                self.appender.seal_ahead()?;
                self.head_start.failures = 0;
                self.advanced();
                Ok(true)
            }
            Some(reported) => {
                self.appender.abandon_island();
                Err(Trouble::Unusable(format!(
                    "the trees after block {block} hold {reported:?} by the source, and {counted:?} by what it said below and the blocks since"
                )))
            }
            None => {
                self.appender.abandon_island();
                Err(Trouble::Unusable(format!(
                    "the source no longer knows block {block}, far below its tip"
                )))
            }
        }
    }

    /// Drops the islands if the source's chain, which reaches up to `limit`, has another block where they are.
    pub(crate) fn check_islands(&mut self, limit: Height) -> Result<(), Trouble> {
        let Some(ours) = self.appender.highest_of_islands(limit) else {
            return Ok(());
        };
        // Asked twice, for a node may be between two branches.
        for _ in 0..2 {
            match self.ask(move |source| source.hash_at(ours.height))? {
                Some(theirs) if theirs != ours.hash => {}
                _ => return Ok(()),
            }
        }
        self.appender
            .drop_islands(&format!("the source's chain has another block than {ours}"))
    }

    /// Breaks off what is going on if the source has another block `found` than `island`, so that [`Run::check_islands`] comes next.
    pub(crate) fn compare_island(
        &self,
        island: Option<BlockId>,
        found: Option<BlockHash>,
    ) -> Result<(), Trouble> {
        match (island, found) {
            (Some(island), Some(found)) if found != island.hash => Err(Trouble::Unusable(format!(
                "the source has block {found} in place of {island}, which was final"
            ))),
            _ => Ok(()),
        }
    }

    /// Drops the islands if blocks up to `height` are about to come by hash: a tip that fell makes final blocks of before replaceable ones.
    pub(crate) fn clear_the_way(&mut self, height: Height) -> Result<(), Trouble> {
        if self.appender.highest_of_islands(height).is_some() {
            self.appender
                .drop_islands("the source's tip fell to where they may be replaced")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
