//! The wider collection of real blocks; skipped where it is not.

use lightship_chain::{
    Height, PoolSet, RawBlock, TreeSizes,
    compact::{self, compact, project},
    parse::{Error, Transaction},
};
use prost::Message;
use serde_json::Value;

use crate::{
    reference::{CompactBlock, filtered},
    samples::{Record, lines, message, shared, stored},
    vectors::{check, check_compact},
};

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

fn json(file: &std::path::Path) -> impl Iterator<Item = Value> {
    lines(file).map(|line| serde_json::from_str(&line).unwrap())
}

#[test]
fn every_shared_block_reads_and_compacts_as_recorded() {
    let Some(folder) = shared() else { return };
    let (mut blocks, mut merkle) = (0, 0);
    for file in std::fs::read_dir(folder.join("blocks")).unwrap() {
        for line in lines(&file.unwrap().path()) {
            let record: Record = serde_json::from_str(&line).unwrap();
            let bytes = const_hex::decode(&record.raw).unwrap();
            check(&record, &bytes);
            blocks += 1;
            if record.merkle_ok {
                check_compact(&record, &bytes);
                merkle += 1;
            } else {
                // Real transactions under made-up headers.
                let refused = compact(Height::new(record.height), RawBlock::Whole(&bytes));
                assert_eq!(refused.unwrap_err(), Error::MerkleRoot);
            }
        }
    }
    eprintln!("{blocks} blocks, {merkle} merkle roots");
    assert!(blocks > 1500 && merkle > 1000);
}

#[test]
fn every_shared_transaction_has_its_published_id() {
    let Some(folder) = shared() else { return };
    for line in json(&folder.join("txs/real_transactions.jsonl.gz")) {
        let bytes = const_hex::decode(text(&line, "raw")).unwrap();
        let (transaction, used) = Transaction::parse(&bytes).unwrap();
        assert_eq!(used, bytes.len());
        assert_eq!(transaction.id().to_string(), text(&line, "txid"));
        assert_eq!(
            transaction.sapling_outputs().len() as u64,
            line["sapling_outputs"].as_u64().unwrap()
        );
        let (id, _) = compact::transaction(&bytes, PoolSet::ALL).unwrap();
        assert_eq!(id, transaction.id());
    }
}

/// With the tree sizes of the published one, which was recorded without (an old server) or without a chain before it.
fn aged(mut ours: CompactBlock, theirs: &CompactBlock) -> CompactBlock {
    ours.chain_metadata = theirs.chain_metadata;
    ours
}

#[test]
fn published_pairs_of_full_and_compact_blocks_agree() {
    let Some(folder) = shared() else { return };
    let mut equal = 0;
    for pair in json(&folder.join("compact/testnet_full_compact_pairs.jsonl.gz")) {
        let height = Height::new(pair["height"].as_u64().unwrap() as u32);
        let full = const_hex::decode(text(&pair, "full")).unwrap();
        let published = const_hex::decode(text(&pair, "compact")).unwrap();
        let theirs = CompactBlock::decode(&published[..]).unwrap();
        let encoded = compact(height, RawBlock::Whole(&full)).unwrap();
        let encoded = encoded.after(TreeSizes::ZERO).unwrap();
        let whole = message(|out| project::whole(stored(&encoded), out)).unwrap();
        let default = stored(&encoded).message.to_vec();
        // Servers before 0.4.19 gave shielded parts only, as the default view does.
        let transparent = theirs.vtx.iter().any(|tx| !tx.vout.is_empty());
        let ours = if transparent { &whole } else { &default };
        let mut ours = aged(CompactBlock::decode(&ours[..]).unwrap(), &theirs);
        // They were recorded from a parser that asks a node for the ids, without a node: all zeros.
        ours.vtx.iter_mut().for_each(|tx| tx.txid.fill(0));
        assert_eq!(ours, theirs, "{height}");
        equal += usize::from(ours.encode_to_vec() == published);
    }
    eprintln!("{equal} pairs byte for byte");
    assert_eq!(equal, 4);
}

#[test]
fn the_published_mainnet_run_agrees() {
    let Some(folder) = shared() else { return };
    let mut full = std::collections::HashMap::new();
    for line in lines(&folder.join("blocks/mainnet_run_663150_663216.jsonl.gz")) {
        let record: Record = serde_json::from_str(&line).unwrap();
        full.insert(
            u64::from(record.height),
            const_hex::decode(&record.raw).unwrap(),
        );
    }
    let mut compared = 0;
    for line in json(&folder.join("compact/mainnet_run_663150_663216.jsonl.gz")) {
        let published = const_hex::decode(text(&line, "raw")).unwrap();
        let theirs = CompactBlock::decode(&published[..]).unwrap();
        let Some(bytes) = full.get(&theirs.height) else {
            continue;
        };
        let height = Height::try_from(theirs.height).unwrap();
        let encoded = compact(height, RawBlock::Whole(bytes))
            .unwrap()
            .after(TreeSizes::ZERO)
            .unwrap();
        let ours = aged(
            CompactBlock::decode(stored(&encoded).message).unwrap(),
            &theirs,
        );
        assert_eq!(ours.encode_to_vec(), published, "{height}");
        compared += 1;
    }
    assert_eq!(compared, 67);
}

#[test]
fn a_published_compact_block_is_its_own_default_view() {
    let Some(folder) = shared() else { return };
    let file = folder.join("compact/mainnet_run_663251_664400.jsonl.gz");
    let mut blocks = 0;
    for line in json(&file) {
        let bytes = const_hex::decode(text(&line, "raw")).unwrap();
        let mut block = CompactBlock::decode(&bytes[..]).unwrap();
        block.chain_metadata = Some(Default::default());
        let bytes = block.encode_to_vec();
        let stored = project::Stored {
            message: &bytes,
            transparent: &[],
        };
        for pools in
            PoolSet::subsets().filter(|pools| !pools.contains(lightship_chain::Pool::Transparent))
        {
            let ours = message(|out| project::pools(stored, pools, out)).unwrap();
            assert_eq!(ours, filtered(block.clone(), pools).encode_to_vec());
        }
        blocks += 1;
    }
    assert_eq!(blocks, 1150);
}
