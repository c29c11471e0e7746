//! Blocks, whole or in pieces.

use super::{Header, Result, Transaction, reader::Reader, transaction::TRANSACTION_LEAST_BYTES};
use crate::{RawBlock, RawTransaction, TxId};

/// A view of one whole block, read to its last byte.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    header: Header<'a>,
    transactions: Transactions<'a>,
    bytes: &'a [u8],
}

impl<'a> Block<'a> {
    /// The block that `bytes` is.
    ///
    /// # Errors
    ///
    /// Any [`super::Error`]; `Trailing` if `bytes` goes on behind the last transaction.
    pub fn parse(bytes: &'a [u8]) -> Result<Block<'a>> {
        let (header, mut next) = NextTransaction::of(RawBlock::Whole(bytes))?;
        let transactions = match next.front {
            Front::Whole { reader, left } => Transactions { reader, left },
            Front::Parts { .. } => unreachable!("a whole block was given"),
        };
        while next.next()?.is_some() {}
        Ok(Block {
            header,
            transactions,
            bytes,
        })
    }

    /// The header.
    pub fn header(&self) -> Header<'a> {
        self.header
    }

    /// The transactions, in order.
    pub fn transactions(&self) -> Transactions<'a> {
        self.transactions
    }

    /// The serialization.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// The transactions of a block that has been read to its end.
#[derive(Clone, Copy, Debug)]
pub struct Transactions<'a> {
    reader: Reader<'a>,
    left: usize,
}

impl<'a> Iterator for Transactions<'a> {
    type Item = Transaction<'a>;

    fn next(&mut self) -> Option<Transaction<'a>> {
        self.left = self.left.checked_sub(1)?;
        // Read once already, when the block was: it cannot fail now.
        Transaction::read(&mut self.reader).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Transactions<'_> {}

/// The one loop over a block's transactions, whichever way the block is lent.
pub(crate) struct NextTransaction<'a> {
    front: Front<'a>,
    count: usize,
    size: usize,
}

enum Front<'a> {
    Whole { reader: Reader<'a>, left: usize },
    Parts { rest: &'a [RawTransaction<'a>] },
}

impl<'a> NextTransaction<'a> {
    /// The header, and the loop over what follows it.
    pub(crate) fn of(block: RawBlock<'a>) -> Result<(Header<'a>, NextTransaction<'a>)> {
        match block {
            RawBlock::Whole(bytes) => {
                let mut reader = Reader::new(bytes);
                let header = Header::read(&mut reader)?;
                let count = reader.count(TRANSACTION_LEAST_BYTES, "transactions")?;
                let size = reader.offset();
                let front = Front::Whole {
                    reader,
                    left: count,
                };
                Ok((header, NextTransaction { front, count, size }))
            }
            RawBlock::Parts {
                header,
                transactions,
            } => {
                let mut reader = Reader::new(header);
                let header = Header::read(&mut reader)?;
                reader.finish()?;
                let count = transactions.len();
                let size = reader.offset() + compact_size_bytes(count);
                let front = Front::Parts { rest: transactions };
                Ok((header, NextTransaction { front, count, size }))
            }
        }
    }

    /// How many transactions the block has.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many bytes of the block's whole serialization have been passed.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The next transaction, with its id if the source gave one; `None` behind the last, where the bytes must end too.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(Transaction<'a>, Option<TxId>)>> {
        let (transaction, id) = match &mut self.front {
            Front::Whole { reader, left: 0 } => {
                reader.finish()?;
                return Ok(None);
            }
            Front::Whole { reader, left } => {
                *left -= 1;
                (Transaction::read(reader)?, None)
            }
            Front::Parts { rest } => {
                let Some(raw) = rest.split_off_first() else {
                    return Ok(None);
                };
                let mut reader = Reader::at(raw.bytes, self.size);
                let transaction = Transaction::read(&mut reader)?;
                reader.finish()?;
                (transaction, raw.id)
            }
        };
        self.size = self.size.saturating_add(transaction.bytes().len());
        Ok(Some((transaction, id)))
    }
}

/// The bytes that a CompactSize of `count` takes.
fn compact_size_bytes(count: usize) -> usize {
    match count {
        0..0xfd => 1,
        0xfd..0x1_0000 => 3,
        0x1_0000..0x1_0000_0000 => 5,
        _ => 9,
    }
}
