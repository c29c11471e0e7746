//! Where the current view is had.

use std::{path::Path, sync::Arc, time::Duration};

use crate::{Result, View};

/// Cheap, cloneable, for any thread.
#[derive(Clone)]
pub struct Reader {}

impl Reader {
    /// Reads a store without the lock, as last committed; never modifies anything. The picture stays as it is.
    pub fn open(_dir: &Path) -> Result<Reader> {
        unimplemented!()
    }
    /// The current picture.
    pub fn view(&self) -> Arc<View> {
        unimplemented!()
    }
    /// Blocks until a view with another generation than `seen` is published, or for `patience`; returns the current view.
    pub fn wait_newer(&self, _seen: u64, _patience: Duration) -> Arc<View> {
        unimplemented!()
    }
    /// Calls `hook` with each view published from now on, on the writer's thread.
    pub fn on_publish(&self, _hook: Box<dyn Fn(&Arc<View>) + Send + Sync>) {
        unimplemented!()
    }
}
