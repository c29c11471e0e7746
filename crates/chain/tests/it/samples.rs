//! Where blocks come from: the vendored ones, and the shared collection.

use std::{
    fs::File,
    io::BufRead,
    path::{Path, PathBuf},
};

use lightship_chain::{
    Height, RawBlock, TreeSizes, TxId,
    compact::{
        EncodedBlock, compact,
        project::{FRAME_PREFIX_BYTES, Stored},
    },
};
use serde::Deserialize;

/// What was recorded about a block.
#[derive(Deserialize)]
pub(crate) struct Record {
    pub(crate) network: String,
    pub(crate) height: u32,
    pub(crate) hash: String,
    pub(crate) prev: String,
    pub(crate) time: u32,
    pub(crate) size: u32,
    pub(crate) t_in: usize,
    pub(crate) t_out: usize,
    pub(crate) joinsplits: usize,
    pub(crate) sapling_spends: usize,
    pub(crate) sapling_outputs: usize,
    pub(crate) orchard_actions: usize,
    pub(crate) ironwood_actions: usize,
    #[serde(default)]
    pub(crate) merkle_ok: bool,
    pub(crate) txids: Vec<String>,
    /// Vendored blocks: their file.
    #[serde(default)]
    pub(crate) file: String,
    /// The shared collection: the block in hexadecimal.
    #[serde(default)]
    pub(crate) raw: String,
}

impl Record {
    pub(crate) fn ids(&self) -> Vec<TxId> {
        self.txids.iter().map(|id| id.parse().unwrap()).collect()
    }

    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.network, self.height)
    }
}

/// A block, and what was recorded about it.
pub(crate) struct Sample {
    pub(crate) record: Record,
    pub(crate) bytes: Vec<u8>,
}

impl Sample {
    /// The block behind empty trees.
    pub(crate) fn encoded(&self) -> EncodedBlock {
        encode(&self.bytes, Height::new(self.record.height))
    }

    /// The compact form that was recorded.
    pub(crate) fn recorded(&self) -> Vec<u8> {
        std::fs::read(
            vendored()
                .join("blocks")
                .join(format!("{}.compact", self.record.file)),
        )
        .unwrap()
    }
}

/// A whole block, encoded as if the trees had been empty before it.
pub(crate) fn encode(bytes: &[u8], height: Height) -> EncodedBlock {
    let block = compact(height, RawBlock::Whole(bytes)).unwrap();
    block.after(TreeSizes::ZERO).unwrap()
}

/// A block as the index would lend it.
pub(crate) fn stored(block: &EncodedBlock) -> Stored<'_> {
    Stored {
        message: &block.frame[FRAME_PREFIX_BYTES..],
        transparent: &block.transparent,
    }
}

/// The message of a frame that `write` appends to a buffer which is in use already.
pub(crate) fn message<E>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<Vec<u8>, E> {
    let mut out = b"before".to_vec();
    let done = write(&mut out);
    assert!(out.starts_with(b"before"));
    let frame = out.split_off(6);
    if let Err(error) = done {
        assert!(frame.is_empty(), "a failed call leaves nothing behind");
        return Err(error);
    }
    let (prefix, message) = frame.split_at(FRAME_PREFIX_BYTES);
    assert_eq!(prefix[0], 0);
    assert_eq!(prefix[1..], (message.len() as u32).to_be_bytes());
    Ok(message.to_vec())
}

fn vendored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors")
}

/// The vendored blocks.
pub(crate) fn vectors() -> Vec<Sample> {
    let list = std::fs::read_to_string(vendored().join("blocks.jsonl")).unwrap();
    list.lines()
        .map(|line| {
            let record: Record = serde_json::from_str(line).unwrap();
            let file = vendored()
                .join("blocks")
                .join(format!("{}.block", record.file));
            Sample {
                bytes: std::fs::read(file).unwrap(),
                record,
            }
        })
        .collect()
}

/// The text of a vendored file.
pub(crate) fn vendored_text(name: &str) -> String {
    std::fs::read_to_string(vendored().join(name)).unwrap()
}

/// The folder with the wider collection, if there is one here.
pub(crate) fn shared() -> Option<PathBuf> {
    let folder =
        std::env::var_os("LIGHTSHIP_SHARED").map(|folder| PathBuf::from(folder).join("data"));
    if folder.is_none() {
        eprintln!(
            "skipped: LIGHTSHIP_SHARED does not name the folder with the wider collection of blocks"
        );
    }
    folder
}

/// The lines of a gzipped file.
pub(crate) fn lines(file: &Path) -> impl Iterator<Item = String> {
    let file = flate2::read::MultiGzDecoder::new(File::open(file).unwrap());
    std::io::BufReader::new(file)
        .lines()
        .map(|line| line.unwrap())
}
