//! A chain that moves: `tip-2` (how old a block is when it is first served) and `reorg-2` (how long a replaced branch is shown).
//!
//! The bench itself orders the node to move, so it knows when: the clock starts when the node has said that it moved. Servers are then looked at every few
//! milliseconds on one connection, all in the same way. A look is `GetLatestBlock`, and the new blocks by `GetBlockRange` once their tip is named.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use prost::Message;
use sha2::{Digest, Sha256};

use super::Stage;
use crate::{
    bench::{
        figures::{Figure, Proof, counted, latencies},
        ground::Moved,
        plan::{Pace, ReorgPlan, TipPlan},
        server::{Server, latest},
        wire::{Wire, framed},
    },
    grpc,
    proto::CompactBlock,
};

/// Between two looks.
const POLL: Duration = Duration::from_millis(2);
/// How long a look may take.
const LOOK: Duration = Duration::from_secs(10);

/// New blocks at some paces.
///
/// # Errors
///
/// If the record cannot be written.
pub fn tip(stage: &mut Stage<'_, '_>, server: &Server, plan: &TipPlan) -> Result<()> {
    for pace in &plan.paces {
        let outcome = follow(stage, server, *pace, plan.patience);
        let case = format!("a block each {:?}", pace.every);
        stage.outcome(&case, "p50", outcome)?;
    }
    Ok(())
}

fn follow(
    stage: &Stage<'_, '_>,
    server: &Server,
    pace: Pace,
    patience: Duration,
) -> Result<(Proof, Vec<Figure>)> {
    let mut wire = server.connect()?;
    let mut ages = Vec::new();
    let mut hasher = Sha256::new();
    let mut recorded = true;
    let before = server.usage()?;
    let began = Instant::now();
    for nth in 0..pace.blocks {
        thread::sleep((pace.every * nth).saturating_sub(began.elapsed()));
        let Moved {
            height,
            hash,
            said: mined,
        } = stage.setting.node.mine()?;
        loop {
            // A server may be between two states; only what is wrong when it names the block counts.
            let seen = latest(&mut wire);
            if seen.as_ref().is_ok_and(|seen| same(&seen.hash, &hash)) {
                break;
            }
            if seen.is_err() {
                wire = server.connect()?;
            }
            ensure!(
                mined.elapsed() < patience,
                "block {height} is not served after {patience:?}; the last answer: {seen:?}"
            );
            thread::sleep(POLL);
        }
        let served = blocks(&mut wire, height, height)?;
        ages.push(mined.elapsed().as_secs_f64() * 1e3);
        let [block] = &served[..] else {
            anyhow::bail!("{} blocks instead of one", served.len());
        };
        ensure!(
            block.height == u64::from(height) && same(&block.hash, &hash),
            "another block came than the new one at {height}"
        );
        let right = stage.setting.ground.expected.message(height.into());
        let right = right.map(CompactBlock::decode).transpose()?;
        match right.filter(|right| right.hash == block.hash) {
            Some(right) => ensure!(
                right.vtx == block.vtx,
                "block {height} came with other transactions"
            ),
            // A real node mines blocks that nobody knew before.
            None => recorded = false,
        }
        hasher.update(&hash);
    }
    let cpu = server.usage()?.cpu() - before.cpu();
    let seconds = began.elapsed().as_secs_f64();
    let mut figures = Vec::from(latencies(&mut ages));
    figures.push(Figure::lower("cpu", "CPU s/s", cpu / seconds));
    let proof = Proof {
        count: ages.len() as u64,
        digest: recorded.then(|| const_hex::encode(hasher.finalize())),
    };
    Ok((proof, figures))
}

/// Branches of some depths.
///
/// # Errors
///
/// If the record cannot be written.
pub fn reorg(stage: &mut Stage<'_, '_>, server: &Server, plan: &ReorgPlan) -> Result<()> {
    for depth in &plan.depths {
        let outcome = switch(stage, server, *depth, plan.patience);
        let case = format!("{} replaced", counted(*depth, "block"));
        stage.outcome(&case, "to the new branch", outcome)?;
    }
    Ok(())
}

fn switch(
    stage: &Stage<'_, '_>,
    server: &Server,
    depth: u32,
    patience: Duration,
) -> Result<(Proof, Vec<Figure>)> {
    let node = stage.setting.node;
    let (before, old) = node.tip()?;
    let mut wire = server.connect()?;
    ensure!(
        same(&latest(&mut wire)?.hash, &old),
        "it does not show the tip before the reorg"
    );
    let low = before.saturating_sub(depth);
    let fork = blocks(&mut wire, low, low)?;
    let fork = fork
        .first()
        .context("the block below the fork")?
        .hash
        .clone();
    let Moved {
        height,
        hash,
        said: began,
    } = node.replace(depth)?;
    let (mut looks, mut wrong, mut failed) = (0u64, Vec::new(), 0u64);
    let mut switched = None;
    let mut served = Vec::new();
    while switched.is_none() {
        ensure!(
            began.elapsed() < patience,
            "it still shows the old branch after {patience:?}; wrong meanwhile: {wrong:?}"
        );
        looks += 1;
        let look = latest(&mut wire).and_then(|seen| {
            let top = u32::try_from(seen.height)?;
            // A range down to the fork, of whatever branch is shown: it must link.
            let range = if top > low {
                blocks(&mut wire, low + 1, top)?
            } else {
                Vec::new()
            };
            Ok((seen, range))
        });
        match look {
            Err(_) => {
                failed += 1;
                wire = server.connect()?;
            }
            Ok((seen, range)) => {
                if let Err(error) = linked(&fork, &range) {
                    wrong.push(format!("{error:#}"));
                }
                if same(&seen.hash, &hash) {
                    switched = Some(began.elapsed().as_secs_f64() * 1e3);
                    served = range;
                }
            }
        }
        thread::sleep(POLL);
    }
    let switched = switched.context("it switched")?;
    ensure!(
        wrong.is_empty(),
        "{} of {looks} looks showed blocks that do not link: {}",
        wrong.len(),
        wrong[0]
    );
    let shown = served.last().map(|block| block.hash.clone());
    ensure!(
        shown.is_some_and(|shown| same(&shown, &hash)) && served.len() as u32 == height - low,
        "the new tip is named, but its range is not served"
    );
    let figures = vec![
        Figure::lower("to the new branch", "ms", switched),
        Figure::lower("failed looks", "answers", failed as f64),
        Figure::lower("wrong looks", "answers", wrong.len() as f64),
    ];
    let proof = Proof {
        count: served.len() as u64,
        // The branch is made while the bench runs, so no two servers see the same.
        digest: None,
    };
    Ok((proof, figures))
}

/// Each block stands on the one before, the first on `below`.
fn linked(below: &[u8], range: &[CompactBlock]) -> Result<()> {
    let mut below = below;
    for block in range {
        ensure!(
            block.prev_hash == below,
            "block {} does not stand on the one before",
            block.height
        );
        below = &block.hash;
    }
    Ok(())
}

/// The same hash; a latest block may be named in display order (LATEST-1).
fn same(found: &[u8], hash: &[u8]) -> bool {
    found == hash || found.iter().rev().eq(hash.iter())
}

fn blocks(wire: &mut Wire, first: u32, last: u32) -> Result<Vec<CompactBlock>> {
    let body = framed(&grpc::range(first.into(), last.into()));
    wire.ask("GetBlockRange", &body, LOOK)?
        .iter()
        .map(|message| Ok(CompactBlock::decode(&message[..])?))
        .collect()
}
