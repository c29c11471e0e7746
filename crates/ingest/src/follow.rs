//! From one tip to the next.
//!
//! In: the source's tip. Out: an index that ends there, one step nearer with each call. Far below the tip, where no reorg
//! reaches, blocks come by height ([`newest`](crate::newest)). Above that they come by hash, found by walking back from the tip to
//! a block of ours, so that what is appended is one branch however often the node switches meanwhile; the walk also finds
//! where our branch is left, which makes growth, replacement and rollback one and the same path.
//!
//! ```text
//!                 tip reached              branch gone
//!   CatchingUp ───────────────► Following ◄───────────► Replacing
//!       ▲  ▲                        │       replaced        │
//!       │  └── far behind ──────────┤                       │
//!       │                           ▼                       │
//!       └──── answer ────────── Stalled ◄───────────────────┘
//!                          (from each: no answer, or none that can be used)
//! ```
//!
//! # Invariants
//!
//! - Nothing is dropped unless the ancestor was found by parent hashes, or by hashes at heights on both sides of the fork.
//! - A drop deeper than `confirm_drop_blocks` is made only after the node has said again that our former tip is gone, that it
//!   has the ancestor, and that it does not have our next block.

use std::{collections::HashMap, time::Instant};

use lightship_chain::{
    BlockId, Height, HeightRange, Network,
    compact::{CompactBlock, compact},
};

use lightship_source::Error as SourceError;

use crate::{
    Error, Progress,
    ask::Asker,
    bulk::BLOCK_OVERHEAD_BYTES,
    error::{Refusal, Trouble},
    progress::Activity,
    reorg::{Walk, common_ancestor, walk_back},
    run::{Run, understand},
};

/// What a step came to.
#[derive(Debug)]
pub(crate) enum Step {
    /// Something was done, and there is more to do.
    Worked,
    /// The index ends at the source's tip, or both are empty.
    AtTip(Option<BlockId>),
}

/// A rollback that waits to be followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    tip: BlockId,
    since: Instant,
}

/// An extension of more blocks than this is called catching up.
const MANY_BLOCKS: usize = 10;

/// With fewer blocks than this to come, readers see a tip when it is indexed and not before.
const NEAR_BLOCKS: u32 = 100;

impl Run {
    /// One step towards the source's tip.
    pub(crate) fn step(&mut self) -> Result<Step, Trouble> {
        let looked = self.looked.take();
        let theirs = match looked
            .map_or_else(|| self.ask(|source| source.tip()), |tip| Ok(Some(tip)))
        {
            Err(Trouble::Source(error)) if error.is_transient() => return self.take_final(error),
            answer => answer?,
        };
        let ours = self.appender.end();
        let Some(theirs) = theirs else {
            return match ours {
                None => Ok(Step::AtTip(None)),
                Some(_) => Err(Trouble::Unusable("the source has no block".into())),
            };
        };
        self.check_islands(theirs.height)?;
        // A tip that fell into a range half written finds its blocks invisible: those go through the tail instead.
        if ours == Some(theirs) && !self.appender.is_mid_range() {
            return self.settle(theirs);
        }
        let final_tip = self.ask(|source| source.final_tip())?;
        if self.is_above_all_they_see(final_tip) {
            return Ok(Step::AtTip(ours));
        }
        self.progress.set_target(Some(theirs));
        // Near the tip only what was fetched and found to link is shown, and from afar only what the node stands by: one that names a tip and
        // cannot give it moves nobody.
        let near = |ours: BlockId| theirs.height.get() <= ours.height.get() + NEAR_BLOCKS;
        if !ours.is_some_and(near)
            && self.ask(move |source| source.hash_at(theirs.height))? == Some(theirs.hash)
        {
            self.announce(Some(theirs));
        }
        let final_through = theirs
            .height
            .get()
            .checked_sub(self.settings.seal_depth_blocks)
            .map(Height::new)
            .max(final_tip.map(|id| id.height.min(theirs.height)));
        match self.appender.next().zip(final_through) {
            Some((next, last)) if next <= last => {
                self.set_activity(Activity::CatchingUp);
                if !self.is_on_their_chain()? {
                    return self.leave_branch_by_height(theirs);
                }
                self.take_some_final(next, last)?;
                self.check_sizes(false)?;
                Ok(Step::Worked)
            }
            _ => {
                self.clear_the_way(theirs.height)?;
                self.walk(theirs)
            }
        }
    }

    /// The node is away: takes what its source has without it, and then passes on the `error` that the node's tip gave.
    fn take_final(&mut self, error: SourceError) -> Result<Step, Trouble> {
        // Not an answer of the node: it is not noted as a sign of life.
        let Ok(Some(last)) = self.asker.ask(|source| source.final_tip()) else {
            return Err(Trouble::Source(error));
        };
        let Some(next) = self.appender.next().filter(|next| *next <= last.height) else {
            return Err(Trouble::Source(error));
        };
        self.check_islands(last.height)?;
        if !self.is_on_their_chain()? {
            return Err(Trouble::Source(error));
        }
        tracing::warn!(%error, through = %last, "the node is away: its final blocks are read from its disk");
        self.set_activity(Activity::CatchingUp);
        self.progress.set_target(Some(last));
        self.announce(Some(last));
        self.take_some_final(next, last.height)?;
        self.check_sizes(false)?;
        Ok(Step::Worked)
    }

    /// Whether the source sees final blocks only, all of which are ours: those we have above them are none of its business.
    fn is_above_all_they_see(&mut self, final_tip: Option<BlockId>) -> bool {
        self.source.sees_final_only()
            && !self.appender.is_mid_range()
            && final_tip.is_some_and(|last| self.appender.hash_at(last.height) == Some(last.hash))
    }

    /// At the tip: everything is durable, what is final is sealed, and the counts are right.
    fn settle(&mut self, tip: BlockId) -> Result<Step, Trouble> {
        self.appender.commit()?;
        self.appender.seal(self.settings.seal_depth_blocks)?;
        let from_afar = self.progress.activity() == Activity::CatchingUp;
        self.check_sizes(from_afar)?;
        self.announce(Some(tip));
        self.set_activity(Activity::Following);
        self.held = None;
        if from_afar {
            tracing::info!(%tip, "tip reached");
        }
        Ok(Step::AtTip(Some(tip)))
    }

    fn is_on_their_chain(&mut self) -> Result<bool, Trouble> {
        let Some(end) = self.appender.end() else {
            return Ok(true);
        };
        let theirs = self.ask(move |source| source.hash_at(end.height))?;
        Ok(theirs == Some(end.hash))
    }

    /// By hash from their tip down to a block of ours, and up again.
    fn walk(&mut self, theirs: BlockId) -> Result<Step, Trouble> {
        self.appender.abandon_range();
        if let Some(range) = self.worth_fetching_ahead(theirs) {
            self.fetch_ahead(range)?;
        }
        match self.walk_down(theirs)? {
            Walk::Joined { ancestor, branch } => self.climb(theirs, ancestor, branch),
            Walk::TooLong => self.leave_branch_by_height(theirs),
            Walk::ForeignGenesis(_) => Err(self.wrong_chain()?),
            Walk::Unknown(block) => {
                self.unproven(theirs);
                Err(Trouble::Unusable(format!(
                    "the source names block {block} and does not know it: has it switched branches?"
                )))
            }
            Walk::WrongHeight(block) => {
                self.unproven(theirs);
                Err(Trouble::Unusable(format!(
                    "the source's tip {block} is not at that height"
                )))
            }
        }
    }

    /// The heights between our end and their tip, if they are many and nothing of them was fetched yet.
    fn worth_fetching_ahead(&self, theirs: BlockId) -> Option<HeightRange> {
        let range = HeightRange::new(self.appender.next()?, theirs.height)?;
        // Further up than that, blocks come by height to begin with.
        let many = MANY_BLOCKS..=self.settings.seal_depth_blocks as usize;
        (many.contains(&(range.len() as usize)) && self.fetched.blocks.is_empty()).then_some(range)
    }

    fn walk_down(&mut self, theirs: BlockId) -> Result<Walk, Trouble> {
        let Run {
            appender,
            asker,
            progress,
            settings,
            fetched,
            ..
        } = self;
        let limit = settings.seal_depth_blocks as usize * 2 + 100;
        walk_back(
            theirs,
            appender.store().genesis,
            limit,
            |height| appender.hash_at(height),
            |block| {
                if let Some(body) = fetched.get(&block) {
                    return Ok(Some(body.previous));
                }
                let body = fetch(asker, progress, block)?;
                Ok(body.map(|body| {
                    let previous = body.previous;
                    fetched.keep(body);
                    previous
                }))
            },
        )
    }

    /// Puts `branch` on top of `ancestor`, dropping what we have above it.
    fn climb(
        &mut self,
        theirs: BlockId,
        ancestor: Option<Height>,
        branch: Vec<BlockId>,
    ) -> Result<Step, Trouble> {
        let mut blocks = branch.into_iter().peekable();
        match (self.appender.end(), ancestor) {
            (Some(end), Some(ancestor)) if ancestor < end.height => {
                self.confirm_drop(theirs, ancestor)?;
                // As much as is at hand changes places in one step: no reader sees a chain shorter than need be.
                let mut at_hand = Vec::new();
                while let Some(body) = blocks.peek().and_then(|id| self.fetched.take(id)) {
                    at_hand.push(body);
                    blocks.next();
                }
                self.drop_above(theirs, ancestor, at_hand)?;
            }
            _ if blocks.len() > MANY_BLOCKS => self.set_activity(Activity::CatchingUp),
            _ => {}
        }
        for id in blocks {
            let body = match self.fetched.take(&id) {
                Some(body) => body,
                None => fetch(&mut self.asker, &self.progress, id)?.ok_or_else(|| {
                    Trouble::Unusable(format!("the source no longer knows block {id}"))
                })?,
            };
            self.appender.take(body, None)?;
        }
        self.fetched.clear();
        self.appender.commit()?;
        self.appender.seal(self.settings.seal_depth_blocks)?;
        self.check_sizes(false)?;
        Ok(Step::Worked)
    }

    /// Our end is not on their chain, and the fork is too deep to be walked to.
    fn leave_branch_by_height(&mut self, theirs: BlockId) -> Result<Step, Trouble> {
        if self.appender.is_mid_range() {
            self.appender.abandon_range();
            return Ok(Step::Worked);
        }
        let Some(end) = self.appender.end() else {
            return Err(Trouble::Unusable(format!(
                "the source's tip {theirs} has more blocks below it than its height says"
            )));
        };
        let ancestor = {
            let Run {
                appender,
                asker,
                progress,
                ..
            } = self;
            common_ancestor(
                end.height,
                |height| appender.hash_at(height),
                |height| understand(progress, asker.ask(move |source| source.hash_at(height))),
            )?
        };
        match ancestor {
            None => Err(self.wrong_chain()?),
            Some(ancestor) if ancestor == end.height => {
                self.unproven(theirs);
                Err(Trouble::Unusable(format!(
                    "the source has our tip {end} by height, and not below its own tip {theirs}"
                )))
            }
            Some(ancestor) => {
                self.confirm_drop(theirs, ancestor)?;
                self.drop_above(theirs, ancestor, Vec::new())?;
                Ok(Step::Worked)
            }
        }
    }

    fn drop_above(
        &mut self,
        theirs: BlockId,
        ancestor: Height,
        branch: Vec<CompactBlock>,
    ) -> Result<(), Trouble> {
        let Some(end) = self.appender.end() else {
            return Ok(());
        };
        let depth = end.height.get().saturating_sub(ancestor.get());
        let activity = self.progress.activity();
        self.set_activity(Activity::Replacing);
        let replaced = self.appender.replace(ancestor, branch);
        self.set_activity(activity);
        let dropped = replaced?;
        self.progress.reorg(depth);
        self.held = None;
        if dropped.unsealed_ranges > 0 {
            tracing::warn!(
                depth, ancestor = ancestor.get(), old = %end, new = %theirs,
                unsealed_ranges = dropped.unsealed_ranges,
                "a reorg reached below the sealed blocks, which are rebuilt"
            );
        } else {
            tracing::info!(depth, ancestor = ancestor.get(), old = %end, new = %theirs, "branch replaced");
        }
        Ok(())
    }

    /// Whether our blocks above `ancestor` may be dropped.
    fn confirm_drop(&mut self, theirs: BlockId, ancestor: Height) -> Result<(), Trouble> {
        let Some(end) = self.appender.end() else {
            return Ok(());
        };
        let depth = end.height.get().saturating_sub(ancestor.get());
        if depth <= self.settings.confirm_drop_blocks {
            return Ok(());
        }
        let Some(above) = ancestor.next() else {
            return Ok(());
        };
        let (at_end, at_ancestor, at_above) = self.ask(move |source| {
            Ok((
                source.hash_at(end.height)?,
                source.hash_at(ancestor)?,
                source.hash_at(above)?,
            ))
        })?;
        let fork_is_proven = at_end != Some(end.hash)
            && at_ancestor.is_some()
            && at_ancestor == self.appender.hash_at(ancestor)
            && at_above != self.appender.hash_at(above);
        if !fork_is_proven {
            self.unproven(theirs);
            return Err(Trouble::Unusable(format!(
                "the source's tip {theirs} would drop {depth} blocks below our tip {end}, and no fork at {ancestor} is proven"
            )));
        }
        if depth > self.settings.seal_depth_blocks && at_above.is_none() {
            return self.hold(theirs, end, depth);
        }
        Ok(())
    }

    /// A tip that fell into the sealed part with nothing in place of what is gone.
    fn hold(&mut self, theirs: BlockId, end: BlockId, depth: u32) -> Result<(), Trouble> {
        let held = match self.held {
            Some(held) if held.tip == theirs => held,
            _ => Held {
                tip: theirs,
                since: Instant::now(),
            },
        };
        self.held = Some(held);
        let private = self.appender.store().network == Network::Regtest;
        if private && held.since.elapsed() >= self.settings.deep_rollback_patience {
            return Ok(());
        }
        self.unproven(theirs);
        Err(Trouble::Unusable(format!(
            "the source's tip {theirs} is {depth} blocks below our tip {end} on the same chain: \
             it is building its chain anew, and is waited for"
        )))
    }

    /// Counts an answer that would have dropped many of our blocks.
    fn unproven(&self, theirs: BlockId) {
        if let Some(end) = self.appender.end()
            && theirs.height.get() + self.settings.confirm_drop_blocks < end.height.get()
        {
            self.progress.unproven_drop();
        }
    }

    /// Their chain does not reach our genesis: fatal if the source stands by it.
    fn wrong_chain(&mut self) -> Result<Trouble, Trouble> {
        let theirs = self.ask(|source| source.genesis())?;
        let ours = self.appender.store().genesis;
        Ok(if theirs == ours {
            Trouble::Unusable("the source's tip does not descend from its own genesis".into())
        } else {
            Error::WrongChain { ours, theirs }.into()
        })
    }
}

/// Blocks met on the way down, for the way up: also when the walk breaks off and is begun anew, so that a source which fails
/// now and then is got to the end of. Bounded in bytes; what does not fit is fetched again.
#[derive(Debug)]
pub(crate) struct Fetched {
    blocks: HashMap<BlockId, CompactBlock>,
    bytes: usize,
    max_bytes: usize,
}

impl Fetched {
    pub(crate) fn new(max_bytes: usize) -> Fetched {
        Fetched {
            blocks: HashMap::new(),
            bytes: 0,
            max_bytes,
        }
    }

    fn get(&self, id: &BlockId) -> Option<&CompactBlock> {
        self.blocks.get(id)
    }

    /// Returns whether there was room for it.
    pub(crate) fn keep(&mut self, block: CompactBlock) -> bool {
        let weight = |block: &CompactBlock| block.size_bytes as usize + BLOCK_OVERHEAD_BYTES;
        let bytes = self.bytes + weight(&block);
        let fits = bytes <= self.max_bytes;
        if fits {
            self.bytes = bytes;
            if let Some(same) = self.blocks.insert(block.id, block) {
                self.bytes -= weight(&same);
            }
        }
        fits
    }

    fn take(&mut self, id: &BlockId) -> Option<CompactBlock> {
        let block = self.blocks.remove(id)?;
        self.bytes -= block.size_bytes as usize + BLOCK_OVERHEAD_BYTES;
        Some(block)
    }

    /// Forgets all, branches that were left included.
    fn clear(&mut self) {
        self.blocks = HashMap::new();
        self.bytes = 0;
    }
}

/// The one block of that hash, or `None` if the source does not know it.
fn fetch(
    asker: &mut Asker,
    progress: &Progress,
    id: BlockId,
) -> Result<Option<CompactBlock>, Trouble> {
    let answer = asker.ask(move |source| {
        let mut lent = None;
        let known = source.block(id.hash, &mut |raw| lent = Some(compact(id.height, raw)))?;
        Ok(known.then_some(lent))
    });
    match understand(progress, answer)? {
        None => Ok(None),
        Some(None) => Err(Trouble::Unusable(format!(
            "the source knows block {id} and does not give it"
        ))),
        Some(Some(Err(error))) => Err(Refusal::Unreadable {
            height: id.height,
            error,
        }
        .into()),
        Some(Some(Ok(block))) if block.id != id => Err(Refusal::Hash {
            expected: id,
            found: block.id.hash,
        }
        .into()),
        Some(Some(Ok(block))) => Ok(Some(block)),
    }
}
