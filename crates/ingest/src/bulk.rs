//! Many blocks at once, from heights that no reorg can reach.
//!
//! In: a range of heights. Out: an index that ends with it. Workers fetch, parse and compact pieces of the range; this thread
//! puts them back into order, checks every link, counts, and writes. A worker that hangs in the source when the run ends is
//! left behind: it touches nothing but the source and the closed [`Belt`], and ends with its call.

use std::{
    num::NonZeroU32,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use lightship_chain::{
    Height, HeightRange, RawBlock,
    compact::{CompactBlock, compact},
};
use lightship_source::BlockSource;

use crate::{
    ask::panic_message,
    error::{Error, Refusal, Trouble},
    order::{Belt, CloseOnDrop, Next, Piece},
    run::Run,
};

type Blocks = Belt<CompactBlock, Trouble>;

/// Blocks are handed over in chunks of at most so many, or so many bytes: a lock each block would cost more than parsing it.
const CHUNK_BLOCKS: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;
/// What a block takes in memory beside its bytes.
pub(crate) const BLOCK_OVERHEAD_BYTES: usize = 256;
/// How many pieces may be open for each worker.
const PIECES_PER_WORKER: usize = 8;
/// The last blocks below the tip are so few that all workers get some only in smaller pieces.
const AHEAD_BLOCKS: NonZeroU32 = NonZeroU32::new(128).expect("128 is not 0");
/// How often the stop flag is looked at while the workers bring nothing.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often the node's tip is asked for meanwhile.
const TICK: Duration = Duration::from_secs(1);

impl Run {
    /// Takes every block of `range`, which begins right above our end and lies below any reorg.
    pub(crate) fn fill(&mut self, range: HeightRange) -> Result<(), Trouble> {
        self.each_block(range, |run, block| {
            run.appender.take(block, Some(range.last()))
        })?;
        self.appender.commit()?;
        self.appender.seal(0)
    }

    /// Hands every block of `range`, which lies below any reorg, to `take`, lowest first.
    pub(crate) fn each_block(
        &mut self,
        range: HeightRange,
        mut take: impl FnMut(&mut Run, CompactBlock) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let belt = self.start_workers(range, self.settings.segment_blocks)?;
        let _closes = CloseOnDrop(&belt);
        let mut ticked = Instant::now();
        loop {
            if self.stop.is_stopped() {
                return Err(Trouble::Stopped);
            }
            match belt.next(PATIENCE) {
                Next::Items(blocks) => {
                    self.progress.heard();
                    for block in blocks {
                        take(self, block)?;
                    }
                    self.grew();
                }
                Next::Failed(trouble) => return Err(trouble),
                Next::Waiting => {}
                Next::End => break,
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.glance()?;
            }
        }
        tracing::debug!(%range, peak_bytes = belt.peak_bytes(), "range taken");
        Ok(())
    }

    /// Fetches what the best chain has at the heights of `range` before a walk by hash asks for it block by block. Nothing is taken on trust: the walk
    /// finds by hash what it can use, and fetches by hash what is missing, so a failure here is none, nor is a branch that changes meanwhile.
    pub(crate) fn fetch_ahead(&mut self, range: HeightRange) -> Result<(), Trouble> {
        let belt = self.start_workers(range, AHEAD_BLOCKS)?;
        let _closes = CloseOnDrop(&belt);
        loop {
            if self.stop.is_stopped() {
                return Err(Trouble::Stopped);
            }
            match belt.next(PATIENCE) {
                Next::Items(blocks) => {
                    self.progress.heard();
                    for block in blocks {
                        if !self.fetched.keep(block) {
                            return Ok(());
                        }
                    }
                }
                Next::Failed(trouble) => {
                    tracing::debug!(%range, ?trouble, "not all was fetched ahead");
                    return Ok(());
                }
                Next::Waiting => {}
                Next::End => return Ok(()),
            }
        }
    }

    fn start_workers(
        &self,
        range: HeightRange,
        segment_blocks: NonZeroU32,
    ) -> Result<Arc<Blocks>, Trouble> {
        let workers = self.settings.workers.get();
        let belt = Arc::new(Blocks::new(
            range,
            segment_blocks.min(self.settings.segment_blocks),
            self.settings.max_bytes_in_flight,
            workers * PIECES_PER_WORKER,
        ));
        for number in 0..workers {
            let started = {
                let (belt, source) = (Arc::clone(&belt), Arc::clone(&self.source));
                thread::Builder::new()
                    .name(format!("ingest-{number}"))
                    .spawn(move || work(&belt, &*source))
            };
            if let Err(error) = started {
                belt.close();
                return Err(Error::Thread(error).into());
            }
        }
        Ok(belt)
    }
}

/// One worker's life.
fn work(belt: &Blocks, source: &dyn BlockSource) {
    while let Some(piece) = belt.take() {
        let outcome =
            catch_unwind(AssertUnwindSafe(|| fetch(belt, piece, source))).unwrap_or_else(|panic| {
                Err(Trouble::Unusable(format!(
                    "a worker panicked on the blocks {}: {}",
                    piece.heights,
                    panic_message(&*panic)
                )))
            });
        belt.finish(piece, outcome);
    }
}

fn fetch(belt: &Blocks, piece: Piece, source: &dyn BlockSource) -> Result<(), Trouble> {
    let mut chunk = Vec::new();
    let mut bytes = 0;
    let mut due = Some(piece.heights.first());
    let mut refused = None;
    let mut unwanted = false;
    let answer = source.blocks(piece.heights, &mut |height, raw| {
        let block = match next_block(due, piece.heights, height, raw) {
            Ok(block) => block,
            Err(refusal) => {
                refused = Some(refusal);
                return ControlFlow::Break(());
            }
        };
        due = height.next();
        bytes += block.size_bytes as usize + BLOCK_OVERHEAD_BYTES;
        chunk.push(block);
        if chunk.len() == CHUNK_BLOCKS || bytes >= CHUNK_BYTES {
            let full = std::mem::take(&mut chunk);
            if !belt.put(piece, full, std::mem::take(&mut bytes)) {
                unwanted = true;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    if unwanted || (!chunk.is_empty() && !belt.put(piece, chunk, bytes)) {
        return Ok(());
    }
    if let Some(refusal) = refused {
        return Err(Trouble::Refused(refusal));
    }
    answer.map_err(Trouble::Source)?;
    match due {
        Some(missing) if piece.heights.contains(missing) => {
            Err(Trouble::Refused(Refusal::Missing {
                missing,
                range: piece.heights,
            }))
        }
        _ => Ok(()),
    }
}

/// The block lent as `height`, if that is the one due.
fn next_block(
    due: Option<Height>,
    heights: HeightRange,
    height: Height,
    raw: RawBlock<'_>,
) -> Result<CompactBlock, Refusal> {
    let expected = due.unwrap_or(heights.last());
    if height != expected || !heights.contains(height) {
        return Err(Refusal::Order {
            expected,
            found: height,
        });
    }
    compact(height, raw).map_err(|error| Refusal::Unreadable { height, error })
}
