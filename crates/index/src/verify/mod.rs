//! Reading a whole store and saying what is wrong where.
//!
//! In: the folder of a store, which a writer may be at work on. Out: findings, one line each, and a count of what was read. Checks every
//! checksum and digest, every link, and that rows say what frames and companions say. Nothing is modified; what to do about a finding
//! is left to the operator, but a damaged range can be fetched again from any copy that has the same digest, or built anew.

mod content;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use lightship_chain::{BlockId, Height, TreeSizes};

use crate::{
    Disk, Error, Files, Result, Row,
    format::{self, Digest, columns::Columns, hex, manifest::Manifest},
    layout::{Layout, Part},
    recover,
    sealed::SealedRange,
    tail::Tail,
};
use content::Content;

/// How often reading begins anew because the writer replaced the manifest meanwhile.
const ATTEMPTS: usize = 16;

/// Something wrong with a store; its text is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// The block, if it is about one.
    pub height: Option<Height>,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if let Some(height) = self.height {
            write!(f, "block {height}: ")?;
        }
        f.write_str(&self.problem)
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    /// Sealed ranges, islands included.
    pub ranges: u64,
    /// Blocks in them.
    pub sealed_blocks: u64,
    /// Blocks of the tail.
    pub tail_blocks: u64,
    /// Bytes of frames, companions and columns.
    pub bytes: u64,
    /// How many findings there were.
    pub findings: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary {
            ranges,
            sealed_blocks,
            tail_blocks,
            bytes,
            ..
        } = self;
        write!(
            f,
            "read {sealed_blocks} blocks in {ranges} sealed ranges and {tail_blocks} blocks of the tail, {bytes} bytes"
        )
    }
}

/// Reads all of the store in `dir` and reports what is wrong with it.
///
/// # Errors
///
/// [`Error::Missing`] if there is no store, [`Error::Version`] if it is of another format, [`Error::Corrupt`] if its manifest is damaged, so that
/// nothing more can be said; [`Error::Io`] if the disk fails. Everything else is a finding.
pub fn verify(dir: &Path, report: &mut dyn FnMut(Finding)) -> Result<Summary> {
    verify_on(Arc::new(Files), dir, report)
}

/// The same on a disk of one's own.
///
/// # Errors
///
/// As [`verify`].
pub fn verify_on(
    disk: Arc<dyn Disk>,
    dir: &Path,
    report: &mut dyn FnMut(Finding),
) -> Result<Summary> {
    let layout = Layout {
        disk,
        dir: dir.to_owned(),
    };
    let store = open(&layout)?;
    let mut check = Check {
        layout: &layout,
        summary: Summary::default(),
        report,
    };
    check.ranges(&store)?;
    check.tail(&store)?;
    Ok(check.summary)
}

/// Everything mapped at once: what the writer removes afterwards stays readable.
struct Opened {
    manifest: Manifest,
    ranges: Vec<Result<SealedRange>>,
    tail: Result<Tail>,
}

fn open(layout: &Layout) -> Result<Opened> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let manifest = recover::read_manifest(layout)?.ok_or_else(|| Error::Missing {
            path: layout.dir.clone(),
        })?;
        let blocks = manifest.store.range_blocks.get();
        let ranges: Vec<_> = manifest
            .sealed
            .iter()
            .map(|entry| SealedRange::open(layout, *entry, blocks))
            .collect();
        let tail = recover::replay(layout, &manifest).map(|replayed| replayed.tail);
        let failed = tail.is_err() || ranges.iter().any(Result::is_err);
        let replaced = || -> Result<bool> {
            Ok(recover::read_manifest(layout)?.is_some_and(|now| now.edition != manifest.edition))
        };
        if failed && attempt < ATTEMPTS && replaced()? {
            continue;
        }
        return Ok(Opened {
            manifest,
            ranges,
            tail,
        });
    }
}

struct Check<'a> {
    layout: &'a Layout,
    summary: Summary,
    report: &'a mut dyn FnMut(Finding),
}

impl Check<'_> {
    fn find(&mut self, path: PathBuf, height: Option<Height>, problem: String) {
        self.summary.findings += 1;
        (self.report)(Finding {
            path,
            height,
            problem,
        });
    }

    /// A finding of what is wrong with bytes; an error for a disk that fails.
    fn find_error(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Corrupt {
                path,
                offset,
                expected,
                found,
            } => {
                let problem = format!("at byte {offset}: expected {expected}, found {found}");
                self.find(path, None, problem);
                Ok(())
            }
            other => Err(other),
        }
    }

    fn ranges(&mut self, store: &Opened) -> Result<()> {
        let mut below: Option<&SealedRange> = None;
        for range in &store.ranges {
            let range = match range {
                Ok(range) => range,
                Err(error) => {
                    self.find_error(repeat(error))?;
                    below = None;
                    continue;
                }
            };
            self.summary.ranges += 1;
            self.digests(range);
            self.link(store, below, range);
            let mut before = range.header.before;
            for index in 0..range.blocks() {
                self.sealed_block(range, index, &mut before)?;
            }
            below = Some(range);
        }
        Ok(())
    }

    fn digests(&mut self, range: &SealedRange) {
        let header = &range.header;
        for (part, expected) in [
            (Part::Blocks, header.blocks_digest),
            (Part::Transparent, header.transparent_digest),
            (Part::Columns, range.entry.columns_digest),
        ] {
            let bytes = range.bytes(part);
            self.summary.bytes += bytes.len() as u64;
            let found: Digest = format::digest(bytes);
            if found != expected {
                let problem = format!(
                    "expected the digest {}, found {}",
                    hex(&expected),
                    hex(&found)
                );
                self.find(range.path(part), None, problem);
            }
        }
    }

    fn link(&mut self, store: &Opened, below: Option<&SealedRange>, range: &SealedRange) {
        let adjoins = match below {
            Some(below) => below.last().next() == Some(range.first()),
            None => range.first() == Height::GENESIS,
        };
        let tip = below.map(SealedRange::tip);
        let sizes = below.map_or(TreeSizes::ZERO, SealedRange::tip_sizes);
        if adjoins && let Err(error) = range.follows(tip, sizes, store.manifest.store.genesis) {
            self.find(
                range.path(Part::Columns),
                Some(range.first()),
                error.to_string(),
            );
        }
    }

    fn sealed_block(
        &mut self,
        range: &SealedRange,
        index: u32,
        before: &mut TreeSizes,
    ) -> Result<()> {
        self.summary.sealed_blocks += 1;
        let columns = range.columns_of(index);
        let row = range.row(index);
        let height = range.first().checked_add(index);
        let id = BlockId {
            height: height.expect("the last height of a range was checked"),
            hash: row.hash,
        };
        match (range.frames(index, 1), range.transparent(index)) {
            (Ok(frame), Ok(transparent)) => {
                let path = range.path(Part::Blocks);
                let content = (frame.as_ref(), transparent.as_ref());
                self.block(path, id, &row, &columns, content, *before);
            }
            (frame, transparent) => {
                for error in [frame.err(), transparent.err()].into_iter().flatten() {
                    self.find_error(error)?;
                }
            }
        }
        *before = row.sizes;
        Ok(())
    }

    /// Whether the row says what frame and companion say.
    fn block(
        &mut self,
        path: PathBuf,
        id: BlockId,
        row: &Row,
        columns: &Columns,
        (frame, transparent): (&[u8], &[u8]),
        before: TreeSizes,
    ) {
        let content = match Content::read(frame, transparent) {
            Ok(content) => content,
            Err(problem) => {
                self.find(path, Some(id.height), problem);
                return;
            }
        };
        // The genesis block names a parent that is no block, and a row has none for it.
        let previous = if id.height == Height::GENESIS {
            content.previous
        } else {
            row.previous
        };
        let after = before.checked_add(content.added);
        for (what, row_says, block_says) in [
            ("height", id.height.to_string(), content.height.to_string()),
            ("hash", row.hash.to_string(), content.hash.to_string()),
            (
                "previous hash",
                previous.to_string(),
                content.previous.to_string(),
            ),
            ("time", row.time.to_string(), content.time.to_string()),
            (
                "tree sizes",
                format!("{:?}", row.sizes),
                format!("{:?}", content.sizes),
            ),
            (
                "tree sizes by counting",
                format!("{:?}", Some(row.sizes)),
                format!("{after:?}"),
            ),
            (
                "number of transactions",
                columns.transactions.to_string(),
                content.transactions.to_string(),
            ),
        ] {
            if row_says != block_says {
                let problem = format!("{what}: the row says {row_says}, the block {block_says}");
                self.find(path.clone(), Some(id.height), problem);
            }
        }
    }

    /// Whether the tail begins behind the sealed ranges and follows them.
    fn tail_link(&mut self, store: &Opened, tail: &Tail, base: u32) {
        let Some(first) = tail.get(tail.first()) else {
            return;
        };
        let below = range_below(store, tail.first());
        let follows = match (tail.first().previous(), below) {
            (None, _) => first.columns.hash == store.manifest.store.genesis,
            (Some(_), Some(range)) => first.previous == range.tip().hash,
            // The range is damaged, which was said before.
            (Some(_), None) => true,
        };
        if tail.first().get() != base || !follows {
            let problem = format!("the tail does not follow the {base} blocks that are sealed");
            let path = self.layout.segment(first.segment);
            self.find(path, Some(tail.first()), problem);
        }
    }

    fn tail(&mut self, store: &Opened) -> Result<()> {
        let tail = match &store.tail {
            Ok(tail) => tail,
            Err(error) => return self.find_error(repeat(error)),
        };
        let mut tail = tail.clone();
        let base = joined_blocks(&store.manifest);
        tail.drop_front(base.saturating_sub(tail.first().get()) as usize);
        self.tail_link(store, &tail, base);
        let mut before = None;
        for (height, entry) in tail.iter() {
            self.summary.tail_blocks += 1;
            self.summary.bytes += entry.columns.frame + entry.columns.transparent;
            let (frame, transparent) = tail.payload(entry);
            let path = self.layout.segment(entry.segment);
            let row = Row::new(&entry.columns, entry.previous);
            let id = BlockId {
                height,
                hash: row.hash,
            };
            // What the trees held before the first block is known if it is the first of all, or what is below it could be read.
            let sizes = before.or_else(|| sizes_below(store, height));
            let content = (frame.as_ref(), transparent.as_ref());
            if let Some(sizes) = sizes {
                self.block(path, id, &row, &entry.columns, content, sizes);
            }
            before = Some(row.sizes);
        }
        Ok(())
    }
}

/// How many blocks the contiguous sealed ranges of a manifest hold.
fn joined_blocks(manifest: &Manifest) -> u32 {
    let blocks = manifest.store.range_blocks.get();
    let joined = manifest
        .sealed
        .iter()
        .zip((0..).step_by(blocks as usize))
        .take_while(|(range, first)| range.first.get() == *first);
    joined.last().map_or(0, |(_, first)| first + blocks)
}

/// The trees at the end of the block below `height`, if that is in the sealed ranges.
fn sizes_below(store: &Opened, height: Height) -> Option<TreeSizes> {
    let Some(below) = height.previous() else {
        return Some(TreeSizes::ZERO);
    };
    let range = range_below(store, height)?;
    Some(range.columns_of(below.get() - range.first().get()).sizes)
}

/// The sealed range that holds the block below `height`, if it could be read.
fn range_below(store: &Opened, height: Height) -> Option<&SealedRange> {
    let below = height.previous()?;
    let mut ranges = store.ranges.iter().flatten();
    ranges.find(|range| range.first() <= below && below <= range.last())
}

/// Errors hold what cannot be cloned; of those that are found here only the text is needed again.
fn repeat(error: &Error) -> Error {
    match error {
        Error::Corrupt {
            path,
            offset,
            expected,
            found,
        } => Error::Corrupt {
            path: path.clone(),
            offset: *offset,
            expected: expected.clone(),
            found: found.clone(),
        },
        Error::Io {
            operation,
            path,
            source,
        } => Error::Io {
            operation,
            path: path.clone(),
            source: source.kind().into(),
        },
        _ => Error::Poisoned,
    }
}
