//! The trees of blocks that were replaced a short while ago.
//!
//! In: what was readable before a reorg, and the view it was of. Out: the trees at the end of each block that is no longer there, by hash, so that a
//! wallet which has seen one can still be told. In memory, and bounded; a restart forgets them.

use std::{collections::VecDeque, sync::Arc};

use lightship_chain::{BlockHash, BlockId, Height, tree::TreeHash};

use super::{TreesAt, grown::Grown};
use crate::View;

/// Replaced blocks that are remembered; then the oldest are forgotten. As many as Zebra keeps that may still be replaced.
const MOST: usize = 1_000;

/// A block that was replaced, and the trees at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedTrees {
    /// The block.
    pub id: BlockId,
    /// Its header's time, in seconds since 1970.
    pub time: u32,
    /// The trees at its end.
    pub trees: TreesAt,
}

/// What is remembered, the oldest first.
#[derive(Clone, Default)]
pub(crate) struct Replaced(VecDeque<Arc<ReplacedTrees>>);

impl Replaced {
    pub(crate) fn get(&self, hash: &BlockHash) -> Option<Arc<ReplacedTrees>> {
        self.0.iter().find(|block| block.id.hash == *hash).cloned()
    }

    /// Remembers the blocks of `before` that `grown` reaches and `view` has not, as far as what they are made from can still be read.
    pub(crate) fn remember(
        &mut self,
        grown: &Grown,
        before: &View,
        view: &View,
        hash: &dyn TreeHash,
    ) {
        for id in gone(grown, before, view) {
            let (Some(row), Ok(Some(trees))) =
                (before.row(id.height), grown.at(before, hash, id.height))
            else {
                return;
            };
            if self.get(&id.hash).is_none() {
                self.0.push_back(Arc::new(ReplacedTrees {
                    id,
                    time: row.time,
                    trees,
                }));
            }
        }
        self.0.drain(..self.0.len().saturating_sub(MOST));
    }
}

/// The blocks of `before` that `grown` reaches and `view` has not, the lowest first; at most [`MOST`].
fn gone(grown: &Grown, before: &View, view: &View) -> Vec<BlockId> {
    let Some(tip) = grown.tip() else {
        return Vec::new();
    };
    let mut blocks: Vec<BlockId> = (0..=tip.height.get())
        .rev()
        .map_while(|height| {
            let height = Height::try_from(height).ok()?;
            let hash = before.hash_at(height)?;
            (view.hash_at(height) != Some(hash)).then_some(BlockId { height, hash })
        })
        .take(MOST)
        .collect();
    blocks.reverse();
    blocks
}
