//! Block heights and inclusive ranges of them.
//!
//! In: numbers from nodes, wallets and disk. Out: types that cannot hold a height the protocol does not know.

use std::fmt;

/// A block's distance from genesis: 0 to 2^31 - 1.
///
/// Spec: the protocol's heights are compared with `nExpiryHeight` and `nLockTime`; nodes keep them in a signed 32-bit integer, so
/// wallets and servers agree to refuse anything above [`Height::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Height(u32);

/// A number that is not a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("height {0} is above 2147483647")]
pub struct HeightOutOfRange(pub u64);

impl Height {
    /// The first block of every network.
    pub const GENESIS: Height = Height(0);
    /// The greatest height a node can express, 2^31 - 1.
    pub const MAX: Height = Height(i32::MAX as u32);

    /// A height known at compile time or already checked.
    ///
    /// # Panics
    ///
    /// If `height` is above [`Height::MAX`]. Use `Height::try_from` for numbers from outside.
    pub const fn new(height: u32) -> Height {
        assert!(height <= Height::MAX.0, "heights end at 2^31 - 1");
        Height(height)
    }

    /// The plain number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The height above, or `None` at [`Height::MAX`].
    pub const fn next(self) -> Option<Height> {
        self.checked_add(1)
    }

    /// The height below, or `None` at genesis.
    pub const fn previous(self) -> Option<Height> {
        match self.0.checked_sub(1) {
            Some(below) => Some(Height(below)),
            None => None,
        }
    }

    /// `blocks` above this height, or `None` past [`Height::MAX`].
    pub const fn checked_add(self, blocks: u32) -> Option<Height> {
        match self.0.checked_add(blocks) {
            Some(sum) if sum <= Height::MAX.0 => Some(Height(sum)),
            _ => None,
        }
    }

    /// `blocks` below this height, stopping at genesis.
    pub const fn saturating_sub(self, blocks: u32) -> Height {
        Height(self.0.saturating_sub(blocks))
    }
}

impl fmt::Display for Height {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u32> for Height {
    type Error = HeightOutOfRange;
    fn try_from(height: u32) -> Result<Height, HeightOutOfRange> {
        Height::try_from(u64::from(height))
    }
}

impl TryFrom<u64> for Height {
    type Error = HeightOutOfRange;
    fn try_from(height: u64) -> Result<Height, HeightOutOfRange> {
        match u32::try_from(height) {
            Ok(small) if small <= Height::MAX.0 => Ok(Height(small)),
            _ => Err(HeightOutOfRange(height)),
        }
    }
}

impl From<Height> for u32 {
    fn from(height: Height) -> u32 {
        height.0
    }
}

impl From<Height> for u64 {
    fn from(height: Height) -> u64 {
        u64::from(height.0)
    }
}

/// Heights from `first` to `last`, both included. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeightRange {
    first: Height,
    last: Height,
}

impl HeightRange {
    /// `None` if `first` is above `last`.
    pub fn new(first: Height, last: Height) -> Option<HeightRange> {
        (first <= last).then_some(HeightRange { first, last })
    }

    /// The one height.
    pub fn single(height: Height) -> HeightRange {
        HeightRange {
            first: height,
            last: height,
        }
    }

    /// The lowest height.
    pub fn first(self) -> Height {
        self.first
    }

    /// The highest height.
    pub fn last(self) -> Height {
        self.last
    }

    /// How many heights: at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub fn len(self) -> u32 {
        self.last.0 - self.first.0 + 1
    }

    /// Whether `height` is one of them.
    pub fn contains(self, height: Height) -> bool {
        self.first <= height && height <= self.last
    }

    /// The heights, lowest first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Height> + ExactSizeIterator + Clone {
        // The bounds were heights, so what lies between them is too.
        (0..self.len()).map(move |offset| Height(self.first.0 + offset))
    }
}

impl fmt::Display for HeightRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_height_ends_at_two_to_the_31_less_one() {
        assert_eq!(Height::try_from(2_147_483_647u64), Ok(Height::MAX));
        assert_eq!(
            Height::try_from(2_147_483_648u64),
            Err(HeightOutOfRange(2_147_483_648))
        );
        assert_eq!(Height::try_from(u64::MAX), Err(HeightOutOfRange(u64::MAX)));
        assert_eq!(Height::MAX.next(), None);
        assert_eq!(Height::GENESIS.previous(), None);
    }

    #[test]
    fn a_range_counts_both_ends() {
        let range = HeightRange::new(Height::new(5), Height::new(7)).unwrap();
        assert_eq!(range.len(), 3);
        assert_eq!(range.iter().map(Height::get).collect::<Vec<_>>(), [5, 6, 7]);
        assert_eq!(range.iter().next_back(), Some(Height::new(7)));
        assert_eq!(HeightRange::new(Height::new(7), Height::new(5)), None);
        assert!(range.contains(Height::new(7)) && !range.contains(Height::new(8)));
    }
}
