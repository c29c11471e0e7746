//! Blocks from files.

use std::{fs, io::Write, ops::ControlFlow, path::PathBuf, time::Duration};

use lightship_chain::{
    BlockHash, Height, HeightRange, RawBlock, ShieldedPool, Upgrade,
    build::{Activations, BuiltBlock, ChainBuilder, Coinbase},
};
use lightship_source::{BlockSource, Error, files::FileSource};

fn chain() -> Vec<BuiltBlock> {
    let mut builder = ChainBuilder::new(7, Activations::all_at(Upgrade::Nu5, 1));
    let coinbase = |height: usize| Coinbase {
        orchard_actions: height % 3,
        ..Coinbase::default()
    };
    let mut next = |height| {
        let pays = if height == 0 {
            Coinbase::default()
        } else {
            coinbase(height)
        };
        builder.next_block(pays, &[]).unwrap()
    };
    (0..30).map(&mut next).collect()
}

fn lines(blocks: &[BuiltBlock]) -> Vec<u8> {
    let mut text = b"# thirty blocks\n\n".to_vec();
    for (block, n) in blocks.iter().zip(0..) {
        let hex = const_hex::encode(&block.bytes);
        let line = if n % 2 == 0 {
            hex
        } else {
            hex.to_uppercase() + "\r"
        };
        writeln!(text, "{line}").unwrap();
    }
    text
}

fn records(blocks: &[BuiltBlock]) -> Vec<u8> {
    let record =
        |block: &BuiltBlock| [&(block.bytes.len() as u32).to_le_bytes(), &*block.bytes].concat();
    blocks.iter().flat_map(record).collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, content: &[u8]) -> PathBuf {
        let path = self.0.path().join("blocks");
        fs::write(&path, content).unwrap();
        path
    }
}

#[test]
fn both_forms_hold_the_same_chain() {
    let (folder, blocks) = (Folder::new(), chain());
    for content in [lines(&blocks), records(&blocks)] {
        let source = FileSource::open(folder.file(&content)).unwrap();
        let tip = source.tip().unwrap().unwrap();
        assert_eq!(tip, blocks[29].id);
        assert_eq!(source.genesis().unwrap(), blocks[0].id.hash);
        let mut seen = Vec::new();
        let range = HeightRange::new(Height::new(3), Height::new(20)).unwrap();
        source
            .blocks(range, &mut |height, block| {
                let RawBlock::Whole(bytes) = block else {
                    panic!("files hold whole blocks")
                };
                assert_eq!(bytes, blocks[height.get() as usize].bytes);
                seen.push(height.get());
                if height.get() < 15 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
            .unwrap();
        assert_eq!(seen, Vec::from_iter(3..=15));

        let mut lent = 0;
        assert!(source.block(blocks[9].id.hash, &mut |_| lent += 1).unwrap());
        assert!(!source.block(BlockHash::ZERO, &mut |_| lent += 1).unwrap());
        assert_eq!(lent, 1);
        assert_eq!(source.hash_at(Height::new(30)).unwrap(), None);
        let above = HeightRange::new(Height::new(29), Height::new(40)).unwrap();
        let error = source
            .blocks(above, &mut |_, _| ControlFlow::Continue(()))
            .unwrap_err();
        assert!(matches!(error, Error::AboveTip { height } if height.get() == 30));

        // 1 + 2 + 0 + … actions.
        let sizes = source.tree_sizes(tip.hash).unwrap().unwrap();
        assert_eq!(
            sizes.of(ShieldedPool::Orchard),
            (0..30).map(|height| height % 3).sum::<u32>()
        );
        assert_eq!(source.tree_sizes(BlockHash::ZERO).unwrap(), None);
        source.wait(None, Duration::from_secs(60)).unwrap();
        source.wait(Some(tip), Duration::from_millis(1)).unwrap();
    }
}

#[test]
fn an_empty_file_is_a_chain_without_a_block() {
    let folder = Folder::new();
    for content in [&b""[..], b"\n# nothing\n"] {
        let source = FileSource::open(folder.file(content)).unwrap();
        assert_eq!(source.tip().unwrap(), None);
        assert!(matches!(
            source.genesis().unwrap_err(),
            Error::Unsupported { .. }
        ));
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let (folder, blocks) = (Folder::new(), chain());
    let hex = |n: usize| const_hex::encode(&blocks[n].bytes);
    let good = records(&blocks[..2]);
    let second = 4 + blocks[0].bytes.len();
    let cases: [(Vec<u8>, &str, &str); 10] = [
        (
            format!("{}\nxyz\n", hex(0)).into(),
            "line 2",
            "3 characters",
        ),
        (
            format!("{}\n\n0{}g\n", hex(0), "0".repeat(8)).into(),
            "line 3",
            "column 10",
        ),
        (format!("0x{}\n", hex(0)).into(), "line 1", "column 2"),
        (
            format!("{}\n{}", hex(0), &hex(1)[..200]).into(),
            "line 2",
            "not a block",
        ),
        (hex(1).into(), "line 1", "genesis"),
        (
            "ab".repeat(2_000_001).into(),
            "line 1",
            "longer than any block",
        ),
        (
            good[..second + 2].to_vec(),
            &format!("record 2 at byte {second}"),
            "inside a record's length",
        ),
        (
            good[..good.len() - 1].to_vec(),
            "record 2",
            "the file ends after",
        ),
        (
            [&good[..], &[0, 0, 0, 1]].concat(),
            "record 3",
            "longer than any block",
        ),
        (
            [&good[..], &[3, 0, 0, 0, 1, 2, 3]].concat(),
            "record 3",
            "not a block",
        ),
    ];
    for (content, place, problem) in cases {
        let path = folder.file(&content);
        let error = FileSource::open(&path).unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.contains(place) && text.contains(problem), "{text}");
    }
    let unlinked = [blocks[0].clone(), blocks[2].clone()];
    let error = FileSource::open(folder.file(&records(&unlinked))).unwrap_err();
    assert!(
        matches!(error, Error::Link { height, .. } if height.get() == 1),
        "{error}"
    );
    let error = FileSource::open(folder.0.path().join("nowhere")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }) && !error.is_transient());
}

#[test]
fn a_file_that_changed_since_is_noticed() {
    let (folder, blocks) = (Folder::new(), chain());
    let source = FileSource::open(folder.file(&lines(&blocks))).unwrap();
    let mut changed = blocks.clone();
    changed.swap(5, 6);
    for content in [lines(&changed), lines(&blocks[..3]), Vec::new()] {
        folder.file(&content);
        let error = source
            .block(blocks[5].id.hash, &mut |_| panic!("lent"))
            .unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error:?}");
    }
}
