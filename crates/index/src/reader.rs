//! Where the current view is had.
//!
//! In: views from the writer. Out: the newest one, at once or when it comes. Readers never wait for the writer, nor it for them.

use std::{
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;

use crate::{Disk, Files, Result, View, layout::Layout, recover};

/// Cheap, cloneable, for any thread.
#[derive(Clone)]
pub struct Reader {
    hub: Arc<Hub>,
}

/// What is called with each new view.
type Hook = Box<dyn Fn(&Arc<View>) + Send + Sync>;

/// Between the writer and its readers.
pub(crate) struct Hub {
    current: ArcSwap<View>,
    /// The generation last published, for those who sleep until the next.
    published: Mutex<u64>,
    changed: Condvar,
    hooks: Mutex<Vec<Hook>>,
}

impl Hub {
    pub(crate) fn new(view: View) -> Arc<Hub> {
        Arc::new(Hub {
            published: Mutex::new(view.generation),
            current: ArcSwap::from_pointee(view),
            changed: Condvar::new(),
            hooks: Mutex::new(Vec::new()),
        })
    }

    pub(crate) fn publish(&self, view: View) {
        let view = Arc::new(view);
        self.current.store(Arc::clone(&view));
        // A number and a list of hooks are whole even if a thread panicked beside them.
        *self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = view.generation;
        self.changed.notify_all();
        for hook in &*self.hooks.lock().unwrap_or_else(PoisonError::into_inner) {
            hook(&view);
        }
    }

    pub(crate) fn reader(self: &Arc<Hub>) -> Reader {
        Reader {
            hub: Arc::clone(self),
        }
    }
}

impl Reader {
    /// Reads a store without the lock, as last committed; never modifies anything. A writer may be at work on it, in this process or
    /// another; its reader sees what it publishes, this one keeps the picture it began with.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`](crate::Error::Missing) if there is no store, [`Error::Version`](crate::Error::Version) if it is of another format,
    /// [`Error::Corrupt`](crate::Error::Corrupt) if files are missing or their bytes wrong, [`Error::Io`](crate::Error::Io).
    pub fn open(dir: &Path) -> Result<Reader> {
        Reader::open_on(Arc::new(Files), dir)
    }

    /// The same on a disk of one's own.
    ///
    /// # Errors
    ///
    /// As [`Reader::open`].
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path) -> Result<Reader> {
        let layout = Layout {
            disk,
            dir: dir.to_owned(),
        };
        Ok(Hub::new(recover::load_beside_writer(&layout)?.into_view()).reader())
    }

    /// The current picture.
    pub fn view(&self) -> Arc<View> {
        self.hub.current.load_full()
    }

    /// Blocks until a view newer than generation `seen` is published, or for `patience`; returns the current view either way.
    pub fn wait_newer(&self, seen: u64, patience: Duration) -> Arc<View> {
        // Without a deadline that the clock can express, it is as good as none.
        let deadline = Instant::now().checked_add(patience);
        let mut published = self
            .hub
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while *published <= seen {
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                break;
            }
            published = self
                .hub
                .changed
                .wait_timeout(published, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        drop(published);
        self.view()
    }

    /// Calls `hook` with each view published from now on, on the writer's thread: it must be quick, and not register hooks itself.
    pub fn on_publish(&self, hook: Hook) {
        self.hub
            .hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(hook);
    }
}
