//! A stub over a chain file answers as a simulated node that holds the same chain in memory.

#[cfg(feature = "curves")]
mod real;

use std::collections::BTreeSet;

use lightship_chain::{Height, Network, parse::Block};
use lightship_harness::{
    forge::{
        Forge, Forged, Settings, command,
        file::{ChainFile, Trees},
        profile::{Plan, Profile},
    },
    stub::Stub,
};
use lightship_source::simulated::{Address, RpcError, SimulatedNode};
use serde_json::{Value, json};

const BLOCKS: u32 = 1_120;

struct Pair {
    stub: Stub,
    node: SimulatedNode,
    /// Ids and addresses to ask about.
    ids: Vec<String>,
    addresses: BTreeSet<String>,
    _folder: tempfile::TempDir,
}

/// The same chain twice. The stub holds its last thousand blocks in memory, so 120 are in the file alone.
fn pair() -> Pair {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain");
    let settings = Settings {
        branch_every: 40,
        fill_bytes: 12_000,
        ..Settings::new(Profile::Ugly, BLOCKS, 5)
    };
    command::write(settings, &path, Trees::StandIn).unwrap();
    let plan = Plan::new(Profile::Ugly, BLOCKS);
    let node = SimulatedNode::new(plan.activations);
    let mut ids = Vec::new();
    let mut addresses = BTreeSet::new();
    for forged in Forge::new(settings) {
        match forged {
            Forged::Best(block) => {
                let read = Block::parse(&block.bytes).unwrap();
                for transaction in read.transactions().take(2) {
                    ids.push(transaction.id().to_string());
                    addresses.extend(
                        transaction
                            .outputs()
                            .take(3)
                            .filter_map(|output| Address::of_script(output.script()))
                            .map(|address| address.encode(Network::Regtest)),
                    );
                }
                node.extend(block.bytes).unwrap();
            }
            // Branches of settled blocks are forgotten, as Zebra forgets them.
            Forged::Side(block) if block.id.height.get() > BLOCKS - 1_000 => {
                let _ = node.add_side(block.bytes);
            }
            Forged::Side(_) => {}
        }
    }
    Pair {
        stub: Stub::open(&path, None).unwrap(),
        node,
        ids,
        addresses,
        _folder: folder,
    }
}

impl Pair {
    fn both(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let expected = self.node.answer(method, &params);
        let mut found = self.stub.node().answer(method, &params);
        if let (Ok(expected), Ok(found)) = (&expected, &mut found) {
            // A file's blocks have headers of records between them.
            if let Some(size) = found.get_mut("size_on_disk") {
                *size = expected["size_on_disk"].clone();
            }
        }
        assert_eq!(found, expected, "{method} {params}");
        expected
    }
}

#[test]
fn a_stub_answers_as_a_node_in_memory() {
    let pair = pair();
    for method in [
        "getinfo",
        "getblockchaininfo",
        "getblockcount",
        "getbestblockhash",
        "getbestblockheightandhash",
        "getmininginfo",
        "getchaintips",
        "getrawmempool",
        "getmempoolinfo",
        "nonsense",
    ] {
        let _ = pair.both(method, json!([]));
    }
    let heights =
        (0..BLOCKS + 3).filter(|height| *height < 140 || height % 50 == 0 || *height > BLOCKS - 5);
    for height in heights {
        let hash = pair.both("getblockhash", json!([height]));
        for verbosity in 0..=2 {
            let _ = pair.both("getblock", json!([height.to_string(), verbosity]));
        }
        let _ = pair.both("z_gettreestate", json!([height.to_string()]));
        if let Ok(Value::String(hash)) = hash {
            let _ = pair.both("getblock", json!([hash, 1]));
            let _ = pair.both("getblockheader", json!([hash, false]));
            let _ = pair.both("z_gettreestate", json!([hash]));
        }
    }
    for pool in ["sapling", "orchard", "ironwood"] {
        let _ = pair.both("z_getsubtreesbyindex", json!([pool, 0]));
    }
    for id in pair.ids.iter().step_by(7) {
        let _ = pair.both("getrawtransaction", json!([id, 1]));
        for index in 0..3 {
            let _ = pair.both("gettxout", json!([id, index]));
        }
    }
    let mut found = 0;
    for address in pair.addresses.iter().step_by(3) {
        let addresses = json!([{"addresses": [address]}]);
        let ids = pair.both("getaddresstxids", addresses.clone()).unwrap();
        found += ids.as_array().unwrap().len();
        let _ = pair.both("getaddressutxos", addresses.clone());
        let _ = pair.both("getaddressbalance", addresses);
        let some = json!([{"addresses": [address], "start": 60, "end": 900}]);
        let _ = pair.both("getaddresstxids", some);
    }
    assert!(found > 100, "{found}");
}

#[test]
fn reorgs_spend_and_bring_back_what_the_file_holds() {
    let pair = pair();
    // All the way down to the blocks that stay in the file, and up again by the same blocks.
    let blocks: Vec<_> = (BLOCKS - 990..BLOCKS)
        .map(|height| pair.node.best_at(Height::new(height)).unwrap())
        .collect();
    assert_eq!(pair.stub.node().rollback(990), pair.node.rollback(990));
    let ask = |pair: &Pair| {
        let _ = pair.both("getblockchaininfo", json!([]));
        for address in pair.addresses.iter().step_by(5) {
            let addresses = json!([{"addresses": [address]}]);
            let _ = pair.both("getaddressbalance", addresses.clone());
            let _ = pair.both("getaddressutxos", addresses.clone());
            let _ = pair.both("getaddresstxids", addresses);
        }
    };
    ask(&pair);
    pair.stub.node().reorg(0, blocks.clone()).unwrap();
    pair.node.reorg(0, blocks).unwrap();
    ask(&pair);
    // Deeper than that nothing moves.
    let kept = pair.stub.node().rollback(5_000).unwrap();
    assert_eq!(kept.height.get(), BLOCKS - 1_001);
}

#[test]
fn the_tip_moves_along_the_file_and_beyond_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain");
    command::write(Settings::new(Profile::Tip, 130, 3), &path, Trees::StandIn).unwrap();
    let stub = Stub::open(&path, Some(Height::new(120))).unwrap();
    let file = ChainFile::open(&path).unwrap();
    assert_eq!(stub.node().best().unwrap().height.get(), 120);
    assert_eq!(
        stub.mine().unwrap().hash,
        file.row(Height::new(121)).unwrap().hash
    );
    // Away from the file's chain and back to it.
    let other = stub.reorg(3, 4).unwrap().unwrap();
    assert_eq!(other.height.get(), 122);
    assert_ne!(other.hash, file.row(other.height).unwrap().hash);
    let back = stub.mine().unwrap();
    assert_eq!(back.hash, file.row(Height::new(123)).unwrap().hash);
    assert_eq!(
        stub.node().best_at(Height::new(120)).unwrap(),
        file.block(Height::new(120)).unwrap()
    );
    // The mempool fills and, beyond the file, is mined.
    while stub.mine().unwrap().height.get() < 129 {}
    for _ in 0..20 {
        stub.add_to_mempool().unwrap();
    }
    let waiting = stub.node().mempool_transactions();
    assert!(waiting.len() > 10, "{}", waiting.len());
    let made = stub.mine().unwrap();
    assert_eq!(made.height.get(), 130);
    let block = stub.node().best_at(made.height).unwrap();
    let mined = Block::parse(&block).unwrap().transactions().count();
    assert_eq!(mined, waiting.len() + 1);
    assert!(stub.node().mempool_transactions().is_empty());
    assert_eq!(stub.reorg(2, 0).unwrap().unwrap().height.get(), 128);
}
