//! The tail's segments: a header, then records one after the other.

use lightship_chain::{BlockHash, Height};

use super::{
    Fields, VERSION, Wrong,
    columns::{Columns, ROW_BYTES},
};

const MAGIC: &[u8; 8] = b"LSTAIL\0\0";
/// Length of a segment's header.
pub(crate) const HEADER_BYTES: usize = 40;
/// Checksum, kind, whether it ends its commit, the commit's number.
const PROLOGUE_BYTES: usize = 16;
/// A block's record up to its frame.
pub(crate) const BLOCK_BYTES: usize = PROLOGUE_BYTES + 4 + 32 + ROW_BYTES;
const ROLLBACK_BYTES: usize = PROLOGUE_BYTES + 4;

const BLOCK: u8 = 1;
const ROLLBACK: u8 = 2;

/// What the checksums of a segment's records begin with.
///
/// Random, so that nobody can put bytes into a block that would pass for a record when a damaged segment is searched for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(pub(crate) u32);

/// The head of a segment, `[40]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) salt: Salt,
    pub(crate) sequence: u64,
    /// The last commit before this segment.
    pub(crate) commit: u64,
}

impl Header {
    pub(crate) fn encode(&self, genesis: &BlockHash) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.salt.0.to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.commit.to_le_bytes());
        out.extend(genesis.as_internal().iter().take(4));
        let checksum = crc32c::crc32c(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    fn fields(segment: &[u8]) -> Option<Header> {
        let mut fields = Fields(segment.get(12..)?);
        Some(Header {
            salt: Salt(fields.u32()?),
            sequence: fields.u64()?,
            commit: fields.u64()?,
        })
    }

    /// The header of `segment`, if it is the one it should have.
    pub(crate) fn read(
        segment: &[u8],
        sequence: u64,
        genesis: &BlockHash,
    ) -> Result<Header, Wrong> {
        let end = || Wrong::new(segment.len() as u64, "more of a header", "the end");
        let header = Header {
            sequence,
            ..Header::fields(segment).ok_or_else(end)?
        };
        let expected = header.encode(genesis);
        if segment.starts_with(&expected) {
            return Ok(header);
        }
        let offset = expected
            .iter()
            .zip(segment)
            .take_while(|(expected, found)| expected == found)
            .count();
        Err(Wrong::new(
            offset as u64,
            format!("the header of segment {sequence}"),
            "other bytes",
        ))
    }
}

/// One record, its frame and companion as places in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) commit: u64,
    /// Whether it is the last of its commit.
    pub(crate) ends_commit: bool,
    pub(crate) kind: Kind,
    /// Length of all of it.
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The frame begins [`BLOCK_BYTES`] behind the record's start, and the companion behind the frame. In the columns the two offsets
    /// are the lengths.
    Block {
        height: Height,
        previous: BlockHash,
        columns: Columns,
    },
    /// Only the lowest `blocks` of the chain remain.
    Rollback { blocks: u32 },
}

/// Appends a block's record; the checksum is filled in by [`seal`].
pub(crate) fn put_block(
    out: &mut Vec<u8>,
    height: Height,
    previous: &BlockHash,
    columns: &Columns,
    frame: &[u8],
    transparent: &[u8],
) {
    out.extend([0; 4]);
    out.extend([BLOCK, 0, 0, 0]);
    out.extend([0; 8]);
    out.extend(height.get().to_le_bytes());
    out.extend(previous.as_internal());
    columns.put(out);
    out.extend(frame);
    out.extend(transparent);
}

/// Appends a rollback's record; the checksum is filled in by [`seal`].
pub(crate) fn put_rollback(out: &mut Vec<u8>, blocks: u32) {
    out.extend([0; 4]);
    out.extend([ROLLBACK, 0, 0, 0]);
    out.extend([0; 8]);
    out.extend(blocks.to_le_bytes());
}

/// Makes the record that begins `record` part of a commit.
pub(crate) fn seal(record: &mut [u8], salt: Salt, commit: u64, ends_commit: bool) {
    let is_block = record.get(4) == Some(&BLOCK);
    let fixed = if is_block {
        BLOCK_BYTES
    } else {
        ROLLBACK_BYTES
    };
    let record = record
        .get_mut(..fixed)
        .expect("records to seal were written whole");
    let (prologue, _) = record
        .split_first_chunk_mut::<PROLOGUE_BYTES>()
        .expect("a record is longer than its prologue");
    let [_, _, _, _, _, ends, _, _, number @ ..] = prologue;
    *ends = u8::from(ends_commit);
    *number = commit.to_le_bytes();
    let (checksum, rest) = record
        .split_first_chunk_mut::<4>()
        .expect("a record is longer than its checksum");
    *checksum = crc32c::crc32c_append(salt.0, rest).to_le_bytes();
}

/// Reads and checks the record at `at`.
pub(crate) fn read(segment: &[u8], salt: Salt, at: u64) -> Result<Record, Wrong> {
    let short = || Wrong::new(segment.len() as u64, "more of a record", "the end");
    let record = usize::try_from(at)
        .ok()
        .and_then(|at| segment.get(at..))
        .ok_or_else(short)?;
    let mut fields = Fields(record);
    let expected = fields.u32().ok_or_else(short)?;
    let [kind, ends, zero @ ..] = fields.array::<4>().ok_or_else(short)?;
    let commit = fields.u64().ok_or_else(short)?;
    let fixed = match kind {
        BLOCK => BLOCK_BYTES,
        ROLLBACK => ROLLBACK_BYTES,
        other => return Err(Wrong::new(at + 4, "a kind of record", other.to_string())),
    };
    let head = record.get(4..fixed).ok_or_else(short)?;
    let found = crc32c::crc32c_append(salt.0, head);
    if expected != found {
        return Err(Wrong::checksum(at, expected, found));
    }
    if ends > 1 || zero != [0, 0] {
        return Err(Wrong::new(
            at + 5,
            "0 or 1, then zeros",
            format!("{ends}, {zero:?}"),
        ));
    }
    let (kind, bytes) = if kind == BLOCK {
        let height = fields.u32().ok_or_else(short)?;
        let height = Height::try_from(height)
            .map_err(|error| Wrong::new(at + 16, "a height", error.to_string()))?;
        let previous = BlockHash::from_internal(fields.array().ok_or_else(short)?);
        let columns = Columns::read(&mut fields).ok_or_else(short)?;
        let bytes = check_payload(record, at, &columns)?;
        let kind = Kind::Block {
            height,
            previous,
            columns,
        };
        (kind, bytes)
    } else {
        let blocks = fields.u32().ok_or_else(short)?;
        (Kind::Rollback { blocks }, ROLLBACK_BYTES as u64)
    };
    Ok(Record {
        commit,
        ends_commit: ends == 1,
        kind,
        bytes,
    })
}

/// Whether a whole record of commit `least` or later lies anywhere behind `at`.
pub(crate) fn any_behind(segment: &[u8], salt: Salt, at: u64, least: u64) -> bool {
    let start = usize::try_from(at).map_or(segment.len(), |at| at + 1);
    let candidates = segment.get(start..).unwrap_or_default();
    candidates
        .windows(ROLLBACK_BYTES)
        .enumerate()
        .filter(|(_, window)| {
            let mut fields = Fields(window.get(4..).unwrap_or_default());
            matches!(fields.array(), Some([BLOCK | ROLLBACK, 0 | 1, 0, 0]))
                && fields.u64().is_some_and(|commit| commit >= least)
        })
        .any(|(offset, _)| read(segment, salt, (start + offset) as u64).is_ok())
}

/// The length of a block's record, once its frame and companion are known to be there and right.
fn check_payload(record: &[u8], at: u64, columns: &Columns) -> Result<u64, Wrong> {
    let short = || Wrong::new(at + record.len() as u64, "more of a record", "the end");
    let mut start = BLOCK_BYTES as u64;
    for (length, expected) in [
        (columns.frame, columns.frame_crc),
        (columns.transparent, columns.transparent_crc),
    ] {
        let end = start.checked_add(length).ok_or_else(short)?;
        let payload = usize::try_from(start)
            .ok()
            .zip(usize::try_from(end).ok())
            .and_then(|(start, end)| record.get(start..end))
            .ok_or_else(short)?;
        let found = crc32c::crc32c(payload);
        if expected != found {
            return Err(Wrong::checksum(at + start, expected, found));
        }
        start = end;
    }
    Ok(start)
}
