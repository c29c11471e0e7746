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

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use lightship_chain::{BlockHash, BlockId, Height, TreeSizes, compact::EncodedBlock};

use crate::{
    Disk, Error, Files, RangeBuilder, Reader, Result, StoreId, View,
    disk::Append,
    format::{
        manifest::{self, Manifest},
        record::{self, Salt},
    },
    layout::{self, Layout, Part, UNFINISHED, at},
    lookup::Lookup,
    range::Incoming,
    reader::Hub,
    recover,
    sealed::{SealedRange, SealedSet},
    tail::{Entry, Tail},
    view,
};

/// A segment that has grown to this is closed, and the next commit begins another.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Ranges of the tail that become part of the store together, so that their syncs count once.
const SEALED_TOGETHER: u32 = 8;
/// What is gathered before it is written when sealed blocks go back to the tail.
const COPY_BYTES: usize = 1024 * 1024;

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

/// The segment that grows.
struct Active {
    file: Box<dyn Append>,
    path: PathBuf,
    sequence: u64,
    salt: Salt,
    bytes: u64,
}

/// What [`Writer::truncate_above`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Truncated {
    /// Blocks dropped from the chain, head included.
    pub blocks: u32,
    /// Sealed ranges dropped or taken apart, islands included: more than 0 is worth a warning.
    pub unsealed_ranges: u32,
}

impl Writer {
    /// Opens the store in `dir`, making it if the folder is empty or missing; recovers from a crash; publishes the first view.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another process writes to it. [`Error::Foreign`] if the folder holds other files, or the store of another chain
    /// or range size. [`Error::Version`] if it is of another format. [`Error::Corrupt`] if files are missing or their bytes wrong.
    /// [`Error::Io`].
    pub fn open(dir: &Path, id: StoreId) -> Result<Writer> {
        Writer::open_on(Arc::new(Files), dir, id)
    }

    /// The same on a disk of one's own.
    ///
    /// # Errors
    ///
    /// As [`Writer::open`].
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path, id: StoreId) -> Result<Writer> {
        let layout = Layout {
            disk,
            dir: dir.to_owned(),
        };
        refuse_other_files(&layout)?;
        layout.create_dir(dir)?;
        let lock_file = layout.lock_file();
        let lock = layout
            .disk
            .lock(&lock_file)
            .map_err(at("lock", &lock_file))?;
        let Some(lock) = lock else {
            return Err(Error::Locked { path: lock_file });
        };
        let manifest = match recover::read_manifest(&layout)? {
            Some(manifest) if manifest.store == id => manifest,
            Some(manifest) => {
                return Err(Error::Foreign {
                    path: layout.dir,
                    found: manifest.store.to_string(),
                    expected: id.to_string(),
                });
            }
            None => make(&layout, id)?,
        };
        let loaded = recover::load(&layout, manifest)?;
        let mut writer = Writer::of_loaded(layout, lock, loaded)?;
        // Only a crash between a commit and the joining that follows it leaves something to join. If it cannot be joined, the caller hears
        // of that from its next commit.
        match writer.join() {
            Ok(()) | Err(Error::Gap { .. }) => Ok(writer),
            Err(error) => Err(error),
        }
    }

    fn of_loaded(
        layout: Layout,
        lock: Box<dyn Send + Sync>,
        loaded: recover::Loaded,
    ) -> Result<Writer> {
        let mut manifest = loaded.manifest.clone();
        let commit = loaded.commit;
        let mut active = None;
        if let Some(open) = &loaded.open {
            let path = layout.segment(open.sequence);
            let mut file = layout.open_end(&path)?;
            // What was found may be in the system's memory only, if the process died before its sync.
            file.sync().map_err(at("sync", &path))?;
            if open.torn {
                manifest.segments.last_mut().expect("one is open").bytes = Some(open.bytes);
            } else {
                active = Some(Active {
                    file,
                    path,
                    sequence: open.sequence,
                    salt: open.salt,
                    bytes: open.bytes,
                });
            }
        }
        let highest = clear_leftovers(&layout, &manifest)?;
        let view = loaded.into_view();
        Ok(Writer {
            layout,
            _lock: lock,
            manifest,
            sealed: Arc::clone(&view.sealed),
            tail: view.tail.clone(),
            lookup: Arc::clone(&view.lookup),
            active,
            next_segment: highest + 1,
            head: Vec::new(),
            pending: Vec::new(),
            commit,
            generation: view.generation,
            target: None,
            holds_views: false,
            poisoned: false,
            builders: AtomicU64::new(0),
            hub: Hub::new(view),
        })
    }

    /// Reads the store again after a write failed, as [`Writer::open`] does, under the same lock and for the same readers: what is found on
    /// the disk is published. For a disk that was full; after a failed sync it proves nothing, see [`Error::Poisoned`]. Ranges that were
    /// begun before are lost.
    ///
    /// # Errors
    ///
    /// As [`Writer::open`]; the writer is then as it was.
    pub fn reopen(&mut self) -> Result<()> {
        let Some(manifest) = recover::read_manifest(&self.layout)? else {
            return Err(Error::Missing {
                path: self.layout.dir.clone(),
            });
        };
        if manifest.store != self.manifest.store {
            return Err(Error::Foreign {
                path: self.layout.dir.clone(),
                found: manifest.store.to_string(),
                expected: self.manifest.store.to_string(),
            });
        }
        let loaded = recover::load(&self.layout, manifest)?;
        let no_lock: Box<dyn Send + Sync> = Box::new(());
        let mut fresh = Writer::of_loaded(self.layout.clone(), no_lock, loaded)?;
        std::mem::swap(&mut fresh._lock, &mut self._lock);
        fresh.hub = Arc::clone(&self.hub);
        fresh.generation = self.generation;
        fresh.target = self.target;
        fresh.builders = AtomicU64::new(self.builders.load(Ordering::Relaxed));
        *self = fresh;
        self.publish();
        match self.join() {
            Ok(()) | Err(Error::Gap { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

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

    /// Writes what is pending to the active segment, durably, and maps it anew.
    fn write_records(&mut self) -> Result<()> {
        let active = self.active.as_mut().expect("a segment was made ready");
        active
            .file
            .write(&self.pending)
            .map_err(at("write", &active.path))?;
        active.file.sync().map_err(at("sync", &active.path))?;
        active.bytes += self.pending.len() as u64;
        // A head of long ago may have been large.
        self.pending = Vec::with_capacity(self.pending.len().min(COPY_BYTES));
        self.map_active()
    }

    fn map_active(&mut self) -> Result<()> {
        let active = self.active.as_ref().expect("a segment was made ready");
        let bytes = self.layout.map(&active.path)?;
        let length = active.bytes as usize;
        if bytes.len() < length {
            return Err(Error::Corrupt {
                path: active.path.clone(),
                offset: bytes.len() as u64,
                expected: format!("the {length} bytes that were written"),
                found: "the end".to_owned(),
            });
        }
        self.tail.map(active.sequence, bytes.slice(..length));
        Ok(())
    }

    /// Sees to it that there is a segment to write to.
    fn ready_segment(&mut self) -> Result<()> {
        match &self.active {
            Some(active) if active.bytes < SEGMENT_BYTES => return Ok(()),
            _ => {}
        }
        let active = self.create_segment()?;
        let mut manifest = self.manifest.clone();
        self.close_active(&mut manifest);
        manifest.segments.push(manifest::Segment {
            sequence: active.sequence,
            bytes: None,
        });
        self.write_manifest(manifest)?;
        self.active = Some(active);
        Ok(())
    }

    /// A new durable segment, of which the manifest does not know yet.
    fn create_segment(&mut self) -> Result<Active> {
        let sequence = self.next_segment;
        self.next_segment += 1;
        let salt = Salt(RandomState::new().build_hasher().finish() as u32);
        let path = self.layout.segment(sequence);
        let mut file = self.layout.create(&path)?;
        let header = record::Header {
            salt,
            sequence,
            commit: self.commit,
        };
        let header = header.encode(&self.manifest.store.genesis);
        file.write(&header).map_err(at("write", &path))?;
        file.sync().map_err(at("sync", &path))?;
        self.layout.sync_dir(&self.layout.tail())?;
        Ok(Active {
            file,
            path,
            sequence,
            salt,
            bytes: header.len() as u64,
        })
    }

    /// Notes in `manifest` how much of the active segment counts.
    fn close_active(&self, manifest: &mut Manifest) {
        if let Some(active) = &self.active
            && let Some(segment) = manifest.segments.last_mut()
        {
            segment.bytes = Some(active.bytes);
        }
    }

    /// Drops the blocks above `keep` (`None`: all) from the head and the tail, durably, and publishes; islands above it go too.
    ///
    /// If `keep` is sealed, takes apart what is sealed above it: ranges above are dropped, and the blocks that stay of the range that holds
    /// `keep` go back to the tail. A chain that does that lost more blocks than anyone expected, so the caller should say it loudly.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if sealed blocks that should go back to the tail are damaged. [`Error::Io`], after which the writer is of no more use.
    /// [`Error::Poisoned`].
    pub fn truncate_above(&mut self, keep: Option<Height>) -> Result<Truncated> {
        self.writable()?;
        let keep_blocks = keep.map_or(0, |keep| keep.get() + 1);
        let blocks = self.tip().map_or(0, |tip| tip.height.get() + 1);
        let sealed = self.sealed.below(keep, self.manifest.store.genesis)?;
        let unsealed = self.sealed.ranges().len() - sealed.ranges().len();
        let truncated = Truncated {
            blocks: blocks.saturating_sub(keep_blocks),
            unsealed_ranges: u32::try_from(unsealed).unwrap_or(u32::MAX),
        };
        let kept = self
            .head
            .partition_point(|(height, _)| height.get() < keep_blocks);
        if let Some((_, entry)) = self.head.get(kept) {
            self.pending.truncate(entry.at as usize);
            self.head.truncate(kept);
        }
        let durable = self.sealed.joined_blocks() as usize + self.tail.len();
        let cut = keep_blocks < self.sealed.joined_blocks();
        let done = if cut {
            self.unseal(keep_blocks, sealed)
        } else {
            let rolled = if (keep_blocks as usize) < durable {
                self.roll_back(keep_blocks)
            } else {
                Ok(())
            };
            rolled.and_then(|()| match unsealed {
                0 => Ok(()),
                _ => self.drop_islands(sealed),
            })
        };
        self.or_poison(done)?;
        Ok(truncated)
    }

    /// Exchanges the blocks above `keep` for `branch`, lowest first, durably: readers see the chain before and the chain after, and nothing in
    /// between. After a crash it may be found cut at `keep`.
    ///
    /// # Errors
    ///
    /// As [`Writer::truncate_above`], [`Writer::append`] and [`Writer::commit`]; readers then see how far it came.
    pub fn replace_above(
        &mut self,
        keep: Option<Height>,
        branch: Vec<EncodedBlock>,
    ) -> Result<Truncated> {
        self.holds_views = true;
        let replaced = self.truncate_above(keep).and_then(|truncated| {
            branch
                .into_iter()
                .try_for_each(|block| self.append(block))?;
            self.commit()?;
            Ok(truncated)
        });
        self.holds_views = false;
        self.publish();
        replaced
    }

    fn roll_back(&mut self, keep_blocks: u32) -> Result<()> {
        self.ready_segment()?;
        let active = self.active.as_ref().expect("a segment was just made ready");
        self.commit += 1;
        // The head lies above the tail, so none of it is left.
        self.pending.clear();
        record::put_rollback(&mut self.pending, keep_blocks);
        record::seal(&mut self.pending, active.salt, self.commit, true);
        self.write_records()?;
        let first = self.tail.first().get();
        self.tail.truncate((keep_blocks - first) as usize);
        self.publish();
        Ok(())
    }

    fn drop_islands(&mut self, sealed: SealedSet) -> Result<()> {
        let mut manifest = self.manifest.clone();
        manifest.sealed = entries(&sealed);
        self.write_manifest(manifest)?;
        let before = std::mem::replace(&mut self.sealed, Arc::new(sealed));
        self.publish();
        self.remove_ranges(&before);
        Ok(())
    }

    /// Goes back to `sealed`, the ranges wholly below `keep_blocks`, with the blocks between them and `keep_blocks` in a new tail.
    fn unseal(&mut self, keep_blocks: u32, sealed: SealedSet) -> Result<()> {
        let base = sealed.joined_blocks();
        let mut tail = Tail::new(Height::try_from(base).unwrap_or(Height::MAX));
        let mut manifest = self.manifest.clone();
        manifest.sealed = entries(&sealed);
        manifest.segments = Vec::new();
        let mut active = None;
        if base < keep_blocks {
            let (segment, entries) = self.copy_to_segment(base..keep_blocks)?;
            manifest.segments.push(manifest::Segment {
                sequence: segment.sequence,
                bytes: None,
            });
            for entry in entries {
                tail.push(entry);
            }
            active = Some(segment);
        }
        self.write_manifest(manifest)?;
        let ranges = std::mem::replace(&mut self.sealed, Arc::new(sealed));
        let segments = self.tail.segments();
        self.active = active;
        self.tail = tail;
        if self.active.is_some() {
            self.map_active()?;
        }
        self.publish();
        self.remove_ranges(&ranges);
        self.remove_segments(segments);
        Ok(())
    }

    /// Copies sealed blocks to a new segment.
    fn copy_to_segment(&mut self, heights: std::ops::Range<u32>) -> Result<(Active, Vec<Entry>)> {
        let mut active = self.create_segment()?;
        self.commit += 1;
        let mut entries = Vec::new();
        let mut buffer = Vec::new();
        for height in heights.clone() {
            let height =
                Height::try_from(height).expect("the block is sealed, so its height is one");
            let (range, index) = self.sealed.find(height).expect("the block is sealed");
            let (frame, transparent) = (range.frames(index, 1)?, range.transparent(index)?);
            let mut columns = range.columns_of(index);
            columns.frame = frame.len() as u64;
            columns.transparent = transparent.len() as u64;
            let incoming = Incoming {
                id: BlockId {
                    height,
                    hash: columns.hash,
                },
                previous: range.row(index).previous,
                columns,
                frame: &frame,
                transparent: &transparent,
            };
            let start = buffer.len();
            put(&mut buffer, height, &incoming);
            let last = height.get() + 1 == heights.end;
            record::seal(&mut buffer[start..], active.salt, self.commit, last);
            entries.push(Entry {
                columns,
                previous: incoming.previous,
                segment: active.sequence,
                at: active.bytes + start as u64,
            });
            if buffer.len() >= COPY_BYTES || last {
                let path = &active.path;
                active.file.write(&buffer).map_err(at("write", path))?;
                active.bytes += buffer.len() as u64;
                buffer.clear();
            }
        }
        active.file.sync().map_err(at("sync", &active.path))?;
        Ok((active, entries))
    }

    /// Seals each complete range of the tail whose last height is at most `height`; returns how many.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::Corrupt`], [`Error::Poisoned`]. [`Error::Gap`] if an island above does not follow the range.
    pub fn seal_through(&mut self, height: Height) -> Result<u32> {
        self.writable()?;
        let blocks = self.manifest.store.range_blocks.get();
        let complete = self.tail.len() as u32 / blocks;
        let below = (height.get() + 1).saturating_sub(self.tail.first().get()) / blocks;
        let count = complete.min(below);
        let mut sealed = 0;
        while sealed < count {
            let together = (count - sealed).min(SEALED_TOGETHER);
            let mut builders = Vec::new();
            for range in 0..together {
                builders.push(self.build_from_tail(range * blocks, blocks)?);
            }
            self.install(builders, true)?;
            sealed += together;
        }
        Ok(sealed)
    }

    /// Builds the range of the tail's blocks behind the first `skip`.
    fn build_from_tail(&self, skip: u32, blocks: u32) -> Result<RangeBuilder> {
        let tail = &self.tail;
        let mut entries = tail.iter().skip(skip as usize).take(blocks as usize);
        let (first, lowest) = entries.clone().next().ok_or(Error::Range {
            first: tail.first(),
            why: "it is not in the tail",
        })?;
        let before = match first.previous() {
            Some(below) if skip > 0 => tail.get(below).map(|entry| entry.columns.sizes),
            _ => self.sealed.joined().map(|range| range.tip_sizes()),
        };
        let before = before.unwrap_or(TreeSizes::ZERO);
        let mut builder = self.begin_range(first, before, lowest.previous)?;
        entries.try_for_each(|(height, entry)| {
            let (frame, transparent) = tail.payload(entry);
            builder.push(&Incoming {
                id: BlockId {
                    height,
                    hash: entry.columns.hash,
                },
                previous: entry.previous,
                columns: entry.columns,
                frame: &frame,
                transparent: &transparent,
            })
        })?;
        Ok(builder)
    }

    /// Begins one complete range, written straight to its sealed files. `before` and `previous` are the trees' sizes and the block below it;
    /// they are compared with that block's once both are in the store.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] if `first` is no multiple of the store's range size, or the range passes the last height. [`Error::Io`].
    pub fn begin_range(
        &self,
        first: Height,
        before: TreeSizes,
        previous: BlockHash,
    ) -> Result<RangeBuilder> {
        let blocks = self.manifest.store.range_blocks.get();
        if !first.get().is_multiple_of(blocks) || first.checked_add(blocks - 1).is_none() {
            return Err(Error::Range {
                first,
                why: "ranges begin at multiples of the store's range size",
            });
        }
        let number = self.builders.fetch_add(1, Ordering::Relaxed);
        RangeBuilder::create(&self.layout, number, (first, blocks), before, previous)
    }

    /// Makes a complete range part of the store, durably, and publishes. If it is next after what is sealed, the chain grows by it, and by the
    /// islands that now adjoin; above that it is an island until the gap closes.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] if the range is not complete, is of another store, is sealed already, or has blocks in the tail or the head.
    /// [`Error::Gap`] if it does not link to its neighbours. Its files are removed in all these cases. [`Error::Io`], after which the writer
    /// is of no more use. [`Error::Poisoned`].
    pub fn seal(&mut self, range: RangeBuilder) -> Result<()> {
        self.seal_all(vec![range])
    }

    /// Seals several ranges, in any order, with as many syncs as one takes: all of them or, if one is refused, none.
    ///
    /// # Errors
    ///
    /// As [`Writer::seal`].
    pub fn seal_all(&mut self, ranges: Vec<RangeBuilder>) -> Result<()> {
        self.writable()?;
        let next = self.tip().map_or(0, |tip| tip.height.get() + 1);
        for (index, range) in ranges.iter().enumerate() {
            let first = range.first();
            let refuse = |why| Err(Error::Range { first, why });
            if !range.is_complete() {
                return refuse("it is not complete");
            }
            if !range.is_of(&self.layout) {
                return refuse("it was begun for another store");
            }
            let twice = ranges[..index].iter().any(|other| other.first() == first);
            let sealed = first.get() < self.sealed.joined_blocks();
            if twice || sealed || self.sealed.find(first).is_some() {
                return refuse("it is sealed already");
            }
            if next > first.get() {
                return refuse("blocks of it are in the tail or the head");
            }
        }
        self.install(ranges, false)?;
        self.join()
    }

    /// Names the files of complete ranges, makes them part of the manifest, and publishes. The blocks of ranges from the tail leave it.
    fn install(&mut self, builders: Vec<RangeBuilder>, from_tail: bool) -> Result<()> {
        if builders.is_empty() {
            return Ok(());
        }
        let named = self.name(builders);
        let named = self.or_poison(named)?;
        let genesis = self.manifest.store.genesis;
        let blocks = self.manifest.store.range_blocks.get();
        let ranges: Result<Vec<_>> = named
            .iter()
            .map(|entry| SealedRange::open(&self.layout, *entry, blocks).map(Arc::new))
            .collect();
        let linked = ranges.and_then(|ranges| Ok((self.sealed.with(&ranges, genesis)?, ranges)));
        let (sealed, ranges) = match linked {
            Ok(linked) => linked,
            Err(error) => {
                named.iter().for_each(|entry| self.remove_range(entry));
                return Err(error);
            }
        };
        let mut tail = self.tail.clone();
        tail.drop_front(sealed.joined_blocks().saturating_sub(tail.first().get()) as usize);
        if tail.is_empty() {
            tail.begin(Height::try_from(sealed.joined_blocks()).unwrap_or(Height::MAX));
        }
        let mut manifest = self.manifest.clone();
        manifest.sealed = entries(&sealed);
        let mut dropped = Vec::new();
        let close = from_tail || tail.is_empty();
        if close {
            // The blocks that come next go to a segment of their own, so that this one can go when they are sealed.
            self.close_active(&mut manifest);
            let lowest = tail.lowest_segment().unwrap_or(u64::MAX);
            dropped.extend(manifest.segments.iter().map(|segment| segment.sequence));
            dropped.retain(|sequence| *sequence < lowest);
            manifest
                .segments
                .retain(|segment| segment.sequence >= lowest);
            tail.forget_below(lowest);
        }
        let written = self.write_manifest(manifest);
        self.or_poison(written)?;
        if close {
            self.active = None;
        }
        if !from_tail {
            self.make_room(blocks as usize * ranges.len());
            for range in &ranges {
                recover::add_range(&self.lookup, range);
            }
        }
        self.sealed = Arc::new(sealed);
        self.tail = tail;
        self.publish();
        self.remove_segments(dropped);
        Ok(())
    }

    /// Gives the files of ranges their final names, durably.
    fn name(&self, builders: Vec<RangeBuilder>) -> Result<Vec<manifest::Sealed>> {
        let mut named = Vec::with_capacity(builders.len());
        for builder in builders {
            let first = builder.first();
            let columns_digest = builder.name()?.ok_or(Error::Range {
                first,
                why: "it is not complete",
            })?;
            named.push(manifest::Sealed {
                first,
                columns_digest,
            });
        }
        self.layout.sync_dir(&self.layout.sealed())?;
        Ok(named)
    }

    /// If the tail ends where an island begins, seals the blocks between.
    fn join(&mut self) -> Result<()> {
        let Some(tip) = self.tail.tip() else {
            return Ok(());
        };
        let above = tip.height.next().and_then(|next| self.sealed.find(next));
        let Some((island, _)) = above else {
            return Ok(());
        };
        let sizes = view::chain_tip_sizes(&self.sealed, &self.tail);
        island.follows(Some(tip), sizes, self.manifest.store.genesis)?;
        self.seal_through(tip.height).map(drop)
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
        write_manifest(&self.layout, &manifest)?;
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

    /// Removes the files of those of `before` that are no longer part of the store.
    fn remove_ranges(&self, before: &SealedSet) {
        for range in before.ranges() {
            if !self.manifest.sealed.contains(&range.entry) {
                self.remove_range(&range.entry);
            }
        }
    }

    /// What cannot be removed now is removed when the store is opened; nothing depends on it.
    fn remove_range(&self, entry: &manifest::Sealed) {
        let stem = self.layout.range(entry.first, &entry.columns_digest);
        for part in Part::ALL {
            let _ = self.layout.remove(&Layout::part(&stem, part));
        }
        let _ = self.layout.sync_dir(&self.layout.sealed());
    }

    fn remove_segments(&self, segments: Vec<u64>) {
        if segments.is_empty() {
            return;
        }
        for sequence in segments {
            let _ = self.layout.remove(&self.layout.segment(sequence));
        }
        let _ = self.layout.sync_dir(&self.layout.tail());
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

/// A folder without a manifest must be empty, or hold what an interrupted first start leaves.
fn refuse_other_files(layout: &Layout) -> Result<()> {
    let entries = layout.list(&layout.dir)?;
    let is = |entry: &crate::Entry, names: &[&str]| names.iter().any(|name| entry.name == *name);
    if entries.iter().any(|entry| is(entry, &["manifest"])) {
        return Ok(());
    }
    let ours = ["lock", "manifest.new", "sealed", "tail", "lost+found"];
    match entries.iter().find(|entry| !is(entry, &ours)) {
        None => Ok(()),
        Some(other) => Err(Error::Foreign {
            path: layout.dir.clone(),
            found: format!("{} and no manifest", other.name.display()),
            expected: "an index or nothing at all".to_owned(),
        }),
    }
}

/// Makes an empty store.
fn make(layout: &Layout, id: StoreId) -> Result<Manifest> {
    for dir in [layout.sealed(), layout.tail()] {
        for entry in layout.list(&dir)? {
            let finished = Path::new(&entry.name).extension() != Some(UNFINISHED.as_ref());
            if finished {
                return Err(Error::Corrupt {
                    path: layout.manifest(),
                    offset: 0,
                    expected: format!("a manifest that names {}", entry.name.display()),
                    found: "no manifest".to_owned(),
                });
            }
        }
        layout.create_dir(&dir)?;
    }
    layout.sync_dir(&layout.dir)?;
    if let Some(parent) = layout.dir.parent() {
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        layout.sync_dir(parent)?;
    }
    let manifest = Manifest::new(id);
    write_manifest(layout, &manifest)?;
    Ok(manifest)
}

fn write_manifest(layout: &Layout, manifest: &Manifest) -> Result<()> {
    let path = layout.manifest();
    let unfinished = path.with_extension(UNFINISHED);
    let mut file = layout.create(&unfinished)?;
    file.write(&manifest.encode())
        .map_err(at("write", &unfinished))?;
    file.sync().map_err(at("sync", &unfinished))?;
    layout.rename(&unfinished, &path)?;
    layout.sync_dir(&layout.dir)
}

/// Removes what a crash left behind: files of ours that the manifest does not name. Returns the highest segment number in use.
fn clear_leftovers(layout: &Layout, manifest: &Manifest) -> Result<u64> {
    let mut highest = 0;
    let named: Vec<PathBuf> = manifest
        .segments
        .iter()
        .map(|segment| layout.segment(segment.sequence))
        .collect();
    for entry in layout.list(&layout.tail())? {
        if !layout::is_segment_file(&entry.name) {
            continue;
        }
        let path = layout.tail().join(&entry.name);
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse().ok());
        highest = highest.max(number.unwrap_or(0));
        if !named.contains(&path) {
            layout.remove(&path)?;
        }
    }
    let stems: std::collections::HashSet<PathBuf> = manifest
        .sealed
        .iter()
        .map(|range| layout.range(range.first, &range.columns_digest))
        .collect();
    for entry in layout.list(&layout.sealed())? {
        let path = layout.sealed().join(&entry.name);
        let unfinished = path.extension() == Some(UNFINISHED.as_ref());
        if layout::is_range_file(&entry.name)
            && (unfinished || !stems.contains(&path.with_extension("")))
        {
            layout.remove(&path)?;
        }
    }
    let last = manifest.segments.last().map_or(0, |last| last.sequence);
    Ok(highest.max(last))
}
