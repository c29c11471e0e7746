//! What every source and node must do, as tests.
//!
//! In: a way to make a [`BlockSource`] or [`Node`] over the chain of a [`SimulatedNode`]. Out: nothing, or a panic that
//! says which promise was broken. The traits' documentation is the contract; each function here holds an implementation to one part of it.
//!
//! Left to each implementation's own tests: how it copes with a node that misbehaves.

mod chain;
mod following;
mod node;
mod reading;

pub use chain::Fixture;

use crate::{BlockSource, Node, simulated::SimulatedNode};

/// Holds a source to what it must do on a chain that does not change.
///
/// # Panics
///
/// If it does not.
pub fn block_source<S: BlockSource>(make: impl Fn(&SimulatedNode) -> S) {
    let fixture = Fixture::new();
    let source = make(&fixture.node);
    reading::the_tip_is_the_highest_block_and_height_0_the_genesis(&fixture, &source);
    reading::heights_have_hashes_up_to_the_tip_and_none_above(&fixture, &source);
    reading::blocks_are_lent_lowest_first_and_byte_for_byte(&fixture, &source);
    reading::a_visitor_that_breaks_sees_no_more_blocks(&fixture, &source);
    reading::a_range_that_leaves_the_chain_lends_what_there_is_and_fails(&fixture, &source);
    reading::a_block_is_lent_by_hash_and_an_unknown_one_is_not(&fixture, &source);
    reading::tree_sizes_are_those_at_the_end_of_the_block(&fixture, &source);
    reading::waiting_ends_at_once_if_the_tip_is_another_and_after_patience_if_not(
        &fixture, &source,
    );
    reading::many_threads_may_ask_at_once(&fixture, &source);
}

/// Holds a source to what it must do on a chain that grows, shrinks and changes branch.
///
/// # Panics
///
/// If it does not.
pub fn following<S: BlockSource>(make: impl Fn(&SimulatedNode) -> S) {
    following::a_node_without_a_block_has_no_tip(&make);
    following::waiting_ends_when_the_tip_moves(&make);
    following::a_reorg_moves_the_hashes_and_keeps_the_old_blocks(&make);
    following::a_tip_may_fall_without_replacement_and_vanish(&make);
    following::a_shorter_branch_may_be_the_best(&make);
}

/// Holds a node to its contract. The answers are polled on a tokio runtime of one thread.
///
/// # Panics
///
/// If it does not keep it.
pub fn node<N: Node>(make: impl Fn(&SimulatedNode) -> N) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system gives a runtime");
    runtime.block_on(async {
        let fixture = Fixture::new();
        let asked = make(&fixture.node);
        node::the_node_tells_its_chain_and_its_upgrades(&fixture, &asked).await;
        node::hashes_and_blocks_are_those_of_the_chain(&fixture, &asked).await;
        node::a_tree_state_is_absent_then_empty_then_full(&fixture, &asked).await;
        node::addresses_have_their_transactions_in_range_and_order(&fixture, &asked).await;
        node::unspent_outputs_and_balances_agree(&fixture, &asked).await;
        node::a_text_that_is_no_address_is_an_error(&asked).await;
        node::a_transaction_waits_is_mined_and_falls_aside(fixture, &asked).await;

        let fixture = Fixture::new();
        let asked = make(&fixture.node);
        node::a_refusal_is_an_answer(fixture, &asked).await;

        let fixture = Fixture::with_subtrees();
        let asked = make(&fixture.node);
        node::subtree_roots_come_in_pages(&fixture, &asked).await;
    });
}
