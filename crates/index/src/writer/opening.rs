//! Opening a store to write to it: refusing what is not one, making one, clearing away what a crash left.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{Writer, segment::Active};
use crate::{
    Disk, Error, Files, Result, StoreId,
    format::manifest::Manifest,
    layout::{self, Layout, UNFINISHED, at},
    reader::Hub,
    recover,
};

impl Writer {
    /// Opens the store in `dir`, making it if the folder is empty or missing; recovers from a crash; publishes the first view.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another process writes to it. [`Error::Foreign`] if the folder holds other files, or the store of another chain
    /// or range size. [`Error::Version`] if it is of another format. [`Error::Corrupt`] if files are missing or their bytes wrong.
    /// [`Error::Io`].
    pub fn open(dir: &Path, id: StoreId) -> Result<Writer> {
        Writer::open_on(Arc::new(Files), dir, id)
    }

    /// The same on a disk of one's own.
    ///
    /// # Errors
    ///
    /// As [`Writer::open`].
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path, id: StoreId) -> Result<Writer> {
        let layout = Layout {
            disk,
            dir: dir.to_owned(),
        };
        refuse_other_files(&layout)?;
        layout.create_dir(dir)?;
        let lock_file = layout.lock_file();
        let lock = layout
            .disk
            .lock(&lock_file)
            .map_err(at("lock", &lock_file))?;
        let Some(lock) = lock else {
            return Err(Error::Locked { path: lock_file });
        };
        let manifest = match recover::read_manifest(&layout)? {
            Some(manifest) if manifest.store == id => manifest,
            Some(manifest) => {
                return Err(Error::Foreign {
                    path: layout.dir,
                    found: manifest.store.to_string(),
                    expected: id.to_string(),
                });
            }
            None => make(&layout, id)?,
        };
        let loaded = recover::load(&layout, manifest)?;
        let mut writer = Writer::of_loaded(layout, lock, loaded)?;
        // Only a crash between a commit and the joining that follows it leaves something to join. If it cannot be joined, the caller hears
        // of that from its next commit.
        match writer.join() {
            Ok(()) | Err(Error::Gap { .. }) => Ok(writer),
            Err(error) => Err(error),
        }
    }

    fn of_loaded(
        layout: Layout,
        lock: Box<dyn Send + Sync>,
        loaded: recover::Loaded,
    ) -> Result<Writer> {
        let mut manifest = loaded.manifest.clone();
        let commit = loaded.commit;
        let mut active = None;
        if let Some(open) = &loaded.open {
            let path = layout.segment(open.sequence);
            let mut file = layout.open_end(&path)?;
            // What was found may be in the system's memory only, if the process died before its sync.
            file.sync().map_err(at("sync", &path))?;
            if open.torn {
                manifest.segments.last_mut().expect("one is open").bytes = Some(open.bytes);
            } else {
                active = Some(Active {
                    file,
                    path,
                    sequence: open.sequence,
                    salt: open.salt,
                    bytes: open.bytes,
                });
            }
        }
        let highest = clear_leftovers(&layout, &manifest)?;
        let view = loaded.into_view();
        Ok(Writer {
            layout,
            _lock: lock,
            manifest,
            sealed: Arc::clone(&view.sealed),
            tail: view.tail.clone(),
            lookup: Arc::clone(&view.lookup),
            active,
            next_segment: highest + 1,
            head: Vec::new(),
            pending: Vec::new(),
            commit,
            generation: view.generation,
            target: None,
            holds_views: false,
            poisoned: false,
            builders: AtomicU64::new(0),
            hub: Hub::new(view),
        })
    }

    /// Reads the store again after a write failed, under the same lock and for the same readers: what is found on the disk is published.
    /// For a disk that was full.
    ///
    /// What the failed write left is not believed, even if it reads well: the system may show bytes that it could not write. The segment
    /// counts only as far as the last commit that succeeded, and the manifest is written anew. Ranges that were begun before are lost.
    ///
    /// # Errors
    ///
    /// As [`Writer::open`]; the writer is then as it was.
    pub fn reopen(&mut self) -> Result<()> {
        let Some(mut manifest) = recover::read_manifest(&self.layout)? else {
            return Err(Error::Missing {
                path: self.layout.dir.clone(),
            });
        };
        if manifest.store != self.manifest.store {
            return Err(Error::Foreign {
                path: self.layout.dir.clone(),
                found: manifest.store.to_string(),
                expected: self.manifest.store.to_string(),
            });
        }
        if let Some(active) = &self.active
            && let Some(last) = manifest.segments.last_mut()
            && last.sequence == active.sequence
        {
            last.bytes = Some(active.bytes);
        }
        self.layout.sync_dir(&self.layout.sealed())?;
        manifest.edition += 1;
        write_manifest(&self.layout, &manifest)?;
        let loaded = recover::load(&self.layout, manifest)?;
        let no_lock: Box<dyn Send + Sync> = Box::new(());
        let mut fresh = Writer::of_loaded(self.layout.clone(), no_lock, loaded)?;
        std::mem::swap(&mut fresh._lock, &mut self._lock);
        fresh.hub = Arc::clone(&self.hub);
        fresh.generation = self.generation;
        fresh.target = self.target;
        fresh.builders = AtomicU64::new(self.builders.load(Ordering::Relaxed));
        *self = fresh;
        self.publish();
        match self.join() {
            Ok(()) | Err(Error::Gap { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A folder without a manifest must be empty, or hold what an interrupted first start leaves.
fn refuse_other_files(layout: &Layout) -> Result<()> {
    let entries = layout.list(&layout.dir)?;
    let is = |entry: &crate::Entry, names: &[&str]| names.iter().any(|name| entry.name == *name);
    if entries.iter().any(|entry| is(entry, &["manifest"])) {
        return Ok(());
    }
    let ours = ["lock", "manifest.new", "sealed", "tail", "lost+found"];
    match entries.iter().find(|entry| !is(entry, &ours)) {
        None => Ok(()),
        Some(other) => Err(Error::Foreign {
            path: layout.dir.clone(),
            found: format!("{} and no manifest", other.name.display()),
            expected: "an index or nothing at all".to_owned(),
        }),
    }
}

/// Makes an empty store.
fn make(layout: &Layout, id: StoreId) -> Result<Manifest> {
    for dir in [layout.sealed(), layout.tail()] {
        for entry in layout.list(&dir)? {
            let finished = Path::new(&entry.name).extension() != Some(UNFINISHED.as_ref());
            if finished {
                return Err(Error::Corrupt {
                    path: layout.manifest(),
                    offset: 0,
                    expected: format!("a manifest that names {}", entry.name.display()),
                    found: "no manifest".to_owned(),
                });
            }
        }
        layout.create_dir(&dir)?;
    }
    layout.sync_dir(&layout.dir)?;
    if let Some(parent) = layout.dir.parent() {
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        layout.sync_dir(parent)?;
    }
    let manifest = Manifest::new(id);
    write_manifest(layout, &manifest)?;
    Ok(manifest)
}

/// Replaces the manifest: the commit point of everything but blocks of the tail.
pub(super) fn write_manifest(layout: &Layout, manifest: &Manifest) -> Result<()> {
    let path = layout.manifest();
    let unfinished = path.with_extension(UNFINISHED);
    let mut file = layout.create(&unfinished)?;
    file.write(&manifest.encode())
        .map_err(at("write", &unfinished))?;
    file.sync().map_err(at("sync", &unfinished))?;
    layout.rename(&unfinished, &path)?;
    layout.sync_dir(&layout.dir)
}

/// Removes what a crash left behind: files of ours that the manifest does not name. Returns the highest segment number in use.
fn clear_leftovers(layout: &Layout, manifest: &Manifest) -> Result<u64> {
    let mut highest = 0;
    let named: Vec<PathBuf> = manifest
        .segments
        .iter()
        .map(|segment| layout.segment(segment.sequence))
        .collect();
    for entry in layout.list(&layout.tail())? {
        if !layout::is_segment_file(&entry.name) {
            continue;
        }
        let path = layout.tail().join(&entry.name);
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse().ok());
        highest = highest.max(number.unwrap_or(0));
        if !named.contains(&path) {
            layout.remove(&path)?;
        }
    }
    let stems: std::collections::HashSet<PathBuf> = manifest
        .sealed
        .iter()
        .map(|range| layout.range(range.first, &range.columns_digest))
        .collect();
    for entry in layout.list(&layout.sealed())? {
        let path = layout.sealed().join(&entry.name);
        let unfinished = path.extension() == Some(UNFINISHED.as_ref());
        if layout::is_range_file(&entry.name)
            && (unfinished || !stems.contains(&path.with_extension("")))
        {
            layout.remove(&path)?;
        }
    }
    // Nodes of a range that is no more, or that were being written when the process died.
    let wanted: std::collections::HashSet<PathBuf> = manifest
        .sealed
        .iter()
        .map(|range| layout.trees_of(range.first, &range.columns_digest))
        .collect();
    for entry in layout.list(&layout.trees())? {
        let path = layout.trees().join(&entry.name);
        if layout::is_trees_file(&entry.name) && !wanted.contains(&path) {
            layout.remove(&path)?;
        }
    }
    let last = manifest.segments.last().map_or(0, |last| last.sequence);
    Ok(highest.max(last))
}
