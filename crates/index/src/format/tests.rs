//! The examples in `docs/format.md` are what this program writes and reads.

use std::num::NonZeroU32;

use lightship_chain::{BlockHash, Height, Network, ShieldedPool, TreeSizes};

use super::{
    Fields, columns,
    columns::Columns,
    digest, hex,
    manifest::{self, Manifest, Unreadable},
    record::{self, Kind, Salt},
    trees,
};
use crate::StoreId;

/// The bytes of the example of that name: a fenced block marked `hex NAME`, where all from a `|` to the end of a line is remark.
fn example(name: &str) -> Vec<u8> {
    let page = include_str!("../../../../docs/format.md");
    let start = format!("```hex {name}\n");
    let (_, rest) = page
        .split_once(&start)
        .unwrap_or_else(|| panic!("no example {name}"));
    let (block, _) = rest.split_once("```").unwrap();
    let digits: String = block
        .lines()
        .map(|line| line.split('|').next().unwrap_or_default())
        .flat_map(str::chars)
        .filter(char::is_ascii_hexdigit)
        .collect();
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn hash(byte: u8) -> BlockHash {
    BlockHash::from_internal([byte; 32])
}

/// An empty block's message is its chain metadata alone.
const FRAME: &[u8] = &[0, 0, 0, 0, 2, 0x42, 0];
/// A companion of one transaction without any part.
const TRANSPARENT: &[u8] = &[0x3a, 0];

fn sizes(sapling: u32, orchard: u32, ironwood: u32) -> TreeSizes {
    TreeSizes {
        sapling,
        orchard,
        ironwood,
    }
}

fn row() -> Columns {
    Columns {
        hash: hash(0x11),
        time: 1_477_641_360,
        sizes: sizes(3, 2, 1),
        frame: 0,
        transparent: 0,
        transactions: 1,
        size_bytes: 1692,
        frame_crc: crc32c::crc32c(FRAME),
        transparent_crc: crc32c::crc32c(TRANSPARENT),
    }
}

fn columns_file() -> Vec<u8> {
    let header = columns::Header {
        first: Height::GENESIS,
        blocks: 1,
        before: TreeSizes::ZERO,
        previous: BlockHash::ZERO,
        blocks_bytes: FRAME.len() as u64,
        transparent_bytes: TRANSPARENT.len() as u64,
        blocks_digest: digest(FRAME),
        transparent_digest: digest(TRANSPARENT),
    };
    let mut file = Vec::new();
    header.put(&mut file);
    row().put(&mut file);
    let checksum = crc32c::crc32c(&file);
    file.extend(checksum.to_le_bytes());
    file
}

fn manifest() -> Manifest {
    Manifest {
        store: StoreId {
            network: Network::Regtest,
            genesis: hash(0x11),
            range_blocks: NonZeroU32::MIN,
        },
        edition: 7,
        sealed: vec![manifest::Sealed {
            first: Height::GENESIS,
            columns_digest: digest(&columns_file()),
        }],
        segments: vec![
            manifest::Segment {
                sequence: 4,
                bytes: Some(40),
            },
            manifest::Segment {
                sequence: 5,
                bytes: None,
            },
        ],
    }
}

fn tail_columns() -> Columns {
    Columns {
        hash: hash(0x22),
        frame: FRAME.len() as u64,
        transparent: TRANSPARENT.len() as u64,
        ..row()
    }
}

const SALT: Salt = Salt(0xdead_beef);

fn segment() -> Vec<u8> {
    let header = record::Header {
        salt: SALT,
        sequence: 5,
        commit: 8,
    };
    let mut file = header.encode(&hash(0x11));
    let start = file.len();
    let parent = hash(0x11);
    record::put_block(
        &mut file,
        Height::new(1),
        &parent,
        &tail_columns(),
        FRAME,
        TRANSPARENT,
    );
    record::seal(&mut file[start..], SALT, 9, true);
    let start = file.len();
    record::put_rollback(&mut file, 1);
    record::seal(&mut file[start..], SALT, 10, true);
    file
}

#[test]
fn the_examples_are_what_is_written() {
    for (name, bytes) in [
        ("manifest", manifest().encode()),
        ("columns", columns_file()),
        ("segment", segment()),
    ] {
        assert_eq!(hex(&example(name)), hex(&bytes), "example {name}");
    }
}

#[test]
fn the_examples_are_read_as_what_they_show() {
    match Manifest::decode(&example("manifest")) {
        Ok(found) => assert_eq!(found, manifest()),
        Err(Unreadable::Version(version)) => panic!("version {version}"),
        Err(Unreadable::Wrong(wrong)) => panic!("{wrong:?}"),
    }
    let file = example("columns");
    let header = columns::Header::of_file(&file, Height::GENESIS, 1).unwrap();
    assert_eq!(header.blocks_bytes, 7);
    let mut row_bytes = Fields(&file[columns::HEADER_BYTES..]);
    assert_eq!(Columns::read(&mut row_bytes), Some(row()));

    let file = example("segment");
    let header = record::Header::read(&file, 5, &hash(0x11)).unwrap();
    assert_eq!(header.commit, 8);
    let at = record::HEADER_BYTES as u64;
    let block = record::read(&file, header.salt, at).unwrap();
    let kind = Kind::Block {
        height: Height::new(1),
        previous: hash(0x11),
        columns: tail_columns(),
    };
    assert_eq!(
        (block.kind, block.commit, block.ends_commit),
        (kind, 9, true)
    );
    let rollback = record::read(&file, header.salt, at + block.bytes).unwrap();
    assert_eq!(rollback.kind, Kind::Rollback { blocks: 1 });
    assert_eq!(at + block.bytes + rollback.bytes, file.len() as u64);
}

#[test]
fn a_manifest_of_another_version_says_so_even_if_nothing_else_is_understood() {
    let mut file = manifest().encode();
    file[8] = 200;
    file.truncate(20);
    assert!(matches!(
        Manifest::decode(&file),
        Err(Unreadable::Version(200))
    ));
}

#[test]
fn counts_that_promise_more_than_there_is_are_refused() {
    let file = manifest().encode();
    for at in [60, 64] {
        let mut longer = file.clone();
        longer[at..at + 4].fill(0xff);
        let body = longer.len() - 4;
        let checksum = crc32c::crc32c(&longer[..body]);
        longer[body..].copy_from_slice(&checksum.to_le_bytes());
        assert!(matches!(
            Manifest::decode(&longer),
            Err(Unreadable::Wrong(_))
        ));
    }
}

/// For whoever changes the format: the bytes to put into `docs/format.md`.
#[test]
#[ignore = "prints the examples"]
fn print_the_examples() {
    for bytes in [manifest().encode(), columns_file(), segment()] {
        println!("{}\n", hex(&bytes));
    }
}

#[test]
fn the_example_of_trees_is_what_is_written_and_read() {
    let header = trees::Header {
        first: Height::GENESIS,
        columns_digest: digest(&columns_file()),
        before: sizes(1, 0, 0),
        sizes: sizes(8, 7, 0),
        active: [Some(Height::GENESIS), Some(Height::new(5)), None],
    };
    let mut file = Vec::new();
    header.put(&mut file);
    trees::put_nodes(&mut file, [[0x33; 32]].iter());
    assert_eq!(hex(&file), hex(&example("trees")));
    assert_eq!(trees::Header::of_file(&file), Ok(header));
    let place = header.place(ShieldedPool::Sapling, 3, 0).unwrap();
    assert_eq!(trees::node(&file, place), Ok([0x33; 32]));
    assert_eq!(header.place(ShieldedPool::Sapling, 3, 1), None);
    assert_eq!(header.place(ShieldedPool::Orchard, 3, 0), None);
    assert_eq!(header.place(ShieldedPool::Sapling, 2, 0), None);
    for byte in 0..file.len() {
        let mut damaged = file.clone();
        damaged[byte] ^= 1;
        let read = trees::Header::of_file(&damaged).and_then(|_| trees::node(&damaged, place));
        read.unwrap_err();
        trees::Header::of_file(&file[..byte]).unwrap_err();
    }
}

#[test]
fn the_example_of_what_was_accepted_is_what_is_written_and_read() {
    let accepted = trees::Accepted {
        height: Height::new(9),
        hash: BlockHash::from_internal([0x22; 32]),
        active: [Some(Height::GENESIS), Some(Height::new(5)), None],
        trees_digest: [0x44; 32],
    };
    let file = accepted.encode();
    assert_eq!(hex(&file), hex(&example("accepted")));
    assert_eq!(trees::Accepted::decode(&file), Some(accepted));
    for byte in 0..file.len() {
        let mut damaged = file.clone();
        damaged[byte] ^= 1;
        assert_eq!(trees::Accepted::decode(&damaged), None, "byte {byte}");
        assert_eq!(trees::Accepted::decode(&file[..byte]), None);
    }
}
