//! Questions about one state of the chain, asked by both fronts.

use std::collections::BTreeSet;

use lightship_chain::{BlockHash, Height, HeightRange, Network, ShieldedPool, TxId};

use super::{address::Address, answer::RpcError, chain::Chain};
use crate::{SubtreeRoot, TreeState, Utxo};

/// Zebra's bound on one question's addresses.
const MOST_ADDRESSES: usize = 10_000;

impl Chain {
    /// The chain's name as Zebra has it: regtest is `test`.
    pub(super) fn network_name(&self) -> &'static str {
        match self.network {
            Network::Main => "main",
            Network::Test | Network::Regtest => "test",
        }
    }

    /// The addresses that the texts name, each once.
    pub(super) fn addresses(&self, texts: &[String]) -> Result<Vec<Address>, RpcError> {
        if texts.len() > MOST_ADDRESSES {
            return Err(RpcError::new(
                -8,
                format!("at most {MOST_ADDRESSES} addresses are allowed"),
            ));
        }
        let addresses: Result<BTreeSet<_>, _> = texts
            .iter()
            .map(|text| {
                Address::decode(text, self.network).ok_or_else(|| {
                    RpcError::new(-5, format!("invalid address \"{text}\": parse error"))
                })
            })
            .collect();
        Ok(addresses?.into_iter().collect())
    }

    /// Ids of the transactions in `range` that touch any of `addresses`, each once, in chain order.
    pub(super) fn transactions_of(&self, addresses: &[Address], range: HeightRange) -> Vec<TxId> {
        let touching: BTreeSet<_> = addresses
            .iter()
            .flat_map(|address| self.ledger.history(address, range))
            .collect();
        touching
            .into_iter()
            .filter_map(|(height, position)| {
                let block = self.at(height)?;
                block.index().get(position as usize).map(|(id, _)| *id)
            })
            .collect()
    }

    /// Unspent outputs of `addresses` from `start` on, in chain order, at most `most` (`None` or 0: all).
    pub(super) fn utxos_of(
        &self,
        addresses: &[Address],
        start: Height,
        most: Option<u32>,
    ) -> Vec<Utxo> {
        let mut found: Vec<_> = addresses
            .iter()
            .flat_map(|address| {
                self.ledger
                    .unspent_of(address)
                    .map(move |(outpoint, unspent)| (outpoint, unspent, address))
            })
            .filter(|(_, unspent, _)| unspent.place.0 >= start)
            .collect();
        found.sort_unstable_by_key(|(_, unspent, _)| unspent.place);
        let most = match most {
            None | Some(0) => usize::MAX,
            Some(most) => most as usize,
        };
        found
            .into_iter()
            .take(most)
            .map(|((txid, index), unspent, address)| Utxo {
                address: address.encode(self.network),
                txid,
                index,
                script: unspent.script.clone(),
                value_zat: zatoshi(u128::from(unspent.value_zat)),
                height: unspent.place.0,
            })
            .collect()
    }

    /// What `addresses` own now, and all they were ever paid, in zatoshi.
    pub(super) fn balance_of(&self, addresses: &[Address]) -> (i64, u64) {
        let mut balance = 0u128;
        let mut received = 0u64;
        for address in addresses {
            let (paid, spent) = self.ledger.turnover_zat(address);
            balance += u128::from(paid.saturating_sub(spent));
            received = received.saturating_add(paid);
        }
        (zatoshi(balance), received)
    }

    /// The trees at the end of a block, on any branch.
    pub(super) fn tree_state(&self, hash: BlockHash) -> Option<TreeState> {
        let block = self.by_hash(&hash)?;
        let state = |pool| {
            self.activations
                .has_pool(pool, block.id.height)
                .then(|| block.trees().of(pool).final_state())
        };
        Some(TreeState {
            id: block.id,
            time: block.time,
            sapling: state(ShieldedPool::Sapling),
            orchard: state(ShieldedPool::Orchard),
            ironwood: state(ShieldedPool::Ironwood),
        })
    }

    /// Roots of complete subtrees from `start` on, at most `limit`.
    pub(super) fn subtrees_from(
        &self,
        pool: ShieldedPool,
        start: u32,
        limit: Option<u32>,
    ) -> Vec<SubtreeRoot> {
        let archived = self.base().map_or(0, |base| base.subtrees(pool));
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        let above = self.subtrees(pool);
        let first = (start.saturating_sub(archived) as usize).min(above.len());
        self.base()
            .into_iter()
            .flat_map(|base| base.subtree_roots(pool, start..archived))
            .chain(above[first..].iter().copied())
            .take(most)
            .collect()
    }
}

/// Sums of money fit easily; sums of a made-up chain may not, and stop at the largest number.
pub(super) fn zatoshi(sum: u128) -> i64 {
    i64::try_from(sum).unwrap_or(i64::MAX)
}
