//! The process is killed, again and again, while it builds and follows.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lightship_chain::BlockId;
use lightship_index::Writer;
use lightship_ingest::Settings;

use crate::{
    newest::{NEWEST_BLOCKS, assert_islands_hold},
    running::{assert_holds, settings, start_on, store_of},
    scripted::{Act, Call, Scripted},
};

const FOLDER: &str = "LIGHTSHIP_TEST_KILLED_IN";
const SEED: u64 = 61;
const BLOCKS: usize = 160;

/// What the killed process does: builds the chain of its parent, then goes back and forth between two branches for ever.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn builds_and_follows_until_killed() {
    let Ok(folder) = env::var(FOLDER) else {
        return;
    };
    let source = Scripted::new(SEED, BLOCKS);
    let (one, other) = branches(&source);
    let writer = Writer::open(Path::new(&folder), store_of(&source)).unwrap();
    let running = start_on(&source, writer, settings());
    loop {
        for tip in [one, other] {
            source.switch(tip);
            running.reaches(tip);
        }
    }
}

/// Two branches, one of them forking below what is sealed. The same in both processes.
fn branches(source: &Scripted) -> (BlockId, BlockId) {
    let one = source.best();
    let other = source.forge(source.below_tip(33), 40);
    (one, other)
}

#[test]
fn a_process_killed_at_any_moment_leaves_a_whole_chain() {
    let dir = tempfile::tempdir().unwrap();
    let source = Scripted::new(SEED, BLOCKS);
    let (one, other) = branches(&source);
    let models = [one, other].map(|tip| {
        source.switch(tip);
        source.model()
    });
    let mut most = 0;
    for round in 0..12u64 {
        let life = Duration::from_millis(150 + round * 97 % 400);
        kill_after(life, "kills::builds_and_follows_until_killed", dir.path());
        let writer = Writer::open(dir.path(), store_of(&source)).unwrap();
        let view = writer.reader().view();
        let blocks = view.tip().map_or(0, |tip| tip.height.get() as usize + 1);
        most = most.max(blocks);
        let model = models
            .iter()
            .find(|model| blocks == 0 || model.get(blocks - 1).map(|block| block.id) == view.tip())
            .expect("the tip is a block of one of the branches");
        assert_holds(&view, &model[..blocks]);
        if round % 4 == 3 {
            let running = start_on(&source, writer, settings());
            assert_holds(&running.reaches(source.best()), &source.model());
            running.stop();
        }
    }
    assert!(
        most > BLOCKS / 2,
        "killed before anything was done: {most} blocks"
    );
}

const FAR_BLOCKS: usize = 600;

/// Of the blocks in the gap one takes some milliseconds, so that most kills find islands.
fn newest_first(source: &Scripted) -> Settings {
    source.script(|call| {
        if matches!(call, Call::Lend(height) if height.get() % 4 == 0) {
            thread::sleep(Duration::from_millis(8));
        }
        Act::Go
    });
    Settings {
        newest_first_blocks: NEWEST_BLOCKS,
        ..settings()
    }
}

/// What the killed process does: builds the chain of its parent, the newest blocks first.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn builds_newest_first_until_killed() {
    let Ok(folder) = env::var(FOLDER) else {
        return;
    };
    let source = Scripted::new(SEED, FAR_BLOCKS);
    let writer = Writer::open(Path::new(&folder), store_of(&source)).unwrap();
    let running = start_on(&source, writer, newest_first(&source));
    running.reaches(source.best());
    loop {
        thread::park();
    }
}

#[test]
fn a_process_killed_while_it_builds_the_newest_first_leaves_nothing_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let source = Scripted::new(SEED, FAR_BLOCKS);
    // The child makes the same chain before it begins.
    let forged_in = began.elapsed();
    let model = source.model();
    let mut with_islands = 0;
    for round in 0..8u64 {
        let life = forged_in + Duration::from_millis(40 + round * 97 % 400);
        kill_after(life, "kills::builds_newest_first_until_killed", dir.path());
        let writer = Writer::open(dir.path(), store_of(&source)).unwrap();
        let view = writer.reader().view();
        let blocks = view.tip().map_or(0, |tip| tip.height.get() as usize + 1);
        for block in &model[..blocks] {
            let stored = view.block(block.id.height).unwrap().unwrap();
            assert_eq!(stored.frame, block.frame);
        }
        assert_islands_hold(&view, &model);
        with_islands += usize::from(!view.islands().is_empty());
        if round % 4 == 3 {
            let running = start_on(&source, writer, newest_first(&source));
            assert_holds(&running.reaches(source.best()), &model);
            running.stop();
            std::fs::remove_dir_all(dir.path()).unwrap();
            std::fs::create_dir(dir.path()).unwrap();
        }
    }
    assert!(with_islands > 2, "islands were found {with_islands} times");
}

/// Runs a test of this file in a process of its own, and kills that.
fn kill_after(life: Duration, test: &str, folder: &Path) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(life);
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
}
