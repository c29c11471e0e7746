//! What a stored block says of itself, read from its encoded bytes.

use lightship_chain::{
    BlockHash, TreeSizes,
    compact::{
        fields::{block, chain_metadata, transaction},
        project::{self, FRAME_PREFIX_BYTES, Stored},
    },
};

/// What a stored block says of itself.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) height: u64,
    pub(super) hash: BlockHash,
    pub(super) previous: BlockHash,
    pub(super) time: u64,
    /// As its chain metadata says.
    pub(super) sizes: TreeSizes,
    /// Outputs and actions, counted.
    pub(super) added: TreeSizes,
    /// Transactions in its companion.
    pub(super) transactions: u64,
}

impl Content {
    /// # Errors
    ///
    /// What is wrong, in words.
    pub(super) fn read(frame: &[u8], transparent: &[u8]) -> Result<Content, String> {
        let Some(([0, length @ ..], message)) = frame.split_first_chunk::<FRAME_PREFIX_BYTES>()
        else {
            return Err("the frame has no prefix".to_owned());
        };
        if u64::from(u32::from_be_bytes(*length)) != message.len() as u64 {
            return Err("the frame's length is not that of its message".to_owned());
        }
        let stored = Stored {
            message,
            transparent,
        };
        project::whole(stored, &mut Vec::new()).map_err(|error| error.to_string())?;
        let mut content = Content {
            height: 0,
            hash: BlockHash::ZERO,
            previous: BlockHash::ZERO,
            time: 0,
            sizes: TreeSizes::ZERO,
            added: TreeSizes::ZERO,
            transactions: 0,
        };
        let malformed = || "the message does not decode".to_owned();
        each(message, |tag, field| match (tag, field) {
            (block::HEIGHT, Field::Number(height)) => content.height = height,
            (block::TIME, Field::Number(time)) => content.time = time,
            (block::HASH, Field::Bytes(hash)) => content.hash = hash_of(hash),
            (block::PREV_HASH, Field::Bytes(hash)) => content.previous = hash_of(hash),
            (block::CHAIN_METADATA, Field::Bytes(metadata)) => content.sizes = sizes_of(metadata),
            (block::VTX, Field::Bytes(body)) => content.count(body),
            _ => {}
        })
        .ok_or_else(malformed)?;
        each(transparent, |tag, _| {
            content.transactions += u64::from(tag == block::VTX);
        })
        .ok_or_else(malformed)?;
        Ok(content)
    }

    fn count(&mut self, transaction: &[u8]) {
        // A transaction that does not decode was found by the projection.
        let _ = each(transaction, |tag, _| {
            let count = match tag {
                transaction::OUTPUTS => &mut self.added.sapling,
                transaction::ACTIONS => &mut self.added.orchard,
                transaction::IRONWOOD_ACTIONS => &mut self.added.ironwood,
                _ => return,
            };
            *count = count.saturating_add(1);
        });
    }
}

fn hash_of(bytes: &[u8]) -> BlockHash {
    BlockHash::from_internal(bytes.try_into().unwrap_or([0; 32]))
}

fn sizes_of(metadata: &[u8]) -> TreeSizes {
    let mut sizes = TreeSizes::ZERO;
    let decoded = each(metadata, |tag, field| {
        let size = match tag {
            chain_metadata::SAPLING_COMMITMENT_TREE_SIZE => &mut sizes.sapling,
            chain_metadata::ORCHARD_COMMITMENT_TREE_SIZE => &mut sizes.orchard,
            chain_metadata::IRONWOOD_COMMITMENT_TREE_SIZE => &mut sizes.ironwood,
            _ => return,
        };
        if let Field::Number(number) = field {
            *size = u32::try_from(number).unwrap_or(u32::MAX);
        }
    });
    // The same as no metadata: the row will say otherwise.
    decoded.map_or(TreeSizes::ZERO, |()| sizes)
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Visits each field of a message; `None` if it does not decode.
fn each<'a>(mut message: &'a [u8], mut visit: impl FnMut(u8, Field<'a>)) -> Option<()> {
    while let Some((&tag, rest)) = message.split_first() {
        let (number, rest) = varint(rest)?;
        message = rest;
        if tag & 7 == 0 {
            visit(tag, Field::Number(number));
        } else {
            let (bytes, rest) = rest.split_at_checked(usize::try_from(number).ok()?)?;
            message = rest;
            visit(tag, Field::Bytes(bytes));
        }
    }
    Some(())
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}
