//! The chain that a file holds.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, RawBlock, TreeSizes, compact::compact, parse::Header,
};

use super::read::{Blocks, Form, Place, wrong};
use crate::{BlockSource, Error, Result};

/// A chain from a file of blocks. Keeps some 80 bytes a block in memory; the blocks stay in the file.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    form: Form,
    /// By height.
    blocks: Vec<Known>,
    heights: HashMap<BlockHash, Height>,
}

#[derive(Debug)]
struct Known {
    place: Place,
    hash: BlockHash,
    /// At the end of the block.
    sizes: TreeSizes,
}

impl FileSource {
    /// Reads the file at `path` through once.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be read. [`Error::File`], with the line or record, if it holds something that is not a block, or
    /// begins with a block that has a parent. [`Error::Link`] if a block is not the child of the one before it.
    pub fn open(path: impl AsRef<Path>) -> Result<FileSource> {
        let path = path.as_ref();
        let mut file = Blocks::open(path)?;
        let mut blocks: Vec<Known> = Vec::new();
        let mut heights = HashMap::new();
        let mut bytes = Vec::new();
        while let Some(place) = file.next(&mut bytes)? {
            let height = Height::try_from(blocks.len() as u64)
                .map_err(|error| file.wrong(place, error.to_string()))?;
            let block = compact(height, RawBlock::Whole(&bytes))
                .map_err(|error| file.wrong(place, format!("not a block: {error}")))?;
            let (parent, before) = blocks
                .last()
                .map_or((BlockHash::ZERO, TreeSizes::ZERO), |below| {
                    (below.hash, below.sizes)
                });
            if block.previous != parent {
                if blocks.is_empty() {
                    let problem =
                        "the first block must be a genesis block, and this one has a parent";
                    return Err(file.wrong(place, problem));
                }
                return Err(Error::Link {
                    height,
                    expected: parent,
                    found: block.previous,
                });
            }
            let sizes = before
                .checked_add(block.notes)
                .ok_or_else(|| file.wrong(place, "more notes than a tree holds"))?;
            heights.insert(block.id.hash, height);
            blocks.push(Known {
                place,
                hash: block.id.hash,
                sizes,
            });
        }
        Ok(FileSource {
            path: path.to_owned(),
            form: file.form(),
            blocks,
            heights,
        })
    }

    fn known(&self, height: Height) -> Option<&Known> {
        self.blocks.get(height.get() as usize)
    }

    /// Reads the next block of `file`, which must be `known`.
    fn read(&self, file: &mut Blocks, known: &Known, bytes: &mut Vec<u8>) -> Result<()> {
        let found = file.next(bytes)?;
        let same = found.is_some()
            && Header::parse(bytes).is_ok_and(|(header, _)| header.hash() == known.hash);
        if same {
            return Ok(());
        }
        let problem = "another block than when the file was opened: it was changed meanwhile";
        Err(wrong(&self.path, self.form, known.place, problem))
    }
}

impl BlockSource for FileSource {
    fn genesis(&self) -> Result<BlockHash> {
        self.hash_at(Height::GENESIS)?
            .ok_or_else(|| Error::Unsupported {
                what: format!("{} holds no block", self.path.display()),
            })
    }

    fn tip(&self) -> Result<Option<BlockId>> {
        Ok(self.blocks.last().map(|last| BlockId {
            height: self.heights[&last.hash],
            hash: last.hash,
        }))
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>> {
        Ok(self.known(height).map(|known| known.hash))
    }

    fn blocks(
        &self,
        range: HeightRange,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut file = None;
        let mut bytes = Vec::new();
        for height in range.iter() {
            let known = self.known(height).ok_or(Error::AboveTip { height })?;
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(Blocks::open_at(&self.path, self.form, known.place)?),
            };
            self.read(file, known, &mut bytes)?;
            if visit(height, RawBlock::Whole(&bytes)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn block(&self, hash: BlockHash, visit: &mut dyn FnMut(RawBlock<'_>)) -> Result<bool> {
        let Some(height) = self.heights.get(&hash) else {
            return Ok(false);
        };
        self.blocks(HeightRange::single(*height), &mut |_, block| {
            visit(block);
            ControlFlow::Continue(())
        })?;
        Ok(true)
    }

    fn tree_sizes(&self, hash: BlockHash) -> Result<Option<TreeSizes>> {
        let height = self.heights.get(&hash);
        Ok(height
            .and_then(|height| self.known(*height))
            .map(|known| known.sizes))
    }

    /// A file has no news: waits out its patience, unless the tip is not `seen` to begin with.
    fn wait(&self, seen: Option<BlockId>, patience: Duration) -> Result<()> {
        if self.tip()? == seen {
            thread::sleep(patience);
        }
        Ok(())
    }
}
