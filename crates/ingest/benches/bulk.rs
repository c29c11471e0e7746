//! Building an index from blocks in memory: what is left when the node costs nothing.
//!
//! Run with `cargo bench -p lightship-ingest`. The timed part opens a store in a fresh temporary folder (syncs included) and runs to the
//! tip: lend, parse, compact, order, link, count, write, seal. Making the chain is not in it. The counters are blocks and consensus
//! bytes; the tip is compared at the end of each sample, so that a fast wrong build shows.
//!
//! `small`: 20,000 blocks of one coinbase with a Sapling output. `large`: 400 blocks of 200 Orchard actions.

#![allow(clippy::unwrap_used, reason = "a benchmark fails like a test")]

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    ops::ControlFlow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use divan::{
    Bencher,
    counter::{BytesCount, ItemsCount},
};
use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, Network, RawBlock, TreeSizes, Upgrade,
    build::{Activations, ChainBuilder, Coinbase, Recipe},
};
use lightship_index::{StoreId, Writer};
use lightship_ingest::{Progress, Settings, Stop, Until, run};
use lightship_source::{BlockSource, Error, Result};

fn main() {
    divan::main();
}

const WORKERS: [usize; 3] = [1, 2, 4];

#[divan::bench(args = WORKERS, sample_count = 5, sample_size = 1)]
fn small(bencher: Bencher<'_, '_>, workers: usize) {
    static CHAIN: OnceLock<Arc<InMemory>> = OnceLock::new();
    build(
        bencher,
        workers,
        CHAIN.get_or_init(|| InMemory::new(20_000, 0)),
    );
}

#[divan::bench(args = WORKERS, sample_count = 5, sample_size = 1)]
fn large(bencher: Bencher<'_, '_>, workers: usize) {
    static CHAIN: OnceLock<Arc<InMemory>> = OnceLock::new();
    build(
        bencher,
        workers,
        CHAIN.get_or_init(|| InMemory::new(400, 200)),
    );
}

fn build(bencher: Bencher<'_, '_>, workers: usize, source: &Arc<InMemory>) {
    let settings = Settings {
        workers: NonZeroUsize::new(workers).unwrap(),
        seal_depth_blocks: 100,
        until: Until::Tip,
        ..Settings::default()
    };
    bencher
        .counter(ItemsCount::new(source.blocks.len()))
        .counter(BytesCount::new(source.bytes()))
        .with_inputs(|| tempfile::tempdir().unwrap())
        .bench_refs(|dir| {
            let id = StoreId::new(Network::Regtest, source.blocks[0].0.hash);
            let writer = Writer::open(dir.path(), id).unwrap();
            let reader = writer.reader();
            let progress = Arc::new(Progress::new());
            let source = Arc::clone(source);
            let tip = source.tip().unwrap();
            run(source, writer, settings.clone(), progress, &Stop::new()).unwrap();
            assert_eq!(reader.view().tip(), tip);
        });
}

struct InMemory {
    blocks: Vec<(BlockId, Vec<u8>)>,
    heights: HashMap<BlockHash, usize>,
}

impl InMemory {
    fn new(blocks: usize, actions: usize) -> Arc<InMemory> {
        let mut chain = ChainBuilder::new(7, Activations::all_at(Upgrade::Nu5, 1));
        let blocks: Vec<_> = (0..blocks)
            .map(|height| {
                let coinbase = Coinbase {
                    sapling_outputs: usize::from(height > 0),
                    ..Coinbase::default()
                };
                let transactions: Vec<_> = (height > 0 && actions > 0)
                    .then(|| {
                        let recipe = Recipe::new(chain.newest_version()).with_orchard(actions);
                        chain.transaction(recipe).unwrap()
                    })
                    .into_iter()
                    .collect();
                let block = chain.next_block(coinbase, &transactions).unwrap();
                (block.id, block.bytes)
            })
            .collect();
        let heights = blocks.iter().enumerate();
        Arc::new(InMemory {
            heights: heights.map(|(height, (id, _))| (id.hash, height)).collect(),
            blocks,
        })
    }

    fn bytes(&self) -> usize {
        self.blocks.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

impl BlockSource for InMemory {
    fn genesis(&self) -> Result<BlockHash> {
        Ok(self.blocks[0].0.hash)
    }

    fn tip(&self) -> Result<Option<BlockId>> {
        Ok(self.blocks.last().map(|(id, _)| *id))
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>> {
        let block = self.blocks.get(height.get() as usize);
        Ok(block.map(|(id, _)| id.hash))
    }

    fn blocks(
        &self,
        range: HeightRange,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        for height in range.iter() {
            let (_, bytes) = &self.blocks[height.get() as usize];
            if visit(height, RawBlock::Whole(bytes)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn block(&self, hash: BlockHash, visit: &mut dyn FnMut(RawBlock<'_>)) -> Result<bool> {
        let Some(height) = self.heights.get(&hash) else {
            return Ok(false);
        };
        visit(RawBlock::Whole(&self.blocks[*height].1));
        Ok(true)
    }

    fn tree_sizes(&self, _: BlockHash) -> Result<Option<TreeSizes>> {
        Err(Error::Unsupported {
            what: "only blocks are in memory".into(),
        })
    }

    fn wait(&self, _: Option<BlockId>, patience: Duration) -> Result<()> {
        std::thread::sleep(patience);
        Ok(())
    }
}
