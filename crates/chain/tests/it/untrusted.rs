//! Bytes that lie: cut short, too long, in a longer form than needed, of a version that nobody knows.

use lightship_chain::{
    Height, PoolSet, RawBlock, RawTransaction,
    compact::{compact, transaction},
    parse::{Block, Error, Header, Transaction},
};

use crate::samples::vectors;

#[test]
fn a_block_cut_at_any_byte_is_refused() {
    for sample in vectors() {
        let bytes = &sample.bytes;
        // Every byte of the small ones; of the great ones every 97th, which is prime to the size of every element.
        let step = if bytes.len() < 20_000 { 1 } else { 97 };
        for length in (0..bytes.len()).step_by(step) {
            let cut = &bytes[..length];
            let name = sample.record.name();
            let Err(error) = Block::parse(cut) else {
                panic!("{name} cut to {length}")
            };
            match error {
                Error::Truncated { offset, left, .. } => assert_eq!(offset + left, length),
                Error::Count { offset, left, .. } => assert!(offset + left < length),
                other => panic!("{name} cut to {length}: {other}"),
            }
            // Compacting goes the same way but hashes what it passes, so it is asked less often.
            if length % 97 == 0 {
                let compacted = compact(Height::GENESIS, RawBlock::Whole(cut));
                assert_eq!(compacted.unwrap_err(), error);
            }
        }
    }
}

#[test]
fn a_transaction_cut_at_any_byte_is_refused() {
    for sample in vectors() {
        let block = Block::parse(&sample.bytes).unwrap();
        for full in block
            .transactions()
            .filter(|each| each.bytes().len() < 10_000)
        {
            for length in 0..full.bytes().len() {
                assert!(transaction(&full.bytes()[..length], PoolSet::ALL).is_err());
            }
            assert!(transaction(full.bytes(), PoolSet::ALL).is_ok());
        }
    }
}

#[test]
fn trailing_bytes_are_refused() {
    for sample in vectors().into_iter().take(3) {
        let long = [&sample.bytes[..], &[0]].concat();
        let trailing = Error::Trailing {
            offset: sample.bytes.len(),
            left: 1,
        };
        assert_eq!(Block::parse(&long).unwrap_err(), trailing);
        assert_eq!(
            compact(Height::GENESIS, RawBlock::Whole(&long)),
            Err(trailing)
        );

        let block = Block::parse(&sample.bytes).unwrap();
        let first = block.transactions().next().unwrap();
        let long = [first.bytes(), &[0, 0]].concat();
        let trailing = |offset, left| Error::Trailing { offset, left };
        let result = transaction(&long, PoolSet::ALL);
        assert_eq!(result, Err(trailing(first.bytes().len(), 2)));

        // In pieces, offsets are those of the whole.
        let header = block.header().bytes();
        let transactions = [RawTransaction {
            id: None,
            bytes: &long,
        }];
        let parts = RawBlock::Parts {
            header,
            transactions: &transactions,
        };
        let offset = header.len() + 1 + first.bytes().len();
        assert_eq!(compact(Height::GENESIS, parts), Err(trailing(offset, 2)));
        let header = [header, &[0]].concat();
        let parts = RawBlock::Parts {
            header: &header,
            transactions: &[],
        };
        assert_eq!(
            compact(Height::GENESIS, parts),
            Err(trailing(header.len() - 1, 1))
        );
    }
}

#[test]
fn a_size_in_a_longer_form_than_needed_is_refused() {
    let short: &[u8] = &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(Transaction::parse(short).is_ok());
    let forms: [(&[u8], u64); 6] = [
        (&[0xfd, 0, 0], 0),
        (&[0xfd, 0xfc, 0], 0xfc),
        (&[0xfe, 0xff, 0xff, 0, 0], 0xffff),
        (&[0xfe, 0, 0, 0, 0], 0),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], 0xffff_ffff),
        (&[0xff, 0, 0, 0, 0, 0, 0, 0, 0], 0),
    ];
    for (form, value) in forms {
        let bytes = [&[1, 0, 0, 0], form, &[0; 20]].concat();
        let expected = "transparent inputs";
        let refused = Error::NonCanonicalSize {
            offset: 4,
            expected,
            value,
        };
        assert_eq!(Transaction::parse(&bytes).unwrap_err(), refused);
    }
    let header = [&[0; 140][..], &[0xfd, 36, 0], &[0; 36]].concat();
    let expected = "Equihash solution";
    let refused = Error::NonCanonicalSize {
        offset: 140,
        expected,
        value: 36,
    };
    assert_eq!(Header::parse(&header).unwrap_err(), refused);
}

#[test]
fn an_unknown_version_is_named_not_guessed() {
    let cases: [(u32, u32); 9] = [
        (0, 0),
        (1 << 31 | 1, 0),
        (1 << 31 | 2, 0x03c4_8270),
        (1 << 31 | 3, 0x892f_2085),
        (1 << 31 | 4, 0x03c4_8270),
        (1 << 31 | 5, 0xd884_b698),
        (1 << 31 | 6, 0x26a7_270a),
        (1 << 31 | 7, 0x7461_6368),
        (u32::MAX, 0xffff_ffff),
    ];
    for (header, group) in cases {
        let bytes = [&header.to_le_bytes()[..], &group.to_le_bytes(), &[0; 50]].concat();
        let error = Transaction::parse(&bytes).unwrap_err();
        let version = header & !(1 << 31);
        let group = if header >> 31 == 1 { group } else { 0 };
        assert_eq!(
            error,
            Error::UnknownVersion {
                offset: 0,
                version,
                header,
                group
            }
        );
        assert!(error.to_string().contains(&format!("version {version} ")));
    }
}

#[test]
fn a_version_without_the_overwintered_flag_may_be_any_but_zero() {
    for version in [2u32, 3, 4, 5, 6, u32::MAX >> 1] {
        let bytes = [&version.to_le_bytes()[..], &[0; 7]].concat();
        let (transaction, used) = Transaction::parse(&bytes).unwrap();
        assert_eq!(transaction.version(), lightship_chain::parse::Version::V2);
        assert_eq!(used, 11);
    }
}

#[test]
fn a_solution_may_have_any_length() {
    for length in [0usize, 1, 36, 252, 253, 1344, 65_536] {
        let size: Vec<u8> = match length {
            0..253 => vec![length as u8],
            253..0x1_0000 => [&[0xfd][..], &(length as u16).to_le_bytes()].concat(),
            _ => [&[0xfe][..], &(length as u32).to_le_bytes()].concat(),
        };
        let bytes = [&[7; 140][..], &size, &vec![9; length]].concat();
        let (header, used) = Header::parse(&bytes).unwrap();
        assert_eq!(used, bytes.len());
        assert_eq!(header.solution().len(), length);
        assert_eq!(header.bytes(), bytes);
    }
}
