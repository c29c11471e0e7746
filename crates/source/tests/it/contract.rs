//! Every source and node, held to the traits' promises.

use std::{cell::RefCell, fmt::Write, time::Duration};

use lightship_chain::Height;
use lightship_source::{
    contract,
    files::FileSource,
    rpc::{Credentials, Endpoint, RpcNode, RpcSource},
    simulated::{
        SimulatedNode,
        http::{Running, Settings},
    },
};

/// Servers that live as long as the test.
#[derive(Default)]
pub(crate) struct Servers(RefCell<Vec<Running>>);

impl Servers {
    pub(crate) fn serve(&self, node: &SimulatedNode) -> Endpoint {
        let server = Running::start(node.clone(), Settings::default()).unwrap();
        let mut endpoint = Endpoint::new(&server.url(), Credentials::None).unwrap();
        endpoint.poll = Duration::from_millis(10);
        self.0.borrow_mut().push(server);
        endpoint
    }
}

#[test]
fn the_simulated_node_is_a_source() {
    contract::block_source(SimulatedNode::clone);
    contract::following(SimulatedNode::clone);
}

#[test]
fn the_simulated_node_is_a_node() {
    contract::node(SimulatedNode::clone);
}

#[test]
fn a_node_over_rpc_is_a_source() {
    let servers = Servers::default();
    contract::block_source(|node| RpcSource::new(servers.serve(node)));
    contract::following(|node| RpcSource::new(servers.serve(node)));
}

#[test]
fn a_node_over_rpc_is_a_node() {
    let servers = Servers::default();
    contract::node(|node| RpcNode::new(servers.serve(node)));
}

#[test]
fn a_file_of_lines_is_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocks.hex");
    contract::block_source(|node| {
        let mut lines = String::new();
        for block in (0..).map_while(|height| node.best_at(Height::new(height))) {
            writeln!(lines, "{}", const_hex::encode(block)).unwrap();
        }
        std::fs::write(&path, lines).unwrap();
        FileSource::open(&path).unwrap()
    });
}
