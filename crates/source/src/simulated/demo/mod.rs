//! A chain worth looking at: every era, every pool, busy and quiet addresses, and a tip that moves.
//!
//! In: a seed and a number of blocks. Out: a [`SimulatedNode`] with that chain on regtest's genesis, [`DemoChain::tick`] to let it live, and
//! [`DemoChain::hints`] of what to ask a server for. The same seed and calls give the same chain.
//!
//! Money balances, coinbases rest for 100 blocks, and nothing is spent twice; notes are random bytes that no wallet can read.

mod people;
mod traffic;

use std::collections::{HashSet, VecDeque};

use lightship_chain::{
    BlockId, Height, TxId, Upgrade,
    build::{Activations, Built, ChainBuilder, Coinbase, Output, regtest_genesis},
};

use super::{SimulatedNode, Unfit, ledger::OutPoint};
use people::Person;
pub use traffic::Kind;

/// What a block's finder gets, in zatoshi.
const SUBSIDY_ZAT: u64 = 312_500_000;
/// How deep the branch may change.
const DEEPEST_REORG: u32 = 3;
/// One tick in so many changes the branch.
const TICKS_A_REORG: u32 = 12;

/// What the demo chain begins with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Decides everything random.
    pub seed: u64,
    /// Blocks above genesis.
    pub blocks: u32,
    /// The time of the last of them, seconds since 1970.
    pub now: u32,
    /// Seconds between two blocks.
    pub spacing_seconds: u32,
}

/// What a tick did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A block came on top.
    Grew {
        /// The new tip.
        tip: BlockId,
    },
    /// The top blocks were replaced by one more.
    Reorganized {
        /// How many were replaced.
        depth: u32,
        /// The new tip.
        tip: BlockId,
    },
}

/// A transparent address and what to find there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressHint {
    /// The address.
    pub address: String,
    /// Whose it is.
    pub what: &'static str,
}

/// A mined transaction and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionHint {
    /// Its id.
    pub id: TxId,
    /// Its block.
    pub height: Height,
    /// Its kind.
    pub kind: Kind,
}

/// What to ask a server of this chain for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Busy addresses first.
    pub addresses: Vec<AddressHint>,
    /// One of each kind, out of reach of the reorgs.
    pub transactions: Vec<TransactionHint>,
    /// When each upgrade begins.
    pub activations: Activations,
}

/// A block of the top of the chain, as it may have to be taken apart.
#[derive(Clone, Debug)]
struct Recent {
    id: BlockId,
    time: u32,
    transactions: Vec<Built>,
}

/// A simulated node whose chain lives.
#[derive(Debug)]
pub struct DemoChain {
    node: SimulatedNode,
    builder: ChainBuilder,
    people: Vec<Person>,
    /// Outputs that a transaction on its way spends.
    taken: HashSet<OutPoint>,
    /// The newest [`DEEPEST_REORG`] + 1 blocks, lowest first.
    recent: VecDeque<Recent>,
    /// The latest deep enough transaction of each kind.
    found: Vec<TransactionHint>,
    branches: u64,
}

impl DemoChain {
    /// Makes the chain, with all the upgrades there are.
    ///
    /// # Errors
    ///
    /// Not to be expected: it would mean that what is built here cannot be read.
    pub fn new(settings: Settings) -> Result<DemoChain, Unfit> {
        DemoChain::with_activations(settings, activations(settings.blocks))
    }

    /// Makes the chain with upgrades at these heights; pools that never activate stay empty.
    ///
    /// # Errors
    ///
    /// As [`DemoChain::new`].
    pub fn with_activations(
        settings: Settings,
        activations: Activations,
    ) -> Result<DemoChain, Unfit> {
        let length = settings.blocks.saturating_mul(settings.spacing_seconds);
        let first = settings
            .now
            .saturating_sub(length)
            .saturating_add(settings.spacing_seconds);
        let builder = ChainBuilder::on_regtest(settings.seed, activations.clone())
            .with_times(first, settings.spacing_seconds);
        let node = SimulatedNode::from_blocks(activations, [regtest_genesis().bytes])?;
        let mut demo = DemoChain {
            node,
            builder,
            people: people::everybody(),
            taken: HashSet::new(),
            recent: VecDeque::new(),
            found: Vec::new(),
            branches: settings.seed,
        };
        for _ in 0..settings.blocks {
            let transactions = demo.traffic()?;
            demo.grow(transactions)?;
        }
        Ok(demo)
    }

    /// The node. Clones of it are handles on the same node.
    pub fn node(&self) -> &SimulatedNode {
        &self.node
    }

    /// Lets a little time pass, until `now` (seconds since 1970): some transactions appear, and a block mines most of those that wait; now and then
    /// the top one to three blocks are replaced by one more, with the same transactions in other places.
    ///
    /// # Errors
    ///
    /// If someone else has changed the node's chain.
    pub fn tick(&mut self, now: u32) -> Result<Event, Unfit> {
        let after = self.recent.back().map_or(0, |block| block.time);
        self.builder.set_time(now.max(after.saturating_add(1)));
        for transaction in self.traffic()? {
            self.node.mempool_add(transaction.bytes)?;
        }
        if self.builder.draw(TICKS_A_REORG) == 0 && self.recent.len() > DEEPEST_REORG as usize {
            let depth = 1 + self.builder.draw(DEEPEST_REORG);
            let tip = self.reorganize(depth)?;
            return Ok(Event::Reorganized { depth, tip });
        }
        let mut waiting = self.node.mempool_transactions();
        // The youngest may have to wait for the block after, but none that an older one needs.
        let left = waiting.len().min(self.builder.draw(3) as usize);
        waiting.truncate(waiting.len() - left);
        let tip = self.grow(waiting)?;
        Ok(Event::Grew { tip })
    }

    /// What to ask a server of this chain for.
    pub fn hints(&self) -> Hints {
        Hints {
            addresses: self.people.iter().map(Person::hint).collect(),
            transactions: self.found.clone(),
            activations: self.builder.activations().clone(),
        }
    }

    /// Puts a block with these transactions on the tip.
    fn grow(&mut self, transactions: Vec<Built>) -> Result<BlockId, Unfit> {
        let coinbase = self.coinbase();
        let block = self.builder.next_block(coinbase, &transactions)?;
        self.node.extend(block.bytes)?;
        self.remember(Recent {
            id: block.id,
            time: block.time,
            transactions,
        });
        Ok(block.id)
    }

    /// Replaces the top `depth` blocks by one more.
    fn reorganize(&mut self, depth: u32) -> Result<BlockId, Unfit> {
        let kept = self.recent.len() - depth as usize;
        let fallen = self.recent.split_off(kept);
        let fork = self.recent.back().expect("more are remembered than fall");
        self.branches = self.branches.wrapping_add(1);
        self.builder = self.builder.branch(fork.id, fork.time, self.branches);
        // All that fell is mined again, half a block later than before.
        let mut again: VecDeque<Built> = fallen
            .into_iter()
            .flat_map(|block| block.transactions)
            .collect();
        let mut blocks = Vec::new();
        for nth in 0..=depth {
            let count = if nth == depth {
                again.len()
            } else {
                again.len() / 2
            };
            let transactions: Vec<_> = again.drain(..count).collect();
            let coinbase = self.coinbase();
            let block = self.builder.next_block(coinbase, &transactions)?;
            self.recent.push_back(Recent {
                id: block.id,
                time: block.time,
                transactions,
            });
            blocks.push(block.bytes);
        }
        self.node.reorg(depth, blocks)?;
        while self.recent.len() > DEEPEST_REORG as usize + 1 {
            self.forget();
        }
        self.recent
            .back()
            .map(|block| block.id)
            .ok_or(Unfit::Overflow)
    }

    fn coinbase(&mut self) -> Coinbase {
        let mut coinbase = Coinbase {
            outputs: vec![self.people[0].output(SUBSIDY_ZAT)],
            ..Coinbase::default()
        };
        let height = self.builder.next_height();
        let activations = self.builder.activations();
        let heartwood = activations.is_active(Upgrade::Heartwood, height);
        let orchard = activations.is_active(Upgrade::Nu5, height);
        let ironwood = activations.is_active(Upgrade::Nu6_3, height);
        // One finder in eight takes the subsidy into the newest pool.
        if heartwood && self.builder.draw(8) == 0 {
            coinbase.outputs = vec![Output::of_data(b"shielded coinbase")];
            match (orchard, ironwood) {
                (_, true) => coinbase.ironwood_actions = 1,
                (true, false) => coinbase.orchard_actions = 1,
                (false, false) => coinbase.sapling_outputs = 1,
            }
        }
        coinbase
    }

    fn remember(&mut self, block: Recent) {
        self.recent.push_back(block);
        if self.recent.len() > DEEPEST_REORG as usize + 1 {
            self.forget();
        }
        let node = &self.node;
        if self.taken.len() > 1_000 {
            let chain = node.chain();
            self.taken
                .retain(|outpoint| chain.ledger.unspent(outpoint).is_some());
        }
    }

    /// The oldest of the recent blocks is settled.
    fn forget(&mut self) {
        let Some(block) = self.recent.pop_front() else {
            return;
        };
        for transaction in &block.transactions {
            let Some(kind) = Kind::of(&transaction.bytes) else {
                continue;
            };
            let hint = TransactionHint {
                id: transaction.id,
                height: block.id.height,
                kind,
            };
            match self.found.iter_mut().find(|found| found.kind == kind) {
                Some(found) => *found = hint,
                None => self.found.push(hint),
            }
        }
        self.found.sort_unstable_by_key(|found| found.kind);
    }
}

/// All eras on a chain of so many blocks, the newest pools with half of it to themselves.
pub fn activations(blocks: u32) -> Activations {
    let share = |thousandths: u32| {
        let height = u64::from(blocks) * u64::from(thousandths) / 1_000;
        u32::try_from(height).unwrap_or(u32::MAX).max(1)
    };
    Activations::new(&[
        (Upgrade::Overwinter, share(10)),
        (Upgrade::Sapling, share(30)),
        (Upgrade::Blossom, share(50)),
        (Upgrade::Heartwood, share(70)),
        (Upgrade::Canopy, share(90)),
        (Upgrade::Nu5, share(200)),
        (Upgrade::Nu6, share(350)),
        (Upgrade::Nu6_1, share(400)),
        (Upgrade::Nu6_2, share(450)),
        (Upgrade::Nu6_3, share(500)),
        (Upgrade::Nu7, share(900)),
    ])
}

#[cfg(test)]
mod tests;
