//! Real blocks in a chain file, trees hashed as consensus does: the states are those that the real node gave.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    sync::Arc,
};

use flate2::read::GzDecoder;
use lightship_chain::{TxId, Upgrade, build::Activations, parse::Block};
use lightship_harness::forge::file::{About, ChainFile, ChainWriter, Trees};
use lightship_source::simulated::SimulatedNode;
use serde_json::{Value, json};

fn lines(path: &Path) -> Vec<Value> {
    let file = std::fs::File::open(path).unwrap();
    let mut text = String::new();
    BufReader::new(GzDecoder::new(file))
        .read_to_string(&mut text)
        .unwrap();
    text.as_bytes()
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect()
}

#[test]
fn tree_states_from_the_file_are_the_real_ones() {
    let Some(shared) = std::env::var_os("LIGHTSHIP_SHARED") else {
        eprintln!("skipped: LIGHTSHIP_SHARED names no folder with recorded chains");
        return;
    };
    let data = Path::new(&shared).join("data");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain");
    let activations = Activations::all_at(Upgrade::Nu5, 1);
    let about = About::new("regtest", &activations, "recorded".to_owned());
    let mut writer = ChainWriter::create(&path, &about, Trees::Consensus).unwrap();
    let blocks = lines(&data.join("blocks/regtest_zaino_0_200.jsonl.gz"));
    for block in &blocks {
        let bytes = const_hex::decode(block["raw"].as_str().unwrap()).unwrap();
        let ids: Vec<TxId> = Block::parse(&bytes)
            .unwrap()
            .transactions()
            .map(|each| each.id())
            .collect();
        writer.best(&bytes, &ids).unwrap();
    }
    writer.finish().unwrap();
    let file = ChainFile::open(&path).unwrap();
    let node = SimulatedNode::on_archive(
        activations,
        Trees::Consensus.hash().unwrap(),
        Arc::new(file.clone()),
        file.blocks(),
    );
    let states = lines(&data.join("trees/regtest_zaino_0_200.jsonl.gz"));
    assert_eq!(states.len(), blocks.len());
    for state in states.iter().skip(1) {
        let height = state["height"].to_string();
        let found = node.answer("z_gettreestate", &json!([height])).unwrap();
        assert_eq!(found["hash"], state["hash"], "{height}");
        for pool in ["sapling", "orchard"] {
            let root = &found[pool]["commitments"]["finalRoot"];
            assert_eq!(*root, state[format!("{pool}_root")], "{pool} at {height}");
        }
        let block = node.answer("getblock", &json!([height, 1])).unwrap();
        for pool in ["sapling", "orchard"] {
            let size = block["trees"][pool]["size"].as_u64().unwrap_or(0);
            assert_eq!(Some(size), state[format!("{pool}_size")].as_u64());
        }
    }
}
