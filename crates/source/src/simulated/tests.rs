use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use lightship_chain::{
    Height, HeightRange, ShieldedPool, Upgrade,
    build::{Input, Note, Output, Recipe, Version},
};

use super::*;
use crate::BlockSource;

const MINER: [u8; 20] = [7; 20];
const OTHER: [u8; 20] = [8; 20];

fn ever() -> HeightRange {
    HeightRange::new(Height::GENESIS, Height::MAX).unwrap()
}

fn coinbase() -> Coinbase {
    Coinbase {
        outputs: vec![Output::to_public_key_hash(1_000, &MINER)],
        ..Coinbase::default()
    }
}

/// A chain of `blocks` blocks on regtest's genesis, all upgrades at 1, and its builder.
fn node(blocks: u32) -> (SimulatedNode, ChainBuilder) {
    let mut chain = ChainBuilder::on_regtest(1, Activations::all_at(Upgrade::Nu7, 1));
    let node = SimulatedNode::new(chain.activations().clone());
    node.extend(lightship_chain::build::regtest_genesis().bytes)
        .unwrap();
    for _ in 0..blocks {
        node.mine(&mut chain, coinbase()).unwrap();
    }
    (node, chain)
}

fn text(hash: [u8; 20]) -> String {
    Address::PublicKeyHash(hash).encode(lightship_chain::Network::Regtest)
}

#[test]
fn a_reorg_is_one_step_and_the_old_branch_is_still_known() {
    let (node, chain) = node(5);
    let old = node.best().unwrap();
    let fork = node.chain().at(Height::new(3)).unwrap().id;
    let mut branch = chain.branch(fork, 0, 2);
    let blocks: Vec<_> = (0..3)
        .map(|_| branch.next_block(coinbase(), &[]).unwrap().bytes)
        .collect();
    let new = node.reorg(2, blocks).unwrap().unwrap();
    assert_eq!(new.height, Height::new(6));
    assert_eq!(node.best(), Some(new));
    assert!(node.block(old.hash, &mut |_| ()).unwrap());
    node.switch_to(old.hash).unwrap();
    assert_eq!(node.best(), Some(old));
}

#[test]
fn a_rollback_lowers_the_tip_and_undoes_the_ledger() {
    let (node, mut chain) = node(5);
    let before = node.chain().balance_of(&[Address::PublicKeyHash(MINER)]);
    let paid = node.chain().at(Height::new(2)).unwrap().index()[0].0;
    let spend = chain
        .transaction(
            Recipe::new(Version::V5)
                .with_input(Input::spend(paid, 0))
                .with_output(Output::to_public_key_hash(900, &OTHER)),
        )
        .unwrap();
    node.mempool_add(spend.bytes).unwrap();
    node.mine(&mut chain, coinbase()).unwrap();
    let after = node.chain().balance_of(&[Address::PublicKeyHash(MINER)]);
    assert_eq!(after.0, before.0 - 1_000 + 1_000);
    assert_eq!(
        node.chain().balance_of(&[Address::PublicKeyHash(OTHER)]),
        (900, 900)
    );
    let tip = node.rollback(1).unwrap();
    assert_eq!(tip.height, Height::new(5));
    assert_eq!(
        node.chain().balance_of(&[Address::PublicKeyHash(MINER)]),
        before
    );
    assert_eq!(
        node.chain().balance_of(&[Address::PublicKeyHash(OTHER)]),
        (0, 0)
    );
    assert_eq!(node.rollback(100), None);
    assert_eq!(node.tip().unwrap(), None);
}

#[test]
fn an_output_made_and_spent_in_one_block_leaves_no_trace_when_the_block_goes() {
    let (node, mut chain) = node(2);
    let paid = node.chain().at(Height::new(1)).unwrap().index()[0].0;
    let first = chain
        .transaction(
            Recipe::new(Version::V5)
                .with_input(Input::spend(paid, 0))
                .with_output(Output::to_public_key_hash(900, &OTHER)),
        )
        .unwrap();
    let second = chain
        .transaction(Recipe::new(Version::V5).with_input(Input::spend(first.id, 0)))
        .unwrap();
    node.mempool_add(first.bytes).unwrap();
    node.mempool_add(second.bytes).unwrap();
    let addresses = [Address::PublicKeyHash(OTHER), Address::PublicKeyHash(MINER)];
    let before = node.chain().balance_of(&addresses);
    node.mine(&mut chain, coinbase()).unwrap();
    assert_eq!(
        node.chain().ledger.history(&addresses[0], ever()).count(),
        2
    );
    node.rollback(1);
    assert_eq!(node.chain().balance_of(&addresses), before);
    assert_eq!(
        node.chain().ledger.history(&addresses[0], ever()).count(),
        0
    );
}

#[test]
fn tree_sizes_and_subtrees_follow_the_branch() {
    let (node, mut chain) = node(1);
    // Given, for making random ones takes longer than the test.
    let note = Note {
        commitment: [1; 32],
        ephemeral_key: [2; 32],
        enc_ciphertext: [3; 580],
        out_ciphertext: [4; 80],
    };
    for _ in 0..2 {
        let recipe = Recipe {
            sapling_outputs: vec![Some(Box::new(note.clone())); 1 << 15],
            ..Recipe::new(Version::V5)
        };
        let transaction = chain.transaction(recipe).unwrap();
        node.mempool_add(transaction.bytes).unwrap();
        node.mine(&mut chain, coinbase()).unwrap();
    }
    let sizes = node.chain().tip().unwrap().sizes;
    assert_eq!(sizes.sapling, 1 << 16);
    let roots = node.chain().subtrees(ShieldedPool::Sapling).to_vec();
    assert_eq!(roots.len(), 1);
    assert_eq!(roots[0].end_height, Height::new(3));
    node.rollback(1);
    assert!(node.chain().subtrees(ShieldedPool::Sapling).is_empty());
}

#[test]
fn a_transaction_is_accepted_once_and_only_if_its_inputs_are_there() {
    let (node, mut chain) = node(3);
    let paid = node.chain().at(Height::new(1)).unwrap().index()[0].0;
    let recipe = Recipe::new(Version::V5).with_input(Input::spend(paid, 0));
    let spend = chain
        .transaction(recipe.clone().with_output(Output::of_data(b"a")))
        .unwrap();
    let double = chain
        .transaction(recipe.with_output(Output::of_data(b"b")))
        .unwrap();
    assert_eq!(node.accept(spend.bytes.clone().into()), Ok(spend.id));
    let code = |bytes: Vec<u8>| node.accept(bytes.into()).unwrap_err().code;
    assert_eq!(code(spend.bytes.clone()), -25);
    assert_eq!(code(double.bytes.clone()), -25);
    assert_eq!(code(vec![0]), -22);
    assert_eq!(code([spend.bytes.as_slice(), &[0]].concat()), -22);
    node.mine(&mut chain, coinbase()).unwrap();
    assert_eq!(node.mempool_ids(), []);
    assert_eq!(code(spend.bytes), -25);
    assert_eq!(code(double.bytes), -25);
}

#[test]
fn histories_and_unspent_outputs_are_in_chain_order_and_in_range() {
    let (node, _) = node(6);
    let chain = node.chain();
    let addresses = chain.addresses(&[text(MINER), text(MINER)]).unwrap();
    assert_eq!(addresses.len(), 1);
    let range = HeightRange::new(Height::new(2), Height::new(4)).unwrap();
    let expected: Vec<_> = range
        .iter()
        .map(|height| chain.at(height).unwrap().index()[0].0)
        .collect();
    assert_eq!(chain.transactions_of(&addresses, range), expected);
    let unspent = chain.utxos_of(&addresses, Height::new(3), Some(2));
    let heights: Vec<_> = unspent.iter().map(|each| each.height.get()).collect();
    assert_eq!(heights, [3, 4]);
    assert_eq!(chain.addresses(&["x".to_owned()]).unwrap_err().code, -5);
}

#[test]
fn a_waiter_wakes_when_the_tip_moves() {
    let (node, mut chain) = node(1);
    let seen = node.best();
    let start = Instant::now();
    node.wait(seen, Duration::from_millis(20)).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(20));
    let waiter = {
        let node = node.clone();
        std::thread::spawn(move || node.wait(seen, Duration::from_secs(60)).unwrap())
    };
    node.mine(&mut chain, coinbase()).unwrap();
    waiter.join().unwrap();
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn faults_befall_the_calls_they_are_meant_for() {
    let (node, _) = node(2);
    node.faults().add(
        Rule::new(Fault::Refuse)
            .of_method("getblock")
            .after(1)
            .times(1),
    );
    let range = HeightRange::new(Height::GENESIS, Height::new(2)).unwrap();
    let mut seen = Vec::new();
    let result = node.blocks(range, &mut |height, _| {
        seen.push(height.get());
        ControlFlow::Continue(())
    });
    assert!(result.unwrap_err().is_transient());
    assert_eq!(seen, [0]);
    assert_eq!(node.faults().calls_of("getblock"), 2);
    assert!(node.tip().is_ok());
    node.blocks(range, &mut |_, _| ControlFlow::Continue(()))
        .unwrap();

    node.faults().add(Fault::Status(401));
    assert!(node.tip().unwrap_err().is_credentials());
    node.faults().clear();
    assert!(node.tip().is_ok());
}

#[test]
fn the_branch_can_change_between_two_calls() {
    let (node, _) = node(3);
    let other = node.clone();
    node.faults().after_calls(2, move || {
        other.rollback(2);
    });
    assert_eq!(node.tip().unwrap().unwrap().height, Height::new(3));
    assert_eq!(node.tip().unwrap().unwrap().height, Height::new(1));
}
