//! What a store answers, on the files of this machine.

use std::{path::Path, time::Duration};

use lightship_chain::{BlockHash, Height, TreeSizes};
use lightship_index::{Error, Reader, Truncated, Writer, testing::TestChain};

use crate::chains::{assert_holds, build, height, heights, write};

#[test]
fn what_was_committed_is_read_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let store = chain.store(16);
    let blocks = chain.take_blocks(100);
    let mut writer = Writer::open(dir.path(), store).unwrap();
    let reader = writer.reader();
    assert_holds(&reader.view(), &[]);
    write(&mut writer, &blocks, 7);
    assert_holds(&reader.view(), &blocks);
    assert_eq!(writer.seal_through(height(70)).unwrap(), 4);
    assert_eq!(reader.view().sealed_through(), Some(height(63)));
    assert_holds(&reader.view(), &blocks);
    drop(writer);
    let beside = Reader::open(dir.path()).unwrap();
    assert_holds(&beside.view(), &blocks);
    let writer = Writer::open(dir.path(), store).unwrap();
    assert_holds(&writer.reader().view(), &blocks);
    assert_eq!(writer.tip(), blocks.last().map(|block| block.id));
}

#[test]
#[cfg(target_os = "linux")]
fn what_lies_in_memory_and_was_checked_is_at_hand() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let store = chain.store(16);
    let blocks = chain.take_blocks(40);
    let mut writer = Writer::open(dir.path(), store).unwrap();
    write(&mut writer, &blocks, 40);
    writer.seal_through(height(31)).unwrap();
    let view = writer.reader().view();
    let all = heights(3, 39);
    let most = 1 << 20;
    assert_eq!(
        view.at_hand(all, most, false),
        0,
        "nobody has read it, so nothing of it was checked"
    );
    for at in 3..=9 {
        view.block(height(at)).unwrap().unwrap();
    }
    view.frames(heights(10, 12), most)
        .for_each(|piece| drop(piece.unwrap()));
    // 3 to 9 with their companions, 10 to 12 without.
    assert_eq!(view.at_hand(all, most, false), 10);
    assert_eq!(view.at_hand(heights(3, 9), most, true), 7);
    assert_eq!(view.at_hand(heights(3, 5), most, true), 3);
    assert_eq!(view.at_hand(heights(9, 10), most, true), 0);
    assert_eq!(view.at_hand(heights(13, 13), most, false), 0);
    // No more than fits, and nothing of a block that does not.
    let frame = |at: usize| blocks[at].frame.len();
    assert_eq!(view.at_hand(all, frame(3) + frame(4), false), 2);
    assert_eq!(view.at_hand(all, frame(3) + frame(4) - 1, false), 1);
    assert_eq!(view.at_hand(all, frame(3) - 1, false), 0);
    // A look ends where a file does. Records of the tail were checked when they were written or opened.
    view.frames(heights(14, 17), most)
        .for_each(|piece| drop(piece.unwrap()));
    assert_eq!(view.at_hand(heights(14, 17), most, false), 2);
    assert_eq!(view.at_hand(heights(32, 39), most, true), 8);
    assert_eq!(view.at_hand(heights(35, 36), most, true), 2);
    assert_eq!(view.at_hand(heights(35, 36), 1, true), 0);
    assert_eq!(view.at_hand(heights(40, 41), most, false), 0);
}

#[test]
fn the_head_is_not_visible_until_it_is_committed() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let mut writer = Writer::open(dir.path(), chain.store(16)).unwrap();
    let block = chain.next_block();
    writer.append(block.clone()).unwrap();
    assert_eq!(writer.tip(), Some(block.id));
    assert_eq!(writer.hash_at(Height::GENESIS), Some(block.id.hash));
    assert_eq!(writer.reader().view().tip(), None);
    writer.commit().unwrap();
    assert_eq!(writer.reader().view().tip(), Some(block.id));
}

#[test]
fn a_block_that_does_not_follow_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let mut other = TestChain::new(2);
    let mut writer = Writer::open(dir.path(), chain.store(16)).unwrap();
    let refused = writer.append(other.next_block());
    assert!(matches!(refused, Err(Error::Gap { tip: None, .. })));
    writer.append(chain.next_block()).unwrap();
    let refused = writer.append(other.next_block());
    assert!(matches!(refused, Err(Error::Gap { tip: Some(_), .. })));
    chain.next_block();
    let refused = writer.append(chain.next_block());
    assert!(matches!(refused, Err(Error::Gap { .. })));
}

#[test]
fn an_old_view_keeps_its_own_branch_through_a_reorg() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let blocks = chain.take_blocks(40);
    let mut writer = Writer::open(dir.path(), chain.store(16)).unwrap();
    write(&mut writer, &blocks, 40);
    let reader = writer.reader();
    let before = reader.view();
    let truncated = writer.truncate_above(Some(height(29))).unwrap();
    assert_eq!(
        truncated,
        Truncated {
            blocks: 10,
            unsealed_ranges: 0
        }
    );
    assert_holds(&reader.view(), &blocks[..30]);
    let mut fork = TestChain::after(blocks[29].id, blocks[29].sizes, 2);
    let mut replaced = blocks[..30].to_vec();
    replaced.extend(fork.take_blocks(20));
    write(&mut writer, &replaced[30..], 3);
    assert_holds(&reader.view(), &replaced);
    assert_eq!(reader.view().height_of(&blocks[35].id.hash), None);
    assert_eq!(before.height_of(&replaced[35].id.hash), None);
    writer.seal_through(height(49)).unwrap();
    assert_holds(&reader.view(), &replaced);
    assert_holds(&before, &blocks);
    drop(writer);
    assert_holds(&before, &blocks);
    let reader = Reader::open(dir.path()).unwrap();
    assert_holds(&reader.view(), &replaced);
}

#[test]
fn a_rollback_below_the_seal_unseals() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let store = chain.store(16);
    let blocks = chain.take_blocks(70);
    let mut writer = Writer::open(dir.path(), store).unwrap();
    write(&mut writer, &blocks, 10);
    assert_eq!(writer.seal_through(height(63)).unwrap(), 4);
    let before = writer.reader().view();
    let truncated = writer.truncate_above(Some(height(20))).unwrap();
    assert_eq!(truncated.blocks, 49);
    assert_eq!(truncated.unsealed_ranges, 3);
    assert_holds(&writer.reader().view(), &blocks[..21]);
    assert_holds(&before, &blocks);
    drop(writer);
    let mut writer = Writer::open(dir.path(), store).unwrap();
    assert_holds(&writer.reader().view(), &blocks[..21]);
    write(&mut writer, &blocks[21..], 1);
    writer.seal_through(height(69)).unwrap();
    assert_holds(&writer.reader().view(), &blocks);
    writer.truncate_above(None).unwrap();
    assert_holds(&writer.reader().view(), &[]);
    write(&mut writer, &blocks, 70);
    assert_holds(&writer.reader().view(), &blocks);
}

#[test]
fn ranges_built_newest_first_join_when_the_gap_closes() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let store = chain.store(16);
    let blocks = chain.take_blocks(64);
    let mut writer = Writer::open(dir.path(), store).unwrap();
    for first in [48, 32] {
        let range = build(&writer, blocks[first - 1].sizes, &blocks[first..first + 16]);
        assert!(range.is_complete());
        writer.seal(range).unwrap();
    }
    let view = writer.reader().view();
    assert_eq!(view.tip(), None);
    assert_eq!(view.islands(), [heights(32, 63)]);
    assert!(view.covers(height(40)) && !view.covers(height(31)));
    assert_eq!(view.top(), Some(blocks[63].id));
    assert_eq!(view.reach(height(33), height(99)), height(63));
    assert_eq!(view.reach(height(33), height(50)), height(50));
    assert_eq!(
        view.block(height(40)).unwrap().unwrap().frame,
        blocks[40].frame
    );
    write(&mut writer, &blocks[..16], 5);
    writer.seal_through(height(7)).unwrap();
    let view = writer.reader().view();
    assert_eq!(view.top(), Some(blocks[63].id));
    assert_eq!(view.reach(height(3), height(40)), height(15));
    assert_eq!(view.reach(height(63), height(63)), height(63));
    writer.seal_through(height(15)).unwrap();
    let range = build(&writer, blocks[15].sizes, &blocks[16..32]);
    writer.seal(range).unwrap();
    let view = writer.reader().view();
    assert_eq!(view.reach(height(3), height(99)), height(63));
    assert_eq!(view.top(), view.tip());
    assert_holds(&writer.reader().view(), &blocks);
    assert_eq!(writer.reader().view().sealed_through(), Some(height(63)));
    drop(writer);
    assert_holds(&Reader::open(dir.path()).unwrap().view(), &blocks);
}

#[test]
fn a_tail_that_reaches_an_island_is_sealed_and_joined() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let blocks = chain.take_blocks(64);
    let mut writer = Writer::open(dir.path(), chain.store(16)).unwrap();
    let range = build(&writer, blocks[31].sizes, &blocks[32..48]);
    writer.seal(range).unwrap();
    write(&mut writer, &blocks[..32], 32);
    assert_eq!(writer.tip(), Some(blocks[47].id));
    write(&mut writer, &blocks[48..], 4);
    assert_holds(&writer.reader().view(), &blocks);
}

#[test]
fn an_island_of_another_branch_is_refused_and_truncation_heals_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let blocks = chain.take_blocks(48);
    let mut writer = Writer::open(dir.path(), chain.store(16)).unwrap();
    let mut other = TestChain::after(blocks[31].id, blocks[31].sizes, 9);
    let mut strangers = other.take_blocks(16);
    strangers[0].previous = BlockHash::ZERO;
    let range = build(&writer, blocks[31].sizes, &strangers);
    writer.seal(range).unwrap();
    for block in &blocks[..32] {
        writer.append(block.clone()).unwrap();
    }
    assert!(matches!(writer.commit(), Err(Error::Gap { .. })));
    assert_eq!(writer.tip(), Some(blocks[31].id));
    let truncated = writer.truncate_above(Some(height(31))).unwrap();
    assert_eq!((truncated.blocks, truncated.unsealed_ranges), (0, 1));
    write(&mut writer, &blocks[32..], 4);
    assert_holds(&writer.reader().view(), &blocks);
}

#[test]
fn an_incomplete_or_overlapping_range_is_refused_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let blocks = chain.take_blocks(32);
    let mut writer = Writer::open(dir.path(), chain.store(16)).unwrap();
    let off = writer.begin_range(height(3), TreeSizes::ZERO, BlockHash::ZERO);
    assert!(matches!(off, Err(Error::Range { .. })));
    let mut half = writer
        .begin_range(Height::GENESIS, TreeSizes::ZERO, BlockHash::ZERO)
        .unwrap();
    half.append(&blocks[0]).unwrap();
    assert!(matches!(half.append(&blocks[2]), Err(Error::Gap { .. })));
    assert!(matches!(writer.seal(half), Err(Error::Range { .. })));
    let whole = build(&writer, TreeSizes::ZERO, &blocks[..16]);
    write(&mut writer, &blocks[..1], 1);
    assert!(matches!(writer.seal(whole), Err(Error::Range { .. })));
    assert_eq!(dir.path().join("sealed").read_dir().unwrap().count(), 0);
}

#[test]
fn several_ranges_are_sealed_together_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let blocks = chain.take_blocks(48);
    let mut strangers = TestChain::new(2).take_blocks(48);
    strangers[32].previous = blocks[30].id.hash;
    let mut writer = Writer::open(dir.path(), chain.store(16)).unwrap();
    let low = build(&writer, TreeSizes::ZERO, &blocks[..16]);
    let middle = build(&writer, blocks[15].sizes, &blocks[16..32]);
    let high = build(&writer, blocks[31].sizes, &blocks[32..]);
    let wrong = build(&writer, strangers[31].sizes, &strangers[32..]);
    let again = build(&writer, TreeSizes::ZERO, &blocks[..16]);
    let refused = writer.seal_all(vec![low, wrong, middle]);
    assert!(matches!(refused, Err(Error::Gap { .. })), "{refused:?}");
    assert_eq!(writer.reader().view().tip(), None);
    let low = build(&writer, TreeSizes::ZERO, &blocks[..16]);
    let twice = writer.seal_all(vec![low, again]);
    assert!(matches!(twice, Err(Error::Range { .. })));
    let low = build(&writer, TreeSizes::ZERO, &blocks[..16]);
    let middle = build(&writer, blocks[15].sizes, &blocks[16..32]);
    writer.seal_all(vec![high, low, middle]).unwrap();
    assert_holds(&writer.reader().view(), &blocks);
    assert_eq!(dir.path().join("sealed").read_dir().unwrap().count(), 9);
}

#[test]
fn segments_go_when_their_blocks_are_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let blocks = chain.take_blocks(200);
    let mut writer = Writer::open(dir.path(), chain.store(16)).unwrap();
    for (index, block) in blocks.iter().enumerate() {
        writer.append(block.clone()).unwrap();
        writer.commit().unwrap();
        if index > 30 {
            writer.seal_through(height(index as u32 - 30)).unwrap();
        }
        let segments = dir.path().join("tail").read_dir().unwrap().count();
        assert!(segments <= 4, "{segments} segments at block {index}");
    }
    assert_holds(&writer.reader().view(), &blocks);
}

#[test]
fn a_second_writer_is_refused_and_told_why() {
    let dir = tempfile::tempdir().unwrap();
    let store = TestChain::new(1).store(16);
    let _writer = Writer::open(dir.path(), store).unwrap();
    let second = Writer::open(dir.path(), store).err().unwrap();
    assert!(matches!(&second, Error::Locked { path } if path.ends_with("lock")));
    assert!(second.to_string().contains("another process writes"));
}

#[test]
fn another_store_or_a_foreign_folder_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let store = TestChain::new(1).store(16);
    drop(Writer::open(dir.path(), store).unwrap());
    for other in [TestChain::new(2).store(16), TestChain::new(1).store(32)] {
        let refused = Writer::open(dir.path(), other).err().unwrap();
        assert!(matches!(refused, Error::Foreign { .. }));
    }
    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("photo.jpg"), b"mine").unwrap();
    let refused = Writer::open(foreign.path(), store).err().unwrap();
    assert!(refused.to_string().contains("photo.jpg"), "{refused}");
    assert_eq!(foreign.path().read_dir().unwrap().count(), 1);
}

#[test]
fn a_reader_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Reader::open(&dir.path().join("nothing")).err().unwrap();
    assert!(matches!(missing, Error::Missing { .. }));
    assert!(!Path::new(&dir.path().join("nothing")).exists());
}

#[test]
fn a_new_view_wakes_those_who_wait_and_calls_the_hooks() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let mut writer = Writer::open(dir.path(), chain.store(16)).unwrap();
    let reader = writer.reader();
    let seen = reader.view().generation();
    let (sender, hooked) = std::sync::mpsc::channel();
    reader.on_publish(Box::new(move |view| {
        sender.send(view.generation()).unwrap()
    }));
    let waiting = {
        let reader = reader.clone();
        std::thread::spawn(move || reader.wait_newer(seen, Duration::from_secs(60)).tip())
    };
    let block = chain.next_block();
    writer.append(block.clone()).unwrap();
    writer.commit().unwrap();
    assert_eq!(waiting.join().unwrap(), Some(block.id));
    assert!(hooked.recv().unwrap() > seen);
    let target = chain.next_block().id;
    writer.announce(Some(target));
    assert_eq!(reader.view().target(), Some(target));
    let now = reader.view().generation();
    let same = reader.wait_newer(now, Duration::from_millis(1));
    assert_eq!(same.generation(), now);
}
