//! Our program under loads and behind programs that the fast tests cannot afford, on a simulated node in this process.

mod empty_trees;
mod generated_client;
mod judged;
mod long;
mod memory;
mod proxies;

use std::time::{Duration, Instant};

use lightship_chain::{
    BlockId, Upgrade,
    build::{Activations, BuiltBlock, ChainBuilder, Coinbase, Output, Recipe, regtest_genesis},
};
use lightship_harness::{
    grpc::Client,
    lightship::{Lightship, Options},
};
use lightship_source::simulated::{
    SimulatedNode,
    http::{Running, Settings},
};

/// For what ends by itself, in a program that was compiled without optimisation on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A simulated node that can be asked over JSON-RPC, and the program beside it.
struct Laboratory {
    node: SimulatedNode,
    chain: ChainBuilder,
    tip: BuiltBlock,
    server: Lightship,
    _port: Running,
}

impl Laboratory {
    /// Genesis and `blocks` blocks with so many Sapling outputs each; `upgrade` and all before it begin at block 1.
    fn new(upgrade: Upgrade, blocks: usize, outputs: usize) -> Laboratory {
        let activations = Activations::all_at(upgrade, 1);
        let genesis = regtest_genesis();
        let node =
            SimulatedNode::from_blocks(activations.clone(), [genesis.bytes.clone()]).unwrap();
        let port = Running::start(node.clone(), Settings::default()).unwrap();
        let server = Lightship::start(Options {
            node_url: port.url(),
            node_cookie: None,
            zebra_state: None,
            zebra_indexer: None,
            poll: None,
            range_blocks: Some(64),
        })
        .unwrap();
        let mut laboratory = Laboratory {
            node,
            chain: ChainBuilder::on_regtest(1, activations),
            tip: genesis,
            server,
            _port: port,
        };
        for _ in 0..blocks {
            laboratory.mine(outputs);
        }
        laboratory
    }

    fn mine(&mut self, outputs: usize) -> BlockId {
        let mut transactions = Vec::new();
        if outputs > 0 {
            let recipe = Recipe::new(self.chain.newest_version()).with_sapling(0, outputs);
            transactions.push(self.chain.transaction(recipe).unwrap());
        }
        let coinbase = Coinbase {
            outputs: vec![Output::to_public_key_hash(1_000, &[7; 20])],
            ..Coinbase::default()
        };
        let block = self.chain.next_block(coinbase, &transactions).unwrap();
        self.node.extend(block.bytes.clone()).unwrap();
        let id = block.id;
        self.tip = block;
        id
    }

    /// A client, once the server has the node's tip.
    async fn client(&mut self) -> Client {
        let begun = Instant::now();
        loop {
            self.server.check_running().unwrap();
            if let Ok(mut client) = Client::connect(&self.server.grpc_url()).await
                && let Ok(latest) = client.latest_block().await
                && latest.hash == self.tip.id.hash.as_internal()
            {
                return client;
            }
            assert!(begun.elapsed() < PATIENCE, "{}", self.server.log_tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
