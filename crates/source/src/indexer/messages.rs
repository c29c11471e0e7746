//! The messages, as `proto/zebra/indexer.proto` has them.

use bytes::Bytes;
use lightship_chain::{BlockHash, BlockId, Height};
use prost::Message;

use super::Topic;
use crate::{Error, Result};

#[derive(Clone, PartialEq, Message)]
pub(super) struct BlockHashAndHeight {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) hash: Bytes,
    #[prost(uint32, tag = "2")]
    pub(super) height: u32,
}

/// What a message of [`Topic::Tip`] names.
pub(super) fn tip(message: &[u8]) -> Result<BlockId> {
    let misread = |what: String| Error::Shape {
        method: Topic::Tip.method().to_owned(),
        what,
    };
    let message =
        BlockHashAndHeight::decode(message).map_err(|error| misread(error.to_string()))?;
    let hash: [u8; 32] = message.hash.as_ref().try_into().map_err(|_| {
        misread(format!(
            "a hash of {} bytes instead of 32",
            message.hash.len()
        ))
    })?;
    let height =
        Height::try_from(u64::from(message.height)).map_err(|error| misread(error.to_string()))?;
    Ok(BlockId {
        height,
        hash: BlockHash::from_display_order(hash),
    })
}
