//! Going back: rollbacks in the tail, and below it the taking apart of sealed ranges.

use std::{ops::Range, sync::Arc};

use lightship_chain::{BlockId, Height, compact::EncodedBlock};

use super::{Writer, entries, put, segment::Active};
use crate::{
    Result,
    format::{manifest, record},
    layout::at,
    range::Incoming,
    sealed::SealedSet,
    tail::{Entry, Tail},
};

/// What is gathered before it is written when sealed blocks go back to the tail.
const COPY_BYTES: usize = 1024 * 1024;

/// What [`Writer::truncate_above`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Truncated {
    /// Blocks dropped from the chain, head included.
    pub blocks: u32,
    /// Sealed ranges dropped or taken apart, islands included: more than 0 is worth a warning.
    pub unsealed_ranges: u32,
}

impl Writer {
    /// Drops the blocks above `keep` (`None`: all) from the head and the tail, durably, and publishes; islands above it go too.
    ///
    /// If `keep` is sealed, takes apart what is sealed above it: ranges above are dropped, and the blocks that stay of the range that holds
    /// `keep` go back to the tail. A chain that does that lost more blocks than anyone expected, so the caller should say it loudly.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) if sealed blocks that should go back to the tail are damaged. [`Error::Io`](crate::Error::Io), after which the writer is of no more use.
    /// [`Error::Poisoned`](crate::Error::Poisoned).
    pub fn truncate_above(&mut self, keep: Option<Height>) -> Result<Truncated> {
        self.writable()?;
        let keep_blocks = keep.map_or(0, |keep| keep.get() + 1);
        let blocks = self.tip().map_or(0, |tip| tip.height.get() + 1);
        let sealed = self.sealed.below(keep, self.manifest.store.genesis)?;
        let unsealed = self.sealed.ranges().len() - sealed.ranges().len();
        let truncated = Truncated {
            blocks: blocks.saturating_sub(keep_blocks),
            unsealed_ranges: u32::try_from(unsealed).unwrap_or(u32::MAX),
        };
        let kept = self
            .head
            .partition_point(|(height, _)| height.get() < keep_blocks);
        if let Some((_, entry)) = self.head.get(kept) {
            self.pending.truncate(entry.at as usize);
            self.head.truncate(kept);
        }
        let durable = self.sealed.joined_blocks() as usize + self.tail.len();
        let cut = keep_blocks < self.sealed.joined_blocks();
        let done = if cut {
            self.unseal(keep_blocks, sealed)
        } else {
            let rolled = if (keep_blocks as usize) < durable {
                self.roll_back(keep_blocks)
            } else {
                Ok(())
            };
            rolled.and_then(|()| match unsealed {
                0 => Ok(()),
                _ => self.drop_islands(sealed),
            })
        };
        self.or_poison(done)?;
        Ok(truncated)
    }

    /// Exchanges the blocks above `keep` for `branch`, lowest first, durably: readers see the chain before and the chain after, and nothing in
    /// between. After a crash it may be found cut at `keep`.
    ///
    /// # Errors
    ///
    /// As [`Writer::truncate_above`], [`Writer::append`] and [`Writer::commit`]; readers then see how far it came.
    pub fn replace_above(
        &mut self,
        keep: Option<Height>,
        branch: Vec<EncodedBlock>,
    ) -> Result<Truncated> {
        self.holds_views = true;
        let replaced = self.truncate_above(keep).and_then(|truncated| {
            branch
                .into_iter()
                .try_for_each(|block| self.append(block))?;
            self.commit()?;
            Ok(truncated)
        });
        self.holds_views = false;
        self.publish();
        replaced
    }

    fn roll_back(&mut self, keep_blocks: u32) -> Result<()> {
        self.ready_segment()?;
        let active = self.active.as_ref().expect("a segment was just made ready");
        self.commit += 1;
        // The head lies above the tail, so none of it is left.
        self.pending.clear();
        record::put_rollback(&mut self.pending, keep_blocks);
        record::seal(&mut self.pending, active.salt, self.commit, true);
        self.write_records()?;
        let first = self.tail.first().get();
        self.tail.truncate((keep_blocks - first) as usize);
        self.publish();
        Ok(())
    }

    fn drop_islands(&mut self, sealed: SealedSet) -> Result<()> {
        let mut manifest = self.manifest.clone();
        manifest.sealed = entries(&sealed);
        self.write_manifest(manifest)?;
        let before = std::mem::replace(&mut self.sealed, Arc::new(sealed));
        self.publish();
        self.remove_ranges(&before);
        Ok(())
    }

    /// Goes back to `sealed`, the ranges wholly below `keep_blocks`, with the blocks between them and `keep_blocks` in a new tail.
    fn unseal(&mut self, keep_blocks: u32, sealed: SealedSet) -> Result<()> {
        let base = sealed.joined_blocks();
        let mut tail = Tail::new(Height::try_from(base).unwrap_or(Height::MAX));
        let mut manifest = self.manifest.clone();
        manifest.sealed = entries(&sealed);
        manifest.segments = Vec::new();
        let mut active = None;
        if base < keep_blocks {
            let (segment, entries) = self.copy_to_segment(base..keep_blocks)?;
            manifest.segments.push(manifest::Segment {
                sequence: segment.sequence,
                bytes: None,
            });
            for entry in entries {
                tail.push(entry);
            }
            active = Some(segment);
        }
        self.write_manifest(manifest)?;
        let ranges = std::mem::replace(&mut self.sealed, Arc::new(sealed));
        let segments = self.tail.segments();
        self.active = active;
        self.tail = tail;
        if self.active.is_some() {
            self.map_active()?;
        }
        self.publish();
        self.remove_ranges(&ranges);
        self.remove_segments(segments);
        Ok(())
    }

    /// Copies sealed blocks to a new segment.
    fn copy_to_segment(&mut self, heights: Range<u32>) -> Result<(Active, Vec<Entry>)> {
        let mut active = self.create_segment()?;
        self.commit += 1;
        let mut entries = Vec::new();
        let mut buffer = Vec::new();
        for height in heights.clone() {
            let height =
                Height::try_from(height).expect("the block is sealed, so its height is one");
            let (range, index) = self.sealed.find(height).expect("the block is sealed");
            let (frame, transparent) = (range.frames(index, 1)?, range.transparent(index)?);
            let mut columns = range.columns_of(index);
            columns.frame = frame.len() as u64;
            columns.transparent = transparent.len() as u64;
            let incoming = Incoming {
                id: BlockId {
                    height,
                    hash: columns.hash,
                },
                previous: range.row(index).previous,
                columns,
                frame: &frame,
                transparent: &transparent,
            };
            let start = buffer.len();
            put(&mut buffer, height, &incoming);
            let last = height.get() + 1 == heights.end;
            record::seal(&mut buffer[start..], active.salt, self.commit, last);
            entries.push(Entry {
                columns,
                previous: incoming.previous,
                segment: active.sequence,
                at: active.bytes + start as u64,
            });
            if buffer.len() >= COPY_BYTES || last {
                let path = &active.path;
                active.file.write(&buffer).map_err(at("write", path))?;
                active.bytes += buffer.len() as u64;
                buffer.clear();
            }
        }
        active.file.sync().map_err(at("sync", &active.path))?;
        Ok((active, entries))
    }
}
