//! The few file operations the index uses, as a trait, so that a test can own the disk and stop between any two.
//!
//! In: paths and bytes. Out: appended, synced, renamed, removed or mapped files. What the files mean is left to the rest of the room.
//!
//! # Invariants
//!
//! Nothing here overwrites or shortens a file that exists under its final name: whoever has mapped it keeps reading what was there.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::Path,
};

use bytes::Bytes;

/// A place to keep files.
pub trait Disk: Send + Sync {
    /// Makes the folder, and those above it, if they are missing.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// What a folder holds, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;
    /// Makes an empty file; one of that name is replaced.
    fn create(&self, file: &Path) -> io::Result<Box<dyn Append>>;
    /// Opens a file that exists, to write at its end.
    fn open_end(&self, file: &Path) -> io::Result<Box<dyn Append>>;
    /// The bytes of a file as it is now. They stay readable when the file grows or is removed.
    fn map(&self, file: &Path) -> io::Result<Bytes>;
    /// Gives a file another name in the same folder; one of that name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn remove(&self, file: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes the lock on a file, made if missing, until the guard is dropped. `None` if another process holds it.
    fn lock(&self, file: &Path) -> io::Result<Option<Box<dyn Send + Sync>>>;
}

/// A file that grows.
pub trait Append: Send + Sync {
    /// Writes all of `bytes` at the end.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, without the folder's.
    pub name: OsString,
    /// Whether it is a folder.
    pub is_dir: bool,
}

/// The files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

impl Disk for Files {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        fs::read_dir(dir)?
            .map(|entry| {
                let entry = entry?;
                Ok(Entry {
                    name: entry.file_name(),
                    is_dir: entry.file_type()?.is_dir(),
                })
            })
            .collect()
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn Append>> {
        let create_new = || OpenOptions::new().append(true).create_new(true).open(file);
        let made = match create_new() {
            // Emptying the old file would pull its bytes from under whoever mapped it; it loses its name instead.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(file)?;
                create_new()?
            }
            made => made?,
        };
        Ok(Box::new(made))
    }

    fn open_end(&self, file: &Path) -> io::Result<Box<dyn Append>> {
        Ok(Box::new(OpenOptions::new().append(true).open(file)?))
    }

    #[expect(
        unsafe_code,
        reason = "a mapping is sound while nobody shortens or overwrites the file, see the module's invariants"
    )]
    fn map(&self, file: &Path) -> io::Result<Bytes> {
        let file = File::open(file)?;
        // SAFETY: files of a store only grow or lose their name; nothing shortens or overwrites them while they have one. What another
        // program does to them is the operator's to prevent, as for every program that maps its files.
        let mapping = unsafe { memmap2::Mmap::map(&file)? };
        Ok(if mapping.is_empty() {
            Bytes::new()
        } else {
            Bytes::from_owner(mapping)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // Only Unix lets a folder be synced; elsewhere the file system orders names itself.
        if cfg!(unix) {
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    }

    fn lock(&self, file: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let file = OpenOptions::new().create(true).append(true).open(file)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Append for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        // The length is part of the data that `fdatasync` makes durable; times are not needed.
        self.sync_data()
    }
}
