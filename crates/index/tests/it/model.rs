//! Any order of steps, held against a model: a list of blocks and a map from hashes to heights.

use std::{path::Path, sync::Arc};

use lightship_chain::{BlockHash, TreeSizes, compact::EncodedBlock};
use lightship_index::{Reader, View, Writer, testing::TestChain};
use proptest::{collection::vec, prelude::*};

use crate::{
    chains::{assert_holds, build, height},
    disk::MemoryDisk,
};

const DIR: &str = "/store";

/// A step; numbers are taken modulo what makes sense when it is their turn.
#[derive(Clone, Copy, Debug)]
enum Step {
    Append(u8),
    Commit,
    Keep(u16),
    Seal(u16),
    Bulk(u8),
    Reopen,
    Hold,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..40u8).prop_map(Step::Append),
        4 => Just(Step::Commit),
        2 => any::<u16>().prop_map(Step::Keep),
        2 => any::<u16>().prop_map(Step::Seal),
        1 => (1..4u8).prop_map(Step::Bulk),
        1 => Just(Step::Reopen),
        2 => Just(Step::Hold),
    ]
}

/// The chain as it should be.
#[derive(Default)]
struct Model {
    /// Head included.
    blocks: Vec<EncodedBlock>,
    durable: usize,
    branch: u64,
}

impl Model {
    fn next(&self, count: u32) -> Vec<EncodedBlock> {
        let mut chain = match self.blocks.last() {
            Some(last) => TestChain::after(last.id, last.sizes, 10 + self.branch),
            None => TestChain::new(1),
        };
        chain.take_blocks(count)
    }
}

fn run(range_blocks: u32, steps: &[Step]) {
    let disk = Arc::new(MemoryDisk::new());
    let store = TestChain::new(1).store(range_blocks);
    let open = || Writer::open_on(Arc::clone(&disk) as _, Path::new(DIR), store).unwrap();
    let mut writer = open();
    let mut model = Model::default();
    let mut held: Vec<(Arc<View>, Vec<EncodedBlock>)> = Vec::new();
    let mut dropped: Vec<BlockHash> = Vec::new();
    for step in steps {
        match *step {
            Step::Append(count) => {
                for block in model.next(count.into()) {
                    model.blocks.push(block.clone());
                    writer.append(block).unwrap();
                }
            }
            Step::Commit => {
                writer.commit().unwrap();
                model.durable = model.blocks.len();
            }
            Step::Keep(keep) => {
                let keep = usize::from(keep) % (model.blocks.len() + 1);
                let keep_height = keep.checked_sub(1).map(|last| height(last as u32));
                let truncated = writer.truncate_above(keep_height).unwrap();
                assert_eq!(truncated.blocks as usize, model.blocks.len() - keep);
                dropped.extend(model.blocks.drain(keep..).map(|block| block.id.hash));
                model.durable = model.durable.min(keep);
                model.branch += 1;
            }
            Step::Seal(through) => {
                let through = u32::from(through) % (model.durable as u32 + 1);
                writer.seal_through(height(through)).unwrap();
            }
            Step::Bulk(ranges) => {
                let sealed = writer.reader().view().sealed_through();
                let sealed = sealed.map_or(0, |last| last.get() as usize + 1);
                if sealed != model.blocks.len() {
                    continue;
                }
                for _ in 0..ranges {
                    let before = model
                        .blocks
                        .last()
                        .map_or(TreeSizes::ZERO, |block| block.sizes);
                    let blocks = model.next(range_blocks);
                    let range = build(&writer, before, &blocks);
                    writer.seal(range).unwrap();
                    model.blocks.extend(blocks);
                    model.durable = model.blocks.len();
                }
            }
            Step::Reopen => {
                drop(writer);
                writer = open();
                model.blocks.truncate(model.durable);
            }
            Step::Hold => {
                let view = writer.reader().view();
                held.push((view, model.blocks[..model.durable].to_vec()));
            }
        }
        assert_eq!(writer.tip(), model.blocks.last().map(|block| block.id));
        let view = writer.reader().view();
        let durable = model.blocks[..model.durable].last().map(|block| block.id);
        assert_eq!(view.tip(), durable);
        for hash in &dropped {
            let durable = &model.blocks[..model.durable];
            let expected = durable.iter().find(|block| block.id.hash == *hash);
            assert_eq!(view.height_of(hash), expected.map(|block| block.id.height));
        }
    }
    assert_holds(&writer.reader().view(), &model.blocks[..model.durable]);
    for (view, blocks) in &held {
        assert_holds(view, blocks);
    }
    let reader = Reader::open_on(disk, Path::new(DIR)).unwrap();
    assert_holds(&reader.view(), &model.blocks[..model.durable]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_steps_agrees_with_the_model(
        range_blocks in 1..20u32,
        steps in vec(step(), 1..40),
    ) {
        run(range_blocks, &steps);
    }
}
