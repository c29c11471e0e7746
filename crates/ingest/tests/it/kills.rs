//! The process is killed, again and again, while it builds and follows.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use lightship_chain::BlockId;
use lightship_index::Writer;

use crate::{
    running::{assert_holds, settings, start_on, store_of},
    scripted::Scripted,
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
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "kills::builds_and_follows_until_killed",
                "--ignored",
            ])
            .env(FOLDER, dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(150 + round * 97 % 400));
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();

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
