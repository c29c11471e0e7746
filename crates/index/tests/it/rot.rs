//! Bytes change on disk, files lose their ends or go missing. The answer is an error or the truth, never anything else.

use std::{panic, path::Path, sync::Arc};

use lightship_chain::{HeightRange, compact::EncodedBlock};
use lightship_index::{Reader, View, Writer, testing::TestChain};

use crate::{
    chains::{build, height, write},
    disk::MemoryDisk,
};

const DIR: &str = "/store";

/// A store with sealed ranges, an island, two segments, a rollback, and commits of several blocks; with every chain its tail ever held.
fn store() -> (MemoryDisk, Vec<Vec<EncodedBlock>>, Vec<EncodedBlock>) {
    let disk = MemoryDisk::new();
    let mut chain = TestChain::new(1);
    let id = chain.store(4);
    let mut blocks = chain.take_blocks(32);
    let island = blocks.split_off(28);
    let mut writer = Writer::open_on(Arc::new(disk.clone()), Path::new(DIR), id).unwrap();
    let range = build(&writer, blocks[27].sizes, &island);
    writer.seal(range).unwrap();
    write(&mut writer, &blocks[..10], 5);
    writer.seal_through(height(9)).unwrap();
    let mut history: Vec<_> = (8..=20).map(|count| blocks[..count].to_vec()).collect();
    write(&mut writer, &blocks[10..20], 3);
    drop(writer);
    let mut writer = Writer::open_on(Arc::new(disk.clone()), Path::new(DIR), id).unwrap();
    writer.truncate_above(Some(height(16))).ok();
    let mut fork = TestChain::after(blocks[16].id, blocks[16].sizes, 2);
    let mut forked = blocks[..17].to_vec();
    history.push(forked.clone());
    for block in fork.take_blocks(5) {
        forked.push(block.clone());
        history.push(forked.clone());
    }
    write(&mut writer, &forked[17..], 2);
    // The rollback took the island away; it is put back.
    let range = build(&writer, blocks[27].sizes, &island);
    writer.seal(range).unwrap();
    (disk, history, island)
}

/// Whether everything a view answers is true of `blocks`, errors aside.
fn tells_the_truth(view: &Arc<View>, blocks: &[EncodedBlock], island: &[EncodedBlock]) -> bool {
    let holds = |block: &EncodedBlock| {
        let at = block.id.height;
        let stored = view.block(at);
        let is_block = match stored {
            Ok(Some(stored)) => {
                stored.frame == block.frame
                    && stored.transparent == block.transparent
                    && stored.row.hash == block.id.hash
                    && stored.row.time == block.time
                    && stored.row.sizes == block.sizes
            }
            Ok(None) => false,
            Err(_) => true,
        };
        is_block && view.height_of(&block.id.hash) == Some(at)
    };
    let Some(range) = blocks
        .last()
        .and_then(|last| HeightRange::new(height(0), last.id.height))
    else {
        return view.tip().is_none();
    };
    let frames = view.frames(range, 1500).all(|piece| match piece {
        Ok(piece) => {
            let (first, last) = (piece.range.first().get(), piece.range.last().get());
            let expected = blocks[first as usize..=last as usize]
                .iter()
                .flat_map(|block| block.frame.clone());
            piece.bytes.iter().copied().eq(expected)
        }
        Err(_) => true,
    });
    let islands = island
        .iter()
        .all(|block| !view.covers(block.id.height) || holds(block));
    frames && islands && blocks.iter().all(holds)
}

/// What came of reading a damaged store.
#[derive(Default, Debug)]
struct Outcome {
    refused: usize,
    whole: usize,
    shorter: usize,
}

impl Outcome {
    fn of(
        &mut self,
        disk: &MemoryDisk,
        history: &[Vec<EncodedBlock>],
        island: &[EncodedBlock],
        what: &str,
    ) {
        let Ok(reader) = Reader::open_on(Arc::new(disk.clone()), Path::new(DIR)) else {
            self.refused += 1;
            return;
        };
        let view = reader.view();
        let now = history.last().unwrap();
        let found = history
            .iter()
            .find(|blocks| blocks.last().map(|last| last.id) == view.tip());
        let found =
            found.unwrap_or_else(|| panic!("{what}: a tip that never was: {:?}", view.tip()));
        if found.len() == now.len() {
            self.whole += 1;
        } else {
            self.shorter += 1;
        }
        let truth = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            tells_the_truth(&view, found, island)
        }));
        assert!(matches!(truth, Ok(true)), "{what}: a wrong answer");
    }
}

#[test]
fn a_flipped_byte_is_refused_or_harmless_wherever_it_is() {
    let (disk, history, island) = store();
    let mut by_kind = std::collections::BTreeMap::<String, Outcome>::new();
    for (path, data) in disk.files() {
        let kind = path
            .extension()
            .unwrap_or(path.as_os_str())
            .to_string_lossy()
            .into_owned();
        let outcome = by_kind.entry(kind).or_default();
        // Every byte of what has a shape of its own; of the long log, whose records repeat, every byte of the first few.
        let bytes = (0..data.len()).filter(|at| *at < 3000 || at % 7 == 0);
        for at in bytes {
            let damaged = disk.copy();
            let mut flipped = data.clone();
            // One bit, another one from byte to byte.
            flipped[at] ^= 1 << (at % 8);
            damaged.replace(&path, Some(flipped));
            let what = format!("{} byte {at}", path.display());
            outcome.of(&damaged, &history, &island, &what);
        }
    }
    println!("{by_kind:#?}");
    for kind in ["columns", "/store/manifest"] {
        let outcome = &by_kind[kind];
        assert_eq!((outcome.whole, outcome.shorter), (0, 0), "{kind}");
    }
    // Only the last commit of the segment that grows may pass for one that a crash has torn.
    assert!(by_kind["log"].refused > 3 * by_kind["log"].shorter);
    assert_eq!(by_kind["log"].whole, 0);
}

#[test]
fn a_shortened_or_missing_file_is_refused_or_harmless() {
    let (disk, history, island) = store();
    let mut outcome = Outcome::default();
    for (path, data) in disk.files() {
        let damaged = disk.copy();
        damaged.replace(&path, None);
        assert!(Reader::open_on(Arc::new(damaged), Path::new(DIR)).is_err());
        for length in (0..data.len()).filter(|at| *at < 500 || at % 7 == 0) {
            let damaged = disk.copy();
            damaged.replace(&path, Some(data[..length].to_vec()));
            let what = format!("{} cut at {length}", path.display());
            outcome.of(&damaged, &history, &island, &what);
        }
        let damaged = disk.copy();
        damaged.replace(&path, Some([data.as_slice(), &[0; 3]].concat()));
        outcome.of(
            &damaged,
            &history,
            &island,
            &format!("{} with more", path.display()),
        );
    }
    assert!(outcome.refused > outcome.shorter, "{outcome:?}");
}
