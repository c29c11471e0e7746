//! What `verify` finds, and what it does not.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use lightship_chain::{Height, TreeSizes, compact::EncodedBlock};
use lightship_index::{Finding, Writer, testing::TestChain, verify, verify_on};

use crate::{
    chains::{build, height, write},
    disk::MemoryDisk,
};

const DIR: &str = "/store";

fn findings(disk: &MemoryDisk) -> Vec<Finding> {
    let mut findings = Vec::new();
    let disk = Arc::new(disk.clone());
    match verify_on(disk, Path::new(DIR), &mut |finding| findings.push(finding)) {
        Ok(summary) => assert_eq!(summary.findings, findings.len() as u64),
        Err(error) => findings.push(Finding {
            path: DIR.into(),
            height: None,
            problem: error.to_string(),
        }),
    }
    findings
}

#[test]
fn a_whole_store_is_found_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let blocks = chain.take_blocks(64);
    let mut writer = Writer::open(dir.path(), chain.store(8)).unwrap();
    let island = build(&writer, blocks[55].sizes, &blocks[56..]);
    writer.seal(island).unwrap();
    write(&mut writer, &blocks[..37], 5);
    writer.seal_through(height(20)).unwrap();
    let mut found = Vec::new();
    let summary = verify(dir.path(), &mut |finding| found.push(finding)).unwrap();
    assert_eq!(found, []);
    assert_eq!((summary.ranges, summary.sealed_blocks), (3, 24));
    assert_eq!(summary.tail_blocks, 37 - 16);
    let bytes: usize = blocks[16..37]
        .iter()
        .map(|block| block.frame.len() + block.transparent.len())
        .sum();
    assert!(summary.bytes > bytes as u64);
}

#[test]
fn a_flipped_byte_in_a_sealed_file_is_found_and_named() {
    let disk = MemoryDisk::new();
    let mut chain = TestChain::new(1);
    let blocks = chain.take_blocks(16);
    let mut writer =
        Writer::open_on(Arc::new(disk.clone()), Path::new(DIR), chain.store(4)).unwrap();
    write(&mut writer, &blocks, 16);
    writer.seal_through(height(11)).unwrap();
    assert_eq!(findings(&disk), []);
    for (path, data) in disk.files() {
        let step = if path.extension().is_some_and(|kind| kind == "log") {
            // The last commit may pass for one that a crash has cut; its records are all there is.
            continue;
        } else {
            5
        };
        for at in (0..data.len()).step_by(step) {
            let damaged = disk.copy();
            let mut flipped = data.clone();
            flipped[at] ^= 0x10;
            damaged.replace(&path, Some(flipped));
            let found = findings(&damaged);
            assert!(!found.is_empty(), "{} byte {at}", path.display());
            if path.starts_with("/store/sealed") {
                assert_eq!(found[0].path, path, "{found:?}");
            }
            assert!(
                found
                    .iter()
                    .all(|finding| finding.to_string().lines().count() == 1)
            );
        }
        let damaged = disk.copy();
        damaged.replace(&path, None);
        assert!(!findings(&damaged).is_empty(), "{} missing", path.display());
    }
}

#[test]
fn a_row_that_contradicts_its_block_is_found() {
    type Spoil = fn(&mut EncodedBlock);
    let wrong: [(&str, Spoil); 4] = [
        ("time", |block| block.time += 1),
        ("tree sizes", |block| block.sizes.sapling += 1),
        ("number of transactions", |block| block.transactions += 1),
        ("companion", |block| block.transparent.truncate(5)),
    ];
    for (what, spoil) in wrong {
        let disk = MemoryDisk::new();
        let mut chain = TestChain::new(1);
        let mut blocks = chain.take_blocks(8);
        spoil(&mut blocks[7]);
        let mut writer =
            Writer::open_on(Arc::new(disk.clone()), Path::new(DIR), chain.store(4)).unwrap();
        let low = build(&writer, TreeSizes::ZERO, &blocks[..4]);
        writer.seal(low).unwrap();
        write(&mut writer, &blocks[4..], 4);
        for sealed in [false, true] {
            if sealed {
                writer.seal_through(Height::MAX).unwrap();
            }
            let found = findings(&disk);
            assert!(!found.is_empty());
            for finding in found {
                assert_eq!(finding.height, Some(height(7)));
                assert!(finding.problem.contains(what), "{finding}");
            }
        }
    }
}

#[test]
fn verifying_beside_a_busy_writer_finds_nothing_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = TestChain::new(1);
    let mut writer = Writer::open(dir.path(), chain.store(8)).unwrap();
    write(&mut writer, &chain.take_blocks(20), 4);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let mut found = Vec::new();
                verify(dir.path(), &mut |finding| found.push(finding)).unwrap();
                assert_eq!(found, []);
            }
        });
        for round in 0..60 {
            write(&mut writer, &chain.take_blocks(9), 3);
            let tip = writer.tip().unwrap();
            writer.seal_through(tip.height.saturating_sub(10)).unwrap();
            if round % 7 == 0 {
                let keep = tip.height.saturating_sub(13);
                writer.truncate_above(Some(keep)).unwrap();
                let hash = writer.hash_at(keep).unwrap();
                let parent = lightship_chain::BlockId { height: keep, hash };
                chain = TestChain::after(parent, writer.tip_sizes(), round);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
