//! The trees of a store against trees that are appended to note by note.

use std::{num::NonZeroUsize, path::Path, sync::Arc};

use lightship_chain::{
    BlockId, Height, Network, RawBlock, ShieldedPool, TreeSizes,
    compact::{EncodedBlock, compact, project},
    tree::{Frontier, SUBTREE_LEVEL, TreeHash, TreeNode},
};
use lightship_index::{
    ReplacedTrees, StoreId, Trees, View, Writer, testing::TestChain, verify_trees,
};
use lightship_merkle::Consensus;
use proptest::prelude::*;
use serde_json::Value;

/// Quick, and nobody's.
pub(crate) struct Quick;

impl TreeHash for Quick {
    fn combine(
        &self,
        pool: ShieldedPool,
        level: u8,
        left: &TreeNode,
        right: &TreeNode,
    ) -> TreeNode {
        let hash = blake2b_simd::Params::new()
            .hash_length(32)
            .to_state()
            .update(&[pool as u8, level])
            .update(left)
            .update(right)
            .finalize();
        *hash.as_bytes().first_chunk().unwrap()
    }
}

fn open(dir: &Path, hash: impl TreeHash + 'static) -> Trees {
    Trees::open(dir, Arc::new(hash), NonZeroUsize::new(2).unwrap())
}

/// The trees at the end of each block of a chain, note by note.
fn model(blocks: &[EncodedBlock], hash: &dyn TreeHash) -> Vec<[Frontier; 3]> {
    model_of_frames(blocks.iter().map(|block| &block.frame[..]), hash)
}

/// The same of what a view holds.
pub(crate) fn model_of(view: &View) -> Vec<[Frontier; 3]> {
    let blocks = view.tip().map_or(0, |tip| tip.height.get() + 1);
    let block = |height| view.block(Height::new(height)).unwrap().unwrap();
    let frames: Vec<_> = (0..blocks).map(|height| block(height).frame).collect();
    model_of_frames(frames.iter().map(|frame| &frame[..]), &Quick)
}

fn model_of_frames<'a>(
    frames: impl Iterator<Item = &'a [u8]>,
    hash: &dyn TreeHash,
) -> Vec<[Frontier; 3]> {
    let mut trees: [Frontier; 3] = Default::default();
    let append = |frame: &[u8]| {
        for pool in ShieldedPool::ALL {
            let mut notes = Vec::new();
            project::notes(&frame[5..], pool, &mut notes).unwrap();
            for note in notes {
                trees[pool as usize].append(hash, pool, note).unwrap();
            }
        }
        trees.clone()
    };
    frames.map(append).collect()
}

/// Grows the trees by at most `steps`, as if the node said the same each time.
fn grow(trees: &Trees, view: &Arc<View>, steps: usize) {
    for _ in 0..steps {
        let Some(growth) = trees.next(view).unwrap() else {
            return;
        };
        growth.accept([Some(Height::GENESIS); 3]).unwrap();
    }
}

/// Whatever height the trees reach, they are those of the model.
pub(crate) fn check(trees: &Trees, view: &View, model: &[[Frontier; 3]]) -> usize {
    let mut reached = 0;
    for (height, expected) in (0..).zip(model) {
        let Some(found) = trees.at(view, Height::new(height)).unwrap() else {
            continue;
        };
        assert_eq!(found, expected.clone().map(Some), "height {height}");
        reached += 1;
    }
    reached
}

#[derive(Clone, Debug)]
enum Step {
    Append(u32),
    Truncate(u32),
    Seal(u32),
    Grow(usize),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..40_u32).prop_map(Step::Append),
        2 => (0..60_u32).prop_map(Step::Truncate),
        2 => (0..40_u32).prop_map(Step::Seal),
        4 => (1..4_usize).prop_map(Step::Grow),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_order_of_steps_gives_the_trees_of_the_model(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let id = TestChain::new(0).store(8);
        let mut writer = Writer::open(dir.path(), id).unwrap();
        let mut trees = open(dir.path(), Quick);
        let mut chain = TestChain::new(0);
        let mut blocks: Vec<EncodedBlock> = Vec::new();
        let mut gone: Vec<(EncodedBlock, [Frontier; 3])> = Vec::new();
        for (branch, step) in (1..).zip(steps) {
            match step {
                Step::Append(count) => {
                    for block in chain.take_blocks(count) {
                        writer.append(block.clone()).unwrap();
                        blocks.push(block);
                    }
                    writer.commit().unwrap();
                }
                Step::Truncate(count) => {
                    gone.extend(blocks.iter().cloned().zip(model(&blocks, &Quick)));
                    blocks.truncate(blocks.len().saturating_sub(count as usize).max(1));
                    let Some(tip) = blocks.last() else { continue };
                    writer.truncate_above(Some(tip.id.height)).unwrap();
                    chain = TestChain::after(tip.id, tip.sizes, branch);
                }
                Step::Seal(depth) => {
                    if let Some(height) = (blocks.len() as u32).checked_sub(1 + depth) {
                        writer.seal_through(Height::new(height)).unwrap();
                    }
                }
                Step::Grow(steps) => grow(&trees, &writer.reader().view(), steps),
                Step::Restart => {
                    drop(writer);
                    writer = Writer::open(dir.path(), id).unwrap();
                    trees = open(dir.path(), Quick);
                }
            }
            check(&trees, &writer.reader().view(), &model(&blocks, &Quick));
            for (block, expected) in &gone {
                if let Some(found) = trees.replaced(&block.id.hash) {
                    prop_assert_eq!(found.id, block.id);
                    prop_assert_eq!(&found.trees, &expected.clone().map(Some));
                }
            }
        }
        let view = writer.reader().view();
        grow(&trees, &view, usize::MAX);
        let model = model(&blocks, &Quick);
        prop_assert_eq!(check(&trees, &view, &model), blocks.len());
        let again = open(dir.path(), Quick);
        grow(&again, &view, usize::MAX);
        prop_assert_eq!(check(&again, &view, &model), blocks.len());
    }
}

/// A store of `count` test blocks, all but the last few sealed, and its trees.
fn store(dir: &Path, count: u32) -> (Vec<EncodedBlock>, Writer, Trees) {
    let blocks = TestChain::new(0).take_blocks(count);
    let mut writer = Writer::open(dir, TestChain::new(0).store(16)).unwrap();
    for block in &blocks {
        writer.append(block.clone()).unwrap();
    }
    writer.commit().unwrap();
    writer.seal_through(Height::new(count - 10)).unwrap();
    let trees = open(dir, Quick);
    grow(&trees, &writer.reader().view(), usize::MAX);
    (blocks, writer, trees)
}

#[test]
fn nothing_is_read_before_it_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let (blocks, writer, _) = store(dir.path(), 60);
    let view = writer.reader().view();
    let fresh = tempfile::tempdir().unwrap();
    let trees = open(fresh.path(), Quick);
    let growth = trees.next(&view).unwrap().unwrap();
    assert_eq!(growth.first(), Height::GENESIS);
    assert_eq!(growth.through().height, Height::new(15));
    let expected = &model(&blocks, &Quick)[15];
    for pool in ShieldedPool::ALL {
        assert_eq!(growth.frontier(pool).unwrap(), expected[pool as usize]);
    }
    drop(growth);
    assert_eq!(trees.through(), None);
    assert!(trees.at(&view, Height::GENESIS).unwrap().is_none());
    assert!(!fresh.path().join("trees").exists(), "no file either");
}

#[test]
fn the_trees_of_replaced_blocks_are_remembered_until_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (blocks, mut writer, trees) = store(dir.path(), 60);
    let expected = model(&blocks, &Quick);
    let remembered = |trees: &Trees| -> Vec<usize> {
        let known = |height: &usize| trees.replaced(&blocks[*height].id.hash);
        let found: Vec<usize> = (0..60).filter(|height| known(height).is_some()).collect();
        for height in &found {
            let ReplacedTrees { id, time, trees } = &*known(height).unwrap();
            assert_eq!((*id, *time), (blocks[*height].id, blocks[*height].time));
            assert_eq!(*trees, expected[*height].clone().map(Some), "{height}");
        }
        found
    };
    // Without a block in their place.
    writer.truncate_above(Some(Height::new(57))).unwrap();
    grow(&trees, &writer.reader().view(), usize::MAX);
    assert_eq!(remembered(&trees), [58, 59]);
    // Twice before the trees have grown again, and then by others.
    writer.truncate_above(Some(Height::new(55))).unwrap();
    assert!(trees.next(&writer.reader().view()).unwrap().is_none());
    writer.truncate_above(Some(Height::new(53))).unwrap();
    let mut other = TestChain::after(blocks[53].id, blocks[53].sizes, 1);
    for block in other.take_blocks(9) {
        writer.append(block).unwrap();
    }
    writer.commit().unwrap();
    grow(&trees, &writer.reader().view(), usize::MAX);
    assert_eq!(remembered(&trees), [54, 55, 56, 57, 58, 59]);
    let again = open(dir.path(), Quick);
    again.take_up(&writer.reader().view()).unwrap();
    assert_eq!(remembered(&again), [0; 0]);
}

#[test]
fn a_pool_has_no_tree_before_it_is_active() {
    let dir = tempfile::tempdir().unwrap();
    let (_, writer, _) = store(dir.path(), 60);
    let view = writer.reader().view();
    let active = [Some(Height::new(3)), Some(Height::new(20)), None];
    let fresh = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let trees = open(fresh.path(), Quick);
        while let Some(growth) = trees.next(&view).unwrap() {
            let last = growth.through().height;
            let by_then = active.map(|height| height.filter(|height| *height <= last));
            growth.accept(by_then).unwrap();
        }
        for height in 0..60 {
            let found = trees.at(&view, Height::new(height)).unwrap().unwrap();
            let is_active = found.map(|tree| tree.is_some());
            assert_eq!(is_active, [height >= 3, height >= 20, false], "{height}");
        }
    }
}

#[test]
fn a_damaged_file_is_an_error_or_made_anew_and_never_believed() {
    let dir = tempfile::tempdir().unwrap();
    let (blocks, writer, trees) = store(dir.path(), 60);
    drop(trees);
    let view = writer.reader().view();
    let model = model(&blocks, &Quick);
    let mut files: Vec<_> = std::fs::read_dir(dir.path().join("trees"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some("trees".as_ref()))
        .collect();
    files.sort();
    assert_eq!(files.len(), 3, "three ranges of sixteen blocks");
    let whole = std::fs::read(&files[1]).unwrap();
    for byte in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[byte] ^= 1;
        // Another file in its place: what a process has mapped is not changed under it.
        std::fs::remove_file(&files[1]).unwrap();
        std::fs::write(&files[1], damaged).unwrap();
        let mut found = 0;
        let verified = verify_trees(dir.path(), &Quick, NonZeroUsize::MIN, &mut |_| found += 1);
        assert_eq!(verified.unwrap().findings, 1, "byte {byte}");
        assert_eq!(found, 1, "byte {byte}");
        let trees = open(dir.path(), Quick);
        let grown = (0..9).try_for_each(|_| match trees.next(&view)? {
            Some(growth) => growth.accept([Some(Height::GENESIS); 3]),
            None => Ok(()),
        });
        let mut errors = u32::from(grown.is_err());
        for (height, expected) in (0..).zip(&model) {
            match trees.at(&view, Height::new(height)) {
                Ok(Some(found)) => assert_eq!(found, expected.clone().map(Some), "byte {byte}"),
                Ok(None) => {}
                Err(_) => errors += 1,
            }
        }
        assert!(errors <= 1, "byte {byte}: it is forgotten when it is found");
        grow(&trees, &view, usize::MAX);
        assert_eq!(check(&trees, &view, &model), 60, "byte {byte}: made anew");
    }
    std::fs::remove_file(&files[1]).unwrap();
    std::fs::write(&files[1], whole).unwrap();
    let mut report = |error: &_| panic!("{error}");
    let found = verify_trees(dir.path(), &Quick, NonZeroUsize::MIN, &mut report).unwrap();
    let sizes = blocks[47].sizes;
    let notes = u64::from(sizes.sapling + sizes.orchard + sizes.ironwood);
    assert_eq!((found.notes, found.compared, found.ranges), (notes, 3, 3));
    // Still growing is no fault, a gap is.
    std::fs::remove_file(&files[2]).unwrap();
    let found = verify_trees(dir.path(), &Quick, NonZeroUsize::MIN, &mut report).unwrap();
    assert_eq!((found.compared, found.ranges), (2, 3));
    std::fs::remove_file(&files[0]).unwrap();
    let found = verify_trees(dir.path(), &Quick, NonZeroUsize::MIN, &mut |_| {}).unwrap();
    assert_eq!((found.compared, found.findings), (0, 1));
}

#[test]
fn what_was_accepted_is_there_after_a_restart_and_what_was_not_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (blocks, mut writer, trees) = store(dir.path(), 60);
    let all = model(&blocks, &Quick);
    let accepted = writer.tip();
    drop(trees);
    let mut chain = TestChain::after(blocks[59].id, blocks[59].sizes, 0);
    writer.append(chain.next_block()).unwrap();
    writer.commit().unwrap();
    let view = writer.reader().view();
    let trees = open(dir.path(), Quick);
    trees.take_up(&view).unwrap();
    assert_eq!(trees.through(), accepted, "not the block that came after");
    assert_eq!(check(&trees, &view, &all), 60);
    // Made with another hash it does not come out the same.
    let other = open(dir.path(), Consensus);
    other.take_up(&view).unwrap();
    assert_eq!(other.through().map(|tip| tip.height), Some(Height::new(47)));
    // Neither does a mark that says something else, be it damaged or forged.
    let mark = dir.path().join("trees/accepted");
    let whole = std::fs::read(&mark).unwrap();
    for byte in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[byte] ^= 1;
        std::fs::remove_file(&mark).unwrap();
        std::fs::write(&mark, damaged).unwrap();
        let trees = open(dir.path(), Quick);
        trees.take_up(&view).unwrap();
        assert_eq!(trees.through().map(|tip| tip.height), Some(Height::new(47)));
    }
    std::fs::write(&mark, &whole).unwrap();
    // The block is replaced by another of the same height.
    writer.truncate_above(Some(Height::new(57))).unwrap();
    let mut chain = TestChain::after(blocks[57].id, blocks[57].sizes, 5);
    for block in chain.take_blocks(4) {
        writer.append(block).unwrap();
    }
    writer.commit().unwrap();
    let view = writer.reader().view();
    let trees = open(dir.path(), Quick);
    trees.take_up(&view).unwrap();
    assert_eq!(trees.through().map(|tip| tip.height), Some(Height::new(47)));
    grow(&trees, &view, usize::MAX);
    assert_eq!(trees.through(), writer.tip());
}

#[test]
fn a_file_that_is_cut_or_grown_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (_, writer, trees) = store(dir.path(), 60);
    drop(trees);
    let view = writer.reader().view();
    let model = model_of(&view);
    let file = std::fs::read_dir(dir.path().join("trees"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension() == Some("trees".as_ref()))
        .max()
        .unwrap();
    let whole = std::fs::read(&file).unwrap();
    let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
    let grown = [1, 36, whole.len()].map(|more| [&whole[..], &whole[..more]].concat());
    for bytes in cut.chain(grown) {
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, &bytes).unwrap();
        let trees = open(dir.path(), Quick);
        grow(&trees, &view, usize::MAX);
        assert_eq!(check(&trees, &view, &model), 60, "{} bytes", bytes.len());
        assert_eq!(std::fs::read(&file).unwrap(), whole);
    }
}

#[test]
fn files_of_ranges_that_are_no_more_are_cleared_away_and_others_are_left() {
    let dir = tempfile::tempdir().unwrap();
    let (_, mut writer, trees) = store(dir.path(), 60);
    let folder = dir.path().join("trees");
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let whole = names();
    assert_eq!(whole.len(), 4, "{whole:?}");
    std::fs::write(folder.join(format!("{}.new", whole[2])), b"torn").unwrap();
    std::fs::write(folder.join("notes.txt"), b"an operator's").unwrap();
    drop(trees);
    // Below the second range, with nobody there who has its trees.
    writer.truncate_above(Some(Height::new(20))).unwrap();
    drop(writer);
    drop(Writer::open(dir.path(), TestChain::new(0).store(16)).unwrap());
    assert_eq!(names(), [&whole[0], "accepted", "notes.txt"]);
}

/// A block that adds `notes` to the Orchard tree, after `parent`.
fn large_block(parent: Option<&EncodedBlock>, notes: u32) -> EncodedBlock {
    let mut chain = match parent {
        Some(parent) => TestChain::after(parent.id, parent.sizes, 0),
        None => TestChain::new(0),
    };
    chain.next_block_of(TreeSizes {
        sapling: 0,
        orchard: notes,
        ironwood: 0,
    })
}

#[test]
fn subtree_roots_come_with_the_block_that_completes_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut blocks: Vec<EncodedBlock> = Vec::new();
    for notes in [0, 65_535, 0, 1, 0, 65_536 + 7, 65_529 + 65_536, 0, 3] {
        blocks.push(large_block(blocks.last(), notes));
    }
    let id = StoreId {
        network: Network::Regtest,
        genesis: blocks[0].id.hash,
        range_blocks: 4.try_into().unwrap(),
    };
    let mut writer = Writer::open(dir.path(), id).unwrap();
    for block in &blocks {
        writer.append(block.clone()).unwrap();
    }
    writer.commit().unwrap();
    writer.seal_through(Height::new(3)).unwrap();
    let view = writer.reader().view();
    let trees = open(dir.path(), Quick);
    let pool = ShieldedPool::Orchard;
    assert_eq!(trees.subtrees(&view, pool, 0, 9).unwrap(), None, "not yet");
    assert_eq!(
        trees.subtrees(&view, pool, 4, 9).unwrap(),
        Some(Vec::new()),
        "none, whoever is asked"
    );
    grow(&trees, &view, usize::MAX);
    let model = model(&blocks, &Quick);
    assert_eq!(check(&trees, &view, &model), blocks.len());
    let roots = trees.subtrees(&view, pool, 0, u32::MAX).unwrap().unwrap();
    let heights: Vec<u32> = roots.iter().map(|(_, height)| height.get()).collect();
    assert_eq!(heights, [3, 5, 6, 6]);
    let ommers = model[3][pool as usize].ommers(&Quick, pool);
    assert_eq!(ommers[usize::from(SUBTREE_LEVEL)], Some(roots[0].0));
    let pair = Quick.combine(pool, SUBTREE_LEVEL, &roots[0].0, &roots[1].0);
    let ommers = model[5][pool as usize].ommers(&Quick, pool);
    assert_eq!(ommers[usize::from(SUBTREE_LEVEL) + 1], Some(pair));
    let two = trees.subtrees(&view, pool, 1, 2).unwrap().unwrap();
    assert_eq!(two, roots[1..3]);
}

/// Lines of one of the recorded files; `None`, loudly, where there are none.
fn recorded(file: &str) -> Option<Vec<Value>> {
    let Some(folder) = std::env::var_os("LIGHTSHIP_SHARED") else {
        eprintln!("LIGHTSHIP_SHARED is not set: recorded trees are not compared");
        return None;
    };
    let file = std::fs::File::open(Path::new(&folder).join("data").join(file)).unwrap();
    let text = std::io::read_to_string(flate2::read::GzDecoder::new(file)).unwrap();
    Some(
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

fn state(line: &Value, pool: ShieldedPool) -> Frontier {
    let text = line[format!("{pool}_state")].as_str().unwrap();
    Frontier::from_bytes(&const_hex::decode(text).unwrap()).unwrap()
}

#[test]
fn a_regtest_chain_has_the_trees_that_its_node_had() {
    let Some(raw) = recorded("blocks/regtest_zaino_0_200.jsonl.gz") else {
        return;
    };
    let states = recorded("trees/regtest_zaino_0_200.jsonl.gz").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut sizes = TreeSizes::ZERO;
    let mut writer: Option<Writer> = None;
    let mut tip: Option<BlockId> = None;
    for (height, line) in (0..).zip(&raw) {
        let bytes = const_hex::decode(line["raw"].as_str().unwrap()).unwrap();
        let block = compact(Height::new(height), RawBlock::Whole(&bytes)).unwrap();
        let block = block.after(sizes).unwrap();
        sizes = block.sizes;
        tip = Some(block.id);
        let writer = writer.get_or_insert_with(|| {
            let id = StoreId {
                network: Network::Regtest,
                genesis: block.id.hash,
                range_blocks: 64.try_into().unwrap(),
            };
            Writer::open(dir.path(), id).unwrap()
        });
        writer.append(block).unwrap();
    }
    let mut writer = writer.unwrap();
    writer.commit().unwrap();
    writer.seal_through(Height::new(150)).unwrap();
    let view = writer.reader().view();
    let trees = open(dir.path(), Consensus);
    grow(&trees, &view, usize::MAX);
    assert_eq!(trees.through(), tip);
    for line in &states {
        let height = Height::new(u32::try_from(line["height"].as_u64().unwrap()).unwrap());
        let found = trees.at(&view, height).unwrap().unwrap();
        for pool in [ShieldedPool::Sapling, ShieldedPool::Orchard] {
            let found = found[pool as usize].as_ref().unwrap();
            assert_eq!(*found, state(line, pool), "{pool} at {height}");
            let mut root = found.root(&Consensus, pool);
            if pool == ShieldedPool::Sapling {
                root.reverse();
            }
            let expected = line[format!("{pool}_root")].as_str().unwrap();
            assert_eq!(const_hex::encode(root), expected, "{pool} at {height}");
        }
    }
    assert_eq!(states.len(), raw.len());
}
