//! Who was paid where: transparent addresses by a scan of the whole chain.
//!
//! In: blocks, in order. Out: for each address its history and what it has left. As in nodes, genesis pays nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::proto::{CompactTx, GetAddressUtxosReply};

use super::{Block, address::Prefixes};

/// A transaction's place: height, position in its block.
pub type Place = (u32, u32);
/// Transaction and output.
type Outpoint = ([u8; 32], u32);

/// The addresses of a chain. An output is some 34 bytes of a block; what is kept of it is not much more.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Where each address paid or was paid.
    pub touched: BTreeMap<String, BTreeSet<Place>>,
    /// Addresses in the order of their first payment; others name them by their place here.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// The address that each output ever paid, and where.
    owners: HashMap<Outpoint, (u32, Place)>,
    /// What is left, in chain order.
    unspent: BTreeMap<(Place, u32), Unspent>,
}

#[derive(Clone, Debug)]
struct Unspent {
    address: u32,
    txid: [u8; 32],
    script: Box<[u8]>,
    value: i64,
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

    fn apply(&mut self, place: Place, transaction: &CompactTx, prefixes: Prefixes) {
        for input in &transaction.vin {
            let Ok(txid) = input.prevout_txid[..].try_into() else {
                continue;
            };
            if let Some(&(owner, made)) = self.owners.get(&(txid, input.prevout_index)) {
                self.unspent.remove(&(made, input.prevout_index));
                self.touch(owner, place);
            }
        }
        let Ok(txid) = transaction.txid[..].try_into() else {
            return;
        };
        for (index, output) in (0..).zip(&transaction.vout) {
            let Some(name) = prefixes.of_script(&output.script_pub_key) else {
                continue;
            };
            let address = self.number(name);
            self.touch(address, place);
            self.owners.insert((txid, index), (address, place));
            let unspent = Unspent {
                address,
                txid,
                script: output.script_pub_key[..].into(),
                value: output.value.try_into().unwrap_or(i64::MAX),
            };
            self.unspent.insert((place, index), unspent);
        }
    }

    fn number(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }

    fn touch(&mut self, address: u32, place: Place) {
        let name = &self.names[address as usize];
        match self.touched.get_mut(name) {
            Some(places) => places.insert(place),
            None => self.touched.entry(name.clone()).or_default().insert(place),
        };
    }

    /// What is left of `addresses` from `start` on, lowest place first.
    fn left(
        &self,
        addresses: &[String],
        start: u64,
    ) -> impl Iterator<Item = (&Place, u32, &Unspent)> {
        let addresses: HashSet<u32> = addresses
            .iter()
            .filter_map(|name| self.numbers.get(name).copied())
            .collect();
        self.unspent
            .iter()
            .map(|((place, index), unspent)| (place, *index, unspent))
            .filter(move |(place, _, unspent)| {
                addresses.contains(&unspent.address) && u64::from(place.0) >= start
            })
    }

    /// What `addresses` have left from `start` on, lowest place first; `most` of it, or all if that is 0.
    pub fn utxos(&self, addresses: &[String], start: u64, most: u32) -> Vec<GetAddressUtxosReply> {
        let most = if most == 0 { usize::MAX } else { most as usize };
        self.left(addresses, start)
            .take(most)
            .map(|(place, index, unspent)| GetAddressUtxosReply {
                address: self.names[unspent.address as usize].clone(),
                txid: unspent.txid.to_vec(),
                index: index.try_into().unwrap_or(i32::MAX),
                script: unspent.script.to_vec(),
                value_zat: unspent.value,
                height: place.0.into(),
            })
            .collect()
    }

    /// The sum of [`Ledger::utxos`].
    pub fn balance(&self, addresses: &[String]) -> i64 {
        self.left(addresses, 0)
            .map(|(_, _, unspent)| unspent.value)
            .sum()
    }
}
