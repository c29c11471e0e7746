//! Opening a store, whatever happened to the process that wrote it.
//!
//! In: the files the manifest names. Out: what they hold, checked: columns and tail in whole, frames and companions by their length.
//! Nothing is modified here; what a crash left behind is cleared away by [`crate::Writer::open`], which holds the lock.

use std::{io, num::NonZeroUsize, sync::Arc, thread};

use bytes::Bytes;
use lightship_chain::{Height, TreeSizes};

use crate::{
    Error, Result, View,
    format::{
        VERSION, Wrong,
        manifest::{self, Manifest, Unreadable},
        record::{self, Kind, Salt},
    },
    layout::{Layout, at},
    lookup::Lookup,
    sealed::{SealedRange, SealedSet},
    tail::{Entry, Tail},
};

/// How often a reader begins anew because the writer replaced the manifest meanwhile.
const ATTEMPTS: usize = 16;
/// Threads that open ranges; more only wait for each other.
const MOST_THREADS: usize = 8;

/// A store as found.
pub(crate) struct Loaded {
    pub(crate) manifest: Manifest,
    pub(crate) sealed: SealedSet,
    pub(crate) tail: Tail,
    /// The last commit found.
    pub(crate) commit: u64,
    /// The segment that was written last, if it may grow.
    pub(crate) open: Option<OpenSegment>,
}

/// The segment that was written last.
pub(crate) struct OpenSegment {
    pub(crate) sequence: u64,
    pub(crate) salt: Salt,
    /// How much of it holds whole records.
    pub(crate) bytes: u64,
    /// Whether there is more, which a crash has cut.
    pub(crate) torn: bool,
}

/// The manifest, or `None` where there is no store.
pub(crate) fn read_manifest(layout: &Layout) -> Result<Option<Manifest>> {
    let path = layout.manifest();
    let file = match layout.disk.map(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        mapped => mapped.map_err(at("map", &path))?,
    };
    match Manifest::decode(&file) {
        Ok(manifest) => Ok(Some(manifest)),
        Err(Unreadable::Version(found)) => Err(Error::Version {
            path,
            found,
            supported: VERSION,
        }),
        Err(Unreadable::Wrong(wrong)) => Err(Error::corrupt(&path, wrong)),
    }
}

/// Loads a store that another process may be writing: if the manifest was replaced meanwhile, so that files it named are gone, begins anew.
pub(crate) fn load_beside_writer(layout: &Layout) -> Result<Loaded> {
    let mut attempt = 0;
    loop {
        let Some(manifest) = read_manifest(layout)? else {
            return Err(Error::Missing {
                path: layout.dir.clone(),
            });
        };
        let edition = manifest.edition;
        attempt += 1;
        match load(layout, manifest) {
            Err(error) if attempt < ATTEMPTS => {
                let replaced = read_manifest(layout)?.is_some_and(|now| now.edition != edition);
                if !replaced {
                    return Err(error);
                }
            }
            loaded => return loaded,
        }
    }
}

/// Loads what `manifest` names.
pub(crate) fn load(layout: &Layout, manifest: Manifest) -> Result<Loaded> {
    let store = manifest.store;
    let ranges = open_ranges(layout, &manifest)?;
    let sealed =
        SealedSet::new(store.range_blocks.get(), store.genesis, ranges).map_err(|error| {
            Error::Corrupt {
                path: layout.manifest(),
                offset: 0,
                expected: "ranges that follow each other".to_owned(),
                found: error.to_string(),
            }
        })?;
    let Replayed {
        mut tail,
        commit,
        open,
    } = replay(layout, &manifest)?;
    rebase(layout, &manifest, &sealed, &mut tail)?;
    Ok(Loaded {
        sealed,
        tail,
        commit,
        open,
        manifest,
    })
}

/// What the tail's segments hold, not yet compared with what is sealed.
pub(crate) struct Replayed {
    pub(crate) tail: Tail,
    commit: u64,
    open: Option<OpenSegment>,
}

/// Goes through the segments that `manifest` names.
pub(crate) fn replay(layout: &Layout, manifest: &Manifest) -> Result<Replayed> {
    let mut replay = Replay {
        layout,
        manifest,
        tail: Tail::new(Height::GENESIS),
        commit: 0,
        ended: true,
        open: None,
    };
    for segment in &manifest.segments {
        replay.segment(segment)?;
    }
    Ok(Replayed {
        tail: replay.tail,
        commit: replay.commit,
        open: replay.open,
    })
}

fn open_ranges(layout: &Layout, manifest: &Manifest) -> Result<Vec<Arc<SealedRange>>> {
    let blocks = manifest.store.range_blocks.get();
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let each = manifest
        .sealed
        .len()
        .div_ceil(threads.min(MOST_THREADS))
        .max(16);
    let open = |entries: &[manifest::Sealed]| {
        entries
            .iter()
            .map(|entry| SealedRange::open(layout, *entry, blocks).map(Arc::new))
            .collect::<Result<Vec<_>>>()
    };
    thread::scope(|scope| {
        let parts: Vec<_> = manifest
            .sealed
            .chunks(each)
            .map(|entries| scope.spawn(move || open(entries)))
            .collect();
        let mut ranges = Vec::with_capacity(manifest.sealed.len());
        for part in parts {
            let part = part.join().expect("opening a range does not panic");
            ranges.extend(part?);
        }
        Ok(ranges)
    })
}

/// Goes through the tail's records in the order in which they were written.
struct Replay<'a> {
    layout: &'a Layout,
    manifest: &'a Manifest,
    tail: Tail,
    commit: u64,
    /// Whether the last record ended its commit.
    ended: bool,
    open: Option<OpenSegment>,
}

impl Replay<'_> {
    fn segment(&mut self, segment: &manifest::Segment) -> Result<()> {
        let path = self.layout.segment(segment.sequence);
        let corrupt = |wrong| Error::corrupt(&path, wrong);
        let mut bytes = self.layout.map_named(&path)?;
        let genesis = &self.manifest.store.genesis;
        let header = record::Header::read(&bytes, segment.sequence, genesis).map_err(corrupt)?;
        let salt = header.salt;
        // A segment begins with a commit; the one before it may have lost its end.
        self.commit = header.commit;
        self.ended = true;
        if let Some(closed) = segment.bytes {
            bytes = usize::try_from(closed)
                .ok()
                .filter(|closed| *closed <= bytes.len())
                .map(|closed| bytes.slice(..closed))
                .ok_or_else(|| {
                    let expected = format!("{closed} bytes or more");
                    corrupt(Wrong::new(bytes.len() as u64, expected, "the end"))
                })?;
        }
        self.tail.map(segment.sequence, bytes.clone());
        let mut at = record::HEADER_BYTES as u64;
        let mut torn = false;
        while at < bytes.len() as u64 {
            match record::read(&bytes, salt, at) {
                Ok(record) => {
                    self.apply(segment.sequence, at, &record.kind)
                        .map_err(corrupt)?;
                    self.commit = record.commit;
                    self.ended = record.ends_commit;
                    at += record.bytes;
                }
                Err(wrong) if segment.bytes.is_some() || self.is_rot(&bytes, salt, at) => {
                    return Err(corrupt(wrong));
                }
                Err(_) => {
                    torn = true;
                    break;
                }
            }
        }
        if segment.bytes.is_none() {
            self.open = Some(OpenSegment {
                sequence: segment.sequence,
                salt,
                bytes: at,
                // A commit that lacks its end is over, too: what follows it would look like a part of it.
                torn: torn || !self.ended,
            });
        }
        Ok(())
    }

    /// Tells bytes that rotted from an end that a crash has torn.
    ///
    /// A commit is begun only when the one before it is durable. So if a record of a later commit follows the one that cannot be read, the
    /// unreadable one had been durable, and its loss must not pass for a crash.
    fn is_rot(&self, segment: &Bytes, salt: Salt, at: u64) -> bool {
        let unreadable = self.commit + u64::from(self.ended);
        record::any_behind(segment, salt, at, unreadable + 1)
    }

    fn apply(&mut self, sequence: u64, at: u64, kind: &Kind) -> Result<(), Wrong> {
        match kind {
            Kind::Block {
                height,
                previous,
                columns,
            } => {
                match self.tail.tip() {
                    Some(tip) if tip.height.next() == Some(*height) && tip.hash == *previous => {}
                    Some(tip) => {
                        let expected = format!("a block that follows {tip}");
                        return Err(Wrong::new(at, expected, format!("block {height}")));
                    }
                    // Blocks below may lie in segments that are gone because what replaced them is sealed.
                    None => self.tail.begin(*height),
                }
                self.tail.push(Entry {
                    columns: *columns,
                    previous: *previous,
                    segment: sequence,
                    at,
                });
            }
            Kind::Rollback { blocks } => {
                let len = blocks.saturating_sub(self.tail.first().get());
                self.tail.truncate(len as usize);
            }
        }
        Ok(())
    }
}

/// Takes the sealed blocks off the tail's front and checks that what remains follows them.
fn rebase(layout: &Layout, manifest: &Manifest, sealed: &SealedSet, tail: &mut Tail) -> Result<()> {
    let base = sealed.joined_blocks();
    tail.drop_front(base.saturating_sub(tail.first().get()) as usize);
    let Some(base) = Height::try_from(base).ok() else {
        return Ok(());
    };
    if tail.is_empty() {
        tail.begin(base);
        return Ok(());
    }
    let first = tail.get(tail.first()).expect("the tail is not empty");
    let (follows, sizes) = match sealed.joined() {
        Some(range) => (first.previous == range.tip().hash, range.tip_sizes()),
        None => (
            first.columns.hash == manifest.store.genesis,
            TreeSizes::ZERO,
        ),
    };
    let after = first.columns.sizes;
    let grows = after.sapling >= sizes.sapling
        && after.orchard >= sizes.orchard
        && after.ironwood >= sizes.ironwood;
    if tail.first() == base && follows && grows {
        return Ok(());
    }
    Err(Error::Corrupt {
        path: layout.segment(first.segment),
        offset: first.at,
        expected: format!("block {base}, following what is sealed"),
        found: format!("block {} ({})", tail.first(), first.columns.hash),
    })
}

impl Loaded {
    /// The first view of the store.
    pub(crate) fn into_view(self) -> View {
        View {
            generation: 1,
            store: self.manifest.store,
            lookup: Arc::new(fill(&self.sealed, &self.tail, 0)),
            sealed: Arc::new(self.sealed),
            tail: self.tail,
            target: None,
        }
    }
}

/// A table of every block in a picture, with room for `more`.
pub(crate) fn fill(sealed: &SealedSet, tail: &Tail, more: usize) -> Lookup {
    let sealed_blocks: usize = sealed
        .ranges()
        .iter()
        .map(|range| range.blocks() as usize)
        .sum();
    let lookup = Lookup::with_room(sealed_blocks + tail.len() + more);
    for range in sealed.ranges() {
        add_range(&lookup, range);
    }
    for entry in tail.iter() {
        lookup.add(&entry.1.columns.hash, entry.0);
    }
    lookup
}

/// Adds every block of a range.
pub(crate) fn add_range(lookup: &Lookup, range: &SealedRange) {
    for index in 0..range.blocks() {
        let height = range.first().checked_add(index);
        lookup.add(
            &range.hash(index),
            height.expect("the last height of a range was checked"),
        );
    }
}
