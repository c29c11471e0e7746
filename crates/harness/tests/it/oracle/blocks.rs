//! Whole blocks: the real ones of `zebra-test`, those of the shared collection, the recorded regtest chain, and built ones.

use std::{collections::BTreeMap, fs::File, io::Read};

use flate2::read::GzDecoder;
use lightship_chain::{
    Height, RawBlock, TreeSizes, TxId, Upgrade,
    build::{Activations, ChainBuilder, Coinbase, Input, JoinSplit, Output, Recipe, Version},
    compact::{compact, project},
    parse::{Block, Error, merkle_root},
};
use lightship_harness::{proto::CompactBlock, recorded, zebrad};
use prost::Message;
use zebra_test::vectors::{
    BAD_BLOCK_MAINNET_202_BYTES, BLOCK_MAINNET_395_BYTES, MAINNET_BLOCKS, TESTNET_BLOCKS,
};

use super::reference::{compact_block, default_view};

/// What was compared, so that a test that compares nothing shows.
#[derive(Debug, Default)]
struct Tally {
    blocks: usize,
    transactions: usize,
    versions: BTreeMap<String, usize>,
    spends: usize,
    outputs: usize,
    actions: usize,
    ironwood_actions: usize,
    /// Blocks whose headers were made up.
    mended: usize,
}

/// The block with the merkle root of its transactions, as `zcash_primitives` names them, if its header has another.
fn with_true_root(height: u32, bytes: &[u8]) -> Option<Vec<u8>> {
    let theirs = compact_block(u64::from(height), bytes).unwrap();
    let ids: Vec<TxId> = theirs
        .vtx
        .iter()
        .map(|transaction| TxId::from_internal(transaction.txid[..].try_into().unwrap()))
        .collect();
    let root = merkle_root(&ids);
    if bytes[MERKLE_ROOT] == root {
        return None;
    }
    let refused = compact(Height::new(height), RawBlock::Whole(bytes)).err();
    assert!(
        matches!(refused, Some(Error::MerkleRoot)),
        "block {height}: {refused:?}"
    );
    let mut mended = bytes.to_vec();
    mended[MERKLE_ROOT].copy_from_slice(&root);
    Some(mended)
}

/// Where a header holds its merkle root.
const MERKLE_ROOT: std::ops::Range<usize> = 36..68;

impl Tally {
    /// Reads the block both ways and holds one against the other. One whose header names another merkle root must be refused for that, and
    /// is compared with its header mended.
    fn compare(&mut self, height: u32, bytes: &[u8]) {
        let mended = with_true_root(height, bytes);
        self.mended += usize::from(mended.is_some());
        let bytes = mended.as_deref().unwrap_or(bytes);
        let theirs = compact_block(u64::from(height), bytes)
            .unwrap_or_else(|error| panic!("zcash_primitives refuses block {height}: {error}"));
        let ours = compact(Height::new(height), RawBlock::Whole(bytes))
            .unwrap_or_else(|error| panic!("block {height}: {error}"));
        assert_eq!(ours.transactions as usize, theirs.vtx.len());
        let ours = ours.after(TreeSizes::ZERO).unwrap();
        let message = &ours.frame[project::FRAME_PREFIX_BYTES..];

        let mut whole = Vec::new();
        let stored = project::Stored {
            message,
            transparent: &ours.transparent,
        };
        project::whole(stored, &mut whole).unwrap();
        same(height, &whole[project::FRAME_PREFIX_BYTES..], &theirs);

        self.blocks += 1;
        self.transactions += theirs.vtx.len();
        for transaction in &theirs.vtx {
            self.spends += transaction.spends.len();
            self.outputs += transaction.outputs.len();
            self.actions += transaction.actions.len();
            self.ironwood_actions += transaction.ironwood_actions.len();
        }
        for transaction in Block::parse(bytes).unwrap().transactions() {
            let version = format!("{:?}", transaction.version());
            *self.versions.entry(version).or_default() += 1;
        }
        same(height, message, &default_view(theirs));
    }
}

fn same(height: u32, ours: &[u8], theirs: &CompactBlock) {
    if ours != theirs.encode_to_vec() {
        // Decoded, the difference can be read.
        assert_eq!(
            &CompactBlock::decode(ours).unwrap(),
            theirs,
            "block {height}"
        );
        panic!("block {height}: the same fields, encoded differently");
    }
}

#[test]
fn every_block_of_zebra_test_reads_alike() {
    let maps = [&*MAINNET_BLOCKS, &*TESTNET_BLOCKS];
    let mapped = maps
        .into_iter()
        .flatten()
        .map(|(height, bytes)| (*height, *bytes));
    // In no map: the block before the first JoinSplit, and one that breaks a consensus rule, which a reader need not notice.
    let others = [
        (395, BLOCK_MAINNET_395_BYTES.as_slice()),
        (202, BAD_BLOCK_MAINNET_202_BYTES.as_slice()),
    ];
    let mut tally = Tally::default();
    for (height, bytes) in mapped.chain(others) {
        tally.compare(height, bytes);
    }
    eprintln!("{tally:?}");
    assert_eq!(tally.blocks, 89);
    assert!(tally.outputs > 0 && tally.actions > 0);
}

#[test]
fn every_shared_block_reads_alike() {
    let Some(shared) = std::env::var_os("LIGHTSHIP_SHARED") else {
        eprintln!("SKIPPED: LIGHTSHIP_SHARED is not set");
        return;
    };
    let mut tally = Tally::default();
    let folder = std::path::Path::new(&shared).join("data/blocks");
    for file in std::fs::read_dir(folder).unwrap() {
        let mut text = String::new();
        GzDecoder::new(File::open(file.unwrap().path()).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        for line in text.lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let bytes = const_hex::decode(record["raw"].as_str().unwrap()).unwrap();
            tally.compare(record["height"].as_u64().unwrap() as u32, &bytes);
        }
    }
    eprintln!("{tally:?}");
    assert!(tally.blocks > 1500 && tally.ironwood_actions > 0);
}

#[test]
fn the_recorded_regtest_chain_reads_alike() {
    if zebrad::binary().is_none() {
        eprintln!("SKIPPED: no zebrad; set LIGHTSHIP_ZEBRAD or run .ci/zebrad");
        return;
    }
    let mut tally = Tally::default();
    for (height, bytes) in recorded::blocks().unwrap().iter().enumerate() {
        tally.compare(height as u32, bytes);
    }
    eprintln!("{tally:?}");
    let notes = recorded::notes();
    assert_eq!(tally.blocks as u32, recorded::TIP + 1);
    assert_eq!(tally.outputs as u32, notes.sapling);
    assert!(tally.actions as u32 >= notes.orchard);
    assert!(tally.ironwood_actions as u32 >= notes.ironwood);
}

#[test]
fn built_blocks_of_every_era_read_alike() {
    let mut tally = Tally::default();
    let mut chain = ChainBuilder::new(1, Activations::staggered(Upgrade::Nu6_3, 4));
    for round in 0..60 {
        let height = chain.next_height();
        let transactions: Vec<_> = recipes(chain.newest_version(), round)
            .into_iter()
            .map(|recipe| chain.transaction(recipe).unwrap())
            .collect();
        let coinbase = Coinbase {
            outputs: vec![Output::to_public_key_hash(u64::from(round), &[3; 20])],
            ..Coinbase::default()
        };
        let block = chain.next_block(coinbase, &transactions).unwrap();
        tally.compare(height.get(), &block.bytes);
    }
    eprintln!("{tally:?}");
    assert!(tally.versions.len() >= 6, "{:?}", tally.versions);
}

/// A few transactions of `version`, with counts on both sides of where a CompactSize grows.
fn recipes(version: Version, round: u32) -> Vec<Recipe> {
    let spend = |index| Input::spend(lightship_chain::TxId::from_internal([9; 32]), index);
    let many: u64 = if round.is_multiple_of(7) { 253 } else { 3 };
    let mut recipes = vec![Recipe::new(version).with_input(spend(round))];
    for index in 0..many {
        let last = recipes.pop().unwrap();
        recipes.push(last.with_output(Output::to_script_hash(index, &[5; 20])));
    }
    let shielded = Recipe::new(version);
    recipes.push(match version {
        Version::V1 => shielded.with_output(Output::of_data(b"")),
        Version::V2 | Version::V3 => shielded.with_joinsplit(JoinSplit::default()),
        Version::V4 => shielded
            .with_joinsplit(JoinSplit::default())
            .with_sapling(1, 2),
        Version::V5 => shielded.with_sapling(2, 1).with_orchard(3),
        Version::V6 => shielded.with_sapling(1, 1).with_orchard(2).with_ironwood(2),
    });
    if version == Version::V6 {
        recipes.push(Recipe::new(Version::V6).with_ironwood(2 + round as usize % 3));
        recipes.push(Recipe::new(Version::V5).with_orchard(2));
        recipes.push(Recipe::new(Version::V4).with_sapling(0, 1));
    }
    if round == 0 {
        recipes.push(Recipe::new(Version::V1).with_input(spend(0)));
    }
    recipes
}
