//! The mempool at one moment.

use std::sync::Arc;

use bytes::Bytes;
use lightship_chain::{BlockId, PoolSet, TxId, compact};
use prost::Message as _;

use crate::proto::CompactTx;

/// A transaction that waits to be mined.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: TxId,
    /// The consensus serialization.
    pub(crate) bytes: Bytes,
    /// All its compact parts; `None` if this program cannot read it.
    pub(crate) compact: Option<CompactTx>,
}

impl Entry {
    /// From the consensus serialization of transaction `id`.
    pub(crate) fn new(id: TxId, bytes: Bytes) -> Entry {
        let compact = match compact::transaction(&bytes, PoolSet::ALL) {
            Ok((_, Some(message))) => CompactTx::decode(Bytes::from(message)).ok(),
            // Nothing in any pool: sent to nobody who asks for compact parts.
            Ok((_, None)) => None,
            Err(error) => {
                tracing::debug!(%error, "a transaction of the mempool cannot be read");
                None
            }
        };
        Entry { id, bytes, compact }
    }
}

/// The mempool at one moment, under one tip. Immutable.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The served tip when the node was asked.
    pub(crate) tip: BlockId,
    /// In order of arrival here. The number is small, and an entry keeps it as long as the tip stays, also when it leaves and returns.
    pub(crate) present: Vec<(u32, Arc<Entry>)>,
    /// Ids in display order and their places in `present`, sorted: suffixes of an id are prefixes here.
    by_display: Vec<([u8; 32], u32)>,
}

impl Snapshot {
    pub(crate) fn new(tip: BlockId, present: Vec<(u32, Arc<Entry>)>) -> Snapshot {
        let mut by_display: Vec<_> = present
            .iter()
            .zip(0..)
            .map(|((_, entry), place)| (entry.id.to_display_order(), place))
            .collect();
        by_display.sort_unstable();
        Snapshot {
            tip,
            present,
            by_display,
        }
    }

    /// The entries in order of their ids as people read them.
    pub(crate) fn in_display_order(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.by_display
            .iter()
            .map(|&(_, place)| &self.present[place as usize].1)
    }

    /// The entry of that id. Asked for by everybody who looks for what is not there, so not by a scan.
    pub(crate) fn get(&self, id: TxId) -> Option<&Arc<Entry>> {
        let wanted = id.to_display_order();
        let found = self.by_display.binary_search_by_key(&wanted, |(id, _)| *id);
        let (_, place) = self.by_display[found.ok()?];
        Some(&self.present[place as usize].1)
    }

    /// The one entry whose id ends, in protocol order, with `suffix`: its position in display order. `None` if there is no
    /// such entry or more than one.
    pub(crate) fn only_match(&self, suffix: &[u8]) -> Option<usize> {
        let mut prefix = [0; 32];
        let prefix = prefix.get_mut(..suffix.len())?;
        prefix.copy_from_slice(suffix);
        prefix.reverse();
        let first = self
            .by_display
            .partition_point(|(id, _)| id[..prefix.len()] < *prefix);
        let matches = |place: usize| {
            self.by_display
                .get(place)
                .is_some_and(|(id, _)| id.starts_with(prefix))
        };
        (matches(first) && !matches(first + 1)).then_some(first)
    }
}
