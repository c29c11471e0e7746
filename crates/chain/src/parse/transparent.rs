//! Transparent inputs and outputs.
//!
//! Spec: protocol §7.1 "Transaction Encoding and Consensus"; the encoding is Bitcoin's.

use super::{Result, header::field_ref, reader::Reader};

/// Previous id 32, index 4, an empty script's length 1, sequence 4.
const INPUT_LEAST_BYTES: usize = 41;
/// Value 8, an empty script's length 1.
const OUTPUT_LEAST_BYTES: usize = 9;

/// A view of one transparent input.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    prevout: &'a [u8; 36],
    script: &'a [u8],
    sequence: &'a [u8; 4],
}

impl<'a> Input<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Input<'a>> {
        Ok(Input {
            prevout: reader.array("previous output")?,
            script: reader.sized("input script")?,
            sequence: reader.array("sequence number")?,
        })
    }

    /// The transaction whose output is spent: `[32]`, internal order.
    pub fn prevout_id(&self) -> &'a [u8; 32] {
        field_ref::<0, 32, 36>(self.prevout)
    }

    /// Which of its outputs.
    pub fn prevout_index(&self) -> u32 {
        u32::from_le_bytes(*field_ref::<32, 4, 36>(self.prevout))
    }

    /// The previous output as serialized: id `[32]`, index `[4]`.
    pub fn prevout_bytes(&self) -> &'a [u8; 36] {
        self.prevout
    }

    /// `scriptSig`, or the coinbase data.
    pub fn script(&self) -> &'a [u8] {
        self.script
    }

    /// The sequence number as serialized, `[4]` little-endian.
    pub fn sequence_bytes(&self) -> &'a [u8; 4] {
        self.sequence
    }

    /// Whether the previous output is the one that cannot be: all zeros, index 2^32 - 1.
    pub fn is_null(&self) -> bool {
        *self.prevout_id() == [0; 32] && self.prevout_index() == u32::MAX
    }
}

/// A view of one transparent output.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    value: &'a [u8; 8],
    script: &'a [u8],
}

impl<'a> Output<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Output<'a>> {
        Ok(Output {
            value: reader.array("output value")?,
            script: reader.sized("output script")?,
        })
    }

    /// Zatoshis. Consensus allows at most 21 million ZEC; that is not checked here.
    pub fn value(&self) -> u64 {
        u64::from_le_bytes(*self.value)
    }

    /// `scriptPubKey`
    pub fn script(&self) -> &'a [u8] {
        self.script
    }
}

macro_rules! list {
    ($(#[$doc:meta])* $list:ident of $item:ident, $least:ident, $counted:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $list<'a> {
            count: usize,
            reader: Reader<'a>,
        }

        impl<'a> $list<'a> {
            pub(super) fn read(reader: &mut Reader<'a>) -> Result<$list<'a>> {
                let count = reader.count($least, $counted)?;
                let start = *reader;
                for _ in 0..count {
                    $item::read(reader)?;
                }
                Ok($list { count, reader: Reader::new(reader.since(start)) })
            }

            /// The elements one after another, without their count.
            pub fn bytes(&self) -> &'a [u8] {
                self.reader.rest()
            }
        }

        impl<'a> Iterator for $list<'a> {
            type Item = $item<'a>;

            #[inline]
            fn next(&mut self) -> Option<$item<'a>> {
                self.count = self.count.checked_sub(1)?;
                // Read once already, when the transaction was: it cannot fail now.
                $item::read(&mut self.reader).ok()
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.count, Some(self.count))
            }
        }

        impl ExactSizeIterator for $list<'_> {}
    };
}

list! {
    /// The transparent inputs of a transaction, in order.
    Inputs of Input, INPUT_LEAST_BYTES, "transparent inputs"
}

list! {
    /// The transparent outputs of a transaction, in order.
    Outputs of Output, OUTPUT_LEAST_BYTES, "transparent outputs"
}
