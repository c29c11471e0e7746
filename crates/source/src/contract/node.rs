//! What a node answers.

use std::collections::BTreeSet;

use lightship_chain::{
    BlockHash, Height, HeightRange, ShieldedPool, TxId, Upgrade,
    build::{Output, Recipe, Version},
};

use super::{
    Fixture,
    chain::{height, miner, payee, text},
};
use crate::{Error, Node, Place, Submitted, Utxo};

const UNKNOWN_BLOCK: BlockHash = BlockHash::from_internal([0xab; 32]);
const UNKNOWN_TRANSACTION: TxId = TxId::from_internal([0xcd; 32]);

fn range(first: u32, last: u32) -> HeightRange {
    HeightRange::new(height(first), height(last)).expect("first is not above last")
}

pub(super) async fn the_node_tells_its_chain_and_its_upgrades(fixture: &Fixture, node: &dyn Node) {
    let info = node.info().await.expect("info");
    assert_eq!(info.tip, fixture.tip(), "tip");
    assert_eq!(info.genesis, Some(fixture.blocks[0].id.hash), "genesis");
    assert_eq!(info.upgrades, fixture.builder.activations().announced());
    assert_eq!(info.chain_tip_branch, Upgrade::Nu6_3.branch_id());
    assert!(!info.build.is_empty() && !info.subversion.is_empty());
}

pub(super) async fn hashes_and_blocks_are_those_of_the_chain(fixture: &Fixture, node: &dyn Node) {
    let sizes = fixture.sizes();
    for (block, sizes) in fixture.blocks.iter().zip(sizes) {
        let id = block.id;
        let hash = node.hash_at(id.height).await.expect("hash_at");
        assert_eq!(hash, Some(id.hash), "hash at {}", id.height);
        let bytes = node.block(id.hash).await.expect("block");
        assert!(
            bytes.is_some_and(|bytes| bytes == block.bytes),
            "block {id}"
        );
        let found = node.tree_sizes(id.hash).await.expect("tree sizes");
        assert_eq!(found, Some(sizes), "tree sizes at {id}");
    }
    let above = node.hash_at(height(25)).await.expect("hash_at");
    assert_eq!(above, None, "above the tip");
    assert_eq!(node.hash_at(Height::MAX).await.expect("hash_at"), None);
    let unknown = node.block(UNKNOWN_BLOCK).await.expect("block");
    assert_eq!(unknown, None, "unknown block");
    let unknown = node.tree_sizes(UNKNOWN_BLOCK).await.expect("tree sizes");
    assert_eq!(unknown, None, "tree sizes of an unknown block");
}

/// Sapling is active from 3 on and has its first note in 4, Orchard from 6 and in 7, Ironwood from 9 and in 10.
pub(super) async fn a_tree_state_is_absent_then_empty_then_full(
    fixture: &Fixture,
    node: &dyn Node,
) {
    for block in &fixture.blocks {
        let state = node
            .tree_state(block.id.hash)
            .await
            .expect("tree state")
            .expect("the block is known");
        assert_eq!((state.id, state.time), (block.id, block.time));
        let height = block.id.height.get();
        for (state, activation, pool) in [
            (&state.sapling, 3, "sapling"),
            (&state.orchard, 6, "orchard"),
            (&state.ironwood, 9, "ironwood"),
        ] {
            let what = format!("{pool} tree at {height}");
            if height < activation {
                assert_eq!(*state, None, "{what}, before activation");
            } else if height == activation {
                assert_eq!(state.as_deref(), Some("000000"), "{what}, still empty");
            } else {
                let state = state.as_deref().expect("an active pool has a tree");
                assert!(
                    state.len() > 64 && state.starts_with("01"),
                    "{what}: {state}"
                );
            }
        }
    }
    let unknown = node.tree_state(UNKNOWN_BLOCK).await.expect("tree state");
    assert_eq!(unknown, None, "tree state of an unknown block");
}

pub(super) async fn addresses_have_their_transactions_in_range_and_order(
    fixture: &Fixture,
    node: &dyn Node,
) {
    let tip = fixture.tip().height.get();
    for address in [miner(), payee()] {
        for (first, last) in [
            (0, tip),
            (0, 0),
            (5, 5),
            (5, 13),
            (9, 12),
            (tip, tip),
            (tip, tip + 50),
            (tip + 1, tip + 50),
            (0, Height::MAX.get()),
        ] {
            let ids = node
                .address_transactions(text(address), range(first, last))
                .await
                .expect("transactions of an address");
            let expected = fixture.touching(address, first, last);
            assert_eq!(ids, expected, "{} from {first} to {last}", text(address));
        }
    }
}

pub(super) async fn unspent_outputs_and_balances_agree(fixture: &Fixture, node: &dyn Node) {
    let tip = fixture.tip().height.get();
    let both = vec![text(miner()), text(payee())];
    let twice = vec![text(miner()), text(payee()), text(miner())];
    let ask = async |addresses: &Vec<String>, start: Option<u32>, most: Option<u32>| {
        node.address_utxos(addresses.clone(), start.map(Height::new), most)
            .await
            .expect("unspent outputs")
    };
    let all = ask(&both, None, None).await;
    let balance = async |addresses: &[String]| {
        node.address_balance(addresses.to_vec())
            .await
            .expect("balance")
    };
    // 24 coinbases less the 5 that were spent, the change, and 4 payments.
    let sum = |utxos: &[Utxo]| utxos.iter().map(|utxo| utxo.value_zat).sum::<i64>();
    assert_eq!(sum(&all), 19 * 1_000 + 100 + 4 * 300, "sum of all unspent");
    assert_eq!(balance(&both).await, sum(&all), "balance of two");
    assert_eq!(balance(&twice).await, sum(&all), "an address given twice");
    assert_eq!(balance(&both[1..]).await, 4 * 300, "balance of one");
    assert_eq!(balance(&[]).await, 0, "balance of none");
    assert_eq!(ask(&twice, None, None).await, all, "an address given twice");
    assert_eq!(ask(&both, None, Some(0)).await, all, "0 entries are all");

    let heights: Vec<_> = all.iter().map(|utxo| utxo.height).collect();
    assert!(heights.is_sorted(), "chain order: {heights:?}");
    let names: BTreeSet<_> = all.iter().map(|utxo| (utxo.txid, utxo.index)).collect();
    assert_eq!(names.len(), all.len(), "each once");
    let changed: Vec<_> = all
        .iter()
        .filter(|utxo| utxo.height == height(13))
        .map(|utxo| (utxo.value_zat, utxo.index))
        .collect();
    assert_eq!(
        changed,
        [(1_000, 0), (300, 0), (300, 0), (100, 1)],
        "order inside a block"
    );
    let from_13: Vec<_> = all
        .iter()
        .filter(|utxo| utxo.height >= height(13))
        .cloned()
        .collect();
    assert_eq!(ask(&both, Some(13), None).await, from_13, "from 13 on");
    assert_eq!(
        ask(&both, Some(13), Some(3)).await,
        from_13[..3],
        "three from 13 on"
    );
    assert_eq!(ask(&both, None, Some(2)).await, all[..2], "two");
    let above = ask(&both, Some(tip + 1), None).await;
    assert_eq!(above, [], "above the tip");
    let never = text(crate::simulated::Address::PublicKeyHash([0x77; 20]));
    assert_eq!(ask(&vec![never.clone()], None, None).await, []);
    assert_eq!(balance(&[never]).await, 0);
}

pub(super) async fn a_text_that_is_no_address_is_an_error(node: &dyn Node) {
    let error = node.address_balance(vec!["x".to_owned()]).await;
    assert!(
        matches!(error, Err(Error::Rpc { code: -5, .. })),
        "{error:?}"
    );
    let error = node
        .address_transactions("x".to_owned(), range(0, 10))
        .await;
    assert!(
        matches!(error, Err(Error::Rpc { code: -5, .. })),
        "{error:?}"
    );
    let error = node.address_utxos(vec!["x".to_owned()], None, None).await;
    assert!(
        matches!(error, Err(Error::Rpc { code: -5, .. })),
        "{error:?}"
    );
}

pub(super) async fn a_transaction_waits_is_mined_and_falls_aside(
    mut fixture: Fixture,
    node: &dyn Node,
) {
    let unknown = node.transaction(UNKNOWN_TRANSACTION).await;
    assert_eq!(unknown.expect("transaction"), None, "unknown transaction");
    assert_eq!(node.mempool().await.expect("mempool"), [], "empty mempool");

    let recipe = Recipe::new(Version::V5)
        .with_input(fixture.coinbase_of(6))
        .with_output(Output::to_script_hash(50, &[0x33; 20]))
        .with_orchard(1);
    let built = fixture
        .builder
        .transaction(recipe.clone())
        .expect("the recipe fits its version");
    let submitted = node.submit(built.bytes.clone().into()).await;
    let accepted = submitted.expect("submit");
    assert_eq!(accepted, Submitted::Accepted(built.id), "submitted");
    assert_eq!(node.mempool().await.expect("mempool"), [built.id]);
    let place = async |id: TxId| {
        let found = node.transaction(id).await.expect("transaction");
        let found = found.expect("the transaction is known");
        assert_eq!(found.bytes, built.bytes, "bytes of the transaction");
        found.place
    };
    assert_eq!(place(built.id).await, Place::Mempool, "waiting");

    let block = fixture
        .node
        .mine(&mut fixture.builder, super::chain::coinbase())
        .expect("the builder stands on the tip");
    let mined = Place::Mined(block.id.height);
    assert_eq!(place(built.id).await, mined, "mined");
    assert_eq!(node.mempool().await.expect("mempool"), [], "mined");

    fixture.node.rollback(1);
    assert_eq!(place(built.id).await, Place::SideChain, "fallen aside");

    // A transaction of an old block, found at its own height.
    let old = &fixture.blocks[8];
    let found = node.transaction(old.transactions[1]).await;
    let found = found.expect("transaction").expect("it is mined");
    assert_eq!(found.place, Place::Mined(height(8)));
}

pub(super) async fn a_refusal_is_an_answer(mut fixture: Fixture, node: &dyn Node) {
    let code = async |bytes: Vec<u8>| {
        let submitted = node.submit(bytes.into()).await;
        match submitted.expect("a refusal is no error") {
            Submitted::Rejected { code, message } => {
                assert!(!message.is_empty(), "a refusal has a reason");
                code
            }
            Submitted::Accepted(id) => panic!("{id} was accepted"),
        }
    };
    assert_eq!(code(vec![0]).await, -22, "no transaction");
    let mut transaction = |input, output: &[u8]| {
        let recipe = Recipe::new(Version::V5)
            .with_input(input)
            .with_output(Output::of_data(output));
        let built = fixture.builder.transaction(recipe);
        built.expect("the recipe fits its version")
    };
    let spent = Fixture::new().coinbase_of(1);
    let spent = transaction(spent, b"spent long ago");
    assert_eq!(code(spent.bytes).await, -25, "spends what is spent");
    let unspent = Fixture::new().coinbase_of(7);
    let first = transaction(unspent.clone(), b"first");
    let second = transaction(unspent, b"second");
    let submitted = node.submit(first.bytes.into()).await.expect("submit");
    assert_eq!(submitted, Submitted::Accepted(first.id));
    assert_eq!(code(second.bytes).await, -25, "spends it again");
}

pub(super) async fn subtree_roots_come_in_pages(fixture: &Fixture, node: &dyn Node) {
    let ask = async |pool, start, limit| {
        node.subtree_roots(pool, start, limit)
            .await
            .expect("subtree roots")
    };
    let sapling = ShieldedPool::Sapling;
    let all = ask(sapling, 0, None).await;
    let ends: Vec<_> = all.iter().map(|subtree| subtree.end_height.get()).collect();
    assert_eq!(ends, [2, 3], "where the subtrees end");
    // Equal notes make equal subtrees; a subtree is not its own first leaf.
    assert_eq!(all[0].root, all[1].root);
    assert_ne!(all[0].root, [1; 32]);
    assert_eq!(ask(sapling, 0, Some(1)).await, all[..1], "first page");
    assert_eq!(ask(sapling, 1, Some(1)).await, all[1..], "second page");
    assert_eq!(ask(sapling, 1, None).await, all[1..], "from the second on");
    assert_eq!(ask(sapling, 0, Some(100)).await, all, "a large page");
    assert_eq!(ask(sapling, 2, None).await, [], "past the end");
    assert_eq!(ask(sapling, 65_535, None).await, [], "far past the end");
    assert_eq!(
        ask(ShieldedPool::Orchard, 0, None).await,
        [],
        "another pool"
    );
    fixture.node.rollback(1);
    assert_eq!(ask(sapling, 0, None).await, all[..1], "after a rollback");
}
