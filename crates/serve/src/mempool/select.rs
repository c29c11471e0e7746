//! Which transactions of a snapshot a wallet is sent, and which of their parts.

use lightship_chain::{Pool, PoolSet};

use super::Snapshot;
use crate::proto::CompactTx;

/// The compact parts in `pools` of every transaction that `suffixes` do not exclude, in order of display id.
///
/// A suffix excludes the one transaction whose id (protocol order) ends with it, and nothing if there are none or several; each
/// is looked at alone, against the whole mempool. An empty suffix would fit everything and is ignored.
pub(crate) fn select<'a>(
    snapshot: &Snapshot,
    suffixes: impl IntoIterator<Item = &'a [u8]>,
    pools: PoolSet,
) -> Vec<CompactTx> {
    let mut excluded = vec![false; snapshot.present.len()];
    for suffix in suffixes {
        if !suffix.is_empty()
            && let Some(place) = snapshot.only_match(suffix)
        {
            excluded[place] = true;
        }
    }
    snapshot
        .in_display_order()
        .zip(excluded)
        .filter(|(_, excluded)| !excluded)
        .filter_map(|(entry, _)| parts(entry.compact.as_ref()?, pools))
        .collect()
}

/// The parts of a transaction that lie in `pools`; `None` if there are none.
fn parts(whole: &CompactTx, pools: PoolSet) -> Option<CompactTx> {
    fn keep<T: Clone>(list: &[T], wanted: bool) -> Vec<T> {
        if wanted { list.to_vec() } else { Vec::new() }
    }
    let transparent = pools.contains(Pool::Transparent);
    let sapling = pools.contains(Pool::Sapling);
    let some = CompactTx {
        index: 0,
        txid: whole.txid.clone(),
        fee: whole.fee,
        spends: keep(&whole.spends, sapling),
        outputs: keep(&whole.outputs, sapling),
        actions: keep(&whole.actions, pools.contains(Pool::Orchard)),
        vin: keep(&whole.vin, transparent),
        vout: keep(&whole.vout, transparent),
        ironwood_actions: keep(&whole.ironwood_actions, pools.contains(Pool::Ironwood)),
    };
    let empty = some.spends.is_empty()
        && some.outputs.is_empty()
        && some.actions.is_empty()
        && some.vin.is_empty()
        && some.vout.is_empty()
        && some.ironwood_actions.is_empty();
    (!empty).then_some(some)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lightship_chain::{BlockHash, BlockId, Height, TxId};

    use super::*;
    use crate::{
        mempool::Entry,
        proto::{CompactSaplingSpend, CompactTxIn},
    };

    fn id(start: u8, end: u8) -> TxId {
        let mut bytes = [0; 32];
        bytes[0] = start;
        bytes[31] = end;
        TxId::from_internal(bytes)
    }

    fn snapshot(entries: &[(TxId, bool)]) -> Snapshot {
        let present = entries.iter().zip(0..).map(|(&(id, shielded), number)| {
            let mut compact = CompactTx {
                txid: id.as_internal().to_vec().into(),
                vin: vec![CompactTxIn::default()],
                ..CompactTx::default()
            };
            if shielded {
                compact.spends = vec![CompactSaplingSpend::default()];
            }
            let entry = Entry {
                id,
                bytes: Default::default(),
                compact: Some(compact),
            };
            (number, Arc::new(entry))
        });
        let tip = BlockId {
            height: Height::new(9),
            hash: BlockHash::ZERO,
        };
        Snapshot::new(tip, present.collect())
    }

    fn sent(snapshot: &Snapshot, suffixes: &[&[u8]], pools: PoolSet) -> Vec<u8> {
        select(snapshot, suffixes.iter().copied(), pools)
            .iter()
            .map(|tx| tx.txid[0])
            .collect()
    }

    #[test]
    fn a_suffix_excludes_the_one_it_fits() {
        // Display order reads backwards, so these sort by their last byte, then by the first.
        let all = snapshot(&[(id(3, 8), true), (id(2, 9), true), (id(1, 9), true)]);
        let shielded = PoolSet::SHIELDED;
        let full = id(2, 9);
        let mut long = full.as_internal().to_vec();
        long.insert(0, 0);
        assert_eq!(sent(&all, &[], shielded), [3, 1, 2]);
        assert_eq!(sent(&all, &[&[8]], shielded), [1, 2], "unique");
        assert_eq!(sent(&all, &[&[9]], shielded), [3, 1, 2], "ambiguous");
        assert_eq!(sent(&all, &[&[7]], shielded), [3, 1, 2], "unknown");
        assert_eq!(sent(&all, &[&[]], shielded), [3, 1, 2], "empty");
        assert_eq!(sent(&all, &[full.as_internal()], shielded), [3, 1], "whole");
        assert_eq!(sent(&all, &[&long], shielded), [3, 1, 2], "too long");
        assert_eq!(
            sent(&all, &[&[], &[9], full.as_internal(), &[8]], shielded),
            [1],
            "each alone"
        );
    }

    #[test]
    fn a_transaction_without_a_part_in_the_pools_is_left_out() {
        let mixed = snapshot(&[(id(1, 1), false), (id(2, 2), true)]);
        assert_eq!(sent(&mixed, &[], PoolSet::SHIELDED), [2]);
        assert_eq!(sent(&mixed, &[], PoolSet::ALL), [1, 2]);
        let transparent = PoolSet::EMPTY.with(Pool::Transparent);
        assert_eq!(sent(&mixed, &[], transparent), [1, 2]);
        let both = select(&mixed, [], transparent);
        assert!(both[1].spends.is_empty() && both[1].vin.len() == 1);
        assert_eq!(
            sent(&mixed, &[], PoolSet::EMPTY.with(Pool::Orchard)),
            [0u8; 0]
        );
    }

    #[test]
    fn ambiguity_is_judged_before_the_pools() {
        let mixed = snapshot(&[(id(1, 9), false), (id(2, 9), true)]);
        assert_eq!(sent(&mixed, &[&[9]], PoolSet::SHIELDED), [2]);
    }

    #[test]
    fn an_entry_is_found_by_its_whole_id_alone() {
        let ids = [id(3, 8), id(2, 9), id(1, 9)];
        let all = snapshot(&ids.map(|id| (id, true)));
        for each in ids {
            assert_eq!(all.get(each).unwrap().id, each);
        }
        for other in [id(0, 0), id(2, 8), id(3, 9), id(255, 255)] {
            assert!(all.get(other).is_none());
        }
    }
}
