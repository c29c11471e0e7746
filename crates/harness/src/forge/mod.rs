//! The forge: long chains that look like the real ones, made from a seed.
//!
//! In: a profile ([`profile`]), how many blocks, a seed. Out: blocks one after the other ([`Forge`]), or a chain file with its index
//! ([`command::write`]; [`mod@file`] has the format). The chain stands on regtest's genesis block, links, has true merkle roots and tree sizes; coins spent are
//! real earlier outputs; side branches leave it now and then. Same settings, same bytes.
//!
//! Memory is bounded: the coins that may be spent, the names of recent blocks, nothing else of what was made.
//!
//! Left to others: validity. Nothing is proved, signed or mined, and nodes that verify refuse such a chain; the stub node serves it.

pub mod command;
mod draw;
pub mod file;
mod live;
mod mix;
mod money;
pub mod pack;
pub mod profile;
pub mod ugly;
pub mod wallet;

pub use live::Live;

use std::collections::VecDeque;

use lightship_chain::{
    BlockId, Height,
    build::{BuiltBlock, ChainBuilder, Solution, regtest_genesis},
};

use draw::Draw;
use mix::Site;
use money::Purse;
use profile::{Plan, Profile};
use wallet::{Holdings, Wallet};

/// Between one block and the next. Spec: ZIP 208.
pub(crate) const SPACING_SECONDS: u32 = 75;
/// The time of block 1, in November 2023: a chain of a million blocks ends in April 2026, not in the future.
const FIRST_TIME: u32 = 1_700_000_000;

/// What to forge.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Which chain to imitate.
    pub profile: Profile,
    /// Blocks of the best chain, genesis included.
    pub blocks: u32,
    /// Decides everything random.
    pub seed: u64,
    /// A side branch about every so many blocks; 0 for none.
    pub branch_every: u32,
    /// The longest side branch.
    pub deepest_branch: u32,
    /// How many of a thousand notes are encrypted to the laboratory's wallet; needs the feature `curves` if not 0.
    pub wallet_thousandths: u64,
    /// How large the edge cases that fill a block get.
    pub fill_bytes: usize,
}

impl Settings {
    /// The usual chain of that length: a side branch of up to 8 blocks about every 200 blocks.
    pub fn new(profile: Profile, blocks: u32, seed: u64) -> Settings {
        Settings {
            profile,
            blocks,
            seed,
            branch_every: 200,
            deepest_branch: 8,
            wallet_thousandths: 0,
            fill_bytes: 1_990_000,
        }
    }
}

/// A block made, and where it belongs.
#[derive(Clone, Debug)]
pub enum Forged {
    /// The next block of the best chain.
    Best(BuiltBlock),
    /// A block of a side branch, on a block made before: on the best chain, or on the side branch's last one.
    Side(BuiltBlock),
}

/// Makes one chain, block after block. An iterator that ends with the chain.
#[derive(Debug)]
pub struct Forge {
    settings: Settings,
    plan: Plan,
    chain: ChainBuilder,
    draw: Draw,
    purse: Purse,
    wallet: Wallet,
    /// The last blocks of the best chain, the highest last.
    recent: VecDeque<(BlockId, u32)>,
    /// A side branch on its way out, the lowest first.
    side: VecDeque<BuiltBlock>,
    made: u32,
    /// Edge cases since the last upgrade.
    ugly_blocks: u32,
}

impl Forge {
    /// A forge that has made nothing yet; the first block it makes is regtest's genesis.
    pub fn new(settings: Settings) -> Forge {
        let plan = Plan::new(settings.profile, settings.blocks);
        let chain = ChainBuilder::on_regtest(settings.seed, plan.activations.clone())
            .with_solution(Solution::Full)
            .with_times(FIRST_TIME, SPACING_SECONDS);
        // Edge cases need coins at once, whatever consensus says of young ones.
        let maturity_blocks = if settings.profile == Profile::Ugly {
            1
        } else {
            100
        };
        Forge {
            settings,
            plan,
            chain,
            draw: Draw::new(settings.seed ^ 0x6c69_6768_7473_6869),
            purse: Purse::new(maturity_blocks),
            wallet: Wallet::new(settings.wallet_thousandths),
            recent: VecDeque::new(),
            side: VecDeque::new(),
            made: 0,
            ugly_blocks: 0,
        }
    }

    /// Eras and activation heights.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What the laboratory's wallet has on the chain so far.
    pub fn holdings(&self) -> Holdings {
        self.wallet.holdings()
    }

    fn site(&mut self) -> Site<'_> {
        Site {
            last_time: self.recent.back().map_or(FIRST_TIME, |(_, time)| *time),
            chain: &mut self.chain,
            draw: &mut self.draw,
            purse: &mut self.purse,
            wallet: Some(&mut self.wallet),
            fork: None,
        }
    }

    fn next_best(&mut self) -> BuiltBlock {
        if self.made == 0 {
            return regtest_genesis();
        }
        let height = self.chain.next_height();
        if self.settings.profile == Profile::Ugly {
            let upgraded = self.plan.activations.announced();
            if upgraded.iter().any(|upgrade| upgrade.height == height) {
                self.ugly_blocks = 0;
            }
            let nth = self.ugly_blocks;
            self.ugly_blocks += 1;
            // Each era has each full block once; the chain would be all full blocks otherwise.
            let fill_bytes = if (nth as usize) < ugly::Case::ALL.len() {
                self.settings.fill_bytes
            } else {
                20_000.min(self.settings.fill_bytes)
            };
            return self.site().ugly_block(nth, fill_bytes);
        }
        let era = *self.plan.era(height);
        self.site().ordinary_block(&era)
    }

    /// A branch that leaves the best chain a few blocks below its tip, and is a block longer than what it would replace one time in two.
    fn branch(&mut self) {
        let most = (self.recent.len() as u64 - 1).min(u64::from(self.settings.deepest_branch));
        if most == 0 {
            return;
        }
        // Most real ones are of one block.
        let depth = if self.draw.chance(600) {
            1
        } else {
            self.draw.between(1, most)
        };
        let blocks = depth + self.draw.below(2);
        let (fork, time) = self.recent[self.recent.len() - 1 - depth as usize];
        let seed = self.draw.seed();
        let mut chain = self.chain.branch(fork, time, seed);
        for _ in 0..blocks {
            let era = *self.plan.era(chain.next_height());
            let mut site = Site {
                chain: &mut chain,
                draw: &mut self.draw,
                purse: &mut self.purse,
                wallet: None,
                fork: Some(fork.height),
                last_time: time,
            };
            let block = site.ordinary_block(&era);
            self.side.push_back(block);
        }
    }
}

impl Iterator for Forge {
    type Item = Forged;

    fn next(&mut self) -> Option<Forged> {
        if let Some(block) = self.side.pop_front() {
            return Some(Forged::Side(block));
        }
        if self.made == self.settings.blocks {
            return None;
        }
        let block = self.next_best();
        self.made += 1;
        self.recent.push_back((block.id, block.time));
        if self.recent.len() > self.settings.deepest_branch as usize + 1 {
            self.recent.pop_front();
        }
        let every = u64::from(self.settings.branch_every);
        if every > 0 && block.id.height > Height::GENESIS && self.draw.below(every) == 0 {
            self.branch();
        }
        Some(Forged::Best(block))
    }
}
