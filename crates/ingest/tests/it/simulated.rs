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

fn store_of(node: &SimulatedNode) -> StoreId {
    StoreId {
        network: Network::Regtest,
        genesis: id_at(node, 0).hash,
        range_blocks: RANGE_BLOCKS.try_into().unwrap(),
    }
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
    let settings = Settings {
        longest_pause: Duration::from_millis(50),
        ..settings()
    };
    for fault in [Fault::Cut, Fault::Truncated, Fault::Warming] {
        node.faults().add(Rule::new(fault).after(3).times(4));
    }
    let running = start_on(&rpc(&port), open(dir.path(), store_of(&node)), settings);
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

/// Settings under which nothing but a nudge leads to a look at the tip.
fn patient() -> Settings {
    Settings {
        poll: Duration::from_secs(3_600),
        wait: Duration::from_secs(3_600),
        nudge_gap: Duration::from_millis(1),
        ..settings()
    }
}

/// A node of 30 blocks, and a run that has reached its tip and will not look again by itself.
struct Followed {
    chain: ChainBuilder,
    node: SimulatedNode,
    running: crate::running::Running,
    _port: Running,
    _dir: tempfile::TempDir,
}

impl Followed {
    fn new(settings: Settings) -> Followed {
        let mut chain = ChainBuilder::new(52, activations());
        let node = SimulatedNode::from_blocks(activations(), blocks(&mut chain, 30)).unwrap();
        let port = Running::start(node.clone(), http::Settings::default()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut endpoint = Endpoint::new(&port.url(), Credentials::None).unwrap();
        endpoint.poll = Duration::from_secs(3_600);
        let source = Arc::new(RpcSource::new(endpoint));
        let running = start_on(&source, open(dir.path(), store_of(&node)), settings);
        running.reaches(node.best().unwrap());
        running.snapshot_when("it follows", |seen| seen.state == State::Following);
        let followed = Followed {
            chain,
            node,
            running,
            _port: port,
            _dir: dir,
        };
        // The run's own wait has had its one look.
        followed.when_quiet();
        followed
    }

    fn looks(&self) -> u64 {
        self.node.faults().calls_of("getbestblockheightandhash")
    }

    /// Returns once the node has not been asked anything for a while.
    fn when_quiet(&self) {
        let mut before = self.node.faults().calls();
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let now = self.node.faults().calls();
            if now == before {
                return;
            }
            before = now;
        }
    }

    fn mine(&mut self) -> BlockId {
        let block = blocks(&mut self.chain, 1).remove(0);
        self.node.extend(block).unwrap();
        self.node.best().unwrap()
    }
}

#[test]
fn a_caller_who_asks_again_and_again_sees_a_new_block_after_two_looks() {
    let mut followed = Followed::new(patient());
    let nudge = followed.running.nudge();
    for _ in 0..5 {
        let before = followed.looks();
        let tip = followed.mine();
        // One look finds it; one more, when it has been indexed, finds no other.
        followed.running.until("the block is served", |running| {
            nudge.ask();
            (running.reader.view().tip() == Some(tip)).then_some(())
        });
        // The caller's last questions may have led to looks of their own meanwhile.
        followed.when_quiet();
        let one = followed.looks() - before;
        assert!(one >= 1, "{one}");
        let tip = followed.mine();
        let before = followed.looks();
        nudge.ask();
        followed.running.reaches(tip);
        followed.when_quiet();
        assert_eq!(
            followed.looks() - before,
            2,
            "one question leads to two looks"
        );
    }
    followed.running.stop();
}

#[test]
fn a_run_that_nobody_nudges_leaves_the_node_alone() {
    let mut followed = Followed::new(patient());
    let (tip, before) = (followed.node.best(), followed.node.faults().calls());
    followed.mine();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(followed.node.faults().calls(), before);
    assert_eq!(followed.running.reader.view().tip(), tip);
    followed.running.stop();
}

#[test]
fn a_thousand_callers_cost_the_node_no_more_than_one() {
    let settings = Settings {
        nudge_gap: Duration::from_secs(3_600),
        ..patient()
    };
    let followed = Followed::new(settings);
    let before = followed.node.faults().calls();
    let nudge = followed.running.nudge();
    std::thread::scope(|scope| {
        for _ in 0..1_000 {
            let nudge = nudge.clone();
            scope.spawn(move || (0..10).for_each(|_| nudge.ask()));
        }
    });
    followed.when_quiet();
    assert_eq!(followed.node.faults().calls() - before, 1);
    followed.running.stop();
}

#[test]
fn a_pushed_tip_is_fetched_at_once_also_behind_callers_who_wait_their_turn() {
    let settings = Settings {
        nudge_gap: Duration::from_secs(3_600),
        ..patient()
    };
    let mut followed = Followed::new(settings);
    let nudge = followed.running.nudge();
    nudge.ask();
    followed.when_quiet();
    nudge.ask();
    let tip = followed.mine();
    nudge.name(tip);
    assert_holds(&followed.running.reaches(tip), &model(&followed.node));
    followed.running.stop();
}

#[test]
fn a_name_that_is_a_lie_moves_nothing_and_is_soon_not_looked_for() {
    let followed = Followed::new(patient());
    let tip = followed.node.best().unwrap();
    let before = followed.looks();
    let nudge = followed.running.nudge();
    let lie = |height: u32| BlockId {
        height: Height::new(height),
        hash: tip.hash,
    };
    for _ in 0..100 {
        nudge.name(lie(1_000_000));
    }
    followed.when_quiet();
    assert_eq!(
        followed.looks() - before,
        6,
        "as often as a name is looked for"
    );
    assert_eq!(followed.running.reader.view().tip(), Some(tip));
    assert_eq!(followed.running.progress.snapshot().stalls, 0);
    followed.running.stop();
}

#[test]
fn a_reorg_is_followed_by_a_nudge_also_back_to_the_branch_that_was_waited_on() {
    let followed = Followed::new(patient());
    let nudge = followed.running.nudge();
    let first = followed.node.best().unwrap();
    let parent = id_at(&followed.node, first.height.get() - 2);
    let mut branch = followed.chain.branch(parent, 1_500_000_000, 77);
    let old: Vec<_> = (first.height.get() - 1..=first.height.get())
        .map(|height| followed.node.best_at(Height::new(height)).unwrap())
        .collect();
    for round in 0..2 {
        let branch = match round {
            0 => blocks(&mut branch, 3),
            _ => old.iter().map(|block| block.to_vec()).collect(),
        };
        let depth = 2 + round;
        followed.node.reorg(depth, branch).unwrap();
        nudge.ask();
        assert_holds(
            &followed.running.reaches(followed.node.best().unwrap()),
            &model(&followed.node),
        );
    }
    assert_eq!(followed.node.best(), Some(first));
    followed.running.stop();
}
