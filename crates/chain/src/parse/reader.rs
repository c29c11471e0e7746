//! A cursor over untrusted bytes.
//!
//! In: a slice. Out: pieces of it, or an [`Error`] that says where and what was expected. Never looks past the end, never allocates.

use super::{Error, Result};

/// What is left to read, and where that is in the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Offset of the end of `rest`, so that the current offset is a subtraction and reading moves one slice only.
    end: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader::at(bytes, 0)
    }

    /// A reader whose first byte lies at `offset` of something larger.
    pub(super) fn at(bytes: &'a [u8], offset: usize) -> Reader<'a> {
        Reader {
            rest: bytes,
            end: offset.saturating_add(bytes.len()),
        }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    /// The next `count` bytes.
    #[inline]
    pub(super) fn take(&mut self, count: usize, expected: &'static str) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.truncated(count as u64, expected)),
        }
    }

    /// The next `N` bytes.
    #[inline]
    pub(super) fn array<const N: usize>(&mut self, expected: &'static str) -> Result<&'a [u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.truncated(N as u64, expected)),
        }
    }

    /// The next 4 bytes as a number, little-endian.
    #[inline]
    pub(super) fn u32(&mut self, expected: &'static str) -> Result<u32> {
        self.array(expected).map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// The next CompactSize, in its shortest form.
    #[inline]
    pub(super) fn compact_size(&mut self, expected: &'static str) -> Result<u64> {
        match self.rest.split_first() {
            Some((&small, rest)) if small < 0xfd => {
                self.rest = rest;
                Ok(u64::from(small))
            }
            _ => self.long_compact_size(expected),
        }
    }

    #[cold]
    fn long_compact_size(&mut self, expected: &'static str) -> Result<u64> {
        let start = *self;
        let [tag] = *self.array(expected)?;
        let (value, least) = match tag {
            0xfd => (u64::from(u16::from_le_bytes(*self.array(expected)?)), 0xfd),
            0xfe => (
                u64::from(u32::from_le_bytes(*self.array(expected)?)),
                0x1_0000,
            ),
            0xff => (u64::from_le_bytes(*self.array(expected)?), 0x1_0000_0000),
            small => (u64::from(small), 0),
        };
        if value < least {
            return Err(Error::NonCanonicalSize {
                offset: start.offset(),
                expected,
                value,
            });
        }
        Ok(value)
    }

    /// The next CompactSize as a count of elements that take at least `least_bytes` each.
    #[inline]
    pub(super) fn count(&mut self, least_bytes: usize, expected: &'static str) -> Result<usize> {
        let offset = self.offset();
        let count = self.compact_size(expected)?;
        match usize::try_from(count) {
            Ok(fits) if fits <= self.left() / least_bytes => Ok(fits),
            _ => Err(Error::Count {
                offset,
                expected,
                count,
                left: self.left(),
            }),
        }
    }

    /// The next CompactSize, and as many bytes as it says.
    #[inline]
    pub(super) fn sized(&mut self, expected: &'static str) -> Result<&'a [u8]> {
        let size = self.compact_size(expected)?;
        match usize::try_from(size) {
            Ok(fits) => self.take(fits, expected),
            Err(_) => Err(self.truncated(size, expected)),
        }
    }

    /// The bytes between `earlier`, a copy of this reader, and now.
    pub(super) fn since(&self, earlier: Reader<'a>) -> &'a [u8] {
        let read = earlier.left() - self.left();
        earlier.rest.split_at(read).0
    }

    /// Nothing may be left.
    pub(super) fn finish(&self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Error::Trailing {
            offset: self.offset(),
            left: self.left(),
        })
    }

    #[cold]
    fn truncated(&self, needed: u64, expected: &'static str) -> Error {
        Error::Truncated {
            offset: self.offset(),
            expected,
            needed,
            left: self.left(),
        }
    }
}
