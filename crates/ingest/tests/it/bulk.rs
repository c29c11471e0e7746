//! Many blocks at once: the same index as one by one, on from where a crash left it.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use lightship_chain::Height;
use lightship_ingest::Settings;

use crate::{
    running::{
        RANGE_BLOCKS, SEAL_DEPTH, assert_model, build, crash_after, open, settings, start,
        start_on, store_of,
    },
    scripted::{Act, Call, Scripted},
};

#[test]
fn built_at_once_or_followed_block_by_block_the_index_is_the_same() {
    let source = Scripted::new(41, 1);
    let (bulk, followed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let running = start(&source, followed.path(), settings());
    for _ in 0..150 {
        let tip = source.extend(1);
        running.reaches(tip);
    }
    let followed = running.reader.view();
    let built = build(&source, bulk.path(), settings()).view();
    assert_model(&followed, &source);
    assert_model(&built, &source);
    assert_eq!(built.sealed_through(), followed.sealed_through());
    let final_through = 149 - SEAL_DEPTH;
    let sealed = (final_through + 1) / RANGE_BLOCKS * RANGE_BLOCKS - 1;
    assert_eq!(built.sealed_through(), Some(Height::new(sealed)));
    running.stop();
}

#[test]
fn every_length_around_the_edges_is_built() {
    for length in (1..60).chain([100, 127, 128, 129]) {
        let source = Scripted::new(42, length);
        let dir = tempfile::tempdir().unwrap();
        let view = build(&source, dir.path(), settings()).view();
        assert_model(&view, &source);
    }
}

#[test]
fn any_workers_pieces_and_memory_give_the_same_index() {
    let source = Scripted::new(43, 200);
    for (workers, segment_blocks, max_bytes_in_flight) in [
        (1, 1, 1),
        (1, 64, 1 << 20),
        (2, 3, 3_000),
        (5, 7, 1),
        (8, 2, 1 << 30),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            workers: NonZeroUsize::new(workers).unwrap(),
            segment_blocks: NonZeroU32::new(segment_blocks).unwrap(),
            max_bytes_in_flight,
            ..settings()
        };
        assert_model(&build(&source, dir.path(), settings).view(), &source);
    }
}

#[test]
fn a_build_goes_on_where_it_was_stopped() {
    let source = Scripted::new(44, 200);
    let dir = tempfile::tempdir().unwrap();
    for stop_at in [20u32, 77, 120, 185] {
        let reached = Arc::new(AtomicU64::new(0));
        source.script({
            let reached = Arc::clone(&reached);
            let at = source.at(stop_at);
            move |call| {
                if call == Call::Lend(at.height) || call == Call::Block(at.hash) {
                    reached.store(1, Ordering::Relaxed);
                    Act::Fail(crate::scripted::refused())
                } else {
                    Act::Go
                }
            }
        });
        let running = start(&source, dir.path(), settings());
        running.until("it is in the middle", |_| {
            (reached.load(Ordering::Relaxed) == 1).then_some(())
        });
        running.stop();
        source.heal();
    }
    // Not from the start again: whole ranges were kept.
    let lent_low = Arc::new(AtomicU64::new(0));
    source.script({
        let lent_low = Arc::clone(&lent_low);
        move |call| {
            if matches!(call, Call::Lend(height) if height.get() < 100) {
                lent_low.fetch_add(1, Ordering::Relaxed);
            }
            Act::Go
        }
    });
    assert_model(&build(&source, dir.path(), settings()).view(), &source);
    assert_eq!(lent_low.load(Ordering::Relaxed), 0);
}

#[test]
fn a_crash_at_any_publication_loses_nothing_that_was_published() {
    for crash_at in 1..40 {
        let source = Scripted::new(45, 150);
        let dir = tempfile::tempdir().unwrap();
        let writer = open(dir.path(), store_of(&source));
        crash_after(&writer, crash_at);
        let running = start_on(&source, writer, settings());
        let reader = running.reader.clone();
        running.until("there is something", |running| {
            running.reader.view().tip().map(|_| ())
        });
        source.reorg(5, 7);
        source.extend(3);
        running.crashed_or_reaches(source.best());
        let before = reader.view().tip();
        drop(reader);
        let again = open(dir.path(), store_of(&source));
        assert!(
            again.tip().map(|tip| tip.height) >= before.map(|tip| tip.height),
            "published {before:?}, found {:?}",
            again.tip()
        );
        let running = start_on(&source, again, settings());
        assert_model(&running.reaches(source.best()), &source);
        running.stop();
    }
}
