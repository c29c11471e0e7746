//! A source made of a script: every block of every branch, which chain is best, and what goes wrong at which call.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, RawBlock, TreeSizes, Upgrade,
    build::{Activations, ChainBuilder, Coinbase},
    compact::{CompactBlock, EncodedBlock, compact},
};
use lightship_source::{BlockSource, Error, Result};

/// A question, for the script to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Genesis,
    Tip,
    HashAt(Height),
    /// One block of a range, about to be lent.
    Lend(Height),
    Block(BlockHash),
    TreeSizes,
    Wait,
}

/// What happens at a call.
pub(crate) enum Act {
    Go,
    Fail(Error),
    /// The call hangs for so long.
    Hang(Duration),
    Panic,
    /// The node's best chain changes first, to this tip.
    Switch(BlockId),
    /// Another tip is named.
    Tip(Option<BlockId>),
    /// These bytes are lent instead.
    Bytes(Vec<u8>),
    /// This height is named instead.
    Height(Height),
    Sizes(TreeSizes),
    /// The sizes are told with one Sapling note too many.
    OneNoteMore,
}

type Script = Box<dyn FnMut(Call) -> Act + Send>;

struct Known {
    id: BlockId,
    previous: BlockHash,
    time: u32,
    bytes: Arc<[u8]>,
    sizes: TreeSizes,
}

struct State {
    known: HashMap<BlockHash, Known>,
    /// By height.
    best: Vec<BlockHash>,
    script: Option<Script>,
    calls: u64,
    seed: u64,
    /// How many of the best blocks are not final, if the source can tell.
    not_final: Option<usize>,
    final_only: bool,
}

pub(crate) struct Scripted {
    state: Mutex<State>,
    moved: Condvar,
    builder: ChainBuilder,
}

impl Scripted {
    /// `blocks` blocks on a genesis that `seed` decides.
    pub(crate) fn new(seed: u64, blocks: usize) -> Arc<Scripted> {
        let mut builder = ChainBuilder::new(seed, Activations::all_at(Upgrade::Nu6_3, 1));
        let genesis = builder.next_block(Coinbase::default(), &[]).unwrap();
        let mut known = HashMap::new();
        known.insert(
            genesis.id.hash,
            Known {
                id: genesis.id,
                previous: genesis.previous,
                time: genesis.time,
                bytes: genesis.bytes.into(),
                sizes: TreeSizes::ZERO,
            },
        );
        let source = Arc::new(Scripted {
            state: Mutex::new(State {
                known,
                best: vec![genesis.id.hash],
                script: None,
                calls: 0,
                seed,
                not_final: None,
                final_only: false,
            }),
            moved: Condvar::new(),
            builder,
        });
        source.extend(blocks - 1);
        source
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Makes `count` blocks on top of `parent`, without making them best.
    pub(crate) fn forge(&self, parent: BlockId, count: usize) -> BlockId {
        let mut state = self.state();
        state.seed += 1;
        let time = state.known[&parent.hash].time;
        let mut sizes = state.known[&parent.hash].sizes;
        let mut builder = self.builder.branch(parent, time, state.seed);
        let mut tip = parent;
        for _ in 0..count {
            let height = builder.next_height().get() as u64 + state.seed;
            let coinbase = Coinbase {
                sapling_outputs: usize::from(height.is_multiple_of(3)),
                orchard_actions: usize::from(height.is_multiple_of(5)),
                ironwood_actions: usize::from(height.is_multiple_of(7)),
                ..Coinbase::default()
            };
            let block = builder.next_block(coinbase, &[]).unwrap();
            let notes = compact(block.id.height, RawBlock::Whole(&block.bytes))
                .unwrap()
                .notes;
            sizes = sizes.checked_add(notes).unwrap();
            tip = block.id;
            state.known.insert(
                block.id.hash,
                Known {
                    id: block.id,
                    previous: block.previous,
                    time: block.time,
                    bytes: block.bytes.into(),
                    sizes,
                },
            );
        }
        tip
    }

    /// Makes the chain that ends at `tip` the best.
    pub(crate) fn switch(&self, tip: BlockId) {
        self.state().switch(tip);
        self.moved.notify_all();
    }

    /// All but the last `not_final` blocks are final from now on, and the source can give them without its node: always, or `only` them.
    pub(crate) fn keep_final(&self, not_final: usize, only: bool) {
        let mut state = self.state();
        state.not_final = Some(not_final);
        state.final_only = only;
    }

    /// `count` more blocks on the best chain.
    pub(crate) fn extend(&self, count: usize) -> BlockId {
        let tip = self.forge(self.best(), count);
        self.switch(tip);
        tip
    }

    /// `count` other blocks in place of the last `depth`.
    pub(crate) fn reorg(&self, depth: usize, count: usize) -> BlockId {
        let tip = self.forge(self.below_tip(depth), count);
        self.switch(tip);
        tip
    }

    /// The last `depth` blocks vanish.
    pub(crate) fn rollback(&self, depth: usize) -> BlockId {
        let tip = self.below_tip(depth);
        self.switch(tip);
        tip
    }

    pub(crate) fn best(&self) -> BlockId {
        self.below_tip(0)
    }

    pub(crate) fn below_tip(&self, depth: usize) -> BlockId {
        let state = self.state();
        state.known[&state.best[state.best.len() - 1 - depth]].id
    }

    pub(crate) fn at(&self, height: u32) -> BlockId {
        let state = self.state();
        state.known[&state.best[height as usize]].id
    }

    pub(crate) fn genesis_hash(&self) -> BlockHash {
        self.state().best[0]
    }

    /// What happens at each call from now on.
    pub(crate) fn script(&self, script: impl FnMut(Call) -> Act + Send + 'static) {
        self.state().script = Some(Box::new(script));
    }

    pub(crate) fn heal(&self) {
        self.state().script = None;
        self.moved.notify_all();
    }

    pub(crate) fn calls(&self) -> u64 {
        self.state().calls
    }

    pub(crate) fn bytes_of(&self, id: BlockId) -> Vec<u8> {
        self.state().known[&id.hash].bytes.to_vec()
    }

    /// The best chain, compacted afresh: what an index must hold.
    pub(crate) fn model(&self) -> Vec<EncodedBlock> {
        let state = self.state();
        let mut sizes = TreeSizes::ZERO;
        let blocks = state.best.iter().map(|hash| &state.known[hash]);
        blocks
            .map(|known| {
                let compact: CompactBlock =
                    compact(known.id.height, RawBlock::Whole(&known.bytes)).unwrap();
                let block = compact.after(sizes).unwrap();
                sizes = block.sizes;
                block
            })
            .collect()
    }

    /// Lets the script act, and returns what it wants beyond that.
    fn act(&self, call: Call) -> Result<Act> {
        let act = {
            let mut state = self.state();
            state.calls += 1;
            let act = match &mut state.script {
                Some(script) => script(call),
                None => Act::Go,
            };
            if let Act::Switch(tip) = act {
                state.switch(tip);
                self.moved.notify_all();
            }
            act
        };
        match act {
            Act::Fail(error) => Err(error),
            Act::Panic => panic!("as the script says"),
            Act::Hang(time) => {
                std::thread::sleep(time);
                Err(Error::Timeout {
                    node: "script".into(),
                    method: "hang".into(),
                    after: time,
                })
            }
            act => Ok(act),
        }
    }
}

impl State {
    fn switch(&mut self, tip: BlockId) {
        let mut best = Vec::new();
        let mut at = tip.hash;
        while at != BlockHash::ZERO {
            best.push(at);
            at = self.known[&at].previous;
        }
        best.reverse();
        self.best = best;
    }
}

/// A failure that passes.
pub(crate) fn refused() -> Error {
    Error::Unreachable {
        node: "script".into(),
        reason: "refused".into(),
    }
}

impl BlockSource for Scripted {
    fn genesis(&self) -> Result<BlockHash> {
        self.act(Call::Genesis)?;
        Ok(self.genesis_hash())
    }

    fn tip(&self) -> Result<Option<BlockId>> {
        Ok(match self.act(Call::Tip)? {
            Act::Tip(tip) => tip,
            _ if self.sees_final_only() => self.final_tip()?,
            _ => Some(self.best()),
        })
    }

    fn final_tip(&self) -> Result<Option<BlockId>> {
        let not_final = self.state().not_final;
        Ok(not_final.map(|depth| self.below_tip(depth)))
    }

    fn sees_final_only(&self) -> bool {
        self.state().final_only
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>> {
        self.act(Call::HashAt(height))?;
        Ok(self.state().best.get(height.get() as usize).copied())
    }

    fn blocks(
        &self,
        range: HeightRange,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        for height in range.iter() {
            let act = self.act(Call::Lend(height))?;
            let bytes = {
                let state = self.state();
                let Some(hash) = state.best.get(height.get() as usize) else {
                    return Err(Error::AboveTip { height });
                };
                Arc::clone(&state.known[hash].bytes)
            };
            let flow = match &act {
                Act::Bytes(bytes) => visit(height, RawBlock::Whole(bytes)),
                Act::Height(other) => visit(*other, RawBlock::Whole(&bytes)),
                _ => visit(height, RawBlock::Whole(&bytes)),
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn block(&self, hash: BlockHash, visit: &mut dyn FnMut(RawBlock<'_>)) -> Result<bool> {
        let act = self.act(Call::Block(hash))?;
        let bytes = self
            .state()
            .known
            .get(&hash)
            .map(|known| Arc::clone(&known.bytes));
        match (act, bytes) {
            (_, None) => return Ok(false),
            (Act::Bytes(bytes), _) => visit(RawBlock::Whole(&bytes)),
            (_, Some(bytes)) => visit(RawBlock::Whole(&bytes)),
        }
        Ok(true)
    }

    fn tree_sizes(&self, hash: BlockHash) -> Result<Option<TreeSizes>> {
        let act = self.act(Call::TreeSizes)?;
        let known = self.state().known.get(&hash).map(|known| known.sizes);
        Ok(match act {
            Act::Sizes(sizes) => Some(sizes),
            Act::OneNoteMore => known.map(|sizes| TreeSizes {
                sapling: sizes.sapling + 1,
                ..sizes
            }),
            _ => known,
        })
    }

    fn wait(&self, seen: Option<BlockId>, patience: Duration) -> Result<()> {
        self.act(Call::Wait)?;
        let seen = seen.map(|id| id.hash);
        let state = self.state();
        let _moved = self
            .moved
            .wait_timeout_while(state, patience, |state| state.best.last().copied() == seen)
            .unwrap();
        Ok(())
    }
}
