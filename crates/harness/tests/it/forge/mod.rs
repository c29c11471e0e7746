//! What the forge makes is a chain, and its index tells the truth about it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lightship_chain::{
    BlockHash, Height, ShieldedPool, TreeSizes, TxId,
    build::{Activations, BuiltBlock},
    parse::{self, Block, Version},
};
use lightship_harness::forge::{
    Forge, Forged, Settings, command,
    file::{ChainFile, Direction, Trees, index},
    profile::{Era, Plan, Profile},
};
use lightship_source::simulated::{Address, StandIn, TreeHash, TreeNode};
use sha2::{Digest, Sha256};
use zcash_primitives::transaction::Transaction;
use zcash_protocol::consensus::BranchId;

fn settings(profile: Profile, blocks: u32) -> Settings {
    Settings {
        branch_every: 10,
        fill_bytes: 20_000,
        ..Settings::new(profile, blocks, 7)
    }
}

/// Enough blocks that every era and edge case comes up, few enough to be quick.
fn small(profile: Profile) -> Settings {
    settings(
        profile,
        match profile {
            Profile::Mainnet => 60,
            Profile::Testnet => 250,
            Profile::Sandblast => 5,
            Profile::Tip => 30,
            Profile::Ugly => 230,
        },
    )
}

fn digest(settings: Settings) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for forged in Forge::new(settings) {
        let (Forged::Best(block) | Forged::Side(block)) = forged;
        hasher.update(&block.bytes);
    }
    hasher.finalize().into()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_others() {
    for profile in Profile::ALL {
        let settings = small(profile);
        assert_eq!(digest(settings), digest(settings), "{profile}");
        let other = Settings {
            seed: 8,
            ..settings
        };
        assert_ne!(digest(settings), digest(other), "{profile}");
    }
}

/// Everything that can be checked of a block without a look at the others.
fn check_block(block: &BuiltBlock, activations: &Activations) {
    assert!(block.bytes.len() <= 2_000_000);
    let read = Block::parse(&block.bytes).unwrap();
    let ids: Vec<TxId> = read.transactions().map(|each| each.id()).collect();
    assert_eq!(ids, block.transactions);
    assert_eq!(parse::merkle_root(&ids), read.header().merkle_root());
    assert_eq!(read.header().hash(), block.id.hash);
    if block.id.height == Height::GENESIS {
        return;
    }
    let branch = BranchId::try_from(activations.branch_id(block.id.height)).unwrap();
    for (position, (transaction, id)) in read.transactions().zip(&ids).enumerate() {
        assert_eq!(transaction.is_coinbase(), position == 0);
        let oracle = Transaction::read(transaction.bytes(), branch).unwrap();
        assert_eq!(oracle.txid().as_ref(), id.as_internal());
        let pools = [
            (ShieldedPool::Sapling, transaction.sapling_outputs().len()),
            (ShieldedPool::Orchard, transaction.orchard_actions().len()),
            (ShieldedPool::Ironwood, transaction.ironwood_actions().len()),
        ];
        for (pool, notes) in pools {
            assert!(notes == 0 || activations.has_pool(pool, block.id.height));
        }
    }
}

#[test]
fn every_profile_is_a_linked_chain_that_another_parser_reads() {
    for profile in Profile::ALL {
        let forge = Forge::new(small(profile));
        let activations = forge.plan().activations.clone();
        let mut best: Vec<BuiltBlock> = Vec::new();
        let mut side: HashMap<BlockHash, Height> = HashMap::new();
        for forged in forge {
            match forged {
                Forged::Best(block) => {
                    check_block(&block, &activations);
                    let parent = best.last().map_or(BlockHash::ZERO, |last| last.id.hash);
                    assert_eq!(block.previous, parent, "{profile}");
                    assert_eq!(block.id.height.get() as usize, best.len());
                    best.push(block);
                }
                Forged::Side(block) => {
                    check_block(&block, &activations);
                    let below = block.id.height.previous().unwrap();
                    let on_best = best[below.get() as usize].id.hash == block.previous;
                    assert!(on_best || side.get(&block.previous) == Some(&below));
                    side.insert(block.id.hash, block.id.height);
                }
            }
        }
        assert_eq!(best.len(), small(profile).blocks as usize);
        assert!(
            profile == Profile::Sandblast || !side.is_empty(),
            "{profile}"
        );
    }
}

#[test]
fn coins_are_made_before_they_are_spent_and_spent_once() {
    for profile in [Profile::Mainnet, Profile::Testnet, Profile::Ugly] {
        let mut coins = HashSet::new();
        let mut spent = 0;
        for forged in Forge::new(small(profile)) {
            let Forged::Best(block) = forged else {
                continue;
            };
            for transaction in Block::parse(&block.bytes).unwrap().transactions() {
                for input in transaction.inputs().filter(|input| !input.is_null()) {
                    assert!(
                        coins.remove(input.prevout_bytes()),
                        "{profile} {}",
                        block.id
                    );
                    spent += 1;
                }
                let id = transaction.id();
                for index in 0..transaction.outputs().len() as u32 {
                    let mut coin = [0; 36];
                    coin[..32].copy_from_slice(id.as_internal());
                    coin[32..].copy_from_slice(&index.to_le_bytes());
                    coins.insert(coin);
                }
            }
        }
        assert!(spent > 0, "{profile}");
    }
}

#[test]
fn ugly_chains_hold_every_format_and_times_that_fall() {
    let mut versions = BTreeSet::new();
    let mut solutions = HashSet::new();
    let (mut falls, mut lone, mut largest, mut shielded_coinbases) = (0, 0, 0, 0);
    let mut last = 0;
    for forged in Forge::new(small(Profile::Ugly)) {
        let Forged::Best(block) = forged else {
            continue;
        };
        let read = Block::parse(&block.bytes).unwrap();
        versions.extend(read.transactions().map(|each| each.version()));
        solutions.insert(read.header().solution().len());
        falls += u32::from(block.time < last);
        last = block.time;
        lone += u32::from(block.transactions.len() == 1);
        largest = largest.max(block.bytes.len());
        let coinbase = read.transactions().next().unwrap();
        shielded_coinbases += u32::from(coinbase.sapling_outputs().len() > 0);
    }
    assert_eq!(versions.len(), 6, "{versions:?}");
    assert!(versions.contains(&Version::V6));
    assert_eq!(solutions, HashSet::from([36, 1344]));
    assert!(falls > 0 && lone > 10 && shielded_coinbases > 0);
    assert!(largest > 15_000);
}

#[test]
fn an_era_has_about_what_was_measured() {
    // All of the chain in the NU6.3 era.
    let settings = Settings {
        branch_every: 0,
        ..Settings::new(Profile::Tip, 800, 3)
    };
    let plan = Plan::new(settings.profile, settings.blocks);
    let mut expected = [0u64; 3];
    let mut found = TreeSizes::ZERO;
    let (mut bytes, mut transactions) = (0, 0);
    for forged in Forge::new(settings) {
        let Forged::Best(block) = forged else {
            continue;
        };
        let era: &Era = plan.era(block.id.height);
        expected[0] += era.sapling_outputs;
        expected[1] += era.orchard_actions;
        expected[2] += era.ironwood_actions;
        bytes += block.bytes.len();
        transactions += block.transactions.len();
        for transaction in Block::parse(&block.bytes).unwrap().transactions() {
            found.sapling += transaction.sapling_outputs().len() as u32;
            found.orchard += transaction.orchard_actions().len() as u32;
            found.ironwood += transaction.ironwood_actions().len() as u32;
        }
    }
    for pool in ShieldedPool::ALL {
        let expected = expected[pool as usize] / 1000;
        let found = u64::from(found.of(pool));
        assert!(
            found.abs_diff(expected) < expected / 4 + 200,
            "{pool:?}: {found} for {expected}"
        );
    }
    println!(
        "{} bytes and {} transactions a thousand blocks",
        bytes / 3,
        transactions / 3
    );
}

/// The root of the first `leaves` notes at `level`, by definition.
fn naive_node(pool: ShieldedPool, notes: &[TreeNode]) -> TreeNode {
    let mut nodes = notes.to_vec();
    let mut level = 0;
    while nodes.len() > 1 {
        nodes = nodes
            .chunks(2)
            .map(|pair| StandIn.combine(pool, level, &pair[0], &pair[1]))
            .collect();
        level += 1;
    }
    nodes[0]
}

#[test]
fn the_index_tells_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain");
    let settings = small(Profile::Ugly);
    let (summary, _) = command::write(settings, &path, Trees::StandIn).unwrap();
    let file = ChainFile::open(&path).unwrap();
    assert_eq!(file.blocks(), settings.blocks);
    assert_eq!(
        file.about().activations().unwrap(),
        Plan::new(Profile::Ugly, settings.blocks).activations
    );

    let mut sizes = TreeSizes::ZERO;
    let mut notes: [Vec<TreeNode>; 3] = Default::default();
    let mut unspent: HashMap<[u8; 36], (Option<Address>, u64)> = HashMap::new();
    type Event = (Height, u32, Direction, u32, u64);
    let mut events: BTreeMap<Option<Address>, Vec<Event>> = BTreeMap::new();
    let mut side = Vec::new();
    for forged in Forge::new(settings) {
        let block = match forged {
            Forged::Best(block) => block,
            Forged::Side(block) => {
                side.push(block);
                continue;
            }
        };
        let height = block.id.height;
        assert_eq!(file.block(height).unwrap(), block.bytes);
        assert_eq!(file.height_of(&block.id.hash), Some(height));
        for (position, transaction) in (0..).zip(Block::parse(&block.bytes).unwrap().transactions())
        {
            let id = transaction.id();
            assert_eq!(file.place_of(&id), Some((height, position)));
            assert_eq!(file.id_at(height, position), Some(id));
            for (index, input) in (0..).zip(transaction.inputs()) {
                if let Some((address, value)) = unspent.remove(input.prevout_bytes()) {
                    let event = (height, position, Direction::Spends, index, value);
                    events.entry(address).or_default().push(event);
                }
            }
            for (index, output) in (0..).zip(transaction.outputs()) {
                let address = Address::of_script(output.script());
                let event = (height, position, Direction::Paid, index, output.value());
                events.entry(address).or_default().push(event);
                let mut coin = [0; 36];
                coin[..32].copy_from_slice(id.as_internal());
                coin[32..].copy_from_slice(&u32::to_le_bytes(index));
                unspent.insert(coin, (address, output.value()));
            }
            notes[0].extend(transaction.sapling_outputs().map(|output| *output.cmu()));
            notes[1].extend(transaction.orchard_actions().map(|action| *action.cmx()));
            notes[2].extend(transaction.ironwood_actions().map(|action| *action.cmx()));
        }
        for pool in ShieldedPool::ALL {
            let size = notes[pool as usize].len() as u32;
            match pool {
                ShieldedPool::Sapling => sizes.sapling = size,
                ShieldedPool::Orchard => sizes.orchard = size,
                ShieldedPool::Ironwood => sizes.ironwood = size,
            }
        }
        let row = file.row(height).unwrap();
        assert_eq!(
            (row.sizes, row.hash, row.time),
            (sizes, block.id.hash, block.time)
        );
        assert_eq!(row.transactions as usize, block.transactions.len());
        let total: u64 = unspent.values().map(|(_, value)| value).sum();
        assert_eq!(file.transparent_zat(height), total, "{height}");
    }
    assert_eq!(summary.sizes, sizes);

    for pool in ShieldedPool::ALL {
        let notes = &notes[pool as usize];
        for level in 0..6 {
            for (index, leaves) in (0..).zip(notes.chunks_exact(1 << level)) {
                assert_eq!(
                    file.node(pool, level, index),
                    Some(naive_node(pool, leaves))
                );
            }
        }
    }

    let end = file.blocks();
    let mut left = 0;
    for (address, mut expected) in events {
        expected.sort_unstable();
        let found: Vec<_> = file.events(address, Height::GENESIS).collect();
        let seen: Vec<_> = found
            .iter()
            .map(|event| {
                (
                    event.height,
                    event.position,
                    event.direction,
                    event.index,
                    event.value_zat,
                )
            })
            .collect();
        assert_eq!(seen, expected, "{address:?}");
        left += found
            .iter()
            .filter(|event| event.unspent_among(end))
            .count();
    }
    assert_eq!(left, unspent.len());

    let found: Vec<_> = file.side_blocks().collect();
    assert_eq!(found.len(), side.len());
    for (found, made) in found.iter().zip(&side) {
        assert_eq!((found.height, found.hash), (made.id.height, made.id.hash));
        assert_eq!(
            (found.previous, &found.bytes[..]),
            (made.previous, &made.bytes[..])
        );
    }

    // Made again from the blocks alone, the index is the same.
    drop(file);
    let before = contents(&path);
    index(&path, Trees::StandIn).unwrap();
    assert_eq!(contents(&path), before);
}

fn contents(chain: &std::path::Path) -> BTreeMap<std::ffi::OsString, Vec<u8>> {
    std::fs::read_dir(lightship_harness::forge::file::index_folder(chain))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn another_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain");
    command::write(settings(Profile::Testnet, 5), &path, Trees::StandIn).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 1);
    std::fs::write(&path, &bytes).unwrap();
    assert!(ChainFile::open(&path).is_err(), "cut off");
    bytes[0] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(ChainFile::open_or_index(&path).is_err(), "no chain file");
}

#[cfg(feature = "curves")]
mod wallet;
