//! The power goes, or the disk fails, at every single operation of a workload. What was committed must be found, what is found must have been
//! written, and writing must go on.

use std::{path::Path, sync::Arc};

use lightship_chain::{Height, TreeSizes, compact::EncodedBlock};
use lightship_index::{Error, Reader, StoreId, Writer, testing::TestChain};

use crate::{
    chains::{assert_holds, height},
    disk::{Fault, Loss, MemoryDisk},
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
    /// Builds the range that comes next, of a branch, straight to sealed files.
    Bulk(u64),
    /// Builds the two ranges that come next and seals them together.
    Pair(u64),
    /// Builds a range that leaves a gap, in which the chain ends or a whole range is missing.
    Island(u64),
    /// Closes and opens the store.
    Reopen,
}

/// Every kind of step, and each behind some that prepare it.
const WORKLOAD: &[Step] = &[
    Step::Bulk(1),
    Step::Island(1),
    Step::Bulk(1),
    Step::Commit(3, 1),
    Step::Commit(1, 1),
    Step::Keep(14),
    Step::Commit(7, 2),
    Step::Seal(15),
    Step::Reopen,
    Step::Commit(2, 2),
    Step::Seal(30),
    Step::Commit(2, 2),
    // Below the seal: a range is taken apart.
    Step::Keep(18),
    Step::Commit(3, 3),
    Step::Seal(30),
    // Exactly to the end of a range.
    Step::Keep(12),
    Step::Commit(5, 4),
    Step::Reopen,
    Step::Island(4),
    Step::Commit(3, 4),
    Step::Keep(0),
    Step::Pair(1),
    Step::Commit(6, 1),
];

fn store() -> StoreId {
    TestChain::new(1).store(RANGE_BLOCKS)
}

/// A chain as it stands, and how to go on.
fn after(blocks: &[EncodedBlock], branch: u64) -> TestChain {
    match blocks.last() {
        Some(last) => TestChain::after(last.id, last.sizes, branch),
        None => TestChain::new(1),
    }
}

struct Run {
    disk: MemoryDisk,
    writer: Option<Writer>,
    /// What is committed.
    blocks: Vec<EncodedBlock>,
    /// What the step that is under way may leave.
    possible: Vec<Vec<EncodedBlock>>,
    /// Sealed above a gap.
    island: Vec<EncodedBlock>,
}

impl Run {
    fn start(disk: MemoryDisk) -> Run {
        Run {
            disk,
            writer: None,
            blocks: Vec::new(),
            possible: vec![Vec::new()],
            island: Vec::new(),
        }
    }

    fn open(&mut self) -> Result<(), Error> {
        self.writer = None;
        let disk = Arc::new(self.disk.clone());
        self.writer = Some(Writer::open_on(disk, Path::new(DIR), store())?);
        Ok(())
    }

    fn range(
        &self,
        blocks: &[EncodedBlock],
        before: TreeSizes,
    ) -> Result<lightship_index::RangeBuilder, Error> {
        let writer = self.writer.as_ref().unwrap();
        let mut range = writer.begin_range(blocks[0].id.height, before, blocks[0].previous)?;
        for block in blocks {
            range.append(block)?;
        }
        Ok(range)
    }

    fn step(&mut self, step: Step) -> Result<(), Error> {
        let mut done = self.blocks.clone();
        self.possible = vec![done.clone()];
        let sizes = done.last().map_or(TreeSizes::ZERO, |block| block.sizes);
        match step {
            Step::Reopen => self.open()?,
            Step::Commit(count, branch) => {
                for block in after(&done, branch).take_blocks(count) {
                    done.push(block.clone());
                    self.possible.push(done.clone());
                    self.writer.as_mut().unwrap().append(block)?;
                }
                if done.len() + self.island.len() > 0 && self.reaches_island(&done) {
                    done.append(&mut self.island);
                    self.possible.push(done.clone());
                }
                self.writer.as_mut().unwrap().commit()?;
            }
            Step::Keep(count) => {
                done.truncate(count as usize);
                self.possible.push(done.clone());
                let keep = count.checked_sub(1).map(height);
                self.writer.as_mut().unwrap().truncate_above(keep)?;
                self.island.clear();
            }
            Step::Seal(through) => {
                self.writer
                    .as_mut()
                    .unwrap()
                    .seal_through(height(through))?;
            }
            Step::Bulk(branch) => {
                let next = after(&done, branch).take_blocks(RANGE_BLOCKS);
                let range = self.range(&next, sizes)?;
                done.extend(next);
                if self.reaches_island(&done) {
                    done.append(&mut self.island);
                }
                self.possible.push(done.clone());
                self.writer.as_mut().unwrap().seal(range)?;
            }
            Step::Pair(branch) => {
                let mut chain = after(&done, branch);
                let low = chain.take_blocks(RANGE_BLOCKS);
                let middle = chain.sizes();
                let high = chain.take_blocks(RANGE_BLOCKS);
                let pair = vec![self.range(&high, middle)?, self.range(&low, sizes)?];
                done.extend(low);
                done.extend(high);
                self.possible.push(done.clone());
                self.writer.as_mut().unwrap().seal_all(pair)?;
            }
            Step::Island(branch) => {
                let mut chain = after(&done, branch);
                let gap = RANGE_BLOCKS - done.len() as u32 % RANGE_BLOCKS;
                let gap = chain.take_blocks(gap);
                let before = gap.last().unwrap().sizes;
                let island = chain.take_blocks(RANGE_BLOCKS);
                let range = self.range(&island, before)?;
                self.island = island;
                self.writer.as_mut().unwrap().seal(range)?;
            }
        }
        self.blocks = done.clone();
        self.possible = vec![done];
        Ok(())
    }

    fn reaches_island(&self, blocks: &[EncodedBlock]) -> bool {
        let next = self.island.first().map(|block| block.id.height.get());
        next == Some(blocks.len() as u32)
    }

    fn all(&mut self) -> Result<(), (Option<Step>, Error)> {
        self.open().map_err(|error| (None, error))?;
        for step in WORKLOAD {
            self.step(*step).map_err(|error| (Some(*step), error))?;
            let view = self.writer.as_ref().unwrap().reader().view();
            assert_holds(&view, &self.blocks);
        }
        Ok(())
    }

    /// Demands one of the possible chains on `disk`, for a reader and for a writer, and that writing goes on from it.
    fn check(&self, disk: &MemoryDisk) {
        let found = match Reader::open_on(Arc::new(disk.copy()), Path::new(DIR)) {
            Ok(reader) => Some(reader.view()),
            Err(Error::Missing { .. }) => None,
            Err(error) => panic!("a reader finds {error}"),
        };
        let disk = Arc::new(disk.clone());
        let mut writer = Writer::open_on(Arc::clone(&disk) as _, Path::new(DIR), store()).unwrap();
        let view = writer.reader().view();
        let count = view.tip().map_or(0, |tip| tip.height.get() as usize + 1);
        let blocks = self
            .possible
            .iter()
            .find(|blocks| blocks.len() == count && blocks.last().map(|last| last.id) == view.tip())
            .unwrap_or_else(|| panic!("found a chain of {count} blocks that was never written"));
        assert_holds(&view, blocks);
        if let Some(found) = found {
            // Opening for writing may join an island, so the reader may have seen less.
            let seen = found.tip().map_or(0, |tip| tip.height.get() as usize + 1);
            assert!(self.possible.iter().any(|blocks| blocks.len() == seen));
            assert_holds(&found, &blocks[..seen]);
        }
        let mut blocks = blocks.clone();
        // Islands of the interrupted run are in the way of another branch.
        let keep = view.tip().map(|tip| tip.height);
        writer.truncate_above(keep).unwrap();
        for block in after(&blocks, 77).take_blocks(2 * RANGE_BLOCKS) {
            blocks.push(block.clone());
            writer.append(block).unwrap();
        }
        writer.commit().unwrap();
        writer.seal_through(Height::MAX).unwrap();
        assert_holds(&writer.reader().view(), &blocks);
        drop(writer);
        let reader = Reader::open_on(disk, Path::new(DIR)).unwrap();
        assert_holds(&reader.view(), &blocks);
    }
}

fn operations() -> usize {
    let disk = MemoryDisk::new();
    let mut run = Run::start(disk.clone());
    run.all().unwrap();
    disk.operations()
}

/// A store that lost power must hold what was committed, and nothing that was not written.
#[test]
fn a_power_cut_at_any_operation_loses_nothing_that_was_committed() {
    let operations = operations();
    assert!(operations > 150, "the workload has shrunk to {operations}");
    for cut in 0..operations {
        let disk = MemoryDisk::new();
        disk.fail_at(cut, Fault::PowerCut);
        let mut run = Run::start(disk.clone());
        // What is only cleared away may fail without notice, so the workload may go through.
        let _ = run.all();
        for loss in Loss::ALL {
            run.check(&disk.after_power_cut(loss));
        }
    }
}

/// A disk that fails once and goes on: the writer must stop by itself, and what it leaves must be as good as after a power cut.
#[test]
fn after_one_failed_operation_nothing_more_is_written_until_the_store_is_opened_again() {
    for fail in 0..operations() {
        let disk = MemoryDisk::new();
        disk.fail_at(fail, Fault::OneError);
        let mut run = Run::start(disk.clone());
        let failed = run.all();
        if let Err((Some(step), _)) = failed
            && !matches!(step, Step::Reopen)
        {
            let before = disk.operations();
            let mut writer = run.writer.take().unwrap();
            let refused = writer.truncate_above(None).is_err();
            let untouched = disk.operations() == before;
            // Building a range, or sealing from the tail, may fail before anything that counts is written; then the writer goes on. The
            // last of these commits joins an island, which seals.
            let harmless = matches!(
                step,
                Step::Bulk(_)
                    | Step::Pair(_)
                    | Step::Island(_)
                    | Step::Seal(_)
                    | Step::Commit(3, 4)
            );
            assert!(refused && untouched || harmless, "{step:?} at {fail}");
            if !refused {
                run.possible = vec![Vec::new()];
            }
        }
        drop(run.writer.take());
        for loss in Loss::ALL {
            run.check(&disk.after_power_cut(loss));
        }
    }
}

/// What a failed sync left may read well and never have reached the disk. Reopened, the writer must go on from what is durable.
#[test]
fn reopening_after_a_failed_operation_shows_only_what_a_power_cut_leaves() {
    let mut reopened = 0;
    for fail in 0..operations() {
        let disk = MemoryDisk::new();
        disk.fail_at(fail, Fault::OneError);
        let mut run = Run::start(disk.clone());
        let Err((Some(step), _)) = run.all() else {
            continue;
        };
        let Some(mut writer) = run.writer.take() else {
            continue;
        };
        let reader = writer.reader();
        writer.reopen().unwrap();
        reopened += 1;
        let tip = reader.view().tip();
        assert_eq!(writer.tip(), tip);
        let possible = run.possible.iter();
        let possible: Vec<_> = possible
            .map(|blocks| blocks.last().map(|last| last.id))
            .collect();
        assert!(possible.contains(&tip), "{step:?} at {fail}: {tip:?}");
        let after = disk.after_power_cut(Loss::Everything);
        let found = Reader::open_on(Arc::new(after), Path::new(DIR)).unwrap();
        assert_eq!(found.view().tip(), tip, "{step:?} at {fail}");
        drop(writer);
        run.check(&disk.after_power_cut(Loss::Nothing));
    }
    assert!(reopened > 100, "{reopened}");
}
