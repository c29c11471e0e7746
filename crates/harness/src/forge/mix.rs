//! Ordinary blocks: an era's rates turned into transactions.

use lightship_chain::{
    Height, ShieldedPool, Upgrade,
    build::{Built, BuiltBlock, ChainBuilder, Coinbase, Input, JoinSplit, Output, Recipe, Version},
};

use super::{
    draw::Draw,
    money::{Coin, Owner, Purse},
    profile::Era,
    wallet::Wallet,
};

/// Consensus allows 2,000,000 bytes; room is left for the header and the coinbase. Spec: protocol §7.6.
pub(super) const MOST_BLOCK_BYTES: usize = 1_990_000;
/// What every transparent transaction leaves to the miner.
const FEE_ZAT: u64 = 10_000;

/// How much busier than its era a block is (thousandths), and how many blocks in a thousand are. The mean is 1.
///
/// Mainnet's blocks from 3,300,000 to 3,373,206 have these sizes in units of 7,844 bytes: mean 2.7, median 2, 90 in a hundred at most 5, 99 in a
/// hundred at most 14, the largest 255 (the checkpoint lists of ZcashFoundation/zebra, branch blob d92947ba70b0).
const BUSTLE: [(u64, u64); 5] = [(250, 300), (750, 400), (1250, 200), (2500, 80), (8750, 20)];
/// The same where blocks are near full already.
const STEADY: [(u64, u64); 3] = [(500, 250), (1000, 500), (1500, 250)];

/// What kind of transaction is to be made.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Transparent,
    Sprout,
    Sapling,
    Orchard,
    Ironwood,
}

/// Where a block is being made.
pub(super) struct Site<'a> {
    pub(super) chain: &'a mut ChainBuilder,
    pub(super) draw: &'a mut Draw,
    pub(super) purse: &'a mut Purse,
    /// Nobody's on side branches: what is paid there is not kept.
    pub(super) wallet: Option<&'a mut Wallet>,
    /// The block that a side branch leaves the best chain at: coins up to there can be spent, and stay for the best chain to spend.
    pub(super) fork: Option<Height>,
    /// Of the block before the one being made.
    pub(super) last_time: u32,
}

impl Site<'_> {
    /// Makes the next block as `era` has them.
    pub(super) fn ordinary_block(&mut self, era: &Era) -> BuiltBlock {
        let height = self.chain.next_height();
        if self.fork.is_none() {
            self.purse.mature(height, self.draw);
        }
        let kinds = self.kinds(era);
        let mut transactions = Vec::with_capacity(kinds.len());
        let mut bytes = 0;
        for kind in kinds {
            let Some(built) = self.transaction(kind, era) else {
                continue;
            };
            bytes += built.bytes.len();
            if bytes > MOST_BLOCK_BYTES {
                break;
            }
            transactions.push(built);
        }
        let coinbase = self.coinbase();
        self.finish(coinbase, &transactions)
    }

    /// Puts the block together and lets its coinbase mature.
    pub(super) fn finish(&mut self, coinbase: Coinbase, transactions: &[Built]) -> BuiltBlock {
        let paid: Vec<u64> = coinbase
            .outputs
            .iter()
            .map(|output| output.value_zat)
            .collect();
        let block = self
            .chain
            .next_block(coinbase, transactions)
            .expect("a coinbase is asked only for pools that are there");
        if self.fork.is_none() {
            for (index, value_zat) in (0..).zip(paid) {
                self.purse.put_young(Coin {
                    id: block.transactions[0],
                    index,
                    value_zat,
                    height: block.id.height.get(),
                });
            }
        }
        block
    }

    pub(super) fn kinds(&mut self, era: &Era) -> Vec<Kind> {
        let table = if era.notes_each > 2 {
            &STEADY[..]
        } else {
            &BUSTLE
        };
        let mut lot = self.draw.below(1000);
        let mut bustle = 1000;
        for (factor, share) in table {
            if lot < *share {
                bustle = *factor;
                break;
            }
            lot -= share;
        }
        let height = self.chain.next_height();
        let has = |pool| self.chain.activations().has_pool(pool, height);
        let rates = [
            (Kind::Transparent, era.transparent, true),
            (
                Kind::Sprout,
                era.joinsplits,
                self.chain.newest_version() <= Version::V4,
            ),
            (
                Kind::Sapling,
                era.sapling_outputs / era.notes_each,
                has(ShieldedPool::Sapling),
            ),
            (
                Kind::Orchard,
                era.orchard_actions / era.notes_each,
                has(ShieldedPool::Orchard),
            ),
            (
                Kind::Ironwood,
                era.ironwood_actions / era.notes_each,
                has(ShieldedPool::Ironwood),
            ),
        ];
        let mut kinds = Vec::new();
        for (kind, rate, _) in rates.into_iter().filter(|(_, _, has)| *has) {
            let count = self.draw.count(rate * bustle / 1000);
            kinds.resize(kinds.len() + count, kind);
        }
        for at in (1..kinds.len()).rev() {
            let other = self.draw.below(at as u64 + 1) as usize;
            kinds.swap(at, other);
        }
        kinds
    }

    pub(super) fn transaction(&mut self, kind: Kind, era: &Era) -> Option<Built> {
        let recipe = match kind {
            Kind::Transparent => {
                let inputs = self.draw.skewed(era.inputs * 1000 / era.transparent);
                let outputs = self.draw.skewed(era.outputs * 1000 / era.transparent);
                self.payment(inputs, outputs)
            }
            Kind::Sprout => {
                let version = self.chain.newest_version().clamp(Version::V2, Version::V4);
                self.shield(Recipe::new(version), |recipe, shielded_zat| {
                    recipe.with_joinsplit(JoinSplit {
                        shielded_zat,
                        unshielded_zat: 0,
                    })
                })
            }
            Kind::Sapling => {
                let outputs = self.draw.around(era.notes_each);
                let spends = self.draw.between(1, 2) as usize;
                // Wallets went over to the newer formats little by little.
                let version = if self.draw.chance(600) {
                    self.chain.newest_version()
                } else {
                    Version::V4
                };
                let recipe = self.shield(Recipe::new(version), |recipe, shielded_zat| Recipe {
                    sapling_balance_zat: -(shielded_zat as i64),
                    ..recipe
                });
                recipe.with_sapling(spends, outputs)
            }
            Kind::Orchard => {
                let actions = self.draw.around(era.notes_each);
                let version = if self.draw.chance(500) {
                    self.chain.newest_version()
                } else {
                    Version::V5
                };
                let recipe = self.shield(Recipe::new(version), |recipe, shielded_zat| Recipe {
                    orchard_balance_zat: -(shielded_zat as i64),
                    ..recipe
                });
                recipe.with_orchard(actions)
            }
            Kind::Ironwood => {
                let actions = self.draw.around(era.notes_each);
                let recipe = self.shield(Recipe::new(Version::V6), |recipe, shielded_zat| Recipe {
                    ironwood_balance_zat: -(shielded_zat as i64),
                    ..recipe
                });
                recipe.with_ironwood(actions)
            }
        };
        self.build(recipe)
    }

    /// Moves coins: what is left of the inputs after the fee is shared out.
    pub(super) fn payment(&mut self, inputs: usize, outputs: usize) -> Recipe {
        let mut recipe = Recipe::new(self.plain_version());
        let total = self.spend(&mut recipe, inputs).saturating_sub(FEE_ZAT);
        self.pay(&mut recipe, outputs, total);
        if self.draw.chance(2) {
            let mut memo = [0; 32];
            memo[..8].copy_from_slice(&self.draw.seed().to_le_bytes());
            recipe.outputs.push(Output::of_data(&memo));
        }
        recipe
    }

    /// Shares `total` out among new outputs.
    pub(super) fn pay(&mut self, recipe: &mut Recipe, outputs: usize, total: u64) {
        let mut left = total;
        for remaining in (1..=outputs as u64).rev() {
            let value_zat = if remaining == 1 {
                left
            } else {
                self.draw.below(2 * left / remaining + 1)
            };
            left -= value_zat;
            let owner = self.purse.payee(self.draw);
            recipe.outputs.push(owner.output(value_zat));
        }
    }

    /// A quarter of shielded transactions takes a coin into the pool, a quarter brings one out, the others keep to themselves.
    fn shield(&mut self, mut recipe: Recipe, into: impl FnOnce(Recipe, u64) -> Recipe) -> Recipe {
        match self.draw.below(4) {
            0 => {
                let value = self.spend(&mut recipe, 1).saturating_sub(FEE_ZAT);
                into(recipe, value)
            }
            1 => {
                let value_zat = self.draw.between(1_000, 500_000_000);
                self.pay(&mut recipe, 1, value_zat);
                recipe
            }
            _ => recipe,
        }
    }

    /// Adds inputs, as many as there are coins for, and gives their sum.
    pub(super) fn spend(&mut self, recipe: &mut Recipe, inputs: usize) -> u64 {
        let mut total: u64 = 0;
        for _ in 0..inputs {
            let coin = match self.fork {
                None => self.purse.take(self.draw),
                Some(fork) => self.purse.peek(fork, self.draw).filter(|coin| {
                    // Drawn without being taken, so the same one may come up again.
                    !recipe
                        .inputs
                        .iter()
                        .any(|input| input.transaction == coin.id && input.index == coin.index)
                }),
            };
            let Some(coin) = coin else { break };
            total = total.saturating_add(coin.value_zat);
            recipe.inputs.push(Input::spend(coin.id, coin.index));
        }
        total
    }

    /// Writes the transaction; its outputs can be spent from then on, in the same block too. `None` if it would spend nothing: early in a chain
    /// there are no coins.
    pub(super) fn build(&mut self, mut recipe: Recipe) -> Option<Built> {
        let spends = recipe.inputs.len()
            + recipe.joinsplits.len()
            + recipe.sapling_spends.len()
            + recipe.orchard_actions.len()
            + recipe.ironwood_actions.len();
        if spends == 0 {
            return None;
        }
        if let Some(wallet) = &mut self.wallet {
            let zip_212 = self
                .chain
                .activations()
                .is_active(Upgrade::Canopy, self.chain.next_height());
            wallet.take(&mut recipe, zip_212, self.draw);
        }
        if recipe.version >= Version::V3 && self.draw.chance(800) {
            recipe.expiry_height = self.chain.next_height().get() + 40;
        }
        let values: Vec<(u64, bool)> = recipe
            .outputs
            .iter()
            .map(|output| (output.value_zat, output.script.first() != Some(&0x6a)))
            .collect();
        let built = self
            .chain
            .transaction(recipe)
            .expect("each format is asked only for what it can hold");
        if self.fork.is_none() {
            let height = self.chain.next_height().get();
            for (index, (value_zat, spendable)) in (0..).zip(values) {
                if spendable {
                    self.purse.put(
                        Coin {
                            id: built.id,
                            index,
                            value_zat,
                            height,
                        },
                        self.draw,
                    );
                }
            }
        }
        Some(built)
    }

    /// The format of a transaction without shielded parts.
    fn plain_version(&mut self) -> Version {
        let newest = self.chain.newest_version();
        match newest {
            Version::V2 => {
                if self.draw.chance(900) {
                    Version::V1
                } else {
                    Version::V2
                }
            }
            // Version 4 stayed valid, and in use.
            newer if newer > Version::V4 && self.draw.chance(500) => Version::V4,
            newer => newer,
        }
    }

    /// Pays the miner and the fund; now and then the miner into a shielded pool.
    fn coinbase(&mut self) -> Coinbase {
        let height = self.chain.next_height();
        let activations = self.chain.activations();
        let reward_zat: u64 = if activations.is_active(Upgrade::Nu6, height) {
            156_250_000
        } else if activations.is_active(Upgrade::Canopy, height) {
            312_500_000
        } else if activations.is_active(Upgrade::Blossom, height) {
            625_000_000
        } else {
            1_250_000_000
        };
        let heartwood = activations.is_active(Upgrade::Heartwood, height);
        let nu5 = activations.is_active(Upgrade::Nu5, height);
        let fund = Owner::Hot(1).output(reward_zat / 5);
        let mut coinbase = Coinbase {
            outputs: vec![fund],
            ..Coinbase::default()
        };
        match self.draw.below(1000) {
            0..10 if nu5 => coinbase.orchard_actions = 2,
            10..20 if heartwood => coinbase.sapling_outputs = 1,
            lot => {
                let miner = if lot < 700 {
                    Owner::Hot(0)
                } else {
                    Owner::Busy(lot as u32 % 30)
                };
                let miner = miner.output(reward_zat / 5 * 4);
                coinbase.outputs.insert(0, miner);
            }
        }
        coinbase
    }
}
