//! The segment that grows: made, written to, mapped, closed.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    path::PathBuf,
};

use super::Writer;
use crate::{
    Error, Result,
    disk::Append,
    format::{
        manifest::{self, Manifest},
        record::{self, Salt},
    },
    layout::at,
};

/// A segment that has grown to this is closed, and the next commit begins another.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// The most that is kept allocated for the next head.
const KEPT_BYTES: usize = 1024 * 1024;

/// The segment that grows.
pub(super) struct Active {
    pub(super) file: Box<dyn Append>,
    pub(super) path: PathBuf,
    pub(super) sequence: u64,
    pub(super) salt: Salt,
    pub(super) bytes: u64,
}

impl Writer {
    /// Writes what is pending to the active segment, durably, and maps it anew.
    pub(super) fn write_records(&mut self) -> Result<()> {
        let active = self.active.as_mut().expect("a segment was made ready");
        active
            .file
            .write(&self.pending)
            .map_err(at("write", &active.path))?;
        active.file.sync().map_err(at("sync", &active.path))?;
        active.bytes += self.pending.len() as u64;
        // A head of long ago may have been large.
        self.pending = Vec::with_capacity(self.pending.len().min(KEPT_BYTES));
        self.map_active()
    }

    pub(super) fn map_active(&mut self) -> Result<()> {
        let active = self.active.as_ref().expect("a segment was made ready");
        let bytes = self.layout.map(&active.path)?;
        let length = active.bytes as usize;
        if bytes.len() < length {
            return Err(Error::Corrupt {
                path: active.path.clone(),
                offset: bytes.len() as u64,
                expected: format!("the {length} bytes that were written"),
                found: "the end".to_owned(),
            });
        }
        self.tail.map(active.sequence, bytes.slice(..length));
        Ok(())
    }

    /// Sees to it that there is a segment to write to.
    pub(super) fn ready_segment(&mut self) -> Result<()> {
        match &self.active {
            Some(active) if active.bytes < SEGMENT_BYTES => return Ok(()),
            _ => {}
        }
        let active = self.create_segment()?;
        let mut manifest = self.manifest.clone();
        self.close_active(&mut manifest);
        manifest.segments.push(manifest::Segment {
            sequence: active.sequence,
            bytes: None,
        });
        self.write_manifest(manifest)?;
        self.active = Some(active);
        Ok(())
    }

    /// A new durable segment, of which the manifest does not know yet.
    pub(super) fn create_segment(&mut self) -> Result<Active> {
        let sequence = self.next_segment;
        self.next_segment += 1;
        let salt = Salt(RandomState::new().build_hasher().finish() as u32);
        let path = self.layout.segment(sequence);
        let mut file = self.layout.create(&path)?;
        let header = record::Header {
            salt,
            sequence,
            commit: self.commit,
        };
        let header = header.encode(&self.manifest.store.genesis);
        file.write(&header).map_err(at("write", &path))?;
        file.sync().map_err(at("sync", &path))?;
        self.layout.sync_dir(&self.layout.tail())?;
        Ok(Active {
            file,
            path,
            sequence,
            salt,
            bytes: header.len() as u64,
        })
    }

    /// Notes in `manifest` how much of the active segment counts.
    pub(super) fn close_active(&self, manifest: &mut Manifest) {
        if let Some(active) = &self.active
            && let Some(segment) = manifest.segments.last_mut()
        {
            segment.bytes = Some(active.bytes);
        }
    }
}
