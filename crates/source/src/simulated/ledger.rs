//! Who owns what on the best chain, transparently.
//!
//! In: blocks as they join and leave the best chain, above those of an archive, if there is one. Out: unspent outputs, and each address's history, in
//! chain order.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use lightship_chain::{Height, HeightRange, TxId};

use super::{
    address::Address,
    archive::{Base, EventKind},
    block::Block,
};

/// An output by name: its transaction, and its position there.
pub(super) type OutPoint = (TxId, u32);

/// A place in the chain: height, position in the block, position among the outputs.
pub(super) type OutputPlace = (Height, u32, u32);

/// An output that nobody has spent.
#[derive(Clone, Debug)]
pub(super) struct Unspent {
    pub(super) place: OutputPlace,
    pub(super) value_zat: u64,
    pub(super) script: Bytes,
    pub(super) coinbase: bool,
    pub(super) address: Option<Address>,
}

/// Where a transaction lies that pays to an address or spends from it: height, and position in the block.
pub(super) type Touch = (Height, u32);

#[derive(Debug, Default)]
struct Account {
    /// Chain order; each transaction once.
    history: Vec<Touch>,
    unspent: BTreeMap<OutputPlace, OutPoint>,
    received_zat: u64,
    spent_zat: u64,
}

/// What a block changed that its bytes alone do not tell.
#[derive(Debug, Default)]
struct Undo {
    spent: Vec<(OutPoint, Unspent)>,
    /// One entry for each entry added to a history.
    touched: Vec<Address>,
}

/// The transparent state at the tip.
#[derive(Default)]
pub(super) struct Ledger {
    base: Option<Base>,
    /// Outputs of the archive that are spent above it.
    gone: HashSet<OutPoint>,
    /// Above the archive, as is all else.
    unspent: HashMap<OutPoint, Unspent>,
    accounts: HashMap<Address, Account>,
    undo: Vec<Undo>,
    total_zat: u128,
}

impl Ledger {
    /// What there is at the end of an archive's blocks.
    pub(super) fn on(base: Base) -> Ledger {
        Ledger {
            total_zat: base.total_zat().into(),
            base: Some(base),
            ..Ledger::default()
        }
    }

    /// Adds the block above the last one added.
    pub(super) fn connect(&mut self, block: &Block) {
        let mut undo = Undo::default();
        let height = block.id.height;
        for (position, (id, transaction)) in (0..).zip(block.transactions()) {
            let mut touched = Vec::new();
            for input in transaction.inputs() {
                let outpoint = (
                    TxId::from_internal(*input.prevout_id()),
                    input.prevout_index(),
                );
                // A block cut out of a longer chain spends outputs that are not here; there is nothing to do for them.
                if let Some(spent) = self.spend(&outpoint) {
                    self.total_zat -= u128::from(spent.value_zat);
                    if let Some(address) = spent.address {
                        let account = self.account(address);
                        account.unspent.remove(&spent.place);
                        account.spent_zat = account.spent_zat.saturating_add(spent.value_zat);
                        touched.push(address);
                    }
                    undo.spent.push((outpoint, spent));
                }
            }
            let coinbase = transaction.is_coinbase();
            for (index, output) in (0..).zip(transaction.outputs()) {
                let address = Address::of_script(output.script());
                let unspent = Unspent {
                    place: (height, position, index),
                    value_zat: output.value(),
                    script: Bytes::copy_from_slice(output.script()),
                    coinbase,
                    address,
                };
                self.add((id, index), unspent);
                if let Some(address) = address {
                    let account = self.account(address);
                    account.received_zat = account.received_zat.saturating_add(output.value());
                    touched.push(address);
                }
            }
            touched.sort_unstable();
            touched.dedup();
            for address in touched {
                self.account(address).history.push((height, position));
                undo.touched.push(address);
            }
        }
        self.undo.push(undo);
    }

    /// Takes away the block added last.
    pub(super) fn disconnect(&mut self, block: &Block) {
        let undo = self.undo.pop().unwrap_or_default();
        for (id, transaction) in block.transactions() {
            for (index, output) in (0..).zip(transaction.outputs()) {
                if let Some(address) = Address::of_script(output.script()) {
                    let account = self.account(address);
                    account.received_zat = account.received_zat.saturating_sub(output.value());
                }
                self.remove(&(id, index));
            }
        }
        for (outpoint, unspent) in undo.spent {
            if let Some(address) = unspent.address {
                let account = self.account(address);
                account.spent_zat = account.spent_zat.saturating_sub(unspent.value_zat);
            }
            // An output made and spent in this same block was never there before it.
            if self.gone.remove(&outpoint) {
                self.total_zat += u128::from(unspent.value_zat);
            } else if unspent.place.0 < block.id.height {
                self.add(outpoint, unspent);
            }
        }
        for address in undo.touched {
            self.account(address).history.pop();
        }
    }

    fn spend(&mut self, outpoint: &OutPoint) -> Option<Unspent> {
        if let Some(unspent) = self.unspent.remove(outpoint) {
            return Some(unspent);
        }
        let unspent = self.unspent(outpoint)?;
        self.gone.insert(*outpoint);
        Some(unspent)
    }

    fn add(&mut self, outpoint: OutPoint, unspent: Unspent) {
        self.total_zat += u128::from(unspent.value_zat);
        if let Some(address) = unspent.address {
            self.account(address)
                .unspent
                .insert(unspent.place, outpoint);
        }
        self.unspent.insert(outpoint, unspent);
    }

    fn remove(&mut self, outpoint: &OutPoint) {
        if let Some(unspent) = self.unspent.remove(outpoint) {
            self.total_zat -= u128::from(unspent.value_zat);
            if let Some(address) = unspent.address {
                self.account(address).unspent.remove(&unspent.place);
            }
        }
    }

    fn account(&mut self, address: Address) -> &mut Account {
        self.accounts.entry(address).or_default()
    }

    /// The unspent output of that name.
    pub(super) fn unspent(&self, outpoint: &OutPoint) -> Option<Unspent> {
        if let Some(unspent) = self.unspent.get(outpoint) {
            return Some(unspent.clone());
        }
        let base = self.base.as_ref()?;
        (!self.gone.contains(outpoint)).then(|| base.unspent(outpoint))?
    }

    /// The transactions of an address in `range`, in chain order. Those in the archive come once for each input and output.
    pub(super) fn history(
        &self,
        address: &Address,
        range: HeightRange,
    ) -> impl Iterator<Item = Touch> {
        let archived = self
            .base
            .iter()
            .flat_map(move |base| base.events(*address, range.first()))
            .map(|event| (event.height, event.position));
        let history = self
            .accounts
            .get(address)
            .map_or(&[][..], |account| &account.history);
        let first = history.partition_point(|(height, _)| *height < range.first());
        archived
            .chain(history[first..].iter().copied())
            .take_while(move |(height, _)| *height <= range.last())
    }

    /// The unspent outputs of an address, in chain order.
    pub(super) fn unspent_of(
        &self,
        address: &Address,
    ) -> impl Iterator<Item = (OutPoint, Unspent)> {
        let archived = self
            .base
            .iter()
            .flat_map(|base| base.unspent_of(*address))
            .filter(|(outpoint, _)| !self.gone.contains(outpoint));
        let above = self
            .accounts
            .get(address)
            .into_iter()
            .flat_map(|account| account.unspent.values())
            .filter_map(|outpoint| Some((*outpoint, self.unspent.get(outpoint)?.clone())));
        archived.chain(above)
    }

    /// All that an address was ever paid, change included, and all that it ever spent, in zatoshi.
    pub(super) fn turnover_zat(&self, address: &Address) -> (u64, u64) {
        let (mut received, mut spent) = self
            .accounts
            .get(address)
            .map_or((0, 0), |account| (account.received_zat, account.spent_zat));
        if let Some(base) = &self.base {
            for event in base.events(*address, Height::GENESIS) {
                let sum = match event.kind {
                    EventKind::Paid { .. } => &mut received,
                    EventKind::Spends => &mut spent,
                };
                *sum = sum.saturating_add(event.value_zat);
            }
        }
        (received, spent)
    }

    /// The sum of all unspent outputs, in zatoshi.
    pub(super) fn total_zat(&self) -> u128 {
        self.total_zat
    }
}
