//! Blocks and transactions one at a time, on any block: for a node that goes on where a chain file ends.

use lightship_chain::{
    BlockId, TxId,
    build::{Activations, Built, BuiltBlock, ChainBuilder, Coinbase, Recipe, Solution},
    parse::Block,
};

use super::{
    SPACING_SECONDS,
    draw::Draw,
    mix::Site,
    money::{Coin, Owner, Purse},
    profile::{Era, Plan, Profile},
};

/// Makes what comes next on a chain.
#[derive(Debug)]
pub struct Live {
    chain: ChainBuilder,
    era: Era,
    draw: Draw,
    purse: Purse,
}

impl Live {
    /// For a chain with these activations. Knows no coins yet: see [`Live::learn`].
    pub fn new(seed: u64, activations: Activations) -> Live {
        let plan = Plan::new(Profile::Tip, 2);
        Live {
            chain: ChainBuilder::new(seed, activations).with_solution(Solution::Full),
            era: *plan.era(lightship_chain::Height::new(1)),
            draw: Draw::new(seed),
            purse: Purse::new(0),
        }
    }

    /// Looks at a block of the chain: its outputs can be spent from now on, and those it spends no more.
    pub fn learn(&mut self, id: BlockId, block: &[u8]) {
        let Ok(block) = Block::parse(block) else {
            return;
        };
        for transaction in block.transactions() {
            for input in transaction.inputs() {
                let spent = TxId::from_internal(*input.prevout_id());
                self.purse.take_named(spent, input.prevout_index());
            }
            let made = transaction.id();
            for (index, output) in (0..).zip(transaction.outputs()) {
                if output.value() > 0 {
                    let coin = Coin {
                        id: made,
                        index,
                        value_zat: output.value(),
                        height: id.height.get(),
                    };
                    self.purse.put(coin, &mut self.draw);
                }
            }
        }
    }

    /// A transaction that the child of `parent` may hold.
    pub fn transaction(&mut self, parent: BlockId) -> Option<Built> {
        self.stand_on(parent, 0, 0);
        let era = self.era;
        self.site().any_transaction(&era)
    }

    /// The child of `parent` at `time` (seconds since 1970) with these transactions.
    pub fn block(&mut self, parent: BlockId, time: u32, transactions: &[Built]) -> BuiltBlock {
        let seed = self.draw.seed();
        self.stand_on(parent, time, seed);
        let coinbase = Coinbase {
            outputs: vec![Owner::Hot(0).output(156_250_000)],
            ..Coinbase::default()
        };
        self.site().finish(coinbase, transactions)
    }

    fn stand_on(&mut self, parent: BlockId, time: u32, salt: u64) {
        let seed = self.draw.seed() ^ salt;
        self.chain = self
            .chain
            .branch(parent, time, seed)
            .with_times(time, SPACING_SECONDS);
    }

    fn site(&mut self) -> Site<'_> {
        Site {
            chain: &mut self.chain,
            draw: &mut self.draw,
            purse: &mut self.purse,
            wallet: None,
            fork: None,
            last_time: 0,
        }
    }
}

impl Site<'_> {
    /// A transaction of whatever kind the era has most of, now and then of another.
    fn any_transaction(&mut self, era: &Era) -> Option<Built> {
        if self.draw.chance(500) {
            let recipe: Recipe = self.payment(1, 2);
            if let Some(built) = self.build(recipe) {
                return Some(built);
            }
        }
        for _ in 0..16 {
            if let Some(kind) = self.kinds(era).first().copied() {
                return self.transaction(kind, era);
            }
        }
        None
    }
}
