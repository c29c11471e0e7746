//! The manifest: what the store is, and which files are part of it. Replacing it is the commit point of everything but the tail.

use std::num::NonZeroU32;

use lightship_chain::{BlockHash, Height, Network};

use super::{Digest, Fields, VERSION, Wrong};
use crate::StoreId;

const MAGIC: &[u8; 8] = b"LSINDEX\0";
/// Magic and version: the part that no version may change.
const PROLOGUE_BYTES: usize = 12;

/// What the store is, and which files are part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) store: StoreId,
    /// Grows with each replacement, so that a reader without the lock notices one.
    pub(crate) edition: u64,
    /// Ascending; gaps make islands.
    pub(crate) sealed: Vec<Sealed>,
    /// Ascending; only the last may be open.
    pub(crate) segments: Vec<Segment>,
}

/// A sealed range, by the digest of its columns, which hold the digests of its other files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) first: Height,
    pub(crate) columns_digest: Digest,
}

/// A segment of the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) sequence: u64,
    /// How much of it counts; `None` while it grows.
    pub(crate) bytes: Option<u64>,
}

/// Why a manifest is not one of ours.
pub(crate) enum Unreadable {
    Version(u32),
    Wrong(Wrong),
}

const OPEN: u64 = u64::MAX;

fn network_code(network: Network) -> u8 {
    match network {
        Network::Main => 0,
        Network::Test => 1,
        Network::Regtest => 2,
    }
}

impl Manifest {
    pub(crate) fn new(store: StoreId) -> Manifest {
        Manifest {
            store,
            edition: 0,
            sealed: Vec::new(),
            segments: Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(72 + 36 * self.sealed.len() + 16 * self.segments.len());
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([network_code(self.store.network), 0, 0, 0]);
        out.extend(self.store.genesis.as_internal());
        out.extend(self.store.range_blocks.get().to_le_bytes());
        out.extend(self.edition.to_le_bytes());
        let count = |length: usize| {
            u32::try_from(length).expect("a range or segment has a height of its own")
        };
        out.extend(count(self.sealed.len()).to_le_bytes());
        out.extend(count(self.segments.len()).to_le_bytes());
        for sealed in &self.sealed {
            out.extend(sealed.first.get().to_le_bytes());
            out.extend(sealed.columns_digest);
        }
        for segment in &self.segments {
            out.extend(segment.sequence.to_le_bytes());
            out.extend(segment.bytes.unwrap_or(OPEN).to_le_bytes());
        }
        let checksum = crc32c::crc32c(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    pub(crate) fn decode(file: &[u8]) -> Result<Manifest, Unreadable> {
        let wrong = |offset, expected: &str, found: String| {
            Unreadable::Wrong(Wrong::new(offset, expected, found))
        };
        let short = || wrong(file.len() as u64, "more bytes", "the end".to_owned());
        let mut prologue = Fields(file.get(..PROLOGUE_BYTES).ok_or_else(short)?);
        let magic: [u8; 8] = prologue.array().ok_or_else(short)?;
        if &magic != MAGIC {
            return Err(wrong(0, "the magic LSINDEX", format!("{magic:02x?}")));
        }
        let version = prologue.u32().ok_or_else(short)?;
        if version != VERSION {
            return Err(Unreadable::Version(version));
        }
        let (body, checksum) = file.split_last_chunk::<4>().ok_or_else(short)?;
        let (expected, found) = (u32::from_le_bytes(*checksum), crc32c::crc32c(body));
        if expected != found {
            return Err(Unreadable::Wrong(Wrong::checksum(0, expected, found)));
        }
        Manifest::body(body).ok_or_else(|| {
            wrong(
                PROLOGUE_BYTES as u64,
                "a manifest",
                "other fields".to_owned(),
            )
        })
    }

    fn body(body: &[u8]) -> Option<Manifest> {
        let mut fields = Fields(body.get(PROLOGUE_BYTES..)?);
        let code = fields.u8()?;
        let network = Network::ALL
            .into_iter()
            .find(|network| network_code(*network) == code)?;
        fields.array::<3>()?;
        let store = StoreId {
            network,
            genesis: BlockHash::from_internal(fields.array()?),
            range_blocks: NonZeroU32::new(fields.u32()?)?,
        };
        let edition = fields.u64()?;
        let (sealed_count, segment_count) = (fields.u32()?, fields.u32()?);
        // The counts are checked by reading as many: each one takes bytes that must be there.
        let mut sealed: Vec<Sealed> = Vec::new();
        for _ in 0..sealed_count {
            let range = Sealed {
                first: Height::try_from(fields.u32()?).ok()?,
                columns_digest: fields.array()?,
            };
            let above = sealed.last().is_none_or(|last| last.first < range.first);
            let last = range.first.checked_add(store.range_blocks.get() - 1);
            if !above || range.first.get() % store.range_blocks != 0 || last.is_none() {
                return None;
            }
            sealed.push(range);
        }
        let mut segments: Vec<Segment> = Vec::new();
        for _ in 0..segment_count {
            let (sequence, bytes) = (fields.u64()?, fields.u64()?);
            let after = segments
                .last()
                .is_none_or(|last| last.sequence < sequence && last.bytes.is_some());
            if !after {
                return None;
            }
            segments.push(Segment {
                sequence,
                bytes: (bytes != OPEN).then_some(bytes),
            });
        }
        fields.0.is_empty().then_some(Manifest {
            store,
            edition,
            sealed,
            segments,
        })
    }
}
