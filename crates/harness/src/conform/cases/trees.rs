//! `GetTreeState`, `GetLatestTreeState`, `GetSubtreeRoots`.
//!
//! The node's own state at the same block is the expectation; that the state belongs to the block is seen from the block: the tree's size and
//! its last leaf are those of the scan.

use anyhow::Result;

use super::{Cases, INVALID, World, at, blocks::refusals, by_hash, reversed};
use crate::{
    conform::{
        case::{Case, Expectation, call, only},
        chain::{Block, Chain, display},
    },
    proto::{BlockId, Empty, GetSubtreeRootsArg, SubtreeRoot, TreeState},
};

pub(super) fn cases(world: &World) -> Result<Vec<Case>> {
    let mut list = Vec::new();
    states(world, &mut list)?;
    latest(world, &mut list)?;
    roots(world, &mut list)?;
    Ok(list)
}

fn state_of(world: &World, block: &Block) -> Result<TreeState> {
    let hash = display(&block.compact.hash);
    world.node.tree_state(&world.chain.name, &hash)
}

fn states(world: &World, list: &mut Vec<Case>) -> Result<()> {
    let method = "GetTreeState";
    let mut cases = Cases { method, list };
    for (height, why) in world.heights(10, method) {
        let Some(block) = world.chain.at(height) else {
            continue;
        };
        let state = state_of(world, block)?;
        let by_height = call(method, &at(height.into()));
        cases.add(
            "TREE-1",
            format!("height {why}"),
            by_height.clone(),
            Expectation::message(&state),
        );
        cases.add(
            "TREE-2",
            format!("hash of {why}"),
            call(method, &by_hash(block)),
            Expectation::message(&state),
        );
        let id = BlockId {
            height: 0,
            hash: reversed(&block.compact.hash),
        };
        cases.add(
            "TREE-3",
            format!("hash in display order of {why}"),
            call(method, &id),
            Expectation::message(&state),
        );
        cases.add(
            "TREE-4",
            format!("height {why}, by the block"),
            by_height,
            scanned(world, block),
        );
    }
    let genesis = world.chain.at(0);
    if let Some(genesis) = genesis {
        let state = state_of(world, genesis)?;
        cases.add(
            "TREE-5",
            "height 0 and no hash is genesis",
            call(method, &at(0)),
            Expectation::message(&state),
        );
        cases.add(
            "TREE-2",
            "genesis by hash",
            call(method, &by_hash(genesis)),
            Expectation::message(&state),
        );
    }
    let top = world.chain.top();
    let state = state_of(world, top)?;
    for (id, name) in [
        (at(top.height.into()), "the tip by height"),
        (by_hash(top), "the tip by hash"),
    ] {
        cases.add(
            "TREE-1",
            name,
            call(method, &id),
            Expectation::message(&state),
        );
    }
    if let Some(block) = world.chain.at(1) {
        let id = BlockId {
            height: top.height.into(),
            hash: block.compact.hash.clone(),
        };
        let state = state_of(world, block)?;
        cases.add(
            "BLOCK-3",
            "hash and another height",
            call(method, &id),
            Expectation::message(&state),
        );
    }
    refusals(world, method, &mut cases, false);
    Ok(())
}

fn latest(world: &World, list: &mut Vec<Case>) -> Result<()> {
    let method = "GetLatestTreeState";
    let mut cases = Cases { method, list };
    let top = world.chain.top();
    cases.add(
        "TREE-1",
        "of the tip",
        call(method, &Empty {}),
        Expectation::message(&state_of(world, top)?),
    );
    cases.add(
        "TREE-4",
        "of the tip, by the block",
        call(method, &Empty {}),
        scanned(world, top),
    );
    Ok(())
}

/// The state's sizes and last leaves are those that the scan of the blocks found.
fn scanned(world: &World, block: &Block) -> Expectation {
    let chain = &world.chain;
    let sizes = block.compact.chain_metadata.unwrap_or_default();
    let sizes = [
        sizes.sapling_commitment_tree_size,
        sizes.orchard_commitment_tree_size,
        sizes.ironwood_commitment_tree_size,
    ];
    let branches = ["76b809bb", "c2d6d0b4", "37a5165b"];
    let active = branches.map(|branch| {
        let upgrade = chain
            .upgrades
            .iter()
            .find(|upgrade| upgrade.branch == branch);
        upgrade.is_some_and(|upgrade| upgrade.height <= block.height)
    });
    let leaves = last_leaves(chain, block.height, sizes);
    let name = chain.name.clone();
    let (height, hash, time) = (
        block.height,
        display(&block.compact.hash),
        block.compact.time,
    );
    let text = format!("active {active:?}, sizes {sizes:?}, and the last notes of the blocks");
    Expectation::that(text, move |outcome| {
        let state: TreeState = only(outcome)?;
        if (state.height, &state.hash, state.time, &state.network)
            != (height.into(), &hash, time, &name)
        {
            return Err(format!("of block {} {}", state.height, state.hash));
        }
        let trees = [state.sapling_tree, state.orchard_tree, state.ironwood_tree];
        for (pool, tree) in trees.iter().enumerate() {
            if !active[pool] {
                if !tree.is_empty() {
                    return Err(format!("pool {pool} is not active: {tree}"));
                }
                continue;
            }
            let (size, last) = decoded(tree).ok_or(format!("pool {pool}: no tree: {tree:?}"))?;
            if size != u64::from(sizes[pool]) {
                return Err(format!("pool {pool}: {size} notes, not {}", sizes[pool]));
            }
            if let Some(leaf) = &leaves[pool]
                && last.as_ref() != Some(leaf)
            {
                return Err(format!("pool {pool}: another last note"));
            }
        }
        Ok(())
    })
}

/// The last note of each pool up to a block; `None` also where it lies in blocks that were not read.
fn last_leaves(chain: &Chain, height: u32, sizes: [u32; 3]) -> [Option<Vec<u8>>; 3] {
    let mut leaves = [None, None, None];
    for (_, block) in chain.blocks.range(..=height).rev() {
        let mut rows: [Vec<&Vec<u8>>; 3] = Default::default();
        for tx in &block.compact.vtx {
            rows[0].extend(tx.outputs.iter().map(|output| &output.cmu));
            rows[1].extend(tx.actions.iter().map(|action| &action.cmx));
            rows[2].extend(tx.ironwood_actions.iter().map(|action| &action.cmx));
        }
        for (leaf, row) in leaves.iter_mut().zip(rows) {
            if leaf.is_none() {
                *leaf = row.last().map(|&last| last.clone());
            }
        }
        let found = leaves
            .iter()
            .zip(sizes)
            .all(|(leaf, size)| leaf.is_some() || size == 0);
        if found || !chain.complete {
            break;
        }
    }
    leaves
}

/// Size and last leaf of a tree in the encoding of nodes: left leaf, right leaf, then a parent or none for each level.
fn decoded(text: &str) -> Option<(u64, Option<Vec<u8>>)> {
    let bytes = const_hex::decode(text).ok()?;
    let mut rest = &bytes[..];
    let mut optional = || -> Option<Option<Vec<u8>>> {
        let (&flag, after) = rest.split_first()?;
        match flag {
            0 => {
                rest = after;
                Some(None)
            }
            1 => {
                let (node, after) = after.split_at_checked(32)?;
                rest = after;
                Some(Some(node.to_vec()))
            }
            _ => None,
        }
    };
    let (left, right) = (optional()?, optional()?);
    let mut size = u64::from(left.is_some()) + u64::from(right.is_some());
    let (&count, after) = rest.split_first()?;
    rest = after;
    for level in 0..count {
        let (&flag, after) = rest.split_first()?;
        rest = match flag {
            0 => after,
            1 => {
                // A parent at level 0 stands for two notes.
                size += 2_u64.checked_shl(level.into())?;
                after.split_at_checked(32)?.1
            }
            _ => return None,
        };
    }
    rest.is_empty().then_some((size, right.or(left)))
}

fn roots(world: &World, list: &mut Vec<Case>) -> Result<()> {
    let method = "GetSubtreeRoots";
    let mut cases = Cases { method, list };
    let ask = |start_index, shielded_protocol, max_entries| {
        call(
            method,
            &GetSubtreeRootsArg {
                start_index,
                shielded_protocol,
                max_entries,
            },
        )
    };
    for (number, pool) in [(0, "sapling"), (1, "orchard"), (2, "ironwood")] {
        let known = world.node.subtree_roots(pool);
        // A node that does not know the pool has no roots of it.
        let known: Vec<SubtreeRoot> = known.unwrap_or_default();
        let count = known.len() as u32;
        for start in [0, 1, count.saturating_sub(1), count, count + 1, 65_535] {
            for most in [0, 1, 2, 65_536, 70_000, u32::MAX] {
                let name = format!("{pool} from {start}, at most {most}");
                if cases.list.iter().any(|case| case.name == name) {
                    continue;
                }
                let taken = if most == 0 { usize::MAX } else { most as usize };
                let expected: Vec<SubtreeRoot> = known
                    .iter()
                    .skip(start as usize)
                    .take(taken)
                    .cloned()
                    .collect();
                let rule = if most > 65_535 { "ROOTS-2" } else { "ROOTS-1" };
                cases.add(
                    rule,
                    name,
                    ask(start, number, most),
                    Expectation::messages(&expected),
                );
            }
        }
        for start in [65_536, u32::MAX] {
            let name = format!("{pool} from {start}");
            cases.add(
                "ROOTS-3",
                name,
                ask(start, number, 0),
                Expectation::refused(INVALID),
            );
        }
    }
    for number in [3, 50, -1] {
        let name = format!("protocol {number}");
        cases.add(
            "ROOTS-4",
            name,
            ask(0, number, 0),
            Expectation::refused(INVALID),
        );
    }
    Ok(())
}
