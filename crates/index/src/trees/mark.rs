//! Up to which block of the tail the trees were found to be the node's, kept over a restart.
//!
//! In: trees that were accepted. Out: the same trees in another process without asking anyone, if they come out the same from the blocks. So the newest
//! tree states are there although the node is away when the process starts. A missing or damaged mark costs a question to the node, nothing else.

use std::sync::Arc;

use lightship_chain::{ShieldedPool, tree::TreeHash};

use super::{
    grown::{Grown, TailTrees},
    span::Hasher,
};
use crate::{
    Result, View,
    format::{digest, trees::Accepted},
    layout::{Layout, UNFINISHED, at},
};

/// So many sealed ranges without their file are made again in memory; more are made one by one.
const MOST_RANGES: usize = 2;

impl Grown {
    /// What a mark says of these trees; `None` while they have no block behind the sealed ranges.
    fn mark(&self, view: &View, hash: &dyn TreeHash) -> Result<Option<Accepted>> {
        let Some(tip) = self.tail.tip() else {
            return Ok(None);
        };
        let mut text = Vec::new();
        for pool in ShieldedPool::ALL {
            text.extend(self.frontier(view, hash, tip.height, pool)?.to_bytes());
        }
        Ok(Some(Accepted {
            height: tip.height,
            hash: tip.hash,
            active: self.tail.active,
            trees_digest: digest(&text),
        }))
    }

    /// Leaves a mark of these trees, durably.
    pub(super) fn write_mark(
        &self,
        layout: &Layout,
        view: &View,
        hash: &dyn TreeHash,
    ) -> Result<()> {
        let Some(mark) = self.mark(view, hash)? else {
            return Ok(());
        };
        layout.create_dir(&layout.trees())?;
        let path = layout.accepted_trees();
        let unfinished = path.with_extension(UNFINISHED);
        let mut file = layout.create(&unfinished)?;
        file.write(&mark.encode())
            .map_err(at("write", &unfinished))?;
        file.sync().map_err(at("sync", &unfinished))?;
        drop(file);
        layout.rename(&unfinished, &path)?;
        layout.sync_dir(&layout.trees())
    }

    /// Makes the tail up to where the mark of an earlier process says it was accepted; whether it came out the same.
    pub(super) fn follow_mark(
        &mut self,
        layout: &Layout,
        view: &View,
        hasher: Hasher<'_>,
    ) -> Result<bool> {
        let path = layout.accepted_trees();
        let bytes = match layout.disk.map(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            mapped => mapped.map_err(at("map", &path))?,
        };
        let Some(mark) = Accepted::decode(&bytes) else {
            return Ok(false);
        };
        let first = self.tail.end();
        // A range or two may have been sealed just before the process ended.
        let missing = view.sealed.joined_count() - self.ranges.len();
        let follows = self.tail.blocks.is_empty()
            && first <= mark.height
            && missing <= MOST_RANGES
            && view.hash_at(mark.height) == Some(mark.hash);
        if !follows {
            return Ok(false);
        }
        let mut tail = TailTrees::clone(&self.tail);
        self.extend(view, hasher, (first, mark.height), &mut tail.span)?;
        tail.push_blocks(view, mark.height);
        tail.active = mark.active;
        let made = Grown {
            ranges: self.ranges.clone(),
            tail: Arc::new(tail),
        };
        let same = made.mark(view, hasher.hash)? == Some(mark);
        if same {
            *self = made;
        }
        Ok(same)
    }
}
