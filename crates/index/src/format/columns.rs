//! A sealed range's columns: a header, one row a block, a checksum.

use lightship_chain::{BlockHash, Height, TreeSizes};

use super::{Digest, Fields, VERSION, Wrong, put_sizes};

/// One block's columns, `[80]`. In a record of the tail the two offsets are lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) hash: BlockHash,
    pub(crate) time: u32,
    pub(crate) sizes: TreeSizes,
    pub(crate) frame: u64,
    pub(crate) transparent: u64,
    pub(crate) transactions: u32,
    pub(crate) size_bytes: u32,
    /// CRC-32C of the frame.
    pub(crate) frame_crc: u32,
    /// CRC-32C of the transparent companion.
    pub(crate) transparent_crc: u32,
}

pub(crate) const ROW_BYTES: usize = 80;

impl Columns {
    /// Where in a row the frame's offset lies, and behind it the companion's.
    pub(crate) const FRAME_AT: usize = 48;

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.hash.as_internal());
        out.extend(self.time.to_le_bytes());
        put_sizes(out, self.sizes);
        out.extend(self.frame.to_le_bytes());
        out.extend(self.transparent.to_le_bytes());
        out.extend(self.transactions.to_le_bytes());
        out.extend(self.size_bytes.to_le_bytes());
        out.extend(self.frame_crc.to_le_bytes());
        out.extend(self.transparent_crc.to_le_bytes());
    }

    pub(crate) fn read(fields: &mut Fields<'_>) -> Option<Columns> {
        Some(Columns {
            hash: BlockHash::from_internal(fields.array()?),
            time: fields.u32()?,
            sizes: fields.sizes()?,
            frame: fields.u64()?,
            transparent: fields.u64()?,
            transactions: fields.u32()?,
            size_bytes: fields.u32()?,
            frame_crc: fields.u32()?,
            transparent_crc: fields.u32()?,
        })
    }
}

/// The head of a `.columns` file, `[144]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) first: Height,
    /// Rows that follow.
    pub(crate) blocks: u32,
    /// The trees before the first block.
    pub(crate) before: TreeSizes,
    /// The first block's parent.
    pub(crate) previous: BlockHash,
    /// Length of the `.blocks` file.
    pub(crate) blocks_bytes: u64,
    /// Length of the `.transparent` file.
    pub(crate) transparent_bytes: u64,
    pub(crate) blocks_digest: Digest,
    pub(crate) transparent_digest: Digest,
}

pub(crate) const HEADER_BYTES: usize = 144;
const MAGIC: &[u8; 8] = b"LSCOLUMN";
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// Length of a `.columns` file.
pub(crate) fn file_bytes(blocks: u32) -> u64 {
    (HEADER_BYTES + CHECKSUM_BYTES) as u64 + u64::from(blocks) * ROW_BYTES as u64
}

impl Header {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.first.get().to_le_bytes());
        out.extend(self.blocks.to_le_bytes());
        put_sizes(out, self.before);
        out.extend(self.previous.as_internal());
        out.extend(self.blocks_bytes.to_le_bytes());
        out.extend(self.transparent_bytes.to_le_bytes());
        out.extend(self.blocks_digest);
        out.extend(self.transparent_digest);
    }

    fn read(fields: &mut Fields<'_>) -> Option<([u8; 8], u32, u32, Header)> {
        let magic = fields.array()?;
        let version = fields.u32()?;
        let first = fields.u32()?;
        let header = Header {
            first: Height::try_from(first).unwrap_or(Height::MAX),
            blocks: fields.u32()?,
            before: fields.sizes()?,
            previous: BlockHash::from_internal(fields.array()?),
            blocks_bytes: fields.u64()?,
            transparent_bytes: fields.u64()?,
            blocks_digest: fields.array()?,
            transparent_digest: fields.array()?,
        };
        Some((magic, version, first, header))
    }

    /// Checks a whole `.columns` file that should hold `blocks` rows from `first` on.
    pub(crate) fn of_file(file: &[u8], first: Height, blocks: u32) -> Result<Header, Wrong> {
        let bytes = file_bytes(blocks);
        if file.len() as u64 != bytes {
            return Err(Wrong::new(
                bytes.min(file.len() as u64),
                format!("{bytes} bytes in all"),
                format!("{} bytes", file.len()),
            ));
        }
        let (body, checksum) = file
            .split_last_chunk::<CHECKSUM_BYTES>()
            .expect("the length was just checked");
        let expected = u32::from_le_bytes(*checksum);
        let found = crc32c::crc32c(body);
        if expected != found {
            return Err(Wrong::checksum(0, expected, found));
        }
        let (magic, version, found, header) =
            Header::read(&mut Fields(body)).expect("the length was just checked");
        if &magic != MAGIC {
            return Err(Wrong::new(0, "the magic LSCOLUMN", format!("{magic:02x?}")));
        }
        if version != VERSION {
            return Err(Wrong::new(
                8,
                format!("version {VERSION}"),
                version.to_string(),
            ));
        }
        if found != first.get() {
            return Err(Wrong::new(
                12,
                format!("first height {first}"),
                found.to_string(),
            ));
        }
        if header.blocks != blocks {
            return Err(Wrong::new(
                16,
                format!("{blocks} blocks"),
                header.blocks.to_string(),
            ));
        }
        Ok(header)
    }
}
