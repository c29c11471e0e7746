//! Spans that begin in the middle of a real chain. What a whole store answers is in `tests/it/trees.rs`.

use std::{num::NonZeroUsize, path::Path};

use lightship_chain::{
    ShieldedPool, TreeSizes,
    compact::{fields, project},
    tree::{Frontier, TreeHash, TreeNode},
};
use lightship_merkle::Consensus;
use serde_json::Value;

use super::span::{Hasher, LOWEST_LEVEL, Ommers, Span};

const POOL: ShieldedPool = ShieldedPool::Sapling;

fn recorded(file: &str) -> Option<Vec<Value>> {
    let Some(folder) = std::env::var_os("LIGHTSHIP_SHARED") else {
        eprintln!("LIGHTSHIP_SHARED is not set: recorded trees are not compared");
        return None;
    };
    let file = std::fs::File::open(Path::new(&folder).join("data").join(file)).unwrap();
    let text = std::io::read_to_string(flate2::read::GzDecoder::new(file)).unwrap();
    Some(
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

fn bytes(line: &Value, field: &str) -> Vec<u8> {
    const_hex::decode(line[field].as_str().unwrap()).unwrap()
}

/// A node of the tree that `notes` follow `start` in.
fn node(
    start: &Frontier,
    ommers: &Ommers,
    notes: &[TreeNode],
    span: &Span,
    level: u8,
    index: u32,
) -> Option<TreeNode> {
    if (index + 1) << level <= start.size() {
        return start.node(level, index).or(ommers[usize::from(level)]);
    }
    if level >= LOWEST_LEVEL {
        return span.node(POOL, level, index);
    }
    let Some(below) = level.checked_sub(1) else {
        return notes.get((index - start.size()) as usize).copied();
    };
    let child = |index| node(start, ommers, notes, span, below, index);
    let (left, right) = (child(2 * index)?, child(2 * index + 1)?);
    Some(Consensus.combine(POOL, below, &left, &right))
}

/// Grows a span from the first recorded tree on, and holds the frontier after every block, and the last root, against the recording.
fn check_run(compact: &str, trees: &str) {
    let Some(blocks) = recorded(compact) else {
        return;
    };
    let states = recorded(trees).unwrap();
    let state = |line| Frontier::from_bytes(&bytes(line, "sapling_state")).unwrap();
    let start = state(&states[0]);
    let mut span = Span::new(TreeSizes {
        sapling: start.size(),
        ..TreeSizes::ZERO
    });
    let hasher = Hasher {
        hash: &Consensus,
        threads: NonZeroUsize::MIN,
    };
    let before = start.ommers(&Consensus, POOL);
    let mut ommers = before;
    let mut notes: Vec<TreeNode> = Vec::new();
    for (block, expected) in blocks.iter().zip(&states).skip(1) {
        assert_eq!(block["hash"], expected["hash"]);
        let mut added = Vec::new();
        let mut message = bytes(block, "raw");
        // Servers of that time told no tree sizes.
        message.extend([fields::block::CHAIN_METADATA, 0]);
        project::notes(&message, POOL, &mut added).unwrap();
        span.extend(hasher, POOL, &added, &mut ommers).unwrap();
        notes.extend(added);
        let size = span.sizes().sapling;
        let found = Frontier::of_nodes(size, |level, index| {
            node(&start, &before, &notes, &span, level, index).ok_or((level, index))
        });
        assert_eq!(found, Ok(state(expected)), "{}", expected["height"]);
    }
    let last = state(states.last().unwrap());
    let mut root = last.root(&Consensus, POOL);
    root.reverse();
    assert_eq!(
        const_hex::encode(root),
        states.last().unwrap()["sapling_root"].as_str().unwrap()
    );
    assert!(notes.len() > 20, "{} notes", notes.len());
}

#[test]
fn a_real_run_of_the_main_network_has_its_trees() {
    check_run(
        "compact/mainnet_run_663150_663216.jsonl.gz",
        "trees/mainnet_run_663150_663216.jsonl.gz",
    );
    check_run(
        "compact/mainnet_run_663251_664400.jsonl.gz",
        "trees/mainnet_run_663251_664400.jsonl.gz",
    );
}
