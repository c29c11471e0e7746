//! A whole simulated node, asked over its RPC: batches, tree sizes and faults as they come over a socket.

use std::{sync::Arc, time::Duration};

use lightship_chain::{
    BlockId, Height, Network, RawBlock, TreeSizes, Upgrade,
    build::{Activations, ChainBuilder, Coinbase},
    compact::{EncodedBlock, compact},
};
use lightship_index::StoreId;
use lightship_ingest::{Settings, State};
use lightship_source::{
    rpc::{Credentials, Endpoint, RpcSource},
    simulated::{
        Fault, Rule, SimulatedNode,
        http::{self, Running},
    },
};

use crate::running::{RANGE_BLOCKS, assert_holds, open, settings, start_on};

fn activations() -> Activations {
    Activations::staggered(Upgrade::Nu6_3, 10)
}

/// `count` blocks on `chain`, with notes of every pool that its era has.
fn blocks(chain: &mut ChainBuilder, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|_| {
            let height = chain.next_height();
            let after = |upgrade| chain.activations().is_active(upgrade, height);
            let coinbase = Coinbase {
                sapling_outputs: usize::from(after(Upgrade::Heartwood)),
                orchard_actions: usize::from(after(Upgrade::Nu5) && height.get().is_multiple_of(3)),
                ironwood_actions: usize::from(
                    after(Upgrade::Nu6_3) && height.get().is_multiple_of(2),
                ),
                ..Coinbase::default()
            };
            chain.next_block(coinbase, &[]).unwrap().bytes
        })
        .collect()
}

fn model(node: &SimulatedNode) -> Vec<EncodedBlock> {
    let mut sizes = TreeSizes::ZERO;
    (0..)
        .map_while(|height| {
            let height = Height::new(height);
            let bytes = node.best_at(height)?;
            let block = compact(height, RawBlock::Whole(&bytes)).unwrap();
            let block = block.after(sizes).unwrap();
            sizes = block.sizes;
            Some(block)
        })
        .collect()
}

fn id_at(node: &SimulatedNode, height: u32) -> BlockId {
    let height = Height::new(height);
    let bytes = node.best_at(height).unwrap();
    compact(height, RawBlock::Whole(&bytes)).unwrap().id
}

fn rpc(running: &Running) -> Arc<RpcSource> {
    let mut endpoint = Endpoint::new(&running.url(), Credentials::None).unwrap();
    endpoint.poll = Duration::from_millis(5);
    endpoint.timeout = Duration::from_millis(300);
    endpoint.patience = Duration::from_millis(50);
    Arc::new(RpcSource::new(endpoint))
}

#[test]
fn a_node_is_indexed_and_followed_through_reorgs_and_faults() {
    let mut chain = ChainBuilder::new(51, activations());
    let node = SimulatedNode::from_blocks(activations(), blocks(&mut chain, 150)).unwrap();
    let port = Running::start(node.clone(), http::Settings::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = StoreId {
        network: Network::Regtest,
        genesis: id_at(&node, 0).hash,
        range_blocks: RANGE_BLOCKS.try_into().unwrap(),
    };
    let settings = Settings {
        longest_pause: Duration::from_millis(50),
        ..settings()
    };
    for fault in [Fault::Cut, Fault::Truncated, Fault::Warming] {
        node.faults().add(Rule::new(fault).after(3).times(4));
    }
    let running = start_on(&rpc(&port), open(dir.path(), store), settings);
    assert_holds(&running.reaches(node.best().unwrap()), &model(&node));

    for (round, depth) in [1, 3, 12, 20, 25, 60].into_iter().enumerate() {
        let tip = node.best().unwrap().height.get();
        let parent = id_at(&node, tip - depth);
        let mut branch = chain.branch(parent, 1_500_000_000, 60 + round as u64);
        let branch = blocks(&mut branch, depth as usize + round % 2);
        match round % 3 {
            0 => node
                .faults()
                .add(Rule::new(Fault::Refuse).lasting(Duration::from_millis(100))),
            1 => node.faults().add(Rule::new(Fault::Hang).times(2)),
            _ => node.faults().add(Rule::new(Fault::Html).times(5)),
        }
        node.reorg(depth, branch).unwrap();
        assert_holds(&running.reaches(node.best().unwrap()), &model(&node));
        node.rollback(depth / 2);
        assert_holds(&running.reaches(node.best().unwrap()), &model(&node));
    }
    let seen = running.snapshot_when("it follows", |seen| seen.state == State::Following);
    assert!(seen.stalls > 0 && seen.reorgs >= 11, "{seen:#?}");
    running.stop();
}
