//! Edge cases, one a block, over and over, in every era.
//!
//! Blocks right before and right after an upgrade hold one transaction of every format that either side allows. Between them come, in turn:
//! nothing but a coinbase; one transaction; blocks near the limit of 2,000,000 bytes made of outputs, of inputs that spend them, of tiny
//! transactions, of spends, outputs or actions of each pool; outputs of value zero and of odd scripts; one address paid many times; a chain of spends
//! within the block; coinbases that pay into pools; JoinSplits; times that fall and leap; solutions of either length that nodes accept.

use lightship_chain::{
    ShieldedPool, Upgrade,
    build::{Built, BuiltBlock, Coinbase, Input, JoinSplit, Output, Recipe, Solution, Version},
};

use super::{
    mix::{MOST_BLOCK_BYTES, Site},
    money::Owner,
};

/// One edge case. Those that need a pool the era does not have become an empty block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A coinbase alone.
    Empty,
    /// A coinbase and one payment.
    One,
    /// One transaction with as many outputs as fit.
    ManyOutputs,
    /// One transaction with as many inputs as fit, which spend them.
    ManyInputs,
    /// As many transactions of one input and one output as fit.
    TinyTransactions,
    /// One transaction with as many Sapling spends as fit.
    SaplingSpends,
    /// One transaction with as many Sapling outputs as fit.
    SaplingOutputs,
    /// One transaction with as many Orchard actions as fit.
    OrchardActions,
    /// One transaction with as many Ironwood actions as fit.
    IronwoodActions,
    /// Every pool in one transaction.
    AllPools,
    /// Outputs of value zero, data carriers, empty, bare-key, huge and nonsense scripts.
    OddOutputs,
    /// A thousand outputs to one address, and a transaction from that address to itself.
    OneAddress,
    /// Each transaction spends the one before it.
    Chained,
    /// A coinbase that pays into every pool that a coinbase may.
    ShieldedCoinbase,
    /// JoinSplits, to the last era that has them.
    JoinSplits,
    /// A block older than its parent.
    EarlierTime,
    /// A block two hours after its parent.
    LaterTime,
    /// A block with the short solution of regtest.
    ShortSolution,
}

impl Case {
    /// In the order in which they come.
    pub const ALL: [Case; 18] = [
        Case::Empty,
        Case::One,
        Case::ManyOutputs,
        Case::ManyInputs,
        Case::OddOutputs,
        Case::SaplingOutputs,
        Case::ShieldedCoinbase,
        Case::OrchardActions,
        Case::EarlierTime,
        Case::IronwoodActions,
        Case::AllPools,
        Case::Chained,
        Case::JoinSplits,
        Case::OneAddress,
        Case::LaterTime,
        Case::SaplingSpends,
        Case::ShortSolution,
        Case::TinyTransactions,
    ];
}

/// Bytes of an input, an output and so on, rounded up.
const INPUT_BYTES: usize = 148;
const OUTPUT_BYTES: usize = 34;
const TINY_BYTES: usize = 260;
const SPEND_BYTES: usize = 384;
const SAPLING_OUTPUT_BYTES: usize = 948;
const ACTION_BYTES: usize = 820 + 64 + 2272;
/// For what a transaction has besides.
const SLACK_BYTES: usize = 8_000;

impl Site<'_> {
    /// Makes the next block an edge case. Blocks of a case that fills them are filled up to `fill_bytes`.
    pub(super) fn ugly_block(&mut self, nth: u32, fill_bytes: usize) -> BuiltBlock {
        let height = self.chain.next_height();
        self.purse.mature(height, self.draw);
        let upgrades = self.chain.activations().announced();
        let beside_upgrade = upgrades
            .iter()
            .any(|upgrade| upgrade.height == height || height.next() == Some(upgrade.height));
        if beside_upgrade {
            return self.every_version();
        }
        let case = Case::ALL[nth as usize % Case::ALL.len()];
        let room = fill_bytes.min(MOST_BLOCK_BYTES) - SLACK_BYTES;
        let mut coinbase = self.plain_coinbase();
        let mut recipes = Vec::new();
        let era = self.chain.newest_version();
        let sapling = |spends, outputs| {
            let version = era.max(Version::V4);
            Recipe::new(version).with_sapling(spends, outputs)
        };
        let has = |pool| self.chain.activations().has_pool(pool, height);
        let (has_sapling, has_orchard, has_ironwood) = (
            has(ShieldedPool::Sapling),
            has(ShieldedPool::Orchard),
            has(ShieldedPool::Ironwood),
        );
        match case {
            Case::Empty => {}
            Case::One => recipes.push(self.payment(1, 2)),
            Case::ManyOutputs => {
                let mut recipe = Recipe::new(self.plain());
                let total = self.spend(&mut recipe, 1);
                self.pay(&mut recipe, room / OUTPUT_BYTES, total);
                recipes.push(recipe);
            }
            Case::ManyInputs => {
                let inputs = (room / INPUT_BYTES).min(self.purse.len());
                recipes.push(self.payment(inputs, 1));
            }
            Case::TinyTransactions => {
                let mut built = Vec::new();
                for _ in 0..room / TINY_BYTES {
                    let recipe = self.payment(1, 1);
                    built.extend(self.build(recipe));
                }
                return self.finish(coinbase, &built);
            }
            Case::SaplingSpends if has_sapling => recipes.push(sapling(room / SPEND_BYTES, 1)),
            Case::SaplingOutputs if has_sapling => {
                recipes.push(sapling(1, room / SAPLING_OUTPUT_BYTES));
            }
            Case::OrchardActions if has_orchard => {
                recipes.push(Recipe::new(era).with_orchard(room / ACTION_BYTES));
            }
            Case::IronwoodActions if has_ironwood => {
                recipes.push(Recipe::new(era).with_ironwood(room / ACTION_BYTES));
            }
            Case::AllPools => {
                let mut recipe = self.payment(2, 2);
                recipe.version = era;
                if has_sapling {
                    recipe = recipe.with_sapling(2, 3);
                }
                if has_orchard {
                    recipe = recipe.with_orchard(3);
                }
                if has_ironwood {
                    recipe = recipe.with_ironwood(4);
                }
                recipes.push(recipe);
            }
            Case::OddOutputs => recipes.push(self.odd_outputs()),
            Case::OneAddress => return self.one_address(coinbase),
            Case::Chained => return self.chained(coinbase),
            Case::ShieldedCoinbase => {
                let heartwood = self
                    .chain
                    .activations()
                    .is_active(Upgrade::Heartwood, height);
                coinbase.sapling_outputs = if heartwood { 2 } else { 0 };
                coinbase.orchard_actions = if has_orchard { 2 } else { 0 };
                coinbase.ironwood_actions = if has_ironwood { 3 } else { 0 };
                if nth.is_multiple_of(2) && heartwood {
                    coinbase.outputs.clear();
                }
            }
            Case::JoinSplits if era <= Version::V4 => {
                let mut recipe = Recipe::new(era.max(Version::V2));
                for unshielded_zat in 0..5 {
                    recipe = recipe.with_joinsplit(JoinSplit {
                        shielded_zat: 0,
                        unshielded_zat,
                    });
                }
                recipes.push(recipe);
            }
            Case::EarlierTime => return self.at_other_time(coinbase, -600),
            Case::LaterTime => return self.at_other_time(coinbase, 7_200),
            Case::ShortSolution => {
                let before = self.chain.clone();
                *self.chain = before.with_solution(Solution::Short);
                let block = self.finish(coinbase, &[]);
                *self.chain = self.chain.clone().with_solution(Solution::Full);
                return block;
            }
            Case::SaplingSpends
            | Case::SaplingOutputs
            | Case::OrchardActions
            | Case::IronwoodActions
            | Case::JoinSplits => {}
        }
        let built: Vec<Built> = recipes
            .into_iter()
            .filter_map(|recipe| self.build(recipe))
            .collect();
        self.finish(coinbase, &built)
    }

    fn plain(&self) -> Version {
        match self.chain.newest_version() {
            Version::V2 => Version::V1,
            newer => newer,
        }
    }

    fn plain_coinbase(&self) -> Coinbase {
        Coinbase {
            outputs: vec![Owner::Hot(0).output(625_000_000)],
            ..Coinbase::default()
        }
    }

    /// One transaction of every format valid here, empty shielded parts and full ones.
    fn every_version(&mut self) -> BuiltBlock {
        let newest = self.chain.newest_version();
        let valid: &[Version] = match newest {
            Version::V1 | Version::V2 => &[Version::V1, Version::V2],
            Version::V3 => &[Version::V3],
            Version::V4 => &[Version::V4],
            Version::V5 => &[Version::V4, Version::V5],
            Version::V6 => &[Version::V4, Version::V5, Version::V6],
        };
        let mut built = Vec::new();
        for version in valid {
            let mut plain = self.payment(1, 1);
            plain.version = *version;
            built.extend(self.build(plain));
            let mut full = self.payment(1, 1);
            full.version = *version;
            if (Version::V2..=Version::V4).contains(version) && newest <= Version::V4 {
                full = full.with_joinsplit(JoinSplit::default());
            }
            if *version >= Version::V4 {
                full = full.with_sapling(1, 2);
            }
            if *version >= Version::V5 {
                full = full.with_orchard(2);
            }
            if *version >= Version::V6 {
                full = full.with_ironwood(2);
            }
            built.extend(self.build(full));
        }
        let coinbase = self.plain_coinbase();
        self.finish(coinbase, &built)
    }

    fn odd_outputs(&mut self) -> Recipe {
        let mut recipe = self.payment(1, 1);
        let script = |value_zat, script: Vec<u8>| Output { value_zat, script };
        let key =
            |length: usize| [&[length as u8], vec![0x02; length].as_slice(), &[0xac]].concat();
        recipe.outputs.extend([
            Owner::Busy(1).output(0),
            Output::of_data(&[]),
            Output::of_data(&[0xff; 75]),
            script(0, Vec::new()),
            script(1, vec![0x51]),
            script(2, key(33)),
            script(3, key(65)),
            // A push that runs past the end, and the largest script that a node runs.
            script(4, vec![0x4e, 0xff, 0xff, 0xff, 0x7f]),
            script(5, vec![0x61; 10_000]),
            // Almost the two standard forms.
            script(6, [&[0x76, 0xa9, 0x14][..], &[7; 20], &[0x88]].concat()),
            script(7, [&[0xa9, 0x13][..], &[7; 19], &[0x87]].concat()),
        ]);
        recipe
    }

    fn one_address(&mut self, coinbase: Coinbase) -> BuiltBlock {
        let owner = Owner::Busy(2);
        let mut first = self.payment(1, 0);
        first.outputs = (0..1000).map(|nth| owner.output(nth)).collect();
        let mut built: Vec<Built> = self.build(first).into_iter().collect();
        if let Some(paid) = built.first().map(|built| built.id) {
            let mut recipe = Recipe::new(self.plain());
            for index in (0..1000).step_by(10) {
                self.purse.take_named(paid, index);
                recipe.inputs.push(Input::spend(paid, index));
            }
            recipe.outputs.push(owner.output(1));
            built.extend(self.build(recipe));
        }
        self.finish(coinbase, &built)
    }

    fn chained(&mut self, coinbase: Coinbase) -> BuiltBlock {
        let first = self.payment(1, 1);
        let mut built: Vec<Built> = self.build(first).into_iter().collect();
        for _ in 0..25 {
            let Some(last) = built.last() else { break };
            self.purse.take_named(last.id, 0);
            let mut recipe = Recipe::new(self.plain()).with_input(Input::spend(last.id, 0));
            recipe.outputs.push(Owner::Busy(3).output(1_000));
            built.extend(self.build(recipe));
        }
        self.finish(coinbase, &built)
    }

    /// Makes the block this many seconds after its parent; the next ones go on from there.
    fn at_other_time(&mut self, coinbase: Coinbase, seconds: i64) -> BuiltBlock {
        let parent = self.last_time;
        let time = u32::try_from(i64::from(parent) + seconds).unwrap_or(parent);
        *self.chain = self.chain.clone().with_times(time, super::SPACING_SECONDS);
        self.finish(coinbase, &[])
    }
}
