//! The nodes of the note commitment trees that a sealed range completes.

use std::ops::Range;

use lightship_chain::{BlockHash, Height, ShieldedPool, TreeSizes, tree::TreeNode};

use super::{Digest, Fields, VERSION, Wrong, hex, put_sizes};
use crate::trees::{LEVELS, LOWEST_LEVEL};

const MAGIC: [u8; 8] = *b"LSTREES\0";
const ACCEPTED_MAGIC: [u8; 8] = *b"LSACCEPT";
/// Everything before the nodes.
pub(crate) const HEADER_BYTES: usize = 92;
const NODE_BYTES: usize = 32;
/// Nodes that share a checksum.
const GROUP_NODES: u64 = 32;
const GROUP_BYTES: u64 = GROUP_NODES * NODE_BYTES as u64 + 4;
/// In place of a height: not by the end of the range.
const NEVER: u32 = u32::MAX;

/// From which height on each pool is active; `None`: not by the end of the range.
pub(crate) type Active = [Option<Height>; 3];

/// What a file of nodes belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) first: Height,
    pub(crate) columns_digest: Digest,
    pub(crate) before: TreeSizes,
    pub(crate) sizes: TreeSizes,
    pub(crate) active: Active,
}

impl Header {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([LOWEST_LEVEL, 0, 0, 0]);
        out.extend(self.first.get().to_le_bytes());
        out.extend(self.columns_digest);
        put_sizes(out, self.before);
        put_sizes(out, self.sizes);
        for active in self.active {
            out.extend(active.map_or(NEVER, Height::get).to_le_bytes());
        }
        let checksum = crc32c::crc32c(out.get(start..).unwrap_or_default());
        out.extend(checksum.to_le_bytes());
    }

    /// Reads the header of a whole file, and that the file has the length that follows from it.
    pub(crate) fn of_file(file: &[u8]) -> Result<Header, Wrong> {
        let short = || Wrong::new(0, "a header", format!("{} bytes", file.len()));
        let bytes = file.get(..HEADER_BYTES).ok_or_else(short)?;
        let (checked, checksum) = bytes.split_last_chunk::<4>().ok_or_else(short)?;
        let (expected, found) = (crc32c::crc32c(checked), u32::from_le_bytes(*checksum));
        if expected != found {
            return Err(Wrong::checksum(0, expected, found));
        }
        let mut fields = Fields(bytes);
        let found = fields.array::<16>().ok_or_else(short)?;
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend([LOWEST_LEVEL, 0, 0, 0]);
        if found.as_slice() != head {
            return Err(Wrong::new(0, hex(&head), hex(&found)));
        }
        let header = Header::read(&mut fields).ok_or_else(short)?;
        let within = |pool| header.before.of(pool) <= header.sizes.of(pool);
        if !ShieldedPool::ALL.into_iter().all(within) {
            return Err(Wrong::new(52, "trees that grow", format!("{header:?}")));
        }
        let expected = header.file_bytes();
        if file.len() as u64 != expected {
            return Err(Wrong::new(
                expected.min(file.len() as u64),
                format!("{expected} bytes in all"),
                format!("{} bytes", file.len()),
            ));
        }
        Ok(header)
    }

    fn read(fields: &mut Fields<'_>) -> Option<Header> {
        let mut header = Header {
            first: Height::try_from(fields.u32()?).ok()?,
            columns_digest: fields.array()?,
            before: fields.sizes()?,
            sizes: fields.sizes()?,
            active: [None; 3],
        };
        for active in &mut header.active {
            *active = read_active(fields)?;
        }
        Some(header)
    }

    /// How many nodes come before those of `pool` at `level`, or in all.
    fn nodes_before(&self, end: Option<(ShieldedPool, u8)>) -> u64 {
        let mut nodes = 0;
        for pool in ShieldedPool::ALL {
            for level in LOWEST_LEVEL..LEVELS {
                if end == Some((pool, level)) {
                    return nodes;
                }
                let (before, after) = (self.before.of(pool), self.sizes.of(pool));
                nodes += u64::from((after >> level) - (before >> level));
            }
        }
        nodes
    }

    fn file_bytes(&self) -> u64 {
        let nodes = self.nodes_before(None);
        HEADER_BYTES as u64 + nodes * NODE_BYTES as u64 + nodes.div_ceil(GROUP_NODES) * 4
    }

    /// The number of a node within the file, if the range completes it.
    pub(crate) fn place(&self, pool: ShieldedPool, level: u8, index: u32) -> Option<u64> {
        let (before, after) = (self.before.of(pool) >> level, self.sizes.of(pool) >> level);
        let place = index.checked_sub(before)?;
        (level >= LOWEST_LEVEL && index < after)
            .then(|| self.nodes_before(Some((pool, level))) + u64::from(place))
    }
}

/// What `trees/accepted` says: up to which block behind the sealed ranges the trees were found to be the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) height: Height,
    pub(crate) hash: BlockHash,
    pub(crate) active: Active,
    /// Of the three trees as nodes print them, one after the other.
    pub(crate) trees_digest: Digest,
}

impl Accepted {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = ACCEPTED_MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend(self.height.get().to_le_bytes());
        out.extend(self.hash.as_internal());
        for active in self.active {
            out.extend(active.map_or(NEVER, Height::get).to_le_bytes());
        }
        out.extend(self.trees_digest);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// `None` if it is not what this program writes: then the node is asked, as if there were no such file.
    pub(crate) fn decode(file: &[u8]) -> Option<Accepted> {
        let (checked, checksum) = file.split_last_chunk::<4>()?;
        if crc32c::crc32c(checked) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let mut fields = Fields(checked);
        let head = (fields.array::<8>()?, fields.u32()?);
        if head != (ACCEPTED_MAGIC, VERSION) {
            return None;
        }
        let mut accepted = Accepted {
            height: Height::try_from(fields.u32()?).ok()?,
            hash: BlockHash::from_internal(fields.array()?),
            active: [None; 3],
            trees_digest: [0; 32],
        };
        for active in &mut accepted.active {
            *active = read_active(&mut fields)?;
        }
        accepted.trees_digest = fields.array()?;
        fields.0.is_empty().then_some(accepted)
    }
}

/// Appends nodes in groups, each with its checksum.
pub(crate) fn put_nodes<'a>(out: &mut Vec<u8>, nodes: impl Iterator<Item = &'a TreeNode>) {
    let mut start = out.len();
    let mut close = |out: &mut Vec<u8>| {
        let checksum = crc32c::crc32c(out.get(start..).unwrap_or_default());
        out.extend(checksum.to_le_bytes());
        start = out.len();
    };
    let mut open = 0;
    for node in nodes {
        out.extend(node);
        open += 1;
        if open == GROUP_NODES {
            close(out);
            open = 0;
        }
    }
    if open > 0 {
        close(out);
    }
}

/// The node at a place that [`Header::place`] gave; its group is checked.
pub(crate) fn node(file: &[u8], place: u64) -> Result<TreeNode, Wrong> {
    let start = HEADER_BYTES as u64 + place / GROUP_NODES * GROUP_BYTES;
    let cut = || Wrong::new(start, "a group of nodes", format!("{} bytes", file.len()));
    let group = group(file.len() as u64, start).ok_or_else(cut)?;
    let group = file.get(group).ok_or_else(cut)?;
    let (nodes, checksum) = group.split_last_chunk::<4>().ok_or_else(cut)?;
    let (expected, found) = (crc32c::crc32c(nodes), u32::from_le_bytes(*checksum));
    if expected != found {
        return Err(Wrong::checksum(start, expected, found));
    }
    let (nodes, _) = nodes.as_chunks::<NODE_BYTES>();
    nodes
        .get((place % GROUP_NODES) as usize)
        .copied()
        .ok_or_else(cut)
}

fn read_active(fields: &mut Fields<'_>) -> Option<Option<Height>> {
    match fields.u32()? {
        NEVER => Some(None),
        height => Height::try_from(height).ok().map(Some),
    }
}

fn group(file_bytes: u64, start: u64) -> Option<Range<usize>> {
    let end = start.checked_add(GROUP_BYTES)?.min(file_bytes);
    (start < end).then_some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}
