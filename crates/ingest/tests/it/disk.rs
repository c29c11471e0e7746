//! A disk that skips the syncs, which only a power cut would miss, that can be full, and that counts what is written.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use lightship_index::{Append, Disk, Entry, Files};

#[derive(Clone, Default)]
pub(crate) struct QuickDisk {
    full: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
}

struct QuickFile {
    file: Box<dyn Append>,
    full: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
}

impl QuickDisk {
    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    fn open(&self, file: io::Result<Box<dyn Append>>) -> io::Result<Box<dyn Append>> {
        Ok(Box::new(QuickFile {
            file: file?,
            full: Arc::clone(&self.full),
            written: Arc::clone(&self.written),
        }))
    }
}

impl Append for QuickFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) {
            // A full disk takes a part first.
            self.file.write(&bytes[..bytes.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        self.file.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for QuickDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        Files.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        Files.list(dir)
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn Append>> {
        self.open(Files.create(file))
    }

    fn open_end(&self, file: &Path) -> io::Result<Box<dyn Append>> {
        self.open(Files.open_end(file))
    }

    fn map(&self, file: &Path) -> io::Result<Bytes> {
        Files.map(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Files.rename(from, to)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        Files.remove(file)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, file: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        Files.lock(file)
    }
}
