//! Building a sealed range.
//!
//! In: the blocks of one range in order. Out: three complete, durable files under temporary names. Memory is bounded by the rows
//! (80 bytes a block) and two write buffers. Making the files part of the store is left to [`crate::Writer::seal`].

use std::path::PathBuf;

use lightship_chain::{BlockHash, BlockId, Height, TreeSizes, compact::EncodedBlock};

use crate::{
    Error, Result,
    disk::Append,
    format::{
        self, Digest,
        columns::{Columns, HEADER_BYTES, Header, ROW_BYTES},
    },
    layout::{Layout, Part, UNFINISHED, at},
};

/// What is gathered before it is written and hashed.
const BUFFER_BYTES: usize = 256 * 1024;

/// A range on its way to being sealed. `Send`, so that many can be built at once; dropped unfinished, it takes its files away.
pub struct RangeBuilder {
    layout: Layout,
    /// Temporary path without the part's ending.
    stem: PathBuf,
    first: Height,
    blocks: u32,
    before: TreeSizes,
    previous: BlockHash,
    /// Header and rows; the header is filled in at the end.
    columns: Vec<u8>,
    appended: u32,
    tip: Option<BlockId>,
    sizes: TreeSizes,
    frames: Stream,
    companions: Stream,
    /// The digest of the columns, once the files are complete and durable.
    digest: Option<Digest>,
}

/// One file on its way.
struct Stream {
    file: Box<dyn Append>,
    path: PathBuf,
    buffer: Vec<u8>,
    written: u64,
    digest: blake2b_simd::State,
}

impl Stream {
    fn create(layout: &Layout, path: PathBuf) -> Result<Stream> {
        Ok(Stream {
            file: layout.create(&path)?,
            path,
            buffer: Vec::new(),
            written: 0,
            digest: format::digester(),
        })
    }

    fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file
            .write(&self.buffer)
            .map_err(at("write", &self.path))?;
        self.digest.update(&self.buffer);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the whole file durable.
    fn finish(&mut self) -> Result<Digest> {
        self.flush()?;
        self.file.sync().map_err(at("sync", &self.path))?;
        self.buffer = Vec::new();
        Ok(format::finish(&self.digest))
    }
}

/// One block as it goes into a range: its columns with lengths for offsets, as the tail keeps them.
pub(crate) struct Incoming<'a> {
    pub(crate) id: BlockId,
    pub(crate) previous: BlockHash,
    pub(crate) columns: Columns,
    pub(crate) frame: &'a [u8],
    pub(crate) transparent: &'a [u8],
}

impl<'a> Incoming<'a> {
    /// Measures and sums the block.
    pub(crate) fn of(block: &'a EncodedBlock) -> Result<Incoming<'a>> {
        let height = block.id.height;
        let message = match block.frame.split_first_chunk::<5>() {
            Some(([0, length @ ..], message)) => Some((u32::from_be_bytes(*length), message)),
            _ => None,
        };
        if message.is_none_or(|(length, message)| u64::from(length) != message.len() as u64) {
            return Err(Error::Block {
                height,
                why: "its frame is not one gRPC frame",
            });
        }
        if u32::try_from(block.transparent.len()).is_err() {
            return Err(Error::Block {
                height,
                why: "its transparent companion has 4 GiB or more",
            });
        }
        Ok(Incoming {
            id: block.id,
            previous: block.previous,
            columns: Columns {
                hash: block.id.hash,
                time: block.time,
                sizes: block.sizes,
                frame: block.frame.len() as u64,
                transparent: block.transparent.len() as u64,
                transactions: block.transactions,
                size_bytes: block.size_bytes,
                frame_crc: crc32c::crc32c(&block.frame),
                transparent_crc: crc32c::crc32c(&block.transparent),
            },
            frame: &block.frame,
            transparent: &block.transparent,
        })
    }

    /// Checks that no tree shrinks.
    pub(crate) fn grows_from(&self, before: TreeSizes) -> Result<()> {
        let after = self.columns.sizes;
        let grows = after.sapling >= before.sapling
            && after.orchard >= before.orchard
            && after.ironwood >= before.ironwood;
        if grows {
            return Ok(());
        }
        Err(Error::Block {
            height: self.id.height,
            why: "a note commitment tree is smaller than before it",
        })
    }
}

impl RangeBuilder {
    pub(crate) fn create(
        layout: &Layout,
        number: u64,
        (first, blocks): (Height, u32),
        before: TreeSizes,
        previous: BlockHash,
    ) -> Result<RangeBuilder> {
        let stem = layout
            .sealed()
            .join(format!("{:010}-{number:016x}", first.get()));
        let unfinished =
            |part: Part| stem.with_extension(format!("{}.{UNFINISHED}", part.extension()));
        Ok(RangeBuilder {
            frames: Stream::create(layout, unfinished(Part::Blocks))?,
            companions: Stream::create(layout, unfinished(Part::Transparent))?,
            layout: layout.clone(),
            stem,
            first,
            blocks,
            before,
            previous,
            columns: vec![0; HEADER_BYTES],
            appended: 0,
            tip: None,
            sizes: before,
            digest: None,
        })
    }

    /// Streams the next block to the temporary files. The block that completes the range also makes them durable, so that the waiting
    /// happens here, on the builder's thread, and not in [`Writer::seal`](crate::Writer::seal).
    ///
    /// # Errors
    ///
    /// [`Error::Gap`] if the block does not follow the last, or the parent that the range was begun with. [`Error::Range`] if the range is
    /// complete. [`Error::Block`] if the block cannot be stored. [`Error::Io`]; the builder is of no more use then.
    pub fn append(&mut self, block: &EncodedBlock) -> Result<()> {
        self.push(&Incoming::of(block)?)
    }

    pub(crate) fn push(&mut self, block: &Incoming<'_>) -> Result<()> {
        if self.appended == self.blocks {
            return Err(Error::Range {
                first: self.first,
                why: "it is complete",
            });
        }
        let parent = self.tip.map_or(self.previous, |tip| tip.hash);
        let next = self.first.checked_add(self.appended);
        // The genesis block names a parent that is no block.
        let follows = block.previous == parent || next == Some(Height::GENESIS);
        if next != Some(block.id.height) || !follows {
            return Err(Error::Gap {
                height: block.id.height,
                previous: block.previous,
                tip: self.tip.or_else(|| {
                    self.first.previous().map(|height| BlockId {
                        height,
                        hash: self.previous,
                    })
                }),
            });
        }
        block.grows_from(self.sizes)?;
        let columns = Columns {
            frame: self.frames.bytes(),
            transparent: self.companions.bytes(),
            ..block.columns
        };
        self.frames.put(block.frame)?;
        self.companions.put(block.transparent)?;
        columns.put(&mut self.columns);
        self.appended += 1;
        self.tip = Some(block.id);
        self.sizes = block.columns.sizes;
        if self.appended == self.blocks {
            self.finish()?;
        }
        Ok(())
    }

    /// Whether every height is there, and durable.
    pub fn is_complete(&self) -> bool {
        self.digest.is_some()
    }

    /// The last block appended.
    pub fn tip(&self) -> Option<BlockId> {
        self.tip
    }

    /// The sizes of the trees at the last block appended.
    pub fn tip_sizes(&self) -> TreeSizes {
        self.sizes
    }

    pub(crate) fn first(&self) -> Height {
        self.first
    }

    pub(crate) fn is_of(&self, layout: &Layout) -> bool {
        self.layout.dir == layout.dir
    }

    fn finish(&mut self) -> Result<()> {
        let header = Header {
            first: self.first,
            blocks: self.blocks,
            before: self.before,
            previous: self.previous,
            blocks_bytes: self.frames.bytes(),
            transparent_bytes: self.companions.bytes(),
            blocks_digest: self.frames.finish()?,
            transparent_digest: self.companions.finish()?,
        };
        let mut head = Vec::with_capacity(HEADER_BYTES);
        header.put(&mut head);
        self.columns[..HEADER_BYTES].copy_from_slice(&head);
        debug_assert_eq!(
            self.columns.len(),
            HEADER_BYTES + self.blocks as usize * ROW_BYTES
        );
        let checksum = crc32c::crc32c(&self.columns);
        self.columns.extend(checksum.to_le_bytes());
        let path = self.unfinished(Part::Columns);
        let mut file = self.layout.create(&path)?;
        file.write(&self.columns).map_err(at("write", &path))?;
        file.sync().map_err(at("sync", &path))?;
        self.digest = Some(format::digest(&self.columns));
        self.columns = Vec::new();
        Ok(())
    }

    fn unfinished(&self, part: Part) -> PathBuf {
        self.stem
            .with_extension(format!("{}.{UNFINISHED}", part.extension()))
    }

    /// Gives the files their final names, not yet durably. Returns the digest of the columns, or `None` if the range is not complete.
    pub(crate) fn name(mut self) -> Result<Option<Digest>> {
        let Some(digest) = self.digest else {
            return Ok(None);
        };
        let stem = self.layout.range(self.first, &digest);
        for part in Part::ALL {
            self.layout
                .rename(&self.unfinished(part), &Layout::part(&stem, part))?;
        }
        // Nothing is left to take away.
        self.stem = PathBuf::new();
        Ok(Some(digest))
    }
}

impl Drop for RangeBuilder {
    fn drop(&mut self) {
        if self.stem.as_os_str().is_empty() {
            return;
        }
        for part in Part::ALL {
            // What cannot be removed now is removed when the store is opened.
            let _ = self.layout.remove(&self.unfinished(part));
        }
    }
}
