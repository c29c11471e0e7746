//! Lets the note commitment trees grow behind the index, on a thread of its own.
//!
//! In: views of the index, and what the source says of the trees at the end of a block. Out: trees of which each step was found to be the
//! source's before anyone is answered from it. While the index is being built the trees wait, so that hashing does not hold the build back; the
//! index never waits for the trees.
//!
//! Compared are the three trees at the last block of each step, whose frontiers commit to every note below, and in sealed ranges the roots of all
//! subtrees of 2^16 notes, which are answered by themselves.
//!
//! A step that differs from what the source says ends the growing for good: one of the two hashes or reads blocks wrongly, and asking again
//! cures neither. What had grown before stays readable.

mod progress;

use std::{sync::Arc, time::Duration};

use lightship_chain::{
    BlockId, Height, ShieldedPool,
    tree::{Frontier, SUBTREE_LEVEL},
};
use lightship_index::{Error as IndexError, Growth, Reader, Trees, View};
use lightship_source::{BlockSource, Error as SourceError, TreeState};

pub use progress::TreesProgress;

use crate::{Stop, pace::Pauses};

/// The trees grow once the index is so close to the source's tip.
const CLOSE_BLOCKS: u32 = 1_000;
/// How long a look for a newer view lasts.
const PATIENCE: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Why the trees grow no further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreesError {
    /// The trees made from the notes are not those of the source.
    #[error("the {pool} tree after block {block} is not the source's: {what}")]
    Differs {
        /// Which tree.
        pool: ShieldedPool,
        /// Where they were compared.
        block: BlockId,
        /// How they differ.
        what: String,
    },
    /// The source cannot tell tree states, so nothing can be compared.
    #[error("the source cannot tell tree states")]
    Unsupported(#[source] SourceError),
}

/// Why a step did not succeed.
enum Trouble {
    Later(String),
    Never(TreesError),
}

impl From<IndexError> for Trouble {
    fn from(error: IndexError) -> Trouble {
        Trouble::Later(error.to_string())
    }
}

impl From<SourceError> for Trouble {
    fn from(error: SourceError) -> Trouble {
        match error {
            SourceError::Unsupported { .. } => Trouble::Never(TreesError::Unsupported(error)),
            error => Trouble::Later(error.to_string()),
        }
    }
}

/// Grows `trees` after the views of `reader` until stopped. A source or disk that fails is tried again, less and less often.
///
/// # Errors
///
/// [`TreesError`]: going on is pointless.
pub fn grow_trees(
    source: &dyn BlockSource,
    reader: &Reader,
    trees: &Trees,
    progress: &TreesProgress,
    stop: &Stop,
) -> Result<(), TreesError> {
    let mut pauses = Pauses::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut troubled = false;
    let mut taken_up = false;
    while !stop.is_stopped() {
        let view = reader.view();
        // What was accepted before needs no source: it may be away.
        if !taken_up && let Err(error) = trees.take_up(&view) {
            tracing::warn!(%error, "what was kept of the trees is made anew");
        }
        taken_up = true;
        match step(source, &view, trees) {
            Ok(Some((through, subtrees))) => {
                tracing::debug!(%through, "the trees have grown");
                progress.made(subtrees);
                pauses.reset();
                troubled = false;
            }
            Ok(None) => {
                reader.wait_newer(view.generation(), PATIENCE);
            }
            Err(Trouble::Later(why)) => {
                if !troubled {
                    tracing::warn!(
                        why,
                        "the trees do not grow; the node is asked for tree states"
                    );
                }
                troubled = true;
                progress.set_back();
                stop.wait_timeout(pauses.next());
            }
            Err(Trouble::Never(error)) => {
                progress.end(&error);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// One step: where it ends and how many subtrees it has; `None` if there is none to make now.
fn step(
    source: &dyn BlockSource,
    view: &Arc<View>,
    trees: &Trees,
) -> Result<Option<(BlockId, u64)>, Trouble> {
    let (Some(tip), Some(target)) = (view.tip(), view.target()) else {
        return Ok(None);
    };
    if target.height.get().saturating_sub(tip.height.get()) > CLOSE_BLOCKS {
        return Ok(None);
    }
    let Some(growth) = trees.next(view)? else {
        return Ok(None);
    };
    let through = growth.through();
    let Some(state) = source.tree_state(through.hash)? else {
        return Err(Trouble::Later(format!(
            "the source does not know block {through} any more"
        )));
    };
    let mut active = [None; 3];
    for (active, pool) in active.iter_mut().zip(ShieldedPool::ALL) {
        *active = compare(source, &growth, &state, pool)?;
    }
    let mut subtrees = 0;
    if growth.is_sealed() {
        for pool in ShieldedPool::ALL {
            subtrees += compare_subtrees(source, &growth, pool)?;
        }
    }
    growth.accept(active)?;
    Ok(Some((through, subtrees)))
}

/// Compares one tree; from which height on its pool is active.
fn compare(
    source: &dyn BlockSource,
    growth: &Growth<'_>,
    state: &TreeState,
    pool: ShieldedPool,
) -> Result<Option<Height>, Trouble> {
    let differs = |what: String| {
        Trouble::Never(TreesError::Differs {
            pool,
            block: growth.through(),
            what,
        })
    };
    let ours = growth.frontier(pool)?;
    let Some(theirs) = text(state, pool) else {
        return match growth.active(pool) {
            None if ours.size() == 0 => Ok(None),
            _ => Err(differs(format!(
                "{} notes by the blocks, and no tree by the source",
                ours.size()
            ))),
        };
    };
    let theirs = const_hex::decode(theirs)
        .map_err(|error| differs(error.to_string()))
        .and_then(|bytes| {
            Frontier::from_bytes(&bytes).map_err(|error| differs(error.to_string()))
        })?;
    if theirs != ours {
        return Err(differs(format!(
            "{} notes by the blocks, {} by the source, and other nodes",
            ours.size(),
            theirs.size()
        )));
    }
    match growth.active(pool) {
        Some(active) => Ok(Some(active)),
        None => activation(source, growth, pool).map(Some),
    }
}

/// Compares the subtrees that the step completes with those of the source's best chain; how many the source could tell.
fn compare_subtrees(
    source: &dyn BlockSource,
    growth: &Growth<'_>,
    pool: ShieldedPool,
) -> Result<u64, Trouble> {
    let (first, ours) = growth.subtrees(pool)?;
    let Ok(limit @ 1..) = u32::try_from(ours.len()) else {
        return Ok(0);
    };
    let theirs = match source.subtree_roots(pool, first, limit) {
        // The frontiers were compared; a source that knows no subtrees is no reason to go without.
        Err(SourceError::Unsupported { .. }) => return Ok(0),
        theirs => theirs?,
    };
    let mut compared = 0;
    for (number, ((root, height), theirs)) in (first..).zip(ours.iter().zip(&theirs)) {
        if (*root, *height) == (theirs.root, theirs.end_height) {
            compared += 1;
            continue;
        }
        // The answer is of the best chain: if our block is not on it, the index is about to change.
        if source.hash_at(*height)? != growth.hash_at(*height) {
            return Err(Trouble::Later(format!(
                "the source has another block at {height}"
            )));
        }
        return Err(Trouble::Never(TreesError::Differs {
            pool,
            block: growth.through(),
            what: format!(
                "subtree {number} of 2^{SUBTREE_LEVEL} notes ends at {height} by the blocks and at {} by the source, or has another root",
                theirs.end_height
            ),
        }));
    }
    Ok(compared)
}

fn text(state: &TreeState, pool: ShieldedPool) -> Option<&str> {
    match pool {
        ShieldedPool::Sapling => state.sapling.as_deref(),
        ShieldedPool::Orchard => state.orchard.as_deref(),
        ShieldedPool::Ironwood => state.ironwood.as_deref(),
    }
}

/// The first height of the step at which the source has a tree; it has one at the last.
fn activation(
    source: &dyn BlockSource,
    growth: &Growth<'_>,
    pool: ShieldedPool,
) -> Result<Height, Trouble> {
    let (mut low, mut high) = (growth.first().get(), growth.through().height.get());
    while low < high {
        let middle = low + (high - low) / 2;
        let height = Height::try_from(middle).unwrap_or(growth.first());
        let state = match growth.hash_at(height) {
            Some(hash) => source.tree_state(hash)?,
            None => None,
        };
        let state = state.ok_or_else(|| {
            Trouble::Later(format!("the source does not know block {height} any more"))
        })?;
        if text(&state, pool).is_some() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(Height::try_from(low).unwrap_or(growth.through().height))
}
