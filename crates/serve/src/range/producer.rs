//! One window of a range after the other, from the index where it reaches and from the node where it does not.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use lightship_chain::{BlockHash, Height, HeightRange, TreeSizes};
use lightship_index::{Reader, Row, View};

use super::{
    Live, Plan, Projection,
    window::{self, Origin, Piece, towards},
};
use crate::{
    answer::COUNTED_BYTES,
    aside::aside,
    errand::errand,
    memory::{Lease, Memory},
    status::Refusal,
};

/// The first window is small, so that its first bytes leave early and a short range does no more than it must.
const FIRST_WINDOW_BYTES: usize = 128 << 10;
/// Later ones are large enough that handing them between threads costs nothing next to sending them.
const MAX_WINDOW_BYTES: usize = 1 << 20;
/// Windows that are not slices of mapped files lie in memory, once for each stream.
const MAX_PROJECTED_WINDOW_BYTES: usize = 256 << 10;
/// What is at hand is read where the connection is: so much at a time that other connections do not notice.
const MAX_LENT_AT_HAND_BYTES: usize = 512 << 10;
/// Copies take longer than slices: here are made only those that end the answer.
const MAX_COPIED_AT_HAND_BYTES: usize = 64 << 10;
/// How far ahead of the transport the node is asked.
const LIVE_WINDOW_BLOCKS: usize = 8;
/// Blocks of one stream being fetched from the node at once.
const LIVE_CONCURRENCY: usize = 4;
/// Held while a block is fetched whose length nobody knows yet.
const LIVE_BLOCK_BYTES: usize = 256 << 10;
/// How far a descending window looks for the end of an island.
const MAX_ISLAND_LOOK_BLOCKS: u32 = 8_192;

/// Makes the pieces of one range.
pub(crate) struct Producer {
    reader: Reader,
    live: Live,
    memory: Memory,
    /// The picture this call is answered from.
    pinned: Arc<View>,
    projection: Projection,
    /// The next block to be read; `None` at the end.
    next: Option<Height>,
    course: Course,
    ending: Option<Refusal>,
    budget: usize,
}

/// Which way a range goes, and what its next block must link to. Goes along to where the disk is waited for.
#[derive(Clone, Copy)]
struct Course {
    last: Height,
    descending: bool,
    /// The last block read.
    behind: Option<Behind>,
}

/// The last block read: what the next one must link to.
#[derive(Clone, Copy)]
struct Behind {
    hash: BlockHash,
    previous: BlockHash,
    /// Sizes at the end of that block (ascending), or of the block below it (descending), if known.
    sizes: Option<TreeSizes>,
    from_index: bool,
}

/// How far a window may reach, and of what it is.
struct Aim {
    to: Height,
    /// Slices of mapped files, not copies.
    is_lent: bool,
}

/// What one step yields: pieces, and after the last of them maybe the end.
pub(crate) struct Window {
    pub(crate) pieces: Vec<Piece>,
    /// The stream ends after these pieces, so.
    pub(crate) end: Option<Result<(), Refusal>>,
}

impl Producer {
    /// A producer of `plan` as seen in `pinned`.
    pub(crate) fn new(
        reader: Reader,
        live: Live,
        memory: Memory,
        pinned: Arc<View>,
        plan: Plan,
    ) -> Producer {
        Producer {
            reader,
            live,
            memory,
            pinned,
            projection: plan.projection,
            next: Some(plan.first),
            course: Course {
                last: plan.last,
                descending: plan.first > plan.last,
                behind: None,
            },
            ending: plan.ending,
            budget: FIRST_WINDOW_BYTES,
        }
    }

    /// Whether blocks go out highest first.
    pub(crate) fn descending(&self) -> bool {
        self.course.descending
    }

    /// Reads the next window.
    pub(crate) async fn window(mut self: Box<Self>) -> (Box<Producer>, Window) {
        let Some(height) = self.next else {
            let end = self.ending.take().map_or(Ok(()), Err);
            let window = Window {
                pieces: Vec::new(),
                end: Some(end),
            };
            return (self, window);
        };
        let (pieces, failed) = match self.view_of(height) {
            Some(view) => match self.read_index(view, height).await {
                Ok(pieces) => (pieces, None),
                Err(refusal) => (Vec::new(), Some(refusal)),
            },
            None => self.read_node(height).await,
        };
        let end = match failed {
            Some(refusal) => Some(Err(refusal)),
            None if self.next.is_none() => Some(self.ending.take().map_or(Ok(()), Err)),
            None => None,
        };
        (self, Window { pieces, end })
    }

    /// The pinned view if it has that height; else the newest, into which the block may have come since.
    fn view_of(&self, height: Height) -> Option<Arc<View>> {
        if self.pinned.covers(height) {
            return Some(Arc::clone(&self.pinned));
        }
        let newest = self.reader.view();
        newest.covers(height).then_some(newest)
    }

    /// What the next window is, if it is read from `view`. Reads no block and no row: what cannot be waited for here.
    fn aim(&self, view: &View, height: Height) -> Aim {
        let mut to = reach(view, height, self.course.last);
        let mut is_lent = self.projection == Projection::Stored && !self.course.descending;
        // Slices of mapped files and copies are not mixed: those are the system's memory, these are ours.
        match view.sealed_through() {
            Some(sealed) if is_lent && height <= sealed => to = to.min(sealed),
            _ => is_lent &= view.tip().is_none_or(|tip| height > tip.height),
        }
        Aim { to, is_lent }
    }

    /// Reads the next window if nothing of that has to be waited for: its blocks are at hand, and memory for copies of them is free.
    pub(crate) fn window_at_hand(&mut self) -> Option<Window> {
        let height = self.next?;
        let view = self.view_of(height)?;
        let pieces = match self.read_at_hand(&view, height) {
            Ok(pieces) => pieces?,
            Err(refusal) => {
                return Some(Window {
                    pieces: Vec::new(),
                    end: Some(Err(refusal)),
                });
            }
        };
        let end = self.next.is_none();
        Some(Window {
            pieces,
            end: end.then(|| self.ending.take().map_or(Ok(()), Err)),
        })
    }

    fn read_at_hand(
        &mut self,
        view: &Arc<View>,
        height: Height,
    ) -> Result<Option<Vec<Piece>>, Refusal> {
        let Aim { to, is_lent } = self.aim(view, height);
        let most = if is_lent {
            MAX_LENT_AT_HAND_BYTES
        } else {
            MAX_COPIED_AT_HAND_BYTES
        };
        let copied_whole = self.projection != Projection::Stored;
        let Some(last) = HeightRange::new(height, to)
            .map(|range| view.at_hand(range, most, copied_whole))
            .and_then(|blocks| height.checked_add(blocks.checked_sub(1)?))
        else {
            return Ok(None);
        };
        // Long answers of copies are made elsewhere, and are refused, or wait, before they begin to fill the memory.
        if !is_lent && last != self.course.last {
            return Ok(None);
        }
        self.course.check(view, height)?;
        let mut pieces = window::read_at_hand(view, height, last, self.projection)?;
        if !is_lent {
            let copied = pieces.iter().map(|piece| piece.bytes.len()).sum();
            // An answer that is small and alone is as little counted as those of other methods.
            let is_small = self.course.behind.is_none() && copied < COUNTED_BYTES;
            if !is_small {
                let Ok(lease) = self.memory.try_ahead(copied) else {
                    return Ok(None);
                };
                cover(&mut pieces, lease);
            }
        }
        self.next = self.course.advance(view, height, &pieces)?;
        Ok(Some(pieces))
    }

    async fn read_index(&mut self, view: Arc<View>, height: Height) -> Result<Vec<Piece>, Refusal> {
        let Aim { to, is_lent } = self.aim(&view, height);
        let projection = self.projection;
        let most = if is_lent {
            MAX_WINDOW_BYTES
        } else {
            MAX_PROJECTED_WINDOW_BYTES
        };
        let budget = self.budget.min(most);
        self.budget = (budget * 2).min(most);
        let lease = match (is_lent, self.course.behind) {
            (true, _) => None,
            // One block is counted when its length is known.
            _ if height == to => Some(self.memory.try_ahead(0)?),
            // An answer that has not begun is refused at once.
            (false, None) => Some(self.memory.try_ahead(budget)?),
            (false, Some(_)) => Some(self.memory.ahead(budget).await?),
        };
        let mut course = self.course;
        let (mut pieces, next, course) = aside("reading a window", move || {
            course.check(&view, height)?;
            let pieces = window::read(&view, height, to, projection, budget)?;
            let next = course.advance(&view, height, &pieces)?;
            Ok((pieces, next, course))
        })
        .await?;
        if let Some(lease) = lease {
            let copied = pieces.iter().map(|piece| piece.bytes.len()).sum();
            cover(&mut pieces, lease.resize(copied).await?);
        }
        (self.next, self.course) = (next, course);
        Ok(pieces)
    }

    /// A few blocks from the node; with what was read before a failure, and the failure.
    async fn read_node(&mut self, height: Height) -> (Vec<Piece>, Option<Refusal>) {
        let mut heights = Vec::with_capacity(LIVE_WINDOW_BLOCKS);
        let mut next = Some(height);
        while let Some(at) = next
            && heights.len() < LIVE_WINDOW_BLOCKS
            && !self.pinned.covers(at)
        {
            heights.push(at);
            next = towards(at, self.course.last);
        }
        let (live, memory) = (self.live.clone(), self.memory.clone());
        let mut blocks = std::pin::pin!(
            stream::iter(heights)
                .map(|height| {
                    let (live, memory) = (live.clone(), memory.clone());
                    async move {
                        let block = errand(async move {
                            let lease = memory.question(LIVE_BLOCK_BYTES).await?;
                            let block = live.at(height).await?;
                            // Its exact length is known when it is placed, which may have to wait for the reader.
                            let about = LIVE_BLOCK_BYTES.min(block.size_bytes as usize);
                            Ok((block, lease.resize(about).await?))
                        });
                        (height, block.await)
                    }
                })
                .buffered(LIVE_CONCURRENCY)
        );
        let mut pieces = Vec::with_capacity(LIVE_WINDOW_BLOCKS);
        while let Some((height, block)) = blocks.next().await {
            let piece = match block {
                Ok((block, lease)) => self.place(block, lease).await,
                Err(refusal) => Err(refusal),
            };
            match piece {
                Ok(piece) => pieces.push(piece),
                Err(refusal) => return (pieces, Some(refusal)),
            }
            self.next = towards(height, self.course.last);
        }
        (pieces, None)
    }

    async fn place(
        &mut self,
        block: lightship_chain::compact::CompactBlock,
        lease: Lease,
    ) -> Result<Piece, Refusal> {
        let (id, previous, notes) = (block.id, block.previous, block.notes);
        self.course.check_link(id.hash, previous)?;
        let before = match self.course.behind.and_then(|behind| behind.sizes) {
            Some(sizes) if !self.course.descending => sizes,
            // The sizes at the end of this very block; those before it are less its own notes.
            Some(sizes) => less(sizes, notes).ok_or_else(|| {
                tracing::warn!(height = %id.height, "the node's tree sizes and blocks do not agree");
                Refusal::NodeAway
            })?,
            None => match id.height.previous().and_then(|below| self.pinned.row(below)) {
                Some(row) if row.hash == previous => row.sizes,
                _ => self.live.sizes(previous).await?,
            },
        };
        let encoded = block.after(before).ok_or_else(|| {
            tracing::warn!(height = %id.height, "a tree would overflow");
            Refusal::NodeAway
        })?;
        self.course.behind = Some(Behind {
            hash: id.hash,
            previous,
            sizes: Some(if self.course.descending {
                before
            } else {
                encoded.sizes
            }),
            from_index: false,
        });
        let bytes = if self.projection == Projection::Stored {
            Bytes::from(encoded.frame)
        } else {
            let mut out = Vec::with_capacity(encoded.frame.len());
            self.projection
                .put(&encoded.frame, &encoded.transparent, &mut out)?;
            Bytes::from(out)
        };
        let lease = Arc::new(lease.resize(bytes.len()).await?);
        Ok(Piece {
            heights: HeightRange::single(id.height),
            bytes: lease.cover(bytes),
            is_copy: true,
            origin: Origin::Node(id.hash),
        })
    }
}

impl Course {
    /// Whether the block at `height` of `view` continues what was read.
    fn check(&self, view: &View, height: Height) -> Result<(), Refusal> {
        let row = row(view, height)?;
        self.check_link(row.hash, row.previous)
    }

    /// Goes behind what was read from `view`, from `height` on. Gives the height after it.
    fn advance(
        &mut self,
        view: &View,
        height: Height,
        pieces: &[Piece],
    ) -> Result<Option<Height>, Refusal> {
        let end = pieces.last().map_or(height, |piece| {
            if self.descending {
                piece.heights.first()
            } else {
                piece.heights.last()
            }
        });
        let next = towards(end, self.last);
        if next.is_some() {
            let row = self::row(view, end)?;
            let sizes = if self.descending {
                let below = end.previous().and_then(|below| view.row(below));
                below.map(|row| row.sizes)
            } else {
                Some(row.sizes)
            };
            self.behind = Some(Behind {
                hash: row.hash,
                previous: row.previous,
                sizes,
                from_index: true,
            });
        }
        Ok(next)
    }

    /// Whether a block with that name and parent continues what was read.
    fn check_link(&self, hash: BlockHash, previous: BlockHash) -> Result<(), Refusal> {
        match self.behind {
            None => Ok(()),
            Some(behind) if self.descending && behind.previous == hash => Ok(()),
            Some(behind) if !self.descending && behind.hash == previous => Ok(()),
            Some(behind) => {
                tracing::debug!(from_index = behind.from_index, "two origins do not link");
                Err(Refusal::Replaced)
            }
        }
    }
}

/// Makes pieces hold their part of `lease` until they are sent.
fn cover(pieces: &mut [Piece], lease: Lease) {
    let lease = Arc::new(lease);
    for piece in pieces {
        piece.is_copy = true;
        piece.bytes = lease.cover(std::mem::take(&mut piece.bytes));
    }
}

fn row(view: &View, height: Height) -> Result<Row, Refusal> {
    view.row(height).ok_or_else(|| {
        tracing::error!(%height, "the index covers a block it has no row for");
        Refusal::Damaged
    })
}

/// How far from `from` towards `to` the view holds every height.
fn reach(view: &View, from: Height, to: Height) -> Height {
    if from <= to {
        return view.reach(from, to);
    }
    if let Some(tip) = view.tip()
        && from <= tip.height
    {
        return to;
    }
    let mut reached = from;
    for _ in 0..MAX_ISLAND_LOOK_BLOCKS {
        match towards(reached, to) {
            Some(next) if view.covers(next) => reached = next,
            _ => break,
        }
    }
    reached
}

fn less(sizes: TreeSizes, notes: TreeSizes) -> Option<TreeSizes> {
    Some(TreeSizes {
        sapling: sizes.sapling.checked_sub(notes.sapling)?,
        orchard: sizes.orchard.checked_sub(notes.orchard)?,
        ironwood: sizes.ironwood.checked_sub(notes.ironwood)?,
    })
}
