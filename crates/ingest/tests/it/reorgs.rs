//! The best chain changes: every depth, with and without replacement, at run time and while nothing runs.

use std::sync::{Arc, Mutex};

use lightship_ingest::State;

use crate::{
    running::{SEAL_DEPTH, assert_model, build, settings, start},
    scripted::{Act, Call, Scripted},
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
