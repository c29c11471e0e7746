//! Vendored blocks and their recorded answers.

use lightship_chain::{
    BlockHash, Height, PoolSet, RawBlock, RawTransaction, TreeSizes,
    compact::{self, compact, project},
    parse::{Block, Error, Transaction, merkle_root},
};
use prost::Message;

use crate::{
    reference::{CompactBlock, CompactTx, filter, filtered, is_bare},
    samples::{Record, Sample, message, stored, vectors, vendored_text},
};

/// Everything that was recorded about a block, against what is read from it.
pub(crate) fn check(record: &Record, bytes: &[u8]) {
    let name = record.name();
    let block = Block::parse(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let header = block.header();
    assert_eq!(header.hash().to_string(), record.hash, "{name}");
    assert_eq!(header.previous().to_string(), record.prev, "{name}");
    assert_eq!(header.time(), record.time, "{name}");
    assert_eq!(block.bytes().len(), record.size as usize, "{name}");
    assert_eq!(block.transactions().len(), record.txids.len(), "{name}");

    let ids: Vec<_> = block.transactions().map(|each| each.id()).collect();
    assert_eq!(ids, record.ids(), "{name}");
    if record.merkle_ok {
        assert_eq!(merkle_root(&ids), header.merkle_root(), "{name}");
    }
    let sum = |count: fn(Transaction<'_>) -> usize| block.transactions().map(count).sum::<usize>();
    assert_eq!(sum(|each| each.inputs().len()), record.t_in, "{name}");
    assert_eq!(sum(|each| each.outputs().len()), record.t_out, "{name}");
    assert_eq!(sum(|each| each.joinsplits()), record.joinsplits, "{name}");
    assert_eq!(
        sum(|each| each.sapling_spends().len()),
        record.sapling_spends,
        "{name}"
    );
    assert_eq!(
        sum(|each| each.sapling_outputs().len()),
        record.sapling_outputs,
        "{name}"
    );
    assert_eq!(
        sum(|each| each.orchard_actions().len()),
        record.orchard_actions,
        "{name}"
    );
    assert_eq!(
        sum(|each| each.ironwood_actions().len()),
        record.ironwood_actions,
        "{name}"
    );
    let counted = |iterated: usize, counted: usize| assert_eq!(iterated, counted, "{name}");
    counted(sum(|each| each.inputs().count()), record.t_in);
    counted(sum(|each| each.outputs().count()), record.t_out);
    counted(
        sum(|each| each.sapling_spends().count()),
        record.sapling_spends,
    );
    counted(
        sum(|each| each.sapling_outputs().count()),
        record.sapling_outputs,
    );
    counted(
        sum(|each| each.orchard_actions().count()),
        record.orchard_actions,
    );
    counted(
        sum(|each| each.ironwood_actions().count()),
        record.ironwood_actions,
    );
}

/// The compact form, against the ordinary codec's encoding of what it decodes to, and its default view against the filter.
pub(crate) fn check_compact(record: &Record, bytes: &[u8]) -> CompactBlock {
    let name = record.name();
    let block = compact(Height::new(record.height), RawBlock::Whole(bytes)).unwrap();
    assert_eq!(block.size_bytes, record.size, "{name}");
    let encoded = block.after(TreeSizes::ZERO).unwrap();
    assert_eq!(encoded.id.hash.to_string(), record.hash, "{name}");
    assert_eq!(encoded.previous.to_string(), record.prev, "{name}");
    assert_eq!(encoded.transactions as usize, record.txids.len(), "{name}");
    assert_eq!(
        encoded.sizes.sapling as usize, record.sapling_outputs,
        "{name}"
    );
    assert_eq!(
        encoded.sizes.orchard as usize, record.orchard_actions,
        "{name}"
    );
    assert_eq!(
        encoded.sizes.ironwood as usize, record.ironwood_actions,
        "{name}"
    );

    let whole = message(|out| project::whole(stored(&encoded), out)).unwrap();
    let decoded = CompactBlock::decode(&whole[..]).unwrap();
    assert_eq!(decoded.encode_to_vec(), whole, "{name}");
    assert_eq!(decoded.vtx.len(), record.txids.len(), "{name}");
    for (index, (tx, id)) in decoded.vtx.iter().zip(record.ids()).enumerate() {
        assert_eq!(tx.index, index as u64, "{name}");
        assert_eq!(tx.txid, id.as_internal(), "{name}");
    }
    let default = filtered(decoded.clone(), PoolSet::SHIELDED).encode_to_vec();
    assert_eq!(stored(&encoded).message, default, "{name}");
    let mut frame = vec![0];
    frame.extend((default.len() as u32).to_be_bytes());
    frame.extend(&default);
    assert_eq!(encoded.frame, frame, "{name}");
    decoded
}

#[test]
fn every_vendored_block_reads_as_recorded() {
    for Sample { mut record, bytes } in vectors() {
        record.merkle_ok = true;
        check(&record, &bytes);
    }
}

#[test]
fn every_vendored_block_compacts_to_the_recorded_bytes() {
    for sample in vectors() {
        check_compact(&sample.record, &sample.bytes);
        let whole = message(|out| project::whole(stored(&sample.encoded()), out)).unwrap();
        assert_eq!(whole, sample.recorded(), "{}", sample.record.name());
    }
}

#[test]
fn a_block_in_pieces_is_the_block_in_one() {
    for Sample { record, bytes } in vectors() {
        let height = Height::new(record.height);
        let whole = compact(height, RawBlock::Whole(&bytes)).unwrap();
        let block = Block::parse(&bytes).unwrap();
        for known in [false, true] {
            let transactions: Vec<_> = block
                .transactions()
                .map(|each| RawTransaction {
                    id: known.then(|| each.id()),
                    bytes: each.bytes(),
                })
                .collect();
            let parts = RawBlock::Parts {
                header: block.header().bytes(),
                transactions: &transactions,
            };
            assert_eq!(compact(height, parts).unwrap(), whole, "{}", record.name());
        }
    }
}

#[test]
fn an_id_that_the_source_gives_must_add_up_to_the_merkle_root() {
    let sample = &vectors()[0];
    let block = Block::parse(&sample.bytes).unwrap();
    let told = "11".repeat(32).parse().unwrap();
    let transactions: Vec<_> = block
        .transactions()
        .map(|each| RawTransaction {
            id: Some(told),
            bytes: each.bytes(),
        })
        .collect();
    let header = block.header().bytes();
    let parts = RawBlock::Parts {
        header,
        transactions: &transactions,
    };
    assert_eq!(compact(Height::GENESIS, parts), Err(Error::MerkleRoot));
}

#[test]
fn transactions_of_another_block_are_refused() {
    let vectors = vectors();
    let own = Block::parse(&vectors[0].bytes).unwrap();
    let other = Block::parse(&vectors[1].bytes).unwrap();
    let transactions: Vec<_> = other
        .transactions()
        .map(|each| RawTransaction {
            id: None,
            bytes: each.bytes(),
        })
        .collect();
    let parts = RawBlock::Parts {
        header: own.header().bytes(),
        transactions: &transactions,
    };
    assert_eq!(compact(Height::GENESIS, parts), Err(Error::MerkleRoot));
}

#[test]
fn a_header_shows_its_fields() {
    let sample = &vectors()[0];
    let block = Block::parse(&sample.bytes).unwrap();
    let header = block.header();
    assert_eq!(header.version(), 4);
    assert_eq!(header.previous(), BlockHash::ZERO);
    assert_eq!(header.commitments(), [0; 32]);
    assert_eq!(header.time(), 1_477_641_360);
    assert_eq!(header.bits(), 0x1f07_ffff);
    assert_eq!(header.nonce()[..2], [0x57, 0x12]);
    assert_eq!(header.solution().len(), 1344);
    assert_eq!(header.bytes().len(), 140 + 3 + 1344);
}

#[test]
fn transactions_outside_a_block_are_as_in_one_but_for_their_index() {
    for Sample { record, bytes } in vectors() {
        let decoded = check_compact(&record, &bytes);
        let block = Block::parse(&bytes).unwrap();
        for (full, mut expected) in block.transactions().zip(decoded.vtx) {
            expected.index = 0;
            for pools in PoolSet::subsets() {
                let mut expected = expected.clone();
                filter(&mut expected, pools);
                let (id, message) = compact::transaction(full.bytes(), pools).unwrap();
                assert_eq!(id, full.id());
                assert_eq!(message.is_none(), is_bare(&expected));
                if let Some(message) = message {
                    assert_eq!(message, expected.encode_to_vec());
                    assert_eq!(CompactTx::decode(&message[..]).unwrap(), expected);
                }
            }
        }
    }
}

#[test]
fn tree_sizes_go_on_from_those_before() {
    let samples = vectors();
    let sample = samples
        .iter()
        .find(|sample| sample.record.height == 2_000_000)
        .unwrap();
    let block = compact(Height::new(2_000_000), RawBlock::Whole(&sample.bytes)).unwrap();
    assert_eq!(
        block.notes,
        TreeSizes {
            sapling: 12,
            orchard: 44,
            ironwood: 0
        }
    );
    let before = TreeSizes {
        sapling: 7,
        orchard: u32::MAX - 44,
        ironwood: 9,
    };
    let after = block.clone().after(before).unwrap();
    let sizes = TreeSizes {
        sapling: 19,
        orchard: u32::MAX,
        ironwood: 9,
    };
    assert_eq!(after.sizes, sizes);
    let decoded = CompactBlock::decode(stored(&after).message).unwrap();
    let metadata = decoded.chain_metadata.unwrap();
    assert_eq!(
        (metadata.sapling, metadata.orchard, metadata.ironwood),
        (19, u32::MAX, 9)
    );
    let full = TreeSizes {
        orchard: u32::MAX - 43,
        ..before
    };
    assert_eq!(block.after(full), None);
}

#[test]
fn version_6_transactions_with_every_pool_have_the_id_that_librustzcash_gives_them() {
    let list = vendored_text("transactions.jsonl");
    assert_eq!(list.lines().count(), 6);
    for line in list.lines() {
        let fields: serde_json::Value = serde_json::from_str(line).unwrap();
        let bytes = const_hex::decode(fields["raw"].as_str().unwrap()).unwrap();
        let (transaction, used) = Transaction::parse(&bytes).unwrap();
        assert_eq!(used, bytes.len());
        assert_eq!(
            transaction.id().to_string(),
            fields["txid"].as_str().unwrap()
        );
    }
}
