//! The power goes, or the disk fails, at every single operation while trees grow. A file of nodes is whole or made anew, whatever is answered
//! is what the notes give, and no file outlives its range.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

use lightship_chain::Height;
use lightship_index::{Error, Trees, View, Writer, testing::TestChain};

use crate::{
    chains::height,
    disk::{Fault, Loss, MemoryDisk},
    trees::{Quick, check, model_of},
};

const DIR: &str = "/store";
const RANGE_BLOCKS: u32 = 4;

/// One step of a workload.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Appends that many blocks of a branch and commits them.
    Commit(u32, u64),
    /// Keeps that many blocks.
    Keep(u32),
    /// Seals what is complete up to a height.
    Seal(u32),
    /// Lets the trees grow by at most that many steps.
    Grow(u32),
    /// Closes and opens the store and its trees.
    Reopen,
}

/// Files are written from the tail and from sealed ranges, are given up by a rollback below the seal, and are left behind by one that no trees saw.
const WORKLOAD: &[Step] = &[
    Step::Commit(9, 1),
    Step::Grow(1),
    Step::Seal(8),
    Step::Grow(9),
    Step::Commit(4, 1),
    Step::Seal(12),
    Step::Reopen,
    Step::Grow(9),
    // Below the seal: the trees take their files back.
    Step::Keep(6),
    Step::Commit(7, 2),
    Step::Grow(1),
    Step::Seal(12),
    Step::Grow(9),
    // Below the seal, and the trees are not asked before the store is opened again.
    Step::Keep(5),
    Step::Commit(5, 3),
    Step::Reopen,
    Step::Seal(12),
    Step::Grow(9),
];

struct Run {
    disk: MemoryDisk,
    writer: Option<Writer>,
    trees: Trees,
}

fn open_trees(disk: &MemoryDisk) -> Trees {
    let disk = Arc::new(disk.clone());
    Trees::open_on(disk, Path::new(DIR), Arc::new(Quick), NonZeroUsize::MIN)
}

/// What an earlier process left is right, and never beyond what it had accepted.
fn take_up(trees: &Trees, view: &Arc<View>) {
    for _ in 0..64 {
        match trees.take_up(view) {
            Ok(()) => return,
            Err(Error::Corrupt { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("damage is met again and again");
}

/// Grows to the end of `view`, however often a damaged file is met.
fn grow_all(trees: &Trees, view: &Arc<View>) {
    for _ in 0..64 {
        match trees.next(view) {
            Ok(Some(growth)) => growth.accept([Some(Height::GENESIS); 3]).unwrap(),
            Ok(None) => return,
            Err(Error::Corrupt { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the trees do not come to an end");
}

impl Run {
    fn start(disk: MemoryDisk) -> Run {
        let trees = open_trees(&disk);
        Run {
            disk,
            writer: None,
            trees,
        }
    }

    fn open(&mut self) -> Result<(), Error> {
        self.writer = None;
        let disk = Arc::new(self.disk.clone());
        let id = TestChain::new(1).store(RANGE_BLOCKS);
        self.writer = Some(Writer::open_on(disk, Path::new(DIR), id)?);
        self.trees = open_trees(&self.disk);
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), Error> {
        let writer = self.writer.as_mut().unwrap();
        match step {
            Step::Commit(count, branch) => {
                let mut chain = match writer.tip() {
                    Some(tip) => TestChain::after(tip, writer.tip_sizes(), branch),
                    None => TestChain::new(1),
                };
                for block in chain.take_blocks(count) {
                    writer.append(block)?;
                }
                writer.commit()?;
            }
            Step::Keep(count) => {
                writer.truncate_above(count.checked_sub(1).map(height))?;
            }
            Step::Seal(through) => {
                writer.seal_through(height(through))?;
            }
            Step::Grow(steps) => {
                let view = writer.reader().view();
                for _ in 0..steps {
                    let Some(growth) = self.trees.next(&view)? else {
                        break;
                    };
                    growth.accept([Some(Height::GENESIS); 3])?;
                }
            }
            Step::Reopen => self.open()?,
        }
        Ok(())
    }

    fn all(&mut self) -> Result<(), Error> {
        self.open()?;
        for step in WORKLOAD {
            let done = self.step(*step);
            // Whether or not the step went well, nothing wrong is read.
            if let Some(writer) = &self.writer {
                let view = writer.reader().view();
                check(&self.trees, &view, &model_of(&view));
            }
            done?;
        }
        Ok(())
    }
}

/// Opens what is left, demands that it is right, grows it to the end, and demands that it is all and nothing else.
fn check_rest(disk: &MemoryDisk) {
    let shared = Arc::new(disk.clone());
    let id = TestChain::new(1).store(RANGE_BLOCKS);
    let writer = Writer::open_on(shared, Path::new(DIR), id).unwrap();
    let view = writer.reader().view();
    let model = model_of(&view);
    let trees = open_trees(disk);
    take_up(&trees, &view);
    check(&trees, &view, &model);
    grow_all(&trees, &view);
    assert_eq!(check(&trees, &view, &model), model.len());
    assert_eq!(trees.through(), view.tip());
    let mut sealed = BTreeSet::new();
    let mut nodes = BTreeSet::new();
    for (path, _) in disk.files() {
        let name = PathBuf::from(path.file_name().unwrap());
        if name.extension() == Some("trees".as_ref()) {
            nodes.insert(name);
        } else if name.extension() == Some("columns".as_ref()) {
            sealed.insert(name.with_extension("trees"));
        }
    }
    assert_eq!(nodes, sealed, "a file of nodes for each sealed range");
    // The next process has all of it without asking anyone.
    let again = open_trees(disk);
    take_up(&again, &view);
    assert_eq!(check(&again, &view, &model), model.len());
}

fn operations() -> usize {
    let disk = MemoryDisk::new();
    let mut run = Run::start(disk.clone());
    run.all().unwrap();
    drop(run.writer.take());
    check_rest(&disk.copy());
    disk.operations()
}

#[test]
fn a_power_cut_at_any_operation_leaves_whole_files_or_none() {
    let operations = operations();
    assert!(operations > 100, "the workload has shrunk to {operations}");
    for cut in 0..operations {
        let disk = MemoryDisk::new();
        disk.fail_at(cut, Fault::PowerCut);
        let mut run = Run::start(disk.clone());
        assert!(run.all().is_err() || cut + 1 == operations, "cut at {cut}");
        for loss in Loss::ALL {
            check_rest(&disk.after_power_cut(loss));
        }
    }
}

#[test]
fn after_one_failed_operation_the_trees_go_on() {
    for fail in 0..operations() {
        let disk = MemoryDisk::new();
        disk.fail_at(fail, Fault::OneError);
        let mut run = Run::start(disk.clone());
        let _ = run.all();
        if let Some(writer) = &run.writer {
            // The same process, without another start.
            let view = writer.reader().view();
            grow_all(&run.trees, &view);
            let model = model_of(&view);
            assert_eq!(check(&run.trees, &view, &model), model.len(), "{fail}");
        }
        drop(run.writer.take());
        for loss in Loss::ALL {
            check_rest(&disk.after_power_cut(loss));
        }
    }
}
