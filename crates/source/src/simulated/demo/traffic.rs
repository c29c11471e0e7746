//! What people do on the demo chain.

use std::fmt;

use lightship_chain::{
    Upgrade,
    build::{Built, Input, JoinSplit, Output, Recipe, Version},
    parse::Transaction,
};

use super::{DemoChain, people::Person};
use crate::simulated::{Unfit, ledger::OutPoint};

/// ZIP 317's fee of a small transaction, in zatoshi.
const FEE_ZAT: u64 = 10_000;
/// Blocks until a coinbase can be spent.
const MATURITY: u32 = 100;

/// What a transaction is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Between transparent addresses.
    Transparent,
    /// With a JoinSplit.
    Sprout,
    /// Inside Sapling.
    Sapling,
    /// Inside Orchard.
    Orchard,
    /// Inside Ironwood.
    Ironwood,
    /// From a transparent address into a shielded pool, or back.
    Crossing,
    /// In several shielded pools.
    Mixed,
}

impl Kind {
    /// The kind of a transaction, by what it holds.
    pub(super) fn of(bytes: &[u8]) -> Option<Kind> {
        let (transaction, _) = Transaction::parse(bytes).ok()?;
        let transparent = transaction.inputs().len() + transaction.outputs().len() > 0;
        let sapling = transaction.sapling_spends().len() + transaction.sapling_outputs().len() > 0;
        let orchard = transaction.orchard_actions().len() > 0;
        let ironwood = transaction.ironwood_actions().len() > 0;
        if transaction.joinsplits() > 0 {
            return Some(Kind::Sprout);
        }
        Some(match (transparent, sapling, orchard, ironwood) {
            (_, false, false, false) => Kind::Transparent,
            (true, ..) => Kind::Crossing,
            (false, true, false, false) => Kind::Sapling,
            (false, false, true, false) => Kind::Orchard,
            (false, false, false, true) => Kind::Ironwood,
            (false, ..) => Kind::Mixed,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Transparent => "transparent",
            Kind::Sprout => "Sprout JoinSplit",
            Kind::Sapling => "Sapling",
            Kind::Orchard => "Orchard",
            Kind::Ironwood => "Ironwood",
            Kind::Crossing => "into or out of a shielded pool",
            Kind::Mixed => "several shielded pools",
        })
    }
}

impl DemoChain {
    /// The transactions of the next few minutes. Every output they spend is mined.
    pub(super) fn traffic(&mut self) -> Result<Vec<Built>, Unfit> {
        let count = match self.builder.draw(1_000) {
            0..450 => 0,
            450..800 => 1,
            800..950 => 2,
            950..994 => 3,
            // A burst.
            _ => 12,
        };
        let mut transactions = Vec::with_capacity(count);
        for _ in 0..count {
            let kind = self.kind();
            if let Some(recipe) = self.recipe(kind) {
                transactions.push(self.builder.transaction(recipe)?);
            }
        }
        Ok(transactions)
    }

    /// How often each kind comes, by era.
    fn kind(&mut self) -> Kind {
        let weights: &[(Kind, u32)] = match self.builder.newest_version() {
            Version::V1 | Version::V2 | Version::V3 => {
                &[(Kind::Transparent, 75), (Kind::Sprout, 25)]
            }
            Version::V4 => &[
                (Kind::Transparent, 40),
                (Kind::Sapling, 37),
                (Kind::Crossing, 20),
                (Kind::Sprout, 3),
            ],
            Version::V5 => &[
                (Kind::Transparent, 30),
                (Kind::Sapling, 20),
                (Kind::Orchard, 27),
                (Kind::Crossing, 18),
                (Kind::Mixed, 4),
                (Kind::Sprout, 1),
            ],
            Version::V6 => &[
                (Kind::Transparent, 27),
                (Kind::Sapling, 10),
                (Kind::Orchard, 12),
                (Kind::Ironwood, 30),
                (Kind::Crossing, 16),
                (Kind::Mixed, 4),
                (Kind::Sprout, 1),
            ],
        };
        let mut left = self
            .builder
            .draw(weights.iter().map(|(_, weight)| weight).sum());
        for (kind, weight) in weights {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *kind,
            }
        }
        Kind::Transparent
    }

    /// `None` if there is nobody to pay for it.
    fn recipe(&mut self, kind: Kind) -> Option<Recipe> {
        let newest = self.builder.newest_version();
        // JoinSplits end with version 4; both 4 and 5 stay valid beside what is newest.
        let (sprout, sapling, orchard) = (
            newest.min(Version::V4),
            newest.min(if self.builder.draw(2) == 0 {
                Version::V4
            } else {
                Version::V5
            }),
            newest.min(Version::V5),
        );
        let few = 1 + self.builder.draw(2) as usize;
        let recipe = match kind {
            Kind::Transparent => return self.payment(newest),
            Kind::Crossing => return self.crossing(newest),
            Kind::Sprout => Recipe::new(sprout).with_joinsplit(JoinSplit {
                shielded_zat: 0,
                unshielded_zat: FEE_ZAT,
            }),
            Kind::Sapling => Recipe::new(sapling).with_sapling(few, 2),
            Kind::Orchard => Recipe::new(orchard).with_orchard(2 * few),
            Kind::Ironwood => Recipe::new(newest).with_ironwood(2 * few),
            Kind::Mixed => {
                let recipe = Recipe::new(newest).with_sapling(1, 1).with_orchard(2);
                if newest == Version::V6 {
                    recipe.with_ironwood(2)
                } else {
                    recipe
                }
            }
        };
        Some(with_fee(recipe))
    }

    /// From one address to another, with change.
    fn payment(&mut self, version: Version) -> Option<Recipe> {
        let payer = self.pick(|person| person.pays);
        let (mut recipe, value) = self.spend(Recipe::new(version), payer)?;
        let payee = self.pick(|person| person.is_paid);
        let paid = share(value, 1 + u64::from(self.builder.draw(90)));
        recipe = recipe.with_output(self.people[payee].output(paid));
        if self.builder.draw(20) == 0 {
            recipe = recipe.with_output(Output::of_data(b"lightship demo"));
        }
        Some(recipe.with_output(self.people[payer].output(value - paid - FEE_ZAT)))
    }

    /// Into the newest pool or out of it.
    fn crossing(&mut self, version: Version) -> Option<Recipe> {
        let ironwood = self
            .builder
            .activations()
            .is_active(Upgrade::Nu6_3, self.builder.next_height());
        let into = self.builder.draw(2) == 0;
        let recipe = match version {
            Version::V6 if ironwood => Recipe::new(version).with_ironwood(2),
            Version::V5 | Version::V6 => Recipe::new(version).with_orchard(2),
            _ => Recipe::new(version).with_sapling(usize::from(!into), 2),
        };
        let (recipe, balance_zat) = if into {
            let payer = self.pick(|person| person.pays);
            let (recipe, value) = self.spend(recipe, payer)?;
            (recipe, -((value - FEE_ZAT) as i64))
        } else {
            let payee = self.pick(|person| person.is_paid);
            let value = 1_000_000 * (1 + u64::from(self.builder.draw(500)));
            let recipe = recipe.with_output(self.people[payee].output(value));
            (recipe, (value + FEE_ZAT) as i64)
        };
        Some(with_balance(recipe, balance_zat))
    }

    /// Adds one to three inputs from that person's oldest outputs. Gives their sum too.
    fn spend(&mut self, mut recipe: Recipe, payer: usize) -> Option<(Recipe, u64)> {
        let most = 1 + self.builder.draw(3) as usize;
        let height = self.builder.next_height().get();
        let chain = self.node.chain();
        let spendable: Vec<(OutPoint, u64)> = chain
            .ledger
            .unspent_of(&self.people[payer].address)
            .filter(|(outpoint, unspent)| {
                let age = height - unspent.place.0.get();
                !self.taken.contains(outpoint) && (!unspent.coinbase || age >= MATURITY)
            })
            .map(|(outpoint, unspent)| (outpoint, unspent.value_zat))
            .take(most)
            .collect();
        drop(chain);
        let value: u64 = spendable.iter().map(|(_, value)| value).sum();
        // Enough for the fee, and for a payment and change worth having.
        if value < 10 * FEE_ZAT {
            return None;
        }
        for ((transaction, index), _) in spendable {
            self.taken.insert((transaction, index));
            recipe = recipe.with_input(Input::spend(transaction, index));
        }
        Some((recipe, value))
    }

    /// Someone, by weight.
    fn pick(&mut self, weight: impl Fn(&Person) -> u32) -> usize {
        let mut left = self.builder.draw(self.people.iter().map(&weight).sum());
        for (number, person) in self.people.iter().enumerate() {
            match left.checked_sub(weight(person)) {
                Some(rest) => left = rest,
                None => return number,
            }
        }
        0
    }
}

/// So many hundredths of what is left of `value` after the fee.
fn share(value: u64, hundredths: u64) -> u64 {
    (value - FEE_ZAT) / 100 * hundredths
}

/// A shielded transaction pays its fee out of its pool.
fn with_fee(recipe: Recipe) -> Recipe {
    if recipe.joinsplits.is_empty() {
        with_balance(recipe, FEE_ZAT as i64)
    } else {
        recipe
    }
}

/// Lets `balance_zat` leave the newest pool that the recipe uses.
fn with_balance(mut recipe: Recipe, balance_zat: i64) -> Recipe {
    if !recipe.ironwood_actions.is_empty() {
        recipe.ironwood_balance_zat = balance_zat;
    } else if !recipe.orchard_actions.is_empty() {
        recipe.orchard_balance_zat = balance_zat;
    } else {
        recipe.sapling_balance_zat = balance_zat;
    }
    recipe
}
