//! Which final blocks come next: the newest first, then from genesis on.
//!
//! In: how far the index is, how far the source's final blocks reach. Out: an index with one more part of them. A wallet made or opened lately asks for
//! the newest blocks, so while the index is far behind, the newest [`newest_first_blocks`](crate::Settings::newest_first_blocks) are
//! sealed above the gap, in [parts](BATCH_RANGES), the newest part first; then the gap is filled from its lower end, and now and then what has
//! become final meanwhile is added above. A range cannot be built without the tree sizes below it: the source tells them, and again those at the
//! range's end, where they must be what the blocks add up to. What it told is trusted until the end that grows gets there, and not longer.
//! A part that cannot be had is tried for again, as [`HeadStart`] has it. How the blocks come is left to [`bulk`](crate::bulk), how they lie on disk to the [appender](crate::appender).
//!
//! # Invariants
//!
//! - Islands hold blocks that were final, of the source's best chain. That chain is compared at their highest block before each part, and about once
//!   a second meanwhile; one that differs takes them all away.
//! - The walk by hash never meets one.

mod head_start;

use std::{num::NonZeroU32, time::Instant};

use lightship_chain::{BlockHash, BlockId, Height, HeightRange, TreeSizes};

pub(crate) use self::head_start::HeadStart;
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

/// How the newest blocks are treated.
#[derive(Clone, Copy, Debug)]
struct Wish {
    /// So many come first; 0 for none.
    newest_blocks: u32,
    /// Not now: the gap is filled, in parts all the same.
    rests: bool,
}

/// What comes next when our end is below `next`, blocks through `last` are final, and `islands` are there already; `None` if nothing does.
fn next_part(
    next: Height,
    last: Height,
    range_blocks: NonZeroU32,
    wish: Wish,
    islands: &[HeightRange],
) -> Option<Part> {
    let newest_blocks = wish.newest_blocks;
    let range = range_blocks.get();
    let blocks = last.get() + 1;
    let window = blocks.saturating_sub(newest_blocks) / range * range;
    let gap = u64::from(range) * u64::from(LEAST_GAP_RANGES);
    let far = newest_blocks > 0 && u64::from(window) >= u64::from(next.get()) + gap;
    if far
        && !wish.rests
        && let Some(part) = newest_missing(window, blocks / range * range, range, islands)
    {
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
        let wish = Wish {
            newest_blocks: match self.head_start.is_over() || !self.appender.may_have_islands() {
                true => 0,
                false => self.settings.newest_first_blocks,
            },
            rests: self.head_start.rests(Instant::now()),
        };
        let range_blocks = self.appender.store().range_blocks;
        match next_part(next, last, range_blocks, wish, &islands) {
            Some(Part::Ahead(range)) => self.build_ahead(range),
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
        let mut at_sizes = false;
        let built = self.each_block(rest, |run, block| {
            run.appender.take_ahead(block)?;
            let finished = run.finish_range();
            at_sizes = finished.is_err();
            finished.map(drop)
        });
        match &built {
            // What went wrong at the sizes was noted there.
            Err(trouble) if !at_sizes => self.head_start.failed(trouble, false, Instant::now()),
            _ => {}
        }
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
        let answer = answer.and_then(|known| {
            known.ok_or_else(|| {
                Trouble::Unusable(format!(
                    "the source does not know block {below}, far below its tip"
                ))
            })
        });
        match self.note(answer) {
            // It will never be able to, and nobody waits for that.
            Err(Trouble::Source(_)) if self.head_start.is_over() => Ok(false),
            Err(trouble) => Err(trouble),
            Ok((hash, sizes)) => {
                let below = BlockId {
                    height: below,
                    hash,
                };
                self.appender.begin_island(below, sizes, range.last());
                Ok(true)
            }
        }
    }

    /// If a range above the gap is whole, compares its tree sizes with the source's, and seals it; whether one was.
    fn finish_range(&mut self) -> Result<bool, Trouble> {
        let Some((block, counted)) = self.appender.whole_ahead() else {
            return Ok(false);
        };
        let answer = self.ask(move |source| source.tree_sizes(block.hash));
        let answer = answer.and_then(|reported| agree(block, counted, reported));
        if matches!(answer, Err(Trouble::Unusable(_))) {
            self.appender.abandon_island();
        }
        self.note(answer)?;
        self.appender.seal_ahead()?;
        self.head_start.succeeded();
        self.advanced();
        Ok(true)
    }

    /// Notes what an answer about tree sizes means for the head start.
    fn note<T>(&mut self, answer: Result<T, Trouble>) -> Result<T, Trouble> {
        answer.inspect_err(|trouble| self.head_start.failed(trouble, true, Instant::now()))
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

/// Whether what the source says of the trees after `block` is what was counted.
fn agree(block: BlockId, counted: TreeSizes, reported: Option<TreeSizes>) -> Result<(), Trouble> {
    match reported {
        Some(reported) if reported == counted => Ok(()),
        Some(reported) => Err(Trouble::Unusable(format!(
            "the trees after block {block} hold {reported:?} by the source, and {counted:?} by what it said below and the blocks since"
        ))),
        None => Err(Trouble::Unusable(format!(
            "the source no longer knows block {block}, far below its tip"
        ))),
    }
}

#[cfg(test)]
mod tests;
