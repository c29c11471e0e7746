//! Slices on their way to the socket.
//!
//! The transport shows each frame's bytes as a borrowed slice, which can be kept only by copying it. Most of them lie in a piece of the
//! index that its answer lent out a moment ago: here such a slice finds its piece again, and becomes a part of it that is shared
//! instead of copied.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

/// Slices of mapped files that were lent by calls that were reset stay here until the connection is quiet, or there are so many. Copies, which
/// are memory of ours, go with their call.
const MAX_PIECES: usize = 4_096;

/// The transport copies what is shorter, so the rest of a piece that is shorter is never seen here.
const COPIED_BYTES: usize = 256;

/// The pieces that the calls of one connection have lent out and the socket has not seen the end of.
#[derive(Debug, Default)]
pub(crate) struct Lent(Mutex<BTreeMap<usize, Piece>>);

#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    /// The call that made it; `None` for a slice of a mapped file.
    maker: Option<usize>,
}

impl Lent {
    /// Notes a piece that an answer hands to the transport, with the number of the call if it is a copy.
    pub(crate) fn lend(&self, piece: &Bytes, maker: Option<usize>) {
        let mut pieces = self.lock();
        if pieces.len() >= MAX_PIECES {
            // What was forgotten is copied, as if it had never been noted.
            pieces.clear();
        }
        let bytes = piece.clone();
        pieces.insert(piece.as_ptr().addr(), Piece { bytes, maker });
    }

    /// The part of a noted piece that `slice` is; forgets the piece with its last part that can be seen.
    pub(crate) fn find(&self, slice: &[u8]) -> Option<Bytes> {
        let mut pieces = self.lock();
        let (&start, piece) = pieces.range(..=slice.as_ptr().addr()).next_back()?;
        let from = slice.as_ptr().addr() - start;
        let to = from.checked_add(slice.len())?;
        if to > piece.bytes.len() {
            return None;
        }
        // A piece is alive while it is noted, so one address is one byte: what lies inside is the same memory.
        let part = piece.bytes.slice(from..to);
        if piece.bytes.len() - to < COPIED_BYTES {
            pieces.remove(&start);
        }
        Some(part)
    }

    /// Forgets what call `maker` copied. What of it the socket has not seen is copied once more.
    pub(crate) fn forget(&self, maker: usize) {
        self.lock().retain(|_, piece| piece.maker != Some(maker));
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Piece>> {
        // A map of whole entries is whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_finds_the_piece_it_is_part_of() {
        let lent = Lent::default();
        let pieces = [Bytes::from(vec![1; 1_000]), Bytes::from(vec![2; 500])];
        for piece in &pieces {
            lent.lend(piece, None);
        }
        let part = lent.find(&pieces[0][10..60]).unwrap();
        assert_eq!(part.as_ptr(), pieces[0][10..].as_ptr());
        assert_eq!(part.len(), 50);
        assert!(lent.find(&pieces[1]).is_some());
        assert!(lent.find(&pieces[1]).is_none(), "its end was seen");
        assert!(lent.find(&pieces[0][60..800]).is_some());
        assert!(
            lent.find(&pieces[0][..10]).is_none(),
            "nor will the rest be"
        );
    }

    #[test]
    fn copies_are_forgotten_with_their_call() {
        let lent = Lent::default();
        let pieces = [1, 2, 3].map(|byte| Bytes::from(vec![byte; 100]));
        for (piece, maker) in pieces.iter().zip([Some(7), Some(8), None]) {
            lent.lend(piece, maker);
        }
        lent.forget(7);
        let found = pieces.each_ref().map(|piece| lent.find(piece).is_some());
        assert_eq!(found, [false, true, true]);
    }

    #[test]
    fn other_memory_is_not_found() {
        let lent = Lent::default();
        let whole = Bytes::from(vec![3; 1_000]);
        lent.lend(&whole.slice(20..800), None);
        assert!(lent.find(&whole[10..30]).is_none());
        assert!(lent.find(&whole[790..900]).is_none());
        assert!(lent.find(&[3; 10]).is_none());
        assert!(lent.find(&whole[20..30]).is_some());
        lent.clear();
        assert!(lent.find(&whole[30..40]).is_none());
    }
}
