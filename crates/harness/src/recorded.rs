//! A regtest chain mined once and kept: coinbases of every pool, every upgrade that Zebra can mine, 2,600 blocks.
//!
//! A shielded coinbase takes seconds to prove, so the chain is recorded in the cache folder ([`zebrad::cache_dir`]) the first time it is
//! asked for (some four minutes on two cores), and copied from there into the state folder of each node that starts with it (a
//! second). Beside the node's state lies `blocks.hex`: the raw blocks, genesis first, one in lower-case hex a line.
//!
//! The miner's keys are ZIP 32 account 0 of [`SEED`] on regtest, so a wallet can be asked to find what was mined.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::zebrad::{self, Activations, Options, Zebrad};

/// The miner's seed.
pub const SEED: [u8; 32] = [7; 32];
/// The miner's unified address: it has an Orchard receiver, which is paid in the Ironwood pool from NU6.3 on.
pub const UNIFIED_ADDRESS: &str = "uregtest1r2mz5fddcryuxdfx5mrcqn0apt05txeyd4q4q9ch0tpk4lr3arrzmnpmuxf8zdecx24vtc4djfg2rag8352vfpmzn48xqes3uqgwgen2";
/// The miner's Sapling address.
pub const SAPLING_ADDRESS: &str =
    "zregtestsapling1q8676fp52erprvauymed9auzrx56f5waesyske6n60577qrlqhxa54we3ct2umz9km6xcwpwfae";
/// A transparent address that is not the miner's.
pub const TRANSPARENT_ADDRESS: &str = "tmJymvcUCn1ctbghvTJpXBwHiMEB8P6wxNV";

/// Where the upgrades of the recorded chain activate; Canopy and all before it at height 1.
pub const ACTIVATIONS: Activations = Activations {
    nu5: Some(40),
    nu6: Some(70),
    nu6_1: Some(80),
    nu6_2: Some(90),
    nu6_3: Some(120),
};

/// Who is paid by a stretch of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miner {
    /// [`TRANSPARENT_ADDRESS`].
    Transparent,
    /// [`SAPLING_ADDRESS`].
    Sapling,
    /// [`UNIFIED_ADDRESS`]: an Orchard action before NU6.3, an Ironwood action from then on.
    Unified,
}

/// The chain: blocks from height 1 on, and who mined them. An activation height is mined by a shielded address where that is possible.
pub const PLAN: [(Miner, u32); 24] = {
    use Miner::*;
    [
        (Transparent, 4),
        (Sapling, 16), // 5
        (Transparent, 19),
        (Unified, 6), // 40: NU5
        (Transparent, 24),
        (Unified, 3), // 70: NU6
        (Transparent, 7),
        (Unified, 3), // 80: NU6.1
        (Transparent, 7),
        (Unified, 4), // 90: NU6.2
        (Transparent, 26),
        (Unified, 10), // 120: NU6.3
        (Sapling, 2),  // 130
        (Transparent, 1868),
        (Unified, 1), // 2000
        (Transparent, 199),
        (Unified, 1), // 2200
        (Transparent, 199),
        (Sapling, 2), // 2400
        (Transparent, 97),
        (Unified, 2), // 2499
        (Transparent, 89),
        (Unified, 1), // 2590
        (Transparent, 10),
    ]
};

/// The height of the recorded chain's last block.
pub const TIP: u32 = {
    let (mut sum, mut stretch) = (0, 0);
    while stretch < PLAN.len() {
        sum += PLAN[stretch].1;
        stretch += 1;
    }
    sum
};

/// How many coinbase notes the miner's keys own on the recorded chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the pools' own names")]
pub struct Notes {
    pub sapling: u32,
    pub orchard: u32,
    pub ironwood: u32,
}

/// What [`PLAN`] says was mined into each pool.
pub fn notes() -> Notes {
    let mut notes = Notes {
        sapling: 0,
        orchard: 0,
        ironwood: 0,
    };
    let mut height = 0;
    for (miner, blocks) in PLAN {
        for _ in 0..blocks {
            height += 1;
            match miner {
                Miner::Transparent => {}
                Miner::Sapling => notes.sapling += 1,
                Miner::Unified if Some(height) < ACTIVATIONS.nu6_3 => notes.orchard += 1,
                Miner::Unified => notes.ironwood += 1,
            }
        }
    }
    notes
}

/// How a node of the recorded chain is started.
pub fn options() -> Options {
    Options {
        activations: ACTIVATIONS,
        miner: TRANSPARENT_ADDRESS,
        cookie: false,
    }
}

/// A node at the tip of the recorded chain. Records it first if that has not been done on this machine.
///
/// # Errors
///
/// When the node cannot be started, or the chain not be recorded.
pub fn node() -> Result<Zebrad> {
    node_with(&options())
}

/// As [`node`], with other options (the same activations).
///
/// # Errors
///
/// As [`node`].
pub fn node_with(options: &Options) -> Result<Zebrad> {
    ensure!(
        options.activations == ACTIVATIONS,
        "the recorded chain has its own activations"
    );
    let recording = folder()?;
    let node = Zebrad::start(options, |state| copy_tree(&recording.join("state"), state))?;
    let tip = node.tip()?;
    ensure!(
        tip.height.get() == TIP,
        "the recorded chain came back at {tip}"
    );
    Ok(node)
}

/// A node at the tip of the recorded chain with `blocks` transparent blocks more. They are mined the first time (some 60 a second) and
/// kept in the cache: what lies more than a thousand blocks below the tip is in the node's database on disk.
///
/// # Errors
///
/// As [`node`].
pub fn lengthened_node(blocks: u32) -> Result<Zebrad> {
    let state = lengthened(blocks)?;
    let node = Zebrad::start(&options(), |prepared| copy_tree(&state, prepared))?;
    let tip = node.tip()?;
    ensure!(
        tip.height.get() == TIP + blocks,
        "the lengthened chain came back at {tip}"
    );
    Ok(node)
}

/// Whether [`lengthened_node`] finds its blocks mined.
pub fn is_lengthened(blocks: u32) -> bool {
    zebrad::cache_dir().is_some_and(|cache| lengthened_folder(&cache, blocks).exists())
}

fn lengthened_folder(cache: &Path, blocks: u32) -> PathBuf {
    cache.join(format!(
        "regtest-chain-1-and-{blocks}-zebrad-{}",
        zebrad::VERSION
    ))
}

/// The state folder of [`lengthened_node`].
fn lengthened(blocks: u32) -> Result<PathBuf> {
    let cache = zebrad::cache_dir().context("no cache folder: set LIGHTSHIP_CACHE or HOME")?;
    let folder = lengthened_folder(&cache, blocks);
    folder_once(&cache, "regtest-chain-longer.lock", &folder, |draft| {
        eprintln!("mining {blocks} blocks, once; this takes some minutes");
        let mut node = node()?;
        node.generate(blocks)?;
        node.stop()?;
        copy_tree(&node.state_dir(), draft)
    })?;
    Ok(folder)
}

/// Sets a node that does not run back to the tip of the recorded chain.
///
/// # Errors
///
/// As [`Zebrad::replace_state`].
pub fn rewind(node: &mut Zebrad) -> Result<()> {
    let recording = folder()?;
    node.replace_state(|state| copy_tree(&recording.join("state"), state))
}

/// The raw blocks of the recorded chain, genesis first.
///
/// # Errors
///
/// As [`node`].
pub fn blocks() -> Result<Vec<Vec<u8>>> {
    let text = fs::read_to_string(folder()?.join("blocks.hex"))?;
    text.lines()
        .map(|line| Ok(const_hex::decode(line)?))
        .collect()
}

/// The folder of the recording: `state/` and `blocks.hex`. Makes it first if it is not there.
///
/// # Errors
///
/// When the chain cannot be recorded.
pub fn folder() -> Result<PathBuf> {
    let cache = zebrad::cache_dir().context("no cache folder: set LIGHTSHIP_CACHE or HOME")?;
    // The plan is part of the name: another plan is another chain.
    let folder = cache.join(format!("regtest-chain-1-zebrad-{}", zebrad::VERSION));
    folder_once(&cache, "regtest-chain.lock", &folder, record)
        .context("recording the regtest chain")?;
    Ok(folder)
}

/// Makes `folder` with `fill`, unless it is there.
fn folder_once(
    cache: &Path,
    lock: &str,
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    fs::create_dir_all(cache)?;
    // One process records, others wait for it.
    let lock = File::create(cache.join(lock))?;
    lock.lock()?;
    if folder.exists() {
        return Ok(());
    }
    let draft = tempfile::Builder::new()
        .prefix("regtest-chain-draft-")
        .tempdir_in(cache)?;
    fill(draft.path())?;
    // The rename is the commit point: a half-made recording is never found.
    fs::rename(draft.keep(), folder)?;
    Ok(())
}

fn record(draft: &Path) -> Result<()> {
    eprintln!("mining the regtest chain, once; this takes some minutes");
    let mut node = Zebrad::start(&options(), |_| Ok(()))?;
    for (miner, blocks) in PLAN {
        match miner {
            Miner::Transparent => node.generate(blocks)?,
            Miner::Sapling => node.generate_to(blocks, SAPLING_ADDRESS)?,
            Miner::Unified => node.generate_to(blocks, UNIFIED_ADDRESS)?,
        }
    }
    let mut file = BufWriter::new(File::create(draft.join("blocks.hex"))?);
    let heights: Vec<u32> = (0..=TIP).collect();
    for few in heights.chunks(200) {
        for block in node.raw_blocks(few.iter().copied())? {
            writeln!(file, "{}", const_hex::encode(block))?;
        }
    }
    file.flush()?;
    node.stop()?;
    copy_tree(&node.state_dir(), &draft.join("state"))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_holds_what_the_checks_rely_on() {
        assert_eq!(TIP, 2600);
        let notes = notes();
        assert!(
            notes.sapling >= 12 && notes.orchard >= 12 && notes.ironwood >= 12,
            "{notes:?}"
        );
    }
}
