//! What a right server sends: the chain's compact blocks, by the naive model.
//!
//! In: a chain file. Out: a folder `FILE.expected` beside it with `wire`, the default view of every block as gRPC frames, one after the other
//! from genesis on, and `offsets`, where each begins; mapped, so that a chain of any length takes no memory. The blocks are read by
//! the model's plain reader ([`crate::conform`]), which shares no code with a server; transaction ids are held against the header's merkle root.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use lightship_chain::{Height, parse};
use prost::Message;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    conform::chain::{self, view::Pools},
    forge::file::{ChainFile, map},
    proto::{ChainMetadata, CompactBlock},
};

/// Changes when what is written changes.
const FORMAT: &str = "1";

/// The answers of a chain.
#[derive(Clone, Debug)]
pub struct Expected {
    wire: Bytes,
    offsets: Bytes,
    /// Where its files lie.
    pub folder: PathBuf,
}

impl Expected {
    /// Of the chain file at `path`; made first if it is not there, or another file's.
    ///
    /// # Errors
    ///
    /// When the chain file is inconsistent, or the disk says so.
    pub fn of(path: &Path, chain: &ChainFile) -> Result<Expected> {
        let mut folder = path.as_os_str().to_owned();
        folder.push(".expected");
        let folder = PathBuf::from(folder);
        let digest = format!("{FORMAT} {}", digest(chain));
        let made = folder.join("made");
        if fs::read_to_string(&made).ok().as_deref() != Some(digest.as_str()) {
            fs::create_dir_all(&folder)?;
            write(chain, &folder).with_context(|| format!("making {}", folder.display()))?;
            // The commit point: without it the folder is made again.
            fs::write(&made, &digest)?;
        }
        Expected::open(&folder)
    }

    /// That were made before.
    ///
    /// # Errors
    ///
    /// When they are not there.
    pub fn open(folder: &Path) -> Result<Expected> {
        let expected = Expected {
            wire: map(&folder.join("wire"))?,
            offsets: map(&folder.join("offsets"))?,
            folder: folder.to_owned(),
        };
        let end = expected.offset(u64::from(expected.blocks()));
        ensure!(
            expected.offsets.len().is_multiple_of(8) && end == Some(expected.wire.len()),
            "{} is broken: remove it, and it is made again",
            folder.display()
        );
        Ok(expected)
    }

    /// Blocks, genesis included.
    pub fn blocks(&self) -> u32 {
        ((self.offsets.len() / 8) as u32).saturating_sub(1)
    }

    fn offset(&self, height: u64) -> Option<usize> {
        let at = usize::try_from(height).ok()?.checked_mul(8)?;
        let bytes = self.offsets.get(at..at + 8)?;
        usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
    }

    /// All frames of the blocks from `first` to `last`; none if the chain lacks one.
    pub fn range(&self, first: u64, last: u64) -> Option<Bytes> {
        let (start, end) = (self.offset(first)?, self.offset(last.checked_add(1)?)?);
        (start <= end).then(|| self.wire.slice(start..end))
    }

    /// The message of one block in its default view.
    pub fn message(&self, height: u64) -> Option<Bytes> {
        self.range(height, height)?
            .get(5..)
            .map(Bytes::copy_from_slice)
    }
}

/// SHA-256 over the hashes of the best chain's blocks, lowest first, in hex.
pub fn digest(chain: &ChainFile) -> String {
    let mut hasher = Sha256::new();
    for height in (0..chain.blocks()).map(Height::new) {
        if let Some(row) = chain.row(height) {
            hasher.update(row.hash.as_internal());
        }
    }
    const_hex::encode(hasher.finalize())
}

/// A block with everything that a compact block can have, as the model reads it.
///
/// # Errors
///
/// When the chain has none at that height, or an inconsistent one.
pub fn block(chain: &ChainFile, height: Height) -> Result<chain::Block> {
    let row = chain.row(height).context("no block at that height")?;
    let bytes = chain.block(height).context("the chain file is cut off")?;
    let below = match height.previous().and_then(|below| chain.row(below)) {
        None => (vec![0; 32], ChainMetadata::default()),
        Some(below) => (
            below.hash.as_internal().to_vec(),
            ChainMetadata {
                sapling_commitment_tree_size: below.sizes.sapling,
                orchard_commitment_tree_size: below.sizes.orchard,
                ironwood_commitment_tree_size: below.sizes.ironwood,
            },
        ),
    };
    let ids: Vec<String> = parse::Block::parse(&bytes)?
        .transactions()
        .map(|transaction| transaction.id().to_string())
        .collect();
    let said = json!({"hash": row.hash.to_string(), "tx": ids});
    chain::understood(height.get(), &bytes, &said, below)
        .with_context(|| format!("block {}", height.get()))
}

/// The block as a range without pools has it.
pub fn default_view(block: &chain::Block) -> CompactBlock {
    chain::view::ranged(&block.compact, Pools::SHIELDED)
}

fn write(chain: &ChainFile, folder: &Path) -> Result<()> {
    let create = |name: &str| File::create(folder.join(name)).map(BufWriter::new);
    let (mut wire, mut offsets) = (create("wire")?, create("offsets")?);
    let mut at = 0u64;
    offsets.write_all(&at.to_le_bytes())?;
    for height in (0..chain.blocks()).map(Height::new) {
        let message = default_view(&block(chain, height)?).encode_to_vec();
        wire.write_all(&[0])?;
        wire.write_all(&(message.len() as u32).to_be_bytes())?;
        wire.write_all(&message)?;
        at += 5 + message.len() as u64;
        offsets.write_all(&at.to_le_bytes())?;
    }
    wire.into_inner()
        .map_err(|error| error.into_error())?
        .sync_all()?;
    offsets
        .into_inner()
        .map_err(|error| error.into_error())?
        .sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::{Settings, command, file::Trees, profile::Profile};

    #[test]
    fn a_chain_has_its_answers_beside_it_and_they_are_made_again_for_another_chain() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chain");
        let make = |seed| {
            let settings = Settings::new(Profile::Tip, 30, seed);
            command::write(settings, &path, Trees::StandIn).unwrap();
            ChainFile::open(&path).unwrap()
        };
        let chain = make(1);
        let expected = Expected::of(&path, &chain).unwrap();
        assert_eq!(expected.blocks(), 30);
        let message = CompactBlock::decode(expected.message(7).unwrap()).unwrap();
        let row = chain.row(Height::new(7)).unwrap();
        assert_eq!(
            (message.height, &message.hash[..]),
            (7, &row.hash.as_internal()[..])
        );
        let all = expected.range(0, 29).unwrap();
        assert_eq!(crate::bench::wire::messages(&all).unwrap().len(), 30);
        assert!(expected.range(0, 30).is_none() && expected.range(8, 6).is_none());
        let first = expected.message(3);
        drop((expected, chain));
        let chain = make(2);
        assert_ne!(Expected::of(&path, &chain).unwrap().message(3), first);
    }
}
