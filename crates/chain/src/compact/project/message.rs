//! Reads stored messages as runs of fields.
//!
//! In: the stored bytes of one block. Out: slices of them, one for all fields of a kind, for a projection keeps or drops all of a kind.
//! Refuses what [`crate::compact::compact`] does not write: other fields, another order, another size of an element.

use super::Malformed;
use crate::{
    Pool, PoolSet,
    compact::{
        encode::{ACTION_BYTES, OUTPUT_BYTES, SPEND_BYTES},
        fields::{block, transaction},
    },
};

/// A cursor over one stored part.
#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    rest: &'a [u8],
    part: &'static str,
}

impl<'a> Cursor<'a> {
    fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed {
            expected,
            part: self.part,
            left: self.rest.len(),
        }
    }

    fn next_is(&self, tag: u8) -> bool {
        self.rest.first() == Some(&tag)
    }

    #[inline]
    fn take(&mut self, count: usize, expected: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(self.malformed(expected))?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn varint(&mut self, expected: &'static str) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let Some((&byte, rest)) = self.rest.split_first() else {
                break;
            };
            self.rest = rest;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed(expected))
    }

    /// Skips the field `tag` if it is next; its number, or 0 if it is not there.
    fn number(&mut self, tag: u8, expected: &'static str) -> Result<u64, Malformed> {
        if !self.next_is(tag) {
            return Ok(0);
        }
        self.take(1, expected)?;
        self.varint(expected)
    }

    /// The body of the field `tag`, which must be next.
    fn body(&mut self, tag: u8, expected: &'static str) -> Result<&'a [u8], Malformed> {
        if !self.next_is(tag) {
            return Err(self.malformed(expected));
        }
        self.take(1, expected)?;
        let length = self.varint(expected)?;
        match usize::try_from(length) {
            Ok(length) => self.take(length, expected),
            Err(_) => Err(self.malformed(expected)),
        }
    }

    /// Skips a field `tag` of 32 bytes, which must be next.
    fn skip_32(&mut self, tag: u8, expected: &'static str) -> Result<(), Malformed> {
        match self.body(tag, expected)?.len() {
            32 => Ok(()),
            _ => Err(self.malformed(expected)),
        }
    }

    /// Every next element that begins with `head` and takes `size` bytes.
    fn run(
        &mut self,
        head: &[u8],
        size: usize,
        expected: &'static str,
    ) -> Result<&'a [u8], Malformed> {
        let start = *self;
        while self.rest.starts_with(head) {
            self.take(size, expected)?;
        }
        Ok(self.since(start))
    }

    fn since(&self, earlier: Cursor<'a>) -> &'a [u8] {
        earlier
            .rest
            .split_at(earlier.rest.len() - self.rest.len())
            .0
    }

    fn finish(&self, expected: &'static str) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.malformed(expected))
        }
    }
}

/// A stored message in three.
pub(super) struct BlockParts<'a> {
    /// Height, hash, previous hash, time: as they are.
    pub(super) head: &'a [u8],
    transactions: &'a [u8],
    /// The chain metadata with its tag.
    pub(super) metadata: &'a [u8],
}

impl<'a> BlockParts<'a> {
    /// Finds the parts without a look into the transactions.
    pub(super) fn read(message: &'a [u8]) -> Result<BlockParts<'a>, Malformed> {
        let start = Cursor {
            rest: message,
            part: "message",
        };
        let mut cursor = start;
        cursor.number(block::HEIGHT, "height")?;
        cursor.skip_32(block::HASH, "hash")?;
        cursor.skip_32(block::PREV_HASH, "previous hash")?;
        cursor.number(block::TIME, "time")?;
        let head = cursor.since(start);
        let start = cursor;
        while cursor.next_is(block::VTX) {
            cursor.body(block::VTX, "transaction")?;
        }
        let transactions = cursor.since(start);
        let start = cursor;
        cursor.body(block::CHAIN_METADATA, "chain metadata")?;
        cursor.finish("the end")?;
        Ok(BlockParts {
            head,
            transactions,
            metadata: cursor.since(start),
        })
    }

    pub(super) fn transactions(&self) -> Transactions<'a, ShieldedTransaction<'a>> {
        Transactions::of(self.transactions, "message", ShieldedTransaction::read)
    }
}

/// Reads one body.
type Read<'a, T> = fn(Cursor<'a>) -> Result<T, Malformed>;

/// The elements of `vtx`, each in runs.
pub(super) struct Transactions<'a, T> {
    cursor: Cursor<'a>,
    read: Read<'a, T>,
}

impl<'a> Transactions<'a, Companion<'a>> {
    pub(super) fn companion(bytes: &'a [u8]) -> Self {
        Transactions::of(bytes, "companion", Companion::read)
    }
}

impl<'a, T> Transactions<'a, T> {
    fn of(bytes: &'a [u8], part: &'static str, read: Read<'a, T>) -> Self {
        let cursor = Cursor { rest: bytes, part };
        Transactions { cursor, read }
    }

    pub(super) fn malformed(&self, expected: &'static str) -> Malformed {
        self.cursor.malformed(expected)
    }
}

impl<'a, T> Iterator for Transactions<'a, T> {
    type Item = Result<T, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Result<T, Malformed>> {
        if self.cursor.rest.is_empty() {
            return None;
        }
        let part = self.cursor.part;
        let body = self.cursor.body(block::VTX, "transaction");
        Some(body.and_then(|rest| (self.read)(Cursor { rest, part })))
    }
}

/// A transaction of the default view.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShieldedTransaction<'a> {
    pub(super) index: u64,
    /// Index and id.
    pub(super) head: &'a [u8],
    pub(super) spends: &'a [u8],
    pub(super) outputs: &'a [u8],
    pub(super) orchard: &'a [u8],
    pub(super) ironwood: &'a [u8],
}

/// Tag and length of an action.
const fn action_head(tag: u8) -> [u8; 3] {
    let [tag, low, high, ..] = crate::compact::encode::action_head(tag);
    [tag, low, high]
}

impl<'a> ShieldedTransaction<'a> {
    pub(super) const EMPTY: ShieldedTransaction<'static> = ShieldedTransaction {
        index: 0,
        head: &[],
        spends: &[],
        outputs: &[],
        orchard: &[],
        ironwood: &[],
    };

    fn read(mut cursor: Cursor<'a>) -> Result<ShieldedTransaction<'a>, Malformed> {
        const SPEND: [u8; 2] = [transaction::SPENDS, (SPEND_BYTES - 2) as u8];
        const OUTPUT: [u8; 2] = [transaction::OUTPUTS, (OUTPUT_BYTES - 2) as u8];
        const ACTION: [u8; 3] = action_head(transaction::ACTIONS);
        const IRONWOOD: [u8; 3] = action_head(transaction::IRONWOOD_ACTIONS);
        let start = cursor;
        let index = cursor.number(transaction::INDEX, "index")?;
        cursor.skip_32(transaction::TXID, "transaction id")?;
        let transaction = ShieldedTransaction {
            index,
            head: cursor.since(start),
            spends: cursor.run(&SPEND, SPEND_BYTES, "Sapling spend")?,
            outputs: cursor.run(&OUTPUT, OUTPUT_BYTES, "Sapling output")?,
            orchard: cursor.run(&ACTION, ACTION_BYTES, "Orchard action")?,
            ironwood: cursor.run(&IRONWOOD, ACTION_BYTES, "Ironwood action")?,
        };
        cursor.finish("the end of the transaction")?;
        Ok(transaction)
    }

    /// The bytes of the parts in `pools`.
    pub(super) fn bytes_in(&self, pools: PoolSet) -> usize {
        let mut bytes = 0;
        if pools.contains(Pool::Sapling) {
            bytes += self.spends.len() + self.outputs.len();
        }
        if pools.contains(Pool::Orchard) {
            bytes += self.orchard.len();
        }
        if pools.contains(Pool::Ironwood) {
            bytes += self.ironwood.len();
        }
        bytes
    }
}

/// A transaction of the companion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Companion<'a> {
    pub(super) index: u64,
    /// Whether the default view drops the transaction: then the id is here.
    pub(super) dropped: bool,
    /// Index and, if dropped, id.
    pub(super) head: &'a [u8],
    pub(super) inputs_and_outputs: &'a [u8],
}

impl<'a> Companion<'a> {
    pub(super) const EMPTY: Companion<'static> = Companion {
        index: 0,
        dropped: false,
        head: &[],
        inputs_and_outputs: &[],
    };

    fn read(mut cursor: Cursor<'a>) -> Result<Companion<'a>, Malformed> {
        let start = cursor;
        let index = cursor.number(transaction::INDEX, "index")?;
        let dropped = cursor.next_is(transaction::TXID);
        if dropped {
            cursor.skip_32(transaction::TXID, "transaction id")?;
        }
        let head = cursor.since(start);
        let start = cursor;
        while cursor.next_is(transaction::VIN) {
            cursor.body(transaction::VIN, "transparent input")?;
        }
        while cursor.next_is(transaction::VOUT) {
            cursor.body(transaction::VOUT, "transparent output")?;
        }
        cursor.finish("the end of the transaction")?;
        Ok(Companion {
            index,
            dropped,
            head,
            inputs_and_outputs: cursor.since(start),
        })
    }
}

/// A run of elements of one size as those elements.
pub(super) fn elements<const BYTES: usize>(run: &[u8]) -> Result<&[[u8; BYTES]], Malformed> {
    match run.as_chunks() {
        (elements, []) => Ok(elements),
        (_, rest) => Err(Malformed {
            expected: "whole elements",
            part: "message",
            left: rest.len(),
        }),
    }
}
