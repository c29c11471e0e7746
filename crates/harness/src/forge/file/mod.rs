//! Chains on disk: a file of blocks, and a folder beside it that finds things in them.
//!
//! In: blocks, the best chain's in order, side branches' anywhere after their parents ([`ChainWriter`]). Out: everything a node needs to know about
//! them, read from mapped files ([`ChainFile`]). Numbers are little-endian; ids and hashes are in internal order.
//!
//! # The chain file
//!
//! ```text
//! at   width
//!  0       8  "LSCHAIN1"
//!  8       4  where the first record begins
//! 12       .  a JSON object (About), then spaces up to the first record
//!             records until the end of the file:
//! +0       4  length of the block
//! +4       4  its height; the top bit is set in a block of a side branch
//! +8       .  the block, in its consensus serialization
//! ```
//!
//! The file can be appended to, and cut after any record. It alone holds the chain: the folder can be made again from it ([`index`]).
//!
//! # The index folder, `FILE.index`
//!
//! | file | order | entry |
//! |---|---|---|
//! | `made` | | JSON: length of the chain file when it was indexed, and how trees are hashed |
//! | `rows` | height | offset `[8]` and length `[4]` of the block in the chain file, time `[4]`, transactions `[4]`, sizes of the Sapling, Orchard and Ironwood tree at its end `[4]` each, hash `[32]` |
//! | `values` | height | sum of all unspent transparent outputs at the block's end, in zatoshi `[8]` |
//! | `hashes` | hash | height `[4]` |
//! | `transactions` | id | first bytes of the id `[8]`, height `[4]`, position in the block `[4]` |
//! | `addresses` | address, height, position, direction, index | an [`Event`] of 56 bytes |
//! | `side` | as in the chain file | offset `[8]`, length `[4]`, height `[4]`, hash `[32]`, parent `[32]` |
//! | `sapling`, `orchard`, `ironwood` | as notes complete them | tree nodes `[32]`: each leaf, followed by the nodes that it completes, lowest first |

mod event;
mod hash;
mod read;
mod spool;
mod trees;
mod write;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use lightship_chain::{Upgrade, build::Activations};
use serde::{Deserialize, Serialize};

pub use event::{Direction, Event};
pub(crate) use read::map;
pub use read::{ChainFile, Row, SideBlock};
pub use trees::node_position;
pub use write::{ChainWriter, Summary, index};

const MAGIC: &[u8; 8] = b"LSCHAIN1";
const SIDE_BIT: u32 = 1 << 31;
/// No consensus allows larger ones. Spec: protocol §7.6.
const MOST_BLOCK_BYTES: u32 = 2_000_000;
const ROW_BYTES: usize = 64;
const SIDE_ROW_BYTES: usize = 80;
const PLACE_BYTES: usize = 16;

/// How the note commitment trees of an index are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Trees {
    /// With the cheap stand-in of the simulated node.
    StandIn,
    /// As consensus does.
    Consensus,
}

/// What a chain file says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// `main`, `test` or `regtest`: whose genesis block it stands on.
    pub network: String,
    /// First height of each upgrade, by its name, in order.
    pub upgrades: Vec<(String, u32)>,
    /// How it came about, for people.
    pub origin: String,
}

impl About {
    /// Describes a chain with these activations.
    pub fn new(network: &str, activations: &Activations, origin: String) -> About {
        About {
            network: network.to_owned(),
            upgrades: activations
                .announced()
                .into_iter()
                .map(|upgrade| (upgrade.name, upgrade.height.get()))
                .collect(),
            origin,
        }
    }

    /// When the rules change.
    ///
    /// # Errors
    ///
    /// If an upgrade is not known here, or they are out of order.
    pub fn activations(&self) -> Result<Activations> {
        let mut heights: Vec<(Upgrade, u32)> = Vec::with_capacity(Upgrade::ALL.len());
        for (name, height) in &self.upgrades {
            let upgrade = Upgrade::ALL
                .into_iter()
                .find(|upgrade| upgrade.name() == name)
                .with_context(|| format!("unknown upgrade '{name}'"))?;
            let in_order = heights
                .last()
                .is_none_or(|last| last.0 < upgrade && last.1 <= *height);
            ensure!(in_order, "upgrade '{name}' is out of order");
            heights.push((upgrade, *height));
        }
        Ok(Activations::new(&heights))
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let json = serde_json::to_vec(self)?;
        let length = (12 + json.len()).next_multiple_of(64);
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&u32::try_from(length)?.to_le_bytes());
        bytes.extend_from_slice(&json);
        bytes.resize(length, b' ');
        Ok(bytes)
    }

    /// Reads the beginning of a chain file; also where its first record begins.
    fn decode(bytes: &[u8]) -> Result<(About, usize)> {
        let Some((head, _)) = bytes.split_first_chunk::<12>() else {
            bail!("too short for a chain file");
        };
        ensure!(head.starts_with(MAGIC), "not a chain file");
        let length = number(head, 8) as usize;
        let json = bytes
            .get(12..length)
            .context("the chain file's head is cut off")?;
        let about = serde_json::from_slice(json).context("the chain file's head is unreadable")?;
        Ok((about, length))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Made {
    format: u32,
    chain_bytes: u64,
    trees: Trees,
}

const INDEX_FORMAT: u32 = 1;

/// Where the index of a chain file lies.
pub fn index_folder(chain: &Path) -> PathBuf {
    let mut name = chain.as_os_str().to_owned();
    name.push(".index");
    name.into()
}

/// The four bytes at `at`; 0 past the end.
fn number(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// The eight bytes at `at`; 0 past the end.
fn long_number(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// The `N` bytes at `at`; zeros past the end.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..at + N)
        .and_then(|bytes| bytes.try_into().ok())
        .unwrap_or([0; N])
}
