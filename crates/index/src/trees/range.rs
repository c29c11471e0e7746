//! The nodes that one sealed range completes, in a file.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use lightship_chain::{BlockId, ShieldedPool, tree::TreeNode};

use super::span::Span;
use crate::{
    Error, Result,
    format::{
        Wrong, hex,
        trees::{self, Active, Header},
    },
    layout::{Layout, UNFINISHED, at},
    sealed::SealedRange,
};

/// One range's nodes, open for reading. A group of nodes is checked whenever one of them is read.
pub(crate) struct RangeTrees {
    pub(crate) header: Header,
    /// The last block of the range.
    pub(crate) tip: BlockId,
    path: PathBuf,
    bytes: Bytes,
}

impl RangeTrees {
    /// Opens the nodes of `range`; `None` if there is no file, or it is of another range of that name.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the file's header or length is wrong.
    pub(crate) fn open(layout: &Layout, range: &SealedRange) -> Result<Option<RangeTrees>> {
        let path = layout.trees_of(range.entry.first, &range.entry.columns_digest);
        let bytes = match layout.disk.map(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            mapped => mapped.map_err(at("map", &path))?,
        };
        let header = Header::of_file(&bytes).map_err(|wrong| Error::corrupt(&path, wrong))?;
        let same = header.first == range.first()
            && header.columns_digest == range.entry.columns_digest
            && header.before == range.header.before
            && header.sizes == range.tip_sizes();
        Ok(same.then_some(RangeTrees {
            header,
            tip: range.tip(),
            path,
            bytes,
        }))
    }

    /// Writes the nodes of `range` durably under their final name.
    pub(crate) fn write(
        layout: &Layout,
        range: &SealedRange,
        span: &Span,
        active: Active,
    ) -> Result<RangeTrees> {
        let header = Header {
            first: range.first(),
            columns_digest: range.entry.columns_digest,
            before: span.before(),
            sizes: span.sizes(),
            active,
        };
        let mut bytes = Vec::new();
        header.put(&mut bytes);
        trees::put_nodes(&mut bytes, span.nodes());
        let dir = layout.trees();
        layout.create_dir(&dir)?;
        layout.sync_dir(&layout.dir)?;
        let path = layout.trees_of(header.first, &header.columns_digest);
        let unfinished = path.with_added_extension(UNFINISHED);
        let mut file = layout.create(&unfinished)?;
        file.write(&bytes).map_err(at("write", &unfinished))?;
        file.sync().map_err(at("sync", &unfinished))?;
        drop(file);
        layout.rename(&unfinished, &path)?;
        layout.sync_dir(&dir)?;
        Ok(RangeTrees {
            header,
            tip: range.tip(),
            bytes: layout.map(&path)?,
            path,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A node, if the range completes it.
    pub(crate) fn node(
        &self,
        pool: ShieldedPool,
        level: u8,
        index: u32,
    ) -> Result<Option<TreeNode>> {
        let Some(place) = self.header.place(pool, level, index) else {
            return Ok(None);
        };
        trees::node(&self.bytes, place)
            .map(Some)
            .map_err(|wrong| Error::corrupt(&self.path, wrong))
    }

    /// Compares every node with those of `span`; how many there are.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] at the first that differs or cannot be read.
    pub(crate) fn differing_node(&self, span: &Span) -> Result<u64> {
        let mut compared = 0;
        for (place, expected) in (0..).zip(span.nodes()) {
            let corrupt = |wrong| Error::corrupt(&self.path, wrong);
            let found = trees::node(&self.bytes, place).map_err(corrupt)?;
            if found != *expected {
                return Err(corrupt(Wrong::new(
                    trees::HEADER_BYTES as u64 + place * 32,
                    hex(expected),
                    hex(&found),
                )));
            }
            compared += 1;
        }
        Ok(compared)
    }
}
