use super::*;
use crate::{
    Height, Upgrade,
    parse::{self, Block, Transaction},
};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

fn rng() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(7)
}

fn rich(version: Version) -> Recipe {
    let mut recipe = Recipe::new(version)
        .with_input(Input::spend(TxId::from_internal([3; 32]), 4))
        .with_output(Output::to_public_key_hash(5, &[6; 20]))
        .with_output(Output::to_script_hash(7, &[8; 20]))
        .with_output(Output::of_data(b"nine"));
    if (Version::V2..=Version::V4).contains(&version) {
        recipe = recipe
            .with_joinsplit(JoinSplit::default())
            .with_joinsplit(JoinSplit::default());
    }
    if version >= Version::V4 {
        recipe = recipe.with_sapling(2, 3);
    }
    if version >= Version::V5 {
        recipe = recipe.with_orchard(4);
    }
    if version >= Version::V6 {
        recipe = recipe.with_ironwood(5);
    }
    recipe
}

const VERSIONS: [Version; 6] = [
    Version::V1,
    Version::V2,
    Version::V3,
    Version::V4,
    Version::V5,
    Version::V6,
];

#[test]
fn every_format_is_read_back_as_it_was_described() {
    for version in VERSIONS {
        let recipe = rich(version);
        let built = recipe.build(&mut rng()).unwrap();
        let (read, used) = Transaction::parse(&built.bytes).unwrap();
        assert_eq!(used, built.bytes.len(), "{version:?}");
        assert_eq!(read.id(), built.id);
        assert_eq!(read.inputs().len(), 1);
        assert_eq!(read.outputs().len(), 3);
        assert_eq!(read.outputs().next().unwrap().value(), 5);
        assert_eq!(read.joinsplits(), recipe.joinsplits.len());
        assert_eq!(read.sapling_spends().len(), recipe.sapling_spends.len());
        assert_eq!(read.sapling_outputs().len(), recipe.sapling_outputs.len());
        assert_eq!(read.orchard_actions().len(), recipe.orchard_actions.len());
        assert_eq!(read.ironwood_actions().len(), recipe.ironwood_actions.len());
        assert!(!read.is_coinbase());
    }
}

#[test]
fn a_part_that_the_format_lacks_is_refused() {
    let cases = [
        Recipe::new(Version::V1).with_joinsplit(JoinSplit::default()),
        Recipe::new(Version::V5).with_joinsplit(JoinSplit::default()),
        Recipe::new(Version::V3).with_sapling(0, 1),
        Recipe::new(Version::V4).with_orchard(1),
        Recipe::new(Version::V5).with_ironwood(1),
    ];
    for recipe in cases {
        assert!(recipe.build(&mut rng()).is_err(), "{recipe:?}");
    }
}

#[test]
fn a_given_note_stands_where_its_reader_looks() {
    let note = Note {
        commitment: [1; 32],
        ephemeral_key: [2; 32],
        enc_ciphertext: [3; 580],
        out_ciphertext: [4; 80],
    };
    let recipe = Recipe {
        sapling_outputs: vec![Some(Box::new(note.clone()))],
        ironwood_actions: vec![Action {
            nullifier: Some([5; 32]),
            note: Some(Box::new(note.clone())),
        }],
        ..Recipe::new(Version::V6)
    };
    let built = recipe.build(&mut rng()).unwrap();
    let (read, _) = Transaction::parse(&built.bytes).unwrap();
    let output = read.sapling_outputs().next().unwrap();
    assert_eq!(output.cmu(), &note.commitment);
    let action = read.ironwood_actions().next().unwrap();
    assert_eq!(action.nullifier(), &[5; 32]);
    assert_eq!(action.cmx(), &note.commitment);
    assert_eq!(action.ephemeral_key(), &note.ephemeral_key);
}

fn chain(seed: u64, blocks: u32) -> Vec<BuiltBlock> {
    let mut chain = ChainBuilder::new(seed, Activations::staggered(Upgrade::Nu7, 2));
    (0..blocks)
        .map(|_| {
            let version = chain.newest_version();
            let transaction = chain.transaction(rich(version)).unwrap();
            let mut coinbase = Coinbase {
                outputs: vec![Output::to_public_key_hash(1, &[9; 20])],
                ..Coinbase::default()
            };
            if version >= Version::V5 {
                coinbase.orchard_actions = 1;
            }
            if version >= Version::V6 {
                coinbase.ironwood_actions = 2;
            }
            chain.next_block(coinbase, &[transaction]).unwrap()
        })
        .collect()
}

#[test]
fn blocks_link_and_their_roots_are_true() {
    let mut previous = crate::BlockHash::ZERO;
    for (height, block) in chain(1, 40).iter().enumerate() {
        let read = Block::parse(&block.bytes).unwrap();
        assert_eq!(block.id.height, Height::new(height as u32));
        assert_eq!(read.header().hash(), block.id.hash);
        assert_eq!(read.header().previous(), previous);
        assert_eq!(read.header().time(), block.time);
        let ids: Vec<_> = read.transactions().map(|each| each.id()).collect();
        assert_eq!(ids, block.transactions);
        assert_eq!(read.header().merkle_root(), parse::merkle_root(&ids));
        let coinbase = read.transactions().next().unwrap();
        assert!(coinbase.is_coinbase());
        let script = coinbase.inputs().next().unwrap().script();
        assert!(script.starts_with(&coinbase_height(block.id.height)));
        previous = block.id.hash;
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    assert_eq!(chain(5, 30), chain(5, 30));
    assert_ne!(chain(5, 1), chain(6, 1));
}

#[test]
fn a_branch_leaves_at_its_parent_and_differs() {
    let mut trunk = ChainBuilder::new(1, Activations::all_at(Upgrade::Canopy, 1));
    let first = trunk.next_block(Coinbase::default(), &[]).unwrap();
    let mut branch = trunk.branch(first.id, first.time, 2);
    let second = trunk.next_block(Coinbase::default(), &[]).unwrap();
    let other = branch.next_block(Coinbase::default(), &[]).unwrap();
    assert_eq!(other.previous, first.id.hash);
    assert_eq!(other.id.height, second.id.height);
    assert_ne!(other.id.hash, second.id.hash);
    assert_ne!(other.transactions, second.transactions);
}

#[test]
fn regtest_genesis_is_the_one_that_nodes_know() {
    let genesis = regtest_genesis();
    assert_eq!(
        crate::Network::from_genesis(genesis.id.hash),
        Some(crate::Network::Regtest)
    );
    let read = Block::parse(&genesis.bytes).unwrap();
    let coinbase = read.transactions().next().unwrap();
    assert_eq!(coinbase.id(), genesis.transactions[0]);
    assert_eq!(
        parse::merkle_root(&genesis.transactions),
        read.header().merkle_root()
    );
}

#[test]
fn full_solutions_make_headers_of_1487_bytes() {
    let mut chain = ChainBuilder::on_regtest(1, Activations::all_at(Upgrade::Nu7, 1))
        .with_solution(Solution::Full)
        .with_times(1_700_000_000, 25);
    let block = chain.next_block(Coinbase::default(), &[]).unwrap();
    assert_eq!(block.id.height, Height::new(1));
    assert_eq!(block.time, 1_700_000_000);
    let read = Block::parse(&block.bytes).unwrap();
    assert_eq!(read.header().bytes().len(), 1487);
}
