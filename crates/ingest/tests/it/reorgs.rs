//! The best chain changes: every depth, with and without replacement, at run time and while nothing runs.

use std::sync::{Arc, Mutex};

use lightship_chain::Height;
use lightship_index::Writer;
use lightship_ingest::{Settings, State};

use crate::{
    disk::QuickDisk,
    running::{SEAL_DEPTH, assert_model, build, settings, start, start_on, store_of},
    scripted::{Act, Call, Scripted, refused},
};

/// Within the tail, around the seal depth, below it, and all but genesis.
fn depths() -> impl Iterator<Item = usize> {
    let seal_depth = SEAL_DEPTH as usize;
    (1..=seal_depth).chain([21, 27, 28, 29, 40, 3 * seal_depth, 69])
}

#[test]
fn a_reorg_of_any_depth_is_followed() {
    let source = Scripted::new(1, 70);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.best());
    for (count, depth) in depths().enumerate() {
        let depth = depth.min(source.best().height.get() as usize);
        let tip = source.reorg(depth, depth + 1);
        let view = running.reaches(tip);
        assert_model(&view, &source);
        let reorgs = count as u64 + 1;
        let seen = running.snapshot_when("it is counted", |seen| seen.reorgs == reorgs);
        assert_eq!(seen.last_reorg_depth, depth as u32);
    }
    running.stop();
}

#[test]
fn a_heavier_but_shorter_branch_is_followed() {
    let source = Scripted::new(2, 140);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.best());
    for depth in [2, 5, 10, 19, 25, 30] {
        let tip = source.reorg(depth, depth - 1);
        assert_model(&running.reaches(tip), &source);
    }
    running.stop();
}

#[test]
fn a_rollback_without_replacement_is_followed() {
    let source = Scripted::new(3, 400);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.best());
    for depth in depths() {
        let former = source.best();
        let tip = source.rollback(depth);
        assert_model(&running.reaches(tip), &source);
        // And back, as `reconsiderblock` does.
        source.switch(former);
        assert_model(&running.reaches(former), &source);
        source.rollback(depth / 2);
        assert_model(&running.reaches(source.best()), &source);
    }
    running.stop();
}

#[test]
fn a_branch_that_was_switched_while_nothing_ran_is_followed_at_start() {
    for depth in depths() {
        let source = Scripted::new(4, 90);
        let dir = tempfile::tempdir().unwrap();
        build(&source, dir.path(), settings());
        source.reorg(depth, depth + 3);
        assert_model(&build(&source, dir.path(), settings()).view(), &source);
        source.rollback(depth);
        assert_model(&build(&source, dir.path(), settings()).view(), &source);
        // So far ahead that the gap is filled by height.
        source.reorg(depth.min(15), 200);
        assert_model(&build(&source, dir.path(), settings()).view(), &source);
    }
}

#[test]
fn a_flapping_tip_ends_where_it_comes_to_rest() {
    let source = Scripted::new(5, 60);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    let one = source.best();
    let other = source.forge(source.below_tip(4), 5);
    for flap in 0..200 {
        source.switch(if flap % 2 == 0 { other } else { one });
        if flap % 10 == 0 {
            std::thread::yield_now();
        }
    }
    let last = source.extend(1);
    assert_model(&running.reaches(last), &source);
    running.stop();
}

#[test]
fn readers_see_a_replacement_in_one_step() {
    let source = Scripted::new(6, 60);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.best());
    running.until("it follows", |running| {
        (running.progress.snapshot().state == State::Following).then_some(())
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    running.reader.on_publish({
        let seen = Arc::clone(&seen);
        Box::new(move |view| {
            let mut seen = seen.lock().unwrap();
            seen.extend(view.tip().map(|tip| tip.height.get()));
        })
    });
    for depth in 1..=15 {
        let tip = source.reorg(depth, depth + 1);
        running.reaches(tip);
    }
    running.stop();
    let seen = seen.lock().unwrap();
    assert!(
        seen.is_sorted() && !seen.is_empty(),
        "a reader saw the chain shrink: {seen:?}"
    );
}

/// A range is written straight to its sealed files while it is final, and its blocks become visible together. A rollback that
/// ended at the last block written so far looked like the tip, and the blocks stayed invisible.
#[test]
fn a_tip_that_falls_into_a_range_half_written_is_reached() {
    let source = Scripted::new(8, 140);
    let dir = tempfile::tempdir().unwrap();
    let middle = source.at(91);
    source.script(move |call| match call {
        Call::Lend(height) if height.get() == 92 => Act::Switch(middle),
        _ => Act::Go,
    });
    let running = start(&source, dir.path(), settings());
    assert_model(&running.reaches(middle), &source);
    running.stop();
}

#[test]
fn memory_and_work_at_the_tip_do_not_grow_with_the_chain() {
    let source = Scripted::new(7, 300);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.best());
    let mut calls = Vec::new();
    for _ in 0..3 {
        let before = source.calls();
        for _ in 0..50 {
            running.reaches(source.extend(1));
        }
        calls.push(source.calls() - before);
    }
    running.stop();
    // Tip, block, tip again, wait; a few more if a wait ends early.
    assert!(calls.iter().all(|calls| *calls <= 50 * 8), "{calls:?}");
}

/// A rollback into the part that counted as final was refused, or everything was away while the part was made anew.
#[test]
fn what_lies_below_a_deep_fork_is_there_throughout() {
    let source = Scripted::new(9, 400);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.best());
    let missing = Arc::new(Mutex::new(Vec::new()));
    let fork = 150;
    let below: Vec<_> = (0..=fork).map(|height| source.at(height)).collect();
    running.reader.on_publish({
        let missing = Arc::clone(&missing);
        Box::new(move |view| {
            let lost = below.iter().find(|id| {
                let row = view.row(id.height).map(|row| row.hash);
                row != Some(id.hash) || !matches!(view.block(id.height), Ok(Some(_)))
            });
            missing.lock().unwrap().extend(lost.copied());
        })
    });
    let depth = (source.best().height.get() - fork) as usize;
    let tip = source.reorg(depth, depth / 2);
    assert_model(&running.reaches(tip), &source);
    source.rollback(depth / 2);
    assert_model(&running.reaches(source.best()), &source);
    let tip = source.extend(300);
    assert_model(&running.reaches(tip), &source);
    running.stop();
    assert_eq!(*missing.lock().unwrap(), []);
}

/// The way from a block of a side chain back to the best one was walked by recursion, to genesis.
#[test]
fn a_side_block_with_a_fork_far_below_is_passed_over() {
    let source = Scripted::new(10, 3_000);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.best());
    let tip = source.best();
    let side = source.forge(source.at(10), 2_995);
    assert!(side.height > tip.height);
    let before = source.calls();
    let mut left = 1;
    source.script(move |call| match call {
        Call::Wait => Act::Fail(refused()),
        Call::Tip if left > 0 => {
            left -= 1;
            Act::Tip(Some(side))
        }
        _ => Act::Go,
    });
    let stalls = running.progress.snapshot().stalls;
    running.snapshot_when("it is passed over", |seen| {
        seen.stalls > stalls && seen.state == State::Following && seen.target == Some(tip)
    });
    source.heal();
    let calls = source.calls() - before;
    // Twice the seal depth and a hundred by hash, then by height in steps that double.
    assert!(calls < 400, "{calls} calls");
    let next = source.extend(1);
    assert_model(&running.reaches(next), &source);
    assert_eq!(running.progress.snapshot().reorgs, 0);
    running.stop();
}

/// Something derived was made anew from genesis for each block, so that a long chain was never caught up with.
#[test]
fn what_is_written_for_a_new_block_does_not_grow_with_the_chain() {
    let per_block = |blocks: usize| {
        let source = Scripted::new(20, blocks);
        let dir = tempfile::tempdir().unwrap();
        let disk = QuickDisk::default();
        let writer =
            Writer::open_on(Arc::new(disk.clone()), dir.path(), store_of(&source)).unwrap();
        let settings = Settings {
            // Nothing becomes final in between: sealing is counted elsewhere, a range at a time.
            seal_depth_blocks: 5_000,
            ..settings()
        };
        let running = start_on(&source, writer, settings);
        running.reaches(source.best());
        running.snapshot_when("it follows", |seen| seen.state == State::Following);
        let (written, calls) = (disk.written(), source.calls());
        for _ in 0..60 {
            running.reaches(source.extend(1));
        }
        let grown = (disk.written() - written, source.calls() - calls);
        let view = running.reader.view();
        assert!(view.covers(Height::new(blocks as u32)));
        running.stop();
        grown
    };
    let (short, short_calls) = per_block(200);
    let (long, long_calls) = per_block(3_200);
    assert!(long < short * 3 / 2, "{short} bytes, then {long}");
    assert!(
        long_calls < short_calls * 2,
        "{short_calls} calls, then {long_calls}"
    );
}
