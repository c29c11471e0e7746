//! The simulated node as a [`BlockSource`], without a transport in between.

use std::{
    ops::ControlFlow,
    sync::PoisonError,
    time::{Duration, Instant},
};

use lightship_chain::{BlockHash, BlockId, Height, HeightRange, RawBlock, ShieldedPool, TreeSizes};

use super::{SimulatedNode, faults::NAME};
use crate::{BlockSource, Error, Result, SubtreeRoot, TreeState};

impl BlockSource for SimulatedNode {
    fn genesis(&self) -> Result<BlockHash> {
        self.faults().strike_blocking("getblockhash")?;
        let chain = self.chain();
        let genesis = chain.at(Height::GENESIS).ok_or_else(|| Error::Warming {
            node: NAME.to_owned(),
            message: "no blocks in state".to_owned(),
        })?;
        Ok(genesis.id.hash)
    }

    fn tip(&self) -> Result<Option<BlockId>> {
        self.faults().strike_blocking("getbestblockheightandhash")?;
        Ok(self.chain().tip().map(|tip| tip.id))
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>> {
        self.faults().strike_blocking("getblockhash")?;
        Ok(self.chain().at(height).map(|block| block.id.hash))
    }

    fn blocks(
        &self,
        range: HeightRange,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        for height in range.iter() {
            self.faults().strike_blocking("getblock")?;
            let block = self.chain().at(height);
            let block = block.ok_or(Error::AboveTip { height })?;
            if visit(height, RawBlock::Whole(&block.bytes)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn block(&self, hash: BlockHash, visit: &mut dyn FnMut(RawBlock<'_>)) -> Result<bool> {
        self.faults().strike_blocking("getblock")?;
        let block = self.chain().by_hash(&hash);
        if let Some(block) = &block {
            visit(RawBlock::Whole(&block.bytes));
        }
        Ok(block.is_some())
    }

    fn tree_sizes(&self, hash: BlockHash) -> Result<Option<TreeSizes>> {
        self.faults().strike_blocking("getblock")?;
        Ok(self.chain().by_hash(&hash).map(|block| block.sizes))
    }

    fn tree_state(&self, hash: BlockHash) -> Result<Option<TreeState>> {
        self.faults().strike_blocking("z_gettreestate")?;
        Ok(self.chain().tree_state(hash))
    }

    fn subtree_roots(
        &self,
        pool: ShieldedPool,
        start: u32,
        limit: u32,
    ) -> Result<Vec<SubtreeRoot>> {
        self.faults().strike_blocking("z_getsubtreesbyindex")?;
        Ok(self.chain().subtrees_from(pool, start, Some(limit)))
    }

    fn wait(&self, seen: Option<BlockId>, patience: Duration) -> Result<()> {
        self.faults().strike_blocking("getbestblockheightandhash")?;
        let end = Instant::now() + patience;
        let mut changes = self.changes();
        while self.chain().tip().map(|tip| tip.id) == seen {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (changes, _) = self
                .shared
                .moved
                .wait_timeout(changes, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}
