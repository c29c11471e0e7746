//! Who was paid where: transparent addresses by a scan of the whole chain.
//!
//! In: blocks, in order. Out: for each address its history and what it has left. As in nodes, genesis pays nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::proto::GetAddressUtxosReply;

use super::{Block, address::Prefixes};

/// A transaction's place: height, position in its block.
pub type Place = (u32, u32);
type Outpoint = (Vec<u8>, u32);

/// The addresses of a chain.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Where each address paid or was paid.
    pub touched: BTreeMap<String, BTreeSet<Place>>,
    owners: HashMap<Outpoint, (String, Place)>,
    unspent: BTreeMap<(Place, u32), GetAddressUtxosReply>,
}

impl Ledger {
    /// Scans `blocks` from genesis on.
    pub fn scan<'a>(blocks: impl Iterator<Item = &'a Block>, prefixes: Prefixes) -> Ledger {
        let mut ledger = Ledger::default();
        for block in blocks.skip(1) {
            for (index, transaction) in (0..).zip(&block.compact.vtx) {
                ledger.apply((block.height, index), transaction, prefixes);
            }
        }
        ledger
    }

    fn apply(&mut self, place: Place, transaction: &crate::proto::CompactTx, prefixes: Prefixes) {
        for input in &transaction.vin {
            let outpoint = (input.prevout_txid.clone(), input.prevout_index);
            if let Some((owner, made)) = self.owners.get(&outpoint) {
                self.unspent.remove(&(*made, outpoint.1));
                self.touched.entry(owner.clone()).or_default().insert(place);
            }
        }
        for (index, output) in (0..).zip(&transaction.vout) {
            let Some(address) = prefixes.of_script(&output.script_pub_key) else {
                continue;
            };
            self.touched
                .entry(address.clone())
                .or_default()
                .insert(place);
            self.owners
                .insert((transaction.txid.clone(), index), (address.clone(), place));
            let reply = GetAddressUtxosReply {
                address,
                txid: transaction.txid.clone(),
                index: index.try_into().unwrap_or(i32::MAX),
                script: output.script_pub_key.clone(),
                value_zat: output.value.try_into().unwrap_or(i64::MAX),
                height: place.0.into(),
            };
            self.unspent.insert((place, index), reply);
        }
    }

    /// What `addresses` have left from `start` on, lowest place first; `most` of it, or all if that is 0.
    pub fn utxos(&self, addresses: &[String], start: u64, most: u32) -> Vec<GetAddressUtxosReply> {
        let most = if most == 0 { usize::MAX } else { most as usize };
        let addresses: HashSet<&str> = addresses.iter().map(String::as_str).collect();
        self.unspent
            .values()
            .filter(|utxo| addresses.contains(utxo.address.as_str()) && utxo.height >= start)
            .take(most)
            .cloned()
            .collect()
    }

    /// The sum of [`Ledger::utxos`].
    pub fn balance(&self, addresses: &[String]) -> i64 {
        self.utxos(addresses, 0, 0)
            .iter()
            .map(|utxo| utxo.value_zat)
            .sum()
    }
}
