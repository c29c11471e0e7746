//! The newest blocks come first: above a gap, with tree sizes that the source tells, joined when the gap is filled.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use lightship_chain::{Height, HeightRange, compact::EncodedBlock};
use lightship_index::View;
use lightship_ingest::Settings;
use lightship_source::Error;

use crate::{
    running::{
        RANGE_BLOCKS, Running, SEAL_DEPTH, assert_holds, assert_model, build, crash_after, open,
        settings, start, start_on, store_of,
    },
    scripted::{Act, Call, Scripted, refused},
};

pub(crate) const NEWEST_BLOCKS: u32 = 40;
const BLOCKS: usize = 200;
/// Of [`BLOCKS`] blocks those below 180 are final, and the whole ranges among the newest 40 of them are these.
const NEWEST: (u32, u32) = (136, 175);

fn newest_first() -> Settings {
    Settings {
        newest_first_blocks: NEWEST_BLOCKS,
        ..settings()
    }
}

fn heights((first, last): (u32, u32)) -> HeightRange {
    HeightRange::new(Height::new(first), Height::new(last)).unwrap()
}

/// Whether what the view has above a gap are those blocks of `model`, to the byte.
#[track_caller]
pub(crate) fn assert_islands_hold(view: &View, model: &[EncodedBlock]) {
    for height in view.islands().into_iter().flat_map(HeightRange::iter) {
        let block = &model[height.get() as usize];
        let stored = view.block(height).unwrap().unwrap();
        assert_eq!(stored.row.hash, block.id.hash, "at {height}");
        assert_eq!(stored.row.sizes, block.sizes, "at {height}");
        assert_eq!(stored.frame, block.frame, "at {height}");
        assert_eq!(stored.transparent, block.transparent, "at {height}");
        assert_eq!(view.height_of(&block.id.hash), Some(height));
    }
}

/// Nothing below the newest blocks is to be had.
fn withhold_the_rest(source: &Scripted) {
    source.script(|call| match call {
        Call::Lend(height) if height.get() < NEWEST.0 => Act::Fail(refused()),
        _ => Act::Go,
    });
}

/// Waits until the newest blocks are there, and nothing else.
fn has_the_newest(running: &Running) -> Arc<View> {
    running.until("the newest are there", |running| {
        let view = running.reader.view();
        (view.islands() == [heights(NEWEST)]).then_some(view)
    })
}

fn sealed_files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir.join("sealed")).unwrap();
    files
        .map(|file| {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            (name, fs::read(file.path()).unwrap())
        })
        .collect()
}

#[test]
fn the_newest_are_readable_before_the_first_block_is() {
    let source = Scripted::new(81, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    withhold_the_rest(&source);
    let running = start(&source, dir.path(), newest_first());
    let view = has_the_newest(&running);
    assert_eq!(view.tip(), None);
    assert_eq!(view.target(), Some(source.best()));
    assert_islands_hold(&view, &source.model());
    let seen = running.progress.snapshot();
    assert_eq!((seen.indexed, seen.ahead_blocks), (None, NEWEST_BLOCKS));
    source.heal();
    assert_model(&running.reaches(source.best()), &source);
    let seen = running.progress.snapshot();
    assert_eq!((seen.ahead_blocks, seen.blocks), (0, BLOCKS as u64));
    running.stop();
}

#[test]
fn built_newest_first_or_in_turn_the_files_are_the_same() {
    let source = Scripted::new(82, BLOCKS);
    let (first, in_turn) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert_model(
        &build(&source, first.path(), newest_first()).view(),
        &source,
    );
    build(&source, in_turn.path(), settings());
    let files = sealed_files(first.path());
    assert_eq!(
        files.len() as u32,
        (BLOCKS as u32 - SEAL_DEPTH) / RANGE_BLOCKS * 3
    );
    assert!(files == sealed_files(in_turn.path()));
}

#[test]
fn every_block_is_fetched_once() {
    let source = Scripted::new(83, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    let lent = Arc::new(Mutex::new(BTreeMap::<u32, u32>::new()));
    source.script({
        let lent = Arc::clone(&lent);
        move |call| {
            if let Call::Lend(height) = call {
                *lent.lock().unwrap().entry(height.get()).or_default() += 1;
            }
            Act::Go
        }
    });
    build(&source, dir.path(), newest_first());
    let lent = lent.lock().unwrap();
    let twice: Vec<_> = lent.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(lent.len(), BLOCKS);
}

#[test]
fn a_restart_builds_on_where_it_was_and_what_has_become_final_too() {
    let source = Scripted::new(84, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    withhold_the_rest(&source);
    let running = start(&source, dir.path(), newest_first());
    has_the_newest(&running);
    running.stop();
    source.extend(16);
    let lent = Arc::new(AtomicU64::new(0));
    source.script({
        let lent = Arc::clone(&lent);
        move |call| match call {
            Call::Lend(height) if height.get() < NEWEST.0 => Act::Fail(refused()),
            Call::Lend(height) if height.get() <= NEWEST.1 => {
                lent.fetch_add(1, Ordering::Relaxed);
                Act::Go
            }
            _ => Act::Go,
        }
    });
    let running = start(&source, dir.path(), newest_first());
    running.until("the two ranges above are there", |running| {
        (running.reader.view().islands() == [heights((NEWEST.0, NEWEST.1 + 16))]).then_some(())
    });
    assert_eq!(lent.load(Ordering::Relaxed), 0);
    source.heal();
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

#[test]
fn a_source_that_fails_now_and_then_gives_the_newest_first_all_the_same() {
    let source = Scripted::new(85, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    let (mut lent, mut sizes) = (0, 0);
    source.script(move |call| {
        lent += u32::from(matches!(call, Call::Lend(_)));
        sizes += u32::from(call == Call::TreeSizes);
        match call {
            Call::Lend(height) if height.get() < NEWEST.0 => Act::Fail(refused()),
            // Never a whole range in one go.
            Call::Lend(_) if lent % 7 == 0 => Act::Fail(refused()),
            Call::TreeSizes if sizes % 2 == 1 => Act::Fail(refused()),
            _ => Act::Go,
        }
    });
    let running = start(&source, dir.path(), newest_first());
    assert_islands_hold(&has_the_newest(&running), &source.model());
    source.heal();
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

#[test]
fn a_source_without_tree_sizes_gives_its_blocks_in_their_turn() {
    let source = Scripted::new(86, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    source.script(|call| match call {
        Call::TreeSizes => Act::Fail(Error::Unsupported {
            what: "tree sizes".into(),
        }),
        _ => Act::Go,
    });
    let writer = open(dir.path(), store_of(&source));
    let had_islands = watch_for_islands(&writer);
    let running = start_on(&source, writer, newest_first());
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
    assert!(!had_islands.load(Ordering::Relaxed));
}

#[test]
fn tree_sizes_that_cannot_be_read_do_not_hold_up_the_blocks() {
    let source = Scripted::new(95, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    source.script(|call| match call {
        Call::TreeSizes => Act::Fail(Error::Shape {
            method: "z_gettreestate".into(),
            what: "no trees".into(),
        }),
        _ => Act::Go,
    });
    let running = start(&source, dir.path(), newest_first());
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

/// As a node answers what fails inside it.
fn odd() -> Error {
    Error::Rpc {
        method: "getblock".into(),
        code: -1,
        message: "odd".into(),
    }
}

/// The newest come, however the first answers about tree sizes are, with nothing else to be had.
fn the_newest_come_after(troubles: usize, trouble: fn() -> Error) {
    let source = Scripted::new(96, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    let mut asked = 0;
    source.script(move |call| match call {
        Call::Lend(height) if height.get() < NEWEST.0 => Act::Fail(refused()),
        Call::TreeSizes => {
            asked += 1;
            match asked <= troubles {
                true => Act::Fail(trouble()),
                false => Act::Go,
            }
        }
        _ => Act::Go,
    });
    let settings = Settings {
        newest_first_rest: Duration::from_millis(5),
        ..newest_first()
    };
    let running = start(&source, dir.path(), settings);
    assert_islands_hold(&has_the_newest(&running), &source.model());
    source.heal();
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

/// It ended the head start of the whole process.
#[test]
fn one_odd_answer_about_tree_sizes_is_no_more_than_one() {
    the_newest_come_after(1, odd);
}

#[test]
fn the_newest_are_tried_for_again_after_a_rest() {
    the_newest_come_after(7, odd);
    the_newest_come_after(30, refused);
}

/// A source that reads blocks from a disk has them while the node, which tells the tree sizes, is away.
#[test]
fn a_node_that_is_away_for_tree_sizes_does_not_keep_the_gap_open() {
    let source = Scripted::new(97, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    source.script(|call| match call {
        Call::TreeSizes => Act::Fail(refused()),
        _ => Act::Go,
    });
    let running = start(&source, dir.path(), newest_first());
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

fn watch_for_islands(writer: &lightship_index::Writer) -> Arc<AtomicBool> {
    let had_islands = Arc::new(AtomicBool::new(false));
    writer.reader().on_publish(Box::new({
        let had_islands = Arc::clone(&had_islands);
        move |view| {
            had_islands.fetch_or(!view.islands().is_empty(), Ordering::Relaxed);
        }
    }));
    had_islands
}

#[test]
fn sizes_that_do_not_fit_the_blocks_are_never_served() {
    let source = Scripted::new(87, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    // Wrong below the first range, right at its end.
    let mut asked = 0;
    source.script(move |call| {
        asked += u32::from(call == Call::TreeSizes);
        match call {
            Call::TreeSizes if asked == 1 => Act::OneNoteMore,
            _ => Act::Go,
        }
    });
    let model = source.model();
    let writer = open(dir.path(), store_of(&source));
    writer
        .reader()
        .on_publish(Box::new(move |view| assert_islands_hold(view, &model)));
    let running = start_on(&source, writer, newest_first());
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

#[test]
fn sizes_that_were_wrong_all_along_go_when_the_counted_ones_meet_them() {
    for tail_first in [false, true] {
        let source = Scripted::new(88, if tail_first { 60 } else { BLOCKS });
        let dir = tempfile::tempdir().unwrap();
        if tail_first {
            // The blocks below the island come through the tail, and not as whole ranges.
            build(&source, dir.path(), newest_first());
            source.extend(BLOCKS - 60);
        }
        let writer = open(dir.path(), store_of(&source));
        let had_islands = watch_for_islands(&writer);
        source.script({
            let had_islands = Arc::clone(&had_islands);
            move |call| match call {
                // As long as the newest are being built.
                Call::TreeSizes => Act::OneNoteMore,
                Call::Lend(height)
                    if height.get() < NEWEST.0 && had_islands.load(Ordering::Relaxed) =>
                {
                    Act::Fail(refused())
                }
                _ => Act::Go,
            }
        });
        let running = start_on(&source, writer, newest_first());
        has_the_newest(&running);
        source.heal();
        assert_model(&running.reaches(source.best()), &source);
        let seen = running.progress.snapshot();
        assert_eq!(seen.ahead_blocks, 0);
        running.stop();
    }
}

#[test]
fn a_newest_block_that_cannot_be_read_does_not_hold_up_the_others() {
    let source = Scripted::new(89, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    let unreadable = Height::new(150);
    source.script(move |call| match call {
        Call::Lend(height) if height == unreadable => Act::Bytes(vec![0; 100]),
        _ => Act::Go,
    });
    let running = start(&source, dir.path(), newest_first());
    running.until("everything below is there", |running| {
        let end = running.progress.snapshot().indexed?;
        (end.height.next() == Some(unreadable)).then_some(())
    });
    source.heal();
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

/// The process is down while the chain becomes another one below what was built first.
#[test]
fn another_chain_after_a_restart_takes_the_newest_away_before_its_tip_is_shown() {
    // Longer than the old one, ending inside what was built, and below it.
    for length in [BLOCKS + 50, NEWEST.1 as usize - 10, NEWEST.0 as usize - 20] {
        let source = Scripted::new(90, BLOCKS);
        let dir = tempfile::tempdir().unwrap();
        withhold_the_rest(&source);
        let running = start(&source, dir.path(), newest_first());
        has_the_newest(&running);
        running.stop();
        let fork = 50;
        source.switch(source.forge(source.at(fork), length - fork as usize));
        source.heal();
        let writer = open(dir.path(), store_of(&source));
        let model = source.model();
        writer.reader().on_publish(Box::new(move |view| {
            if let Some(target) = view.target() {
                for island in view.islands() {
                    if island.first() <= target.height {
                        assert_islands_hold(view, &model);
                    }
                }
            }
        }));
        let running = start_on(&source, writer, newest_first());
        running.reaches(source.best());
        assert_model_below(&running.reader.view(), &source);
        source.extend(120);
        // The hook knows the old length only.
        running.stop();
        let running = start(&source, dir.path(), newest_first());
        assert_model(&running.reaches(source.best()), &source);
        running.stop();
    }
}

/// Like [`assert_model`], whatever lies above a gap.
fn assert_model_below(view: &View, source: &Scripted) {
    for block in source.model() {
        let stored = view.block(block.id.height).unwrap().unwrap();
        assert_eq!(stored.frame, block.frame);
    }
}

#[test]
fn another_chain_in_the_middle_of_the_gap_takes_the_newest_away() {
    let source = Scripted::new(91, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    let running = {
        source.script(|call| match call {
            Call::Lend(height) if height.get() == 60 => Act::Fail(refused()),
            _ => Act::Go,
        });
        start(&source, dir.path(), newest_first())
    };
    running.until("the gap is being filled", |running| {
        let view = running.reader.view();
        (view.tip().is_some() && !view.islands().is_empty()).then_some(())
    });
    source.switch(source.forge(source.at(100), 110));
    source.heal();
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

#[test]
fn a_tip_that_falls_into_the_newest_and_grows_again_is_followed() {
    for (tip, deeper) in [(150, 0), (150, 60), (137, 3), (120, 0), (178, 30)] {
        let source = Scripted::new(92, BLOCKS);
        let dir = tempfile::tempdir().unwrap();
        withhold_the_rest(&source);
        let running = start(&source, dir.path(), newest_first());
        has_the_newest(&running);
        source.switch(source.at(tip));
        source.heal();
        let view = running.reaches(source.best());
        assert_model_below(&view, &source);
        source.reorg(deeper, deeper + 90);
        assert_model(&running.reaches(source.best()), &source);
        running.stop();
    }
}

#[test]
fn the_newest_are_readable_while_the_source_is_away_and_after_a_restart() {
    let source = Scripted::new(93, BLOCKS);
    let dir = tempfile::tempdir().unwrap();
    withhold_the_rest(&source);
    let running = start(&source, dir.path(), newest_first());
    has_the_newest(&running);
    source.script(|_| Act::Fail(refused()));
    running.snapshot_when("it is stalled", |seen| seen.stalls > 0);
    assert_islands_hold(&running.reader.view(), &source.model());
    running.stop();
    let running = start(&source, dir.path(), newest_first());
    assert_islands_hold(&has_the_newest(&running), &source.model());
    running.stop();
}

#[test]
fn a_crash_at_any_publication_loses_none_of_the_newest() {
    let mut with_islands = 0;
    for crash_at in 1..34 {
        let source = Scripted::new(94, BLOCKS);
        let dir = tempfile::tempdir().unwrap();
        let writer = open(dir.path(), store_of(&source));
        crash_after(&writer, crash_at);
        let running = start_on(&source, writer, newest_first());
        let reader = running.reader.clone();
        running.crashed_or_reaches(source.best());
        let before = reader.view();
        let writer = open(dir.path(), store_of(&source));
        let found = writer.reader().view();
        let has_all = |range: &HeightRange| range.iter().all(|height| found.covers(height));
        assert!(before.islands().iter().all(has_all), "at {crash_at}");
        assert_islands_hold(&found, &source.model());
        with_islands += usize::from(!found.islands().is_empty());
        let running = start_on(&source, writer, newest_first());
        assert_holds(&running.reaches(source.best()), &source.model());
        running.stop();
    }
    assert!(with_islands > 10, "{with_islands}");
}
