//! The one writing process's handle.
//!
//! In: blocks, each following the last, and complete ranges. Out: files, and after each change one new [`View`] to the readers. Deciding what
//! to append, when to commit and how deep to seal is left to the caller.
//!
//! # Invariants
//!
//! - Bytes under a final name are never overwritten or cut: a reorg appends a rollback, and files whose blocks are all sealed or dropped lose
//!   their name, while views that still map them keep reading.
//! - Whatever the manifest names is durable before the manifest is; whatever it no longer names is removed after.
//! - After a failed write or sync nothing more is written ([`Error::Poisoned`]).

mod opening;
mod sealing;
mod segment;
mod truncate;

use std::sync::{Arc, atomic::AtomicU64};

use lightship_chain::{BlockHash, BlockId, Height, TreeSizes, compact::EncodedBlock};

use crate::{
    Error, Reader, Result, StoreId, View,
    format::{
        manifest::{self, Manifest},
        record,
    },
    layout::Layout,
    lookup::Lookup,
    range::Incoming,
    reader::Hub,
    recover,
    sealed::SealedSet,
    tail::{Entry, Tail},
    view,
};
use segment::Active;
pub use truncate::Truncated;

/// The one writing process's handle. Holds the lock.
pub struct Writer {
    layout: Layout,
    _lock: Box<dyn Send + Sync>,
    hub: Arc<Hub>,
    manifest: Manifest,
    sealed: Arc<SealedSet>,
    tail: Tail,
    lookup: Arc<Lookup>,
    /// The segment that grows, once there is one.
    active: Option<Active>,
    next_segment: u64,
    /// Blocks of the head; their places are in `pending`.
    head: Vec<(Height, Entry)>,
    /// The head's records, not yet part of a commit.
    pending: Vec<u8>,
    commit: u64,
    generation: u64,
    target: Option<BlockId>,
    /// While a branch is exchanged, readers keep the picture from before.
    holds_views: bool,
    poisoned: bool,
    /// Numbers the temporary files of ranges.
    builders: AtomicU64,
}

impl Writer {
    /// Where others read what is written here.
    pub fn reader(&self) -> Reader {
        self.hub.reader()
    }

    /// What the store is.
    pub fn store(&self) -> StoreId {
        self.manifest.store
    }

    /// The last block, head included.
    pub fn tip(&self) -> Option<BlockId> {
        match self.head.last() {
            Some((height, entry)) => Some(BlockId {
                height: *height,
                hash: entry.columns.hash,
            }),
            None => view::chain_tip(&self.sealed, &self.tail),
        }
    }

    /// The sizes of the trees at the tip, head included; zero when empty.
    pub fn tip_sizes(&self) -> TreeSizes {
        match self.head.last() {
            Some((_, entry)) => entry.columns.sizes,
            None => view::chain_tip_sizes(&self.sealed, &self.tail),
        }
    }

    /// The name of the block at `height`, head and islands included.
    pub fn hash_at(&self, height: Height) -> Option<BlockHash> {
        if let Some((first, _)) = self.head.first()
            && let Some(index) = height.get().checked_sub(first.get())
            && let Some((_, entry)) = self.head.get(index as usize)
        {
            return Some(entry.columns.hash);
        }
        match self.sealed.find(height) {
            Some((range, index)) => Some(range.hash(index)),
            None => self.tail.get(height).map(|entry| entry.columns.hash),
        }
    }

    /// Puts a block on the head: not durable and not visible before [`Writer::commit`].
    ///
    /// # Errors
    ///
    /// [`Error::Gap`] if it does not follow the tip (the first must be the genesis block), or if an island holds its height: then commit
    /// first, which joins the island. [`Error::Block`] if it cannot be stored. [`Error::Poisoned`].
    pub fn append(&mut self, block: EncodedBlock) -> Result<()> {
        self.writable()?;
        let tip = self.tip();
        let follows = match tip {
            Some(tip) => tip.height.next() == Some(block.id.height) && tip.hash == block.previous,
            None => {
                block.id.height == Height::GENESIS && block.id.hash == self.manifest.store.genesis
            }
        };
        if !follows || self.sealed.find(block.id.height).is_some() {
            return Err(Error::Gap {
                height: block.id.height,
                previous: block.previous,
                tip,
            });
        }
        let incoming = Incoming::of(&block)?;
        incoming.grows_from(self.tip_sizes())?;
        let entry = Entry {
            columns: incoming.columns,
            previous: block.previous,
            segment: 0,
            at: self.pending.len() as u64,
        };
        put(&mut self.pending, block.id.height, &incoming);
        self.head.push((block.id.height, entry));
        Ok(())
    }

    /// Makes the head durable (one write, one sync) and visible (one view). Where the chain now reaches an island, joins it: the blocks below
    /// it are sealed, and the tip is at the island's end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], after which the writer is of no more use. [`Error::Gap`] if an island does not follow the block below it; the head
    /// is committed then, and [`Writer::truncate_above`] that block takes the island away. [`Error::Poisoned`].
    pub fn commit(&mut self) -> Result<()> {
        self.writable()?;
        if self.head.is_empty() {
            return Ok(());
        }
        let committed = self.commit_head();
        self.or_poison(committed)?;
        self.join()
    }

    fn commit_head(&mut self) -> Result<()> {
        self.ready_segment()?;
        let active = self.active.as_mut().expect("a segment was just made ready");
        self.commit += 1;
        let last = self.head.len() - 1;
        for (index, (_, entry)) in self.head.iter().enumerate() {
            let record = &mut self.pending[entry.at as usize..];
            record::seal(record, active.salt, self.commit, index == last);
        }
        let start = active.bytes;
        let sequence = active.sequence;
        self.write_records()?;
        self.make_room(self.head.len());
        for (height, entry) in self.head.drain(..) {
            self.lookup.add(&entry.columns.hash, height);
            self.tail.push(Entry {
                segment: sequence,
                at: start + entry.at,
                ..entry
            });
        }
        self.publish();
        Ok(())
    }

    /// Says which block is the best known, maybe above what is indexed. Published, not stored.
    pub fn announce(&mut self, target: Option<BlockId>) {
        if self.target != target {
            self.target = target;
            self.publish();
        }
    }

    fn publish(&mut self) {
        if self.holds_views {
            return;
        }
        self.generation += 1;
        self.hub.publish(View {
            generation: self.generation,
            store: self.manifest.store,
            sealed: Arc::clone(&self.sealed),
            tail: self.tail.clone(),
            lookup: Arc::clone(&self.lookup),
            target: self.target,
        });
    }

    /// Makes the lookup table larger if `blocks` more do not fit; the larger one holds what the writer's picture holds now.
    fn make_room(&mut self, blocks: usize) {
        if !self.lookup.has_room(blocks) {
            let lookup = recover::fill(&self.sealed, &self.tail, blocks);
            self.lookup = Arc::new(lookup);
        }
    }

    fn write_manifest(&mut self, mut manifest: Manifest) -> Result<()> {
        manifest.edition += 1;
        opening::write_manifest(&self.layout, &manifest)?;
        self.manifest = manifest;
        Ok(())
    }

    fn writable(&self) -> Result<()> {
        if self.poisoned {
            return Err(Error::Poisoned);
        }
        Ok(())
    }

    /// After a step that writes failed, what is on disk is unknown.
    fn or_poison<T>(&mut self, step: Result<T>) -> Result<T> {
        self.poisoned |= step.is_err();
        step
    }
}

/// Appends a block's record.
fn put(out: &mut Vec<u8>, height: Height, block: &Incoming<'_>) {
    record::put_block(
        out,
        height,
        &block.previous,
        &block.columns,
        block.frame,
        block.transparent,
    );
}

fn entries(sealed: &SealedSet) -> Vec<manifest::Sealed> {
    sealed.ranges().iter().map(|range| range.entry).collect()
}
