//! The source fails or lies: what is stored stays, nothing false is stored, and the run goes on by itself.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lightship_chain::{BlockHash, BlockId, Height, TreeSizes};
use lightship_index::Writer;
use lightship_ingest::{Error, Settings, State, Until};
use lightship_source as source_crate;

use crate::{
    disk::QuickDisk,
    running::{assert_model, build, open, settings, start, start_on, store_of},
    scripted::{Act, Call, Scripted, refused},
};

fn unauthorized() -> source_crate::Error {
    source_crate::Error::Unauthorized {
        node: "script".into(),
        credentials: "none".into(),
        answer: "401".into(),
    }
}

#[test]
fn a_node_that_goes_away_is_waited_for() {
    let source = Scripted::new(11, 100);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    let view = running.reaches(source.best());
    source.script(|_| Act::Fail(refused()));
    source.extend(30);
    let seen = running.snapshot_when(
        "it is stalled",
        |seen| matches!(&seen.state, State::Stalled { why, .. } if why.contains("refused")),
    );
    assert_eq!(seen.time_left, None);
    assert_eq!(running.reader.view().tip(), view.tip());
    std::thread::sleep(Duration::from_millis(50));
    source.heal();
    assert_model(&running.reaches(source.best()), &source);
    let seen = running.snapshot_when("it follows", |seen| seen.state == State::Following);
    assert_eq!(seen.stalls, 1);
    running.stop();
}

#[test]
fn a_node_that_is_away_is_indexed_as_far_as_its_disk_holds() {
    let source = Scripted::new(21, 300);
    source.keep_final(40, false);
    // The disk answers; what only the node knows does not.
    source.script(|call| match call {
        Call::Tip | Call::Block(_) | Call::Wait => Act::Fail(refused()),
        _ => Act::Go,
    });
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.below_tip(40));
    let seen = running.snapshot_when(
        "it is stalled",
        |seen| matches!(&seen.state, State::Stalled { why, .. } if why.contains("refused")),
    );
    assert_eq!(seen.indexed, Some(source.below_tip(40)));
    let silent = seen.source_silent;
    let seen = running.snapshot_when("no answer of the disk passes for one of the node", |seen| {
        seen.source_silent > silent + Duration::from_millis(100)
    });
    assert_eq!(seen.indexed, Some(source.below_tip(40)));
    source.heal();
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

#[test]
fn a_source_of_final_blocks_only_takes_nothing_from_those_above_them() {
    let source = Scripted::new(22, 120);
    let dir = tempfile::tempdir().unwrap();
    assert_model(&build(&source, dir.path(), settings()).view(), &source);
    source.keep_final(50, true);
    // It is done at once, and the blocks above stay.
    assert_model(&build(&source, dir.path(), settings()).view(), &source);

    let fresh = tempfile::tempdir().unwrap();
    let view = build(&source, fresh.path(), settings()).view();
    assert_eq!(view.tip(), Some(source.below_tip(50)));
}

#[test]
fn a_node_that_fails_now_and_then_is_got_everything_from() {
    let source = Scripted::new(12, 300);
    let dir = tempfile::tempdir().unwrap();
    let calls = AtomicU64::new(0);
    source.script(
        move |call| match (call, calls.fetch_add(1, Ordering::Relaxed) % 23) {
            (Call::Lend(_) | Call::Block(_), 3 | 11) => Act::Fail(refused()),
            (_, 22) => Act::Fail(refused()),
            _ => Act::Go,
        },
    );
    assert_model(&build(&source, dir.path(), settings()).view(), &source);
}

#[test]
fn wrong_credentials_at_the_start_end_the_run() {
    let source = Scripted::new(13, 5);
    let dir = tempfile::tempdir().unwrap();
    source.script(|_| Act::Fail(unauthorized()));
    let ended = start(&source, dir.path(), settings()).ended();
    assert!(matches!(ended, Err(Error::Credentials(_))), "{ended:?}");
}

#[test]
fn credentials_that_change_later_are_a_stall() {
    let source = Scripted::new(14, 30);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.best());
    source.script(|_| Act::Fail(unauthorized()));
    source.extend(1);
    running.snapshot_when("it is stalled", |seen| {
        matches!(seen.state, State::Stalled { .. })
    });
    source.heal();
    running.reaches(source.best());
    running.stop();
}

#[test]
fn a_node_that_is_still_loading_is_waited_for_from_the_start() {
    let source = Scripted::new(15, 30);
    let dir = tempfile::tempdir().unwrap();
    let calls = AtomicU64::new(0);
    source.script(move |_| {
        if calls.fetch_add(1, Ordering::Relaxed) < 10 {
            Act::Fail(source_crate::Error::Warming {
                node: "script".into(),
                message: "loading".into(),
            })
        } else {
            Act::Go
        }
    });
    assert_model(&build(&source, dir.path(), settings()).view(), &source);
}

#[test]
fn another_genesis_ends_the_run_and_changes_nothing() {
    let ours = Scripted::new(16, 40);
    let theirs = Scripted::new(17, 60);
    let dir = tempfile::tempdir().unwrap();
    build(&ours, dir.path(), settings());
    let writer = open(dir.path(), store_of(&ours));
    let running = start_on(&theirs, writer, settings());
    let reader = running.reader.clone();
    let ended = running.ended();
    assert!(
        matches!(ended, Err(Error::WrongChain { ours: o, theirs: t })
            if o == ours.genesis_hash() && t == theirs.genesis_hash()),
        "{ended:?}"
    );
    assert_model(&reader.view(), &ours);
}

#[test]
fn a_node_without_blocks_is_waited_for() {
    let source = Scripted::new(18, 1);
    let dir = tempfile::tempdir().unwrap();
    source.script(|call| match call {
        Call::Tip => Act::Tip(None),
        _ => Act::Go,
    });
    let running = start(&source, dir.path(), settings());
    running.snapshot_when("it follows nothing", |seen| {
        seen.indexed.is_none() && seen.state == State::CatchingUp
    });
    source.heal();
    assert_model(&running.reaches(source.best()), &source);
    for _ in 0..5 {
        assert_model(&running.reaches(source.extend(1)), &source);
    }
    // A node whose chain vanished does not empty the index.
    source.script(|call| match call {
        Call::Tip => Act::Tip(None),
        _ => Act::Go,
    });
    source.extend(1);
    running.snapshot_when("it is stalled", |seen| {
        matches!(seen.state, State::Stalled { .. })
    });
    assert_eq!(running.reader.view().tip(), Some(source.at(5)));
    running.stop();
}

/// Lies once at `height`, with `lie` made from the honest bytes, during a bulk build and during following.
fn lies_once(seed: u64, lie: impl Fn(Vec<u8>, Height) -> Act + Clone + Send + 'static) {
    for height in [3u32, 40, 99] {
        let source = Scripted::new(seed, 100);
        let dir = tempfile::tempdir().unwrap();
        let liar = source.at(height);
        let honest = source.bytes_of(liar);
        let lie = lie.clone();
        let mut left = 3;
        source.script(move |call| {
            let here = call == Call::Lend(liar.height) || call == Call::Block(liar.hash);
            if here && left > 0 {
                left -= 1;
                lie(honest.clone(), liar.height)
            } else {
                Act::Go
            }
        });
        let running = start(&source, dir.path(), settings());
        assert_model(&running.reaches(source.best()), &source);
        assert!(running.progress.snapshot().refused_blocks > 0);
        running.stop();
    }
}

#[test]
fn bytes_that_are_no_block_are_refused() {
    lies_once(20, |mut bytes, _| {
        bytes.truncate(bytes.len() / 2);
        Act::Bytes(bytes)
    });
    lies_once(21, |_, _| Act::Bytes(Vec::new()));
}

#[test]
fn a_block_with_another_parent_is_refused() {
    lies_once(22, |mut bytes, _| {
        bytes[4] ^= 1;
        Act::Bytes(bytes)
    });
}

#[test]
fn a_block_with_transactions_of_another_is_refused() {
    lies_once(23, |mut bytes, _| {
        // Header 177, count 1, then version, group and branch of the coinbase: its lock time. Another id, the same shape, and a
        // header that does not know.
        bytes[177 + 1 + 12] ^= 1;
        Act::Bytes(bytes)
    });
}

#[test]
fn a_block_of_another_height_is_refused() {
    let source = Scripted::new(24, 100);
    let dir = tempfile::tempdir().unwrap();
    let mut left = 3;
    source.script(move |call| {
        if call == Call::Lend(Height::new(50)) && left > 0 {
            left -= 1;
            Act::Height(Height::new(51))
        } else {
            Act::Go
        }
    });
    let running = start(&source, dir.path(), settings());
    assert_model(&running.reaches(source.best()), &source);
    assert!(running.progress.snapshot().refused_blocks > 0);
    running.stop();
}

#[test]
fn a_block_that_stays_unreadable_stops_growth_there_and_nothing_else() {
    let source = Scripted::new(25, 100);
    let dir = tempfile::tempdir().unwrap();
    source.script(|call| match call {
        Call::Lend(height) if height.get() == 50 => Act::Bytes(vec![0; 7]),
        _ => Act::Go,
    });
    let running = start(&source, dir.path(), settings());
    let seen = running.snapshot_when("it is stalled", |seen| {
        matches!(&seen.state, State::Stalled { why, .. } if why.contains("block 50 "))
            && seen.refused_blocks > 5
    });
    assert_eq!(seen.stalls, 1, "one stall, however often it is tried");
    let view = running.reader.view();
    assert!(
        view.tip()
            .is_some_and(|tip| (47..50).contains(&tip.height.get()))
    );
    source.heal();
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

#[test]
fn a_source_that_panics_is_asked_again() {
    let source = Scripted::new(26, 100);
    let dir = tempfile::tempdir().unwrap();
    let calls = AtomicU64::new(0);
    source.script(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        2 | 10 | 40 | 90 => Act::Panic,
        _ => Act::Go,
    });
    let running = start(&source, dir.path(), settings());
    assert_model(&running.reaches(source.best()), &source);
    assert!(running.progress.snapshot().stalls > 0);
    running.stop();
}

#[test]
fn a_stop_does_not_wait_for_a_source_that_hangs() {
    for hang in [
        Call::Genesis,
        Call::Tip,
        Call::Lend(Height::new(30)),
        Call::Wait,
    ] {
        let source = Scripted::new(27, 100);
        let dir = tempfile::tempdir().unwrap();
        let hung = Arc::new(AtomicU64::new(0));
        source.script({
            let hung = Arc::clone(&hung);
            move |call| {
                if call == hang {
                    hung.fetch_add(1, Ordering::Relaxed);
                    Act::Hang(Duration::from_secs(5))
                } else {
                    Act::Go
                }
            }
        });
        let running = start(&source, dir.path(), settings());
        running.until("it hangs", |_| {
            (hung.load(Ordering::Relaxed) > 0).then_some(())
        });
        std::thread::sleep(Duration::from_millis(20));
        let took = running.stop();
        assert!(took < Duration::from_secs(1), "{hang:?}: took {took:?}");
    }
}

#[test]
fn a_height_that_collapses_for_one_answer_drops_nothing() {
    let source = Scripted::new(28, 500);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.best());
    let tip = source.best();
    let lowest = Arc::new(AtomicU64::new(u64::MAX));
    running.reader.on_publish({
        let lowest = Arc::clone(&lowest);
        Box::new(move |view| {
            let height = view.tip().map_or(0, |tip| u64::from(tip.height.get()));
            lowest.fetch_min(height, Ordering::Relaxed);
        })
    });
    let unknown = BlockId {
        height: Height::new(50),
        hash: BlockHash::from_internal([9; 32]),
    };
    // Low with a true hash, low with an unknown one, low with the hash of another height.
    let misplaced = BlockId {
        height: Height::new(50),
        hash: source.at(200).hash,
    };
    for (count, lie) in [source.at(50), unknown, misplaced].into_iter().enumerate() {
        let mut left = 3;
        source.script(move |call| match call {
            Call::Wait => Act::Fail(refused()),
            Call::Tip if left > 0 => {
                left -= 1;
                Act::Tip(Some(lie))
            }
            _ => Act::Go,
        });
        running.snapshot_when("the lies are told", |seen| {
            seen.unproven_drops >= 3 * (count as u64 + 1)
        });
        source.heal();
    }
    let next = source.extend(1);
    running.reaches(next);
    assert!(lowest.load(Ordering::Relaxed) >= u64::from(tip.height.get()));
    assert_eq!(running.progress.snapshot().reorgs, 0);
    // A true one is followed.
    source.rollback(100);
    assert_model(&running.reaches(source.best()), &source);
    running.stop();
}

/// The tip was shown to wallets before anything was known of it but its name.
#[test]
fn a_tip_that_the_node_cannot_give_is_not_shown() {
    let source = Scripted::new(41, 200);
    let dir = tempfile::tempdir().unwrap();
    let running = start(&source, dir.path(), settings());
    running.reaches(source.best());
    let tip = source.best();
    let shown = Arc::new(AtomicU64::new(0));
    running.reader.on_publish({
        let shown = Arc::clone(&shown);
        Box::new(move |view| {
            let unproven = view.target().is_some_and(|target| target != tip);
            shown.fetch_add(u64::from(unproven), Ordering::Relaxed);
        })
    });
    // Of the height that is next, of the tip's own, and of one far away.
    for above in [1, 0, 5_000] {
        let lie = BlockId {
            height: Height::new(tip.height.get() + above),
            hash: BlockHash::from_internal([0xab; 32]),
        };
        let before = running.progress.snapshot();
        source.script(move |call| match call {
            Call::Wait => Act::Fail(refused()),
            Call::Tip => Act::Tip(Some(lie)),
            _ => Act::Go,
        });
        running.snapshot_when("the lie is found out", |seen| {
            seen.stalls > before.stalls || seen.unproven_drops > before.unproven_drops
        });
        source.heal();
        running.snapshot_when("the node is believed again", |seen| {
            seen.state == State::Following && seen.target == Some(tip)
        });
    }
    assert_eq!(shown.load(Ordering::Relaxed), 0);
    running.stop();
}

#[test]
fn on_a_public_network_a_node_that_starts_over_empties_nothing() {
    let source = Scripted::new(29, 300);
    let dir = tempfile::tempdir().unwrap();
    let mut id = store_of(&source);
    id.network = lightship_chain::Network::Test;
    let running = start_on(&source, open(dir.path(), id), settings());
    let tip = source.best();
    running.reaches(tip);
    for height in [0, 50, 120, 250] {
        source.switch(source.at(0));
        source.switch(tip);
        source.switch(source.at(height));
        running.snapshot_when(
            "it is stalled",
            |seen| matches!(&seen.state, State::Stalled { why, .. } if why.contains("anew")),
        );
        assert_eq!(running.reader.view().tip(), Some(tip));
        source.switch(tip);
    }
    let next = source.extend(1);
    assert_model(&running.reaches(next), &source);
    assert_eq!(running.progress.snapshot().reorgs, 0);
    running.stop();
}

#[test]
fn a_switch_between_any_two_calls_never_mixes_branches() {
    for nth in 1..=40 {
        let source = Scripted::new(30, 70);
        let dir = tempfile::tempdir().unwrap();
        build(&source, dir.path(), settings());
        // 30 blocks pending, on two branches that fork 10 below our end.
        let one = source.forge(source.best(), 30);
        let other = source.forge(source.below_tip(10), 41);
        source.switch(one);
        let mut calls = 0;
        let mut on_one = true;
        source.script(move |call| {
            if !matches!(call, Call::Block(_) | Call::Lend(_) | Call::HashAt(_)) {
                return Act::Go;
            }
            calls += 1;
            if calls % nth == 0 && calls < 400 {
                on_one = !on_one;
                Act::Switch(if on_one { one } else { other })
            } else {
                Act::Go
            }
        });
        let running = start(&source, dir.path(), settings());
        running.until("it has seen all switches", |running| {
            let at_tip = running.reader.view().tip() == Some(source.best());
            (at_tip && running.progress.snapshot().state == State::Following).then_some(())
        });
        source.heal();
        assert_model(&running.reaches(source.best()), &source);
        running.stop();
    }
}

#[test]
fn tree_sizes_that_differ_end_the_run_and_name_both() {
    let source = Scripted::new(31, 100);
    let dir = tempfile::tempdir().unwrap();
    let wrong = TreeSizes {
        sapling: 7_777,
        ..TreeSizes::ZERO
    };
    source.script(move |call| match call {
        Call::TreeSizes => Act::Sizes(wrong),
        _ => Act::Go,
    });
    let ended = start(&source, dir.path(), settings()).ended();
    assert!(
        matches!(&ended, Err(error @ Error::TreeSizes { reported, .. })
            if *reported == wrong && error.to_string().contains("7777")),
        "{ended:?}"
    );
}

#[test]
fn a_source_that_cannot_tell_tree_sizes_is_enough() {
    let source = Scripted::new(32, 100);
    let dir = tempfile::tempdir().unwrap();
    source.script(|call| match call {
        Call::TreeSizes => Act::Fail(source_crate::Error::Unsupported {
            what: "no trees here".into(),
        }),
        _ => Act::Go,
    });
    assert_model(&build(&source, dir.path(), settings()).view(), &source);
}

/// One odd answer, and they were never compared again.
#[test]
fn tree_sizes_are_compared_after_an_odd_answer_too() {
    let source = Scripted::new(35, 100);
    let dir = tempfile::tempdir().unwrap();
    let mut asked = 0;
    source.script(move |call| match call {
        Call::TreeSizes => {
            asked += 1;
            match asked {
                1 => Act::Fail(source_crate::Error::Rpc {
                    method: "getblock".into(),
                    code: -1,
                    message: "odd".into(),
                }),
                _ => Act::OneNoteMore,
            }
        }
        _ => Act::Go,
    });
    let settings = Settings {
        check_sizes_every_blocks: NonZeroU32::new(10).unwrap(),
        ..settings()
    };
    let ended = start(&source, dir.path(), settings).ended();
    assert!(matches!(ended, Err(Error::TreeSizes { .. })), "{ended:?}");
}

#[test]
fn an_idle_follower_asks_little() {
    let source = Scripted::new(33, 30);
    let dir = tempfile::tempdir().unwrap();
    let running = start(
        &source,
        dir.path(),
        Settings {
            until: Until::Forever,
            ..settings()
        },
    );
    running.reaches(source.best());
    running.snapshot_when("it follows", |seen| seen.state == State::Following);
    let before = source.calls();
    std::thread::sleep(Duration::from_millis(500));
    let calls = source.calls() - before;
    assert!(calls <= 20, "{calls} calls in half a second of nothing");
    running.stop();
}

#[test]
fn a_full_disk_is_waited_for_while_reads_go_on() {
    for full_at in [10, 60, 95, 99] {
        let source = Scripted::new(34, 100);
        let dir = tempfile::tempdir().unwrap();
        let disk = QuickDisk::default();
        let writer = Writer::open_on(Arc::new(disk.clone()), dir.path(), store_of(&source));
        let at = source.at(full_at);
        source.script({
            let disk = disk.clone();
            let mut once = true;
            move |call| {
                if (call == Call::Lend(at.height) || call == Call::Block(at.hash)) && once {
                    once = false;
                    disk.set_full(true);
                }
                Act::Go
            }
        });
        let running = start_on(&source, writer.unwrap(), settings());
        running.snapshot_when(
            "it is stalled",
            |seen| matches!(&seen.state, State::Stalled { why, .. } if why.contains("full")),
        );
        running.snapshot_when("it says so", |seen| seen.disk_is_full);
        std::thread::sleep(Duration::from_millis(30));
        let view = running.reader.view();
        for height in view.tip().iter().flat_map(|tip| 0..=tip.height.get()) {
            let height = Height::new(height);
            assert_eq!(view.row(height).unwrap().hash, source.at(height.get()).hash);
            view.block(height).unwrap().unwrap();
        }
        disk.set_full(false);
        assert_model(&running.reaches(source.best()), &source);
        running.snapshot_when("there is room", |seen| !seen.disk_is_full);
        let tip = source.reorg(5, 6);
        assert_model(&running.reaches(tip), &source);
        running.stop();
        assert_model(&build(&source, dir.path(), settings()).view(), &source);
    }
}
