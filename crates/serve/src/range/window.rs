//! A bounded run of blocks out of the index.
//!
//! In: a view, where to begin and which way, how many bytes at most. Out: pieces, each some 64 KiB of whole gRPC frames in
//! the order they go out. Those of sealed blocks in the default view are slices of the mapped files, the others are copies. Pages may have to come from the
//! disk, so this runs on a blocking thread, but for [`read_at_hand`].

use std::sync::Arc;

use bytes::Bytes;
use lightship_chain::{
    BlockHash, Height, HeightRange, PoolSet,
    compact::project::{self, FRAME_PREFIX_BYTES, NullifierView, Stored},
};
use lightship_index::View;

use crate::status::Refusal;

/// How much goes to the transport at once: large enough that nothing is done per block, small enough to be fair.
const PIECE_BYTES: usize = 64 << 10;
/// A projection may yield far fewer bytes than it reads; this bounds the reading of one window.
const MAX_PROJECTED_BLOCKS: u32 = 4_096;
/// The smallest page of any system; touching more often than needed costs next to nothing.
const PAGE_BYTES: usize = 4 << 10;

/// Which parts of a block are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Projection {
    /// The stored frame as it is.
    Stored,
    /// Every transaction with all its parts.
    Whole,
    /// Transactions with a part in one of these pools, those parts.
    Pools(PoolSet),
    /// The nullifiers of every transaction.
    WholeNullifiers,
    /// The nullifiers of transactions with a part in one of these pools.
    Nullifiers(PoolSet),
}

impl Projection {
    /// Appends one block's gRPC frame.
    pub(crate) fn put(
        self,
        frame: &[u8],
        transparent: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let Some(message) = frame.get(FRAME_PREFIX_BYTES..) else {
            tracing::error!("a stored frame is shorter than its prefix");
            return Err(Refusal::Damaged);
        };
        let stored = Stored {
            message,
            transparent,
        };
        match self {
            Projection::Stored => out.extend_from_slice(frame),
            Projection::Whole => project::whole(stored, out)?,
            Projection::Pools(pools) => project::pools(stored, pools, out)?,
            Projection::WholeNullifiers => {
                project::nullifiers(stored, NullifierView::Whole, out)?;
            }
            Projection::Nullifiers(pools) => {
                project::nullifiers(stored, NullifierView::Pools(pools), out)?;
            }
        }
        Ok(())
    }
}

/// Whole gRPC frames of consecutive heights, in the order they go out.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Which heights, whatever the direction.
    pub(crate) heights: HeightRange,
    /// Their frames.
    pub(crate) bytes: Bytes,
    /// Whether they are a copy made for this call, which is counted, not a slice of a mapped file.
    pub(crate) is_copy: bool,
    /// Where they came from: what they are compared with when the best chain has changed since.
    pub(crate) origin: Origin,
}

/// Where a piece came from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// From the index.
    View(Arc<View>),
    /// One block, from the node.
    Node(BlockHash),
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::View(view) => write!(f, "View({})", view.generation()),
            Origin::Node(hash) => write!(f, "Node({hash})"),
        }
    }
}

/// Reads from `from` towards `to`, both included, all of which `view` covers, until some `budget` bytes are read. Always reads at
/// least one block.
pub(crate) fn read(
    view: &Arc<View>,
    from: Height,
    to: Height,
    projection: Projection,
    budget: usize,
) -> Result<Vec<Piece>, Refusal> {
    match (projection, HeightRange::new(from, to)) {
        (Projection::Stored, Some(range)) => {
            let pieces = slices(view, range, budget)?;
            for piece in &pieces {
                fault_in(&piece.bytes);
            }
            Ok(pieces)
        }
        _ => projected(view, from, to, projection, budget),
    }
}

/// Reads all from `from` up to `to`, both included, which [`View::at_hand`] found at hand. Does not block.
pub(crate) fn read_at_hand(
    view: &Arc<View>,
    from: Height,
    to: Height,
    projection: Projection,
) -> Result<Vec<Piece>, Refusal> {
    match (projection, HeightRange::new(from, to)) {
        (Projection::Stored, Some(range)) => slices(view, range, usize::MAX),
        _ => projected(view, from, to, projection, usize::MAX),
    }
}

/// The default view, upwards: slices of the mapped files, without a step per block.
fn slices(view: &Arc<View>, range: HeightRange, budget: usize) -> Result<Vec<Piece>, Refusal> {
    let mut pieces = Vec::new();
    let mut bytes = 0;
    let mut next = Some(range.first());
    for piece in view.frames(range, PIECE_BYTES) {
        let piece = piece?;
        if next != Some(piece.range.first()) {
            break;
        }
        next = piece.range.last().next();
        bytes += piece.bytes.len();
        pieces.push(Piece {
            heights: piece.range,
            bytes: piece.bytes,
            is_copy: false,
            origin: Origin::View(Arc::clone(view)),
        });
        if bytes >= budget {
            break;
        }
    }
    if pieces.is_empty() {
        tracing::error!(height = %range.first(), "the index covers a block it does not hold");
        return Err(Refusal::Damaged);
    }
    Ok(pieces)
}

/// Everything else, block by block into buffers of a piece each.
fn projected(
    view: &Arc<View>,
    from: Height,
    to: Height,
    projection: Projection,
    budget: usize,
) -> Result<Vec<Piece>, Refusal> {
    let mut pieces = Vec::new();
    let mut buffer = Vec::new();
    let mut begun = from;
    let (mut height, mut read, mut blocks) = (from, 0, 0);
    loop {
        let Some(block) = view.block(height)? else {
            tracing::error!(%height, "the index covers a block it does not hold");
            return Err(Refusal::Damaged);
        };
        // What is made may be longer than what it is made of: outputs without notes lie beside the frame.
        read += block.frame.len() + block.transparent.len();
        blocks += 1;
        if buffer.capacity() == 0 {
            begun = height;
            buffer.reserve_exact(if height == to {
                block.frame.len() + block.transparent.len()
            } else {
                PIECE_BYTES
            });
        }
        projection.put(&block.frame, &block.transparent, &mut buffer)?;
        let last = height == to || read >= budget || blocks == MAX_PROJECTED_BLOCKS;
        if last || buffer.len() >= PIECE_BYTES {
            // What is counted is its length.
            if buffer.len() < buffer.capacity() / 2 {
                buffer.shrink_to_fit();
            }
            pieces.push(Piece {
                heights: between(begun, height),
                bytes: Bytes::from(std::mem::take(&mut buffer)),
                is_copy: true,
                origin: Origin::View(Arc::clone(view)),
            });
        }
        let Some(next) = (if last { None } else { towards(height, to) }) else {
            return Ok(pieces);
        };
        height = next;
    }
}

/// The height after `height` on the way to `to`; `None` at the end of the way.
pub(crate) fn towards(height: Height, to: Height) -> Option<Height> {
    match height.cmp(&to) {
        std::cmp::Ordering::Less => height.next(),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => height.previous(),
    }
}

/// The heights from one to the other, whichever is lower.
pub(crate) fn between(one: Height, other: Height) -> HeightRange {
    HeightRange::new(one.min(other), one.max(other)).expect("the lower one is first")
}

/// Reads a byte of each page, so that a page that must come from the disk holds up this thread and not the runtime.
fn fault_in(bytes: &[u8]) {
    for page in bytes.chunks(PAGE_BYTES) {
        std::hint::black_box(page.first());
    }
    std::hint::black_box(bytes.last());
}
