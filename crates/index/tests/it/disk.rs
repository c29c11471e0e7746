//! A disk in memory that loses power.
//!
//! It counts the operations that change it, can fail or stop at any of them, and says what is left after the power came back: what was
//! synced for certain, and of the rest what a [`Loss`] leaves.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use lightship_index::{Append, Disk, Entry};

/// What happens to what was never synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Data and names are gone.
    Everything,
    /// All of it happened to be written.
    Nothing,
    /// Names are gone, data stayed.
    Names,
    /// Names stayed, of the data of each file the first half.
    LastHalf,
    /// Names and lengths stayed, of the data of each file the second half: what is missing reads as zeros.
    FirstHalf,
    /// Names stayed and data is gone.
    Data,
}

impl Loss {
    pub(crate) const ALL: [Loss; 6] = [
        Loss::Everything,
        Loss::Nothing,
        Loss::Names,
        Loss::LastHalf,
        Loss::FirstHalf,
        Loss::Data,
    ];
}

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The power goes: it and every later operation fails. A write is cut in half.
    PowerCut,
    /// The operation fails, later ones do not. A write is cut in half.
    OneError,
}

#[derive(Clone, Debug, Default)]
struct File {
    data: Vec<u8>,
    /// How much of it is durable.
    synced: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Dir,
    File(usize),
}

#[derive(Clone, Debug, Default)]
struct State {
    files: Vec<File>,
    names: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
    locked: bool,
    operations: usize,
    fault: Option<(usize, Fault)>,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryDisk(Arc<Mutex<State>>);

impl MemoryDisk {
    pub(crate) fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// Operations so far that change the disk.
    pub(crate) fn operations(&self) -> usize {
        self.0.lock().unwrap().operations
    }

    /// Lets the operation of that number fail.
    pub(crate) fn fail_at(&self, operation: usize, fault: Fault) {
        self.0.lock().unwrap().fault = Some((operation, fault));
    }

    /// The disk as found when the power is back.
    pub(crate) fn after_power_cut(&self, loss: Loss) -> MemoryDisk {
        let state = self.0.lock().unwrap();
        let names = match loss {
            Loss::Everything | Loss::Names => state.durable.clone(),
            Loss::Nothing | Loss::LastHalf | Loss::FirstHalf | Loss::Data => state.names.clone(),
        };
        let files = state.files.iter().map(|file| {
            let half = file.synced + (file.data.len() - file.synced) / 2;
            let mut data = file.data.clone();
            match loss {
                Loss::Nothing | Loss::Names => {}
                Loss::Everything | Loss::Data => data.truncate(file.synced),
                Loss::LastHalf => data.truncate(half),
                Loss::FirstHalf => data[file.synced..half].fill(0),
            }
            let synced = data.len();
            File { data, synced }
        });
        MemoryDisk(Arc::new(Mutex::new(State {
            files: files.collect(),
            durable: names.clone(),
            names,
            ..State::default()
        })))
    }

    /// A disk of its own with the same files.
    pub(crate) fn copy(&self) -> MemoryDisk {
        self.after_power_cut(Loss::Nothing)
    }

    /// Every file, by path.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let state = self.0.lock().unwrap();
        let files = state.names.iter().filter_map(|(path, node)| match node {
            Node::Dir => None,
            Node::File(file) => Some((path.clone(), state.files[*file].data.clone())),
        });
        files.collect()
    }

    /// Puts other bytes in a file's place, as rot or a careless hand does.
    pub(crate) fn replace(&self, path: &Path, data: Option<Vec<u8>>) {
        let mut state = self.0.lock().unwrap();
        let Some(Node::File(file)) = state.names.get(path).cloned() else {
            panic!("no file {}", path.display());
        };
        match data {
            Some(data) => {
                state.files[file].synced = data.len();
                state.files[file].data = data;
            }
            None => {
                state.names.remove(path);
            }
        }
    }

    /// Counts one operation; whether it fails.
    fn step(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let operation = state.operations;
        state.operations += 1;
        match state.fault {
            Some((at, Fault::PowerCut)) if operation >= at => Err(io::Error::other("no power")),
            Some((at, Fault::OneError)) if operation == at => Err(io::Error::other("bad sector")),
            _ => Ok(()),
        }
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

struct Handle {
    disk: MemoryDisk,
    file: usize,
}

impl Append for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let step = self.disk.step();
        let mut state = self.disk.0.lock().unwrap();
        let cut_now = state
            .fault
            .is_some_and(|(at, _)| at + 1 == state.operations);
        let written = match &step {
            Ok(()) => bytes.len(),
            Err(_) if cut_now => bytes.len() / 2,
            Err(_) => 0,
        };
        state.files[self.file]
            .data
            .extend_from_slice(&bytes[..written]);
        step
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.step()?;
        let mut state = self.disk.0.lock().unwrap();
        let file = &mut state.files[self.file];
        file.synced = file.data.len();
        Ok(())
    }
}

struct Lock(MemoryDisk);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().locked = false;
    }
}

impl Disk for MemoryDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        let mut state = self.0.lock().unwrap();
        state.names.entry(dir.to_owned()).or_insert(Node::Dir);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let state = self.0.lock().unwrap();
        if !state.names.contains_key(dir) {
            return Err(missing());
        }
        let inside = state
            .names
            .iter()
            .filter(|(path, _)| path.parent() == Some(dir));
        Ok(inside
            .map(|(path, node)| Entry {
                name: path.file_name().unwrap().to_owned(),
                is_dir: *node == Node::Dir,
            })
            .collect())
    }

    fn create(&self, file: &Path) -> io::Result<Box<dyn Append>> {
        self.step()?;
        let mut state = self.0.lock().unwrap();
        if !state.names.contains_key(file.parent().unwrap()) {
            return Err(missing());
        }
        let number = state.files.len();
        state.files.push(File::default());
        state.names.insert(file.to_owned(), Node::File(number));
        Ok(Box::new(Handle {
            disk: self.clone(),
            file: number,
        }))
    }

    fn open_end(&self, file: &Path) -> io::Result<Box<dyn Append>> {
        let state = self.0.lock().unwrap();
        match state.names.get(file) {
            Some(Node::File(number)) => Ok(Box::new(Handle {
                disk: self.clone(),
                file: *number,
            })),
            _ => Err(missing()),
        }
    }

    fn map(&self, file: &Path) -> io::Result<Bytes> {
        let state = self.0.lock().unwrap();
        match state.names.get(file) {
            Some(Node::File(number)) => Ok(state.files[*number].data.clone().into()),
            _ => Err(missing()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        let mut state = self.0.lock().unwrap();
        let node = state.names.remove(from).ok_or_else(missing)?;
        state.names.insert(to.to_owned(), node);
        Ok(())
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.step()?;
        let mut state = self.0.lock().unwrap();
        state.names.remove(file).map(drop).ok_or_else(missing)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step()?;
        let mut state = self.0.lock().unwrap();
        state.durable.retain(|path, _| path.parent() != Some(dir));
        let inside: Vec<_> = state
            .names
            .iter()
            .filter(|(path, _)| path.parent() == Some(dir))
            .map(|(path, node)| (path.clone(), node.clone()))
            .collect();
        state.durable.extend(inside);
        Ok(())
    }

    fn lock(&self, _file: &Path) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let mut state = self.0.lock().unwrap();
        if state.locked {
            return Ok(None);
        }
        state.locked = true;
        Ok(Some(Box::new(Lock(self.clone()))))
    }
}
