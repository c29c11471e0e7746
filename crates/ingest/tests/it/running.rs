//! A run on a thread of its own, and the model its index is held against.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use lightship_chain::{BlockId, Height, Network, compact::EncodedBlock};
use lightship_index::{Error, Reader, StoreId, View, Writer};
use lightship_ingest::{Nudge, Progress, Result, Settings, Snapshot, Stop, Until, run};
use lightship_source::BlockSource;

use crate::{disk::QuickDisk, scripted::Scripted};

pub(crate) const RANGE_BLOCKS: u32 = 8;
pub(crate) const SEAL_DEPTH: u32 = 20;

/// Small and quick, so that every path is taken within a hundred blocks.
pub(crate) fn settings() -> Settings {
    Settings {
        workers: NonZeroUsize::new(2).unwrap(),
        seal_depth_blocks: SEAL_DEPTH,
        poll: Duration::from_millis(1),
        wait: Duration::from_millis(100),
        batch_blocks: NonZeroU32::new(7).unwrap(),
        segment_blocks: NonZeroU32::new(5).unwrap(),
        confirm_drop_blocks: 10,
        deep_rollback_patience: Duration::from_millis(30),
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(10),
        ..Settings::default()
    }
}

pub(crate) fn store_of(source: &Scripted) -> StoreId {
    StoreId {
        network: Network::Regtest,
        genesis: source.genesis_hash(),
        range_blocks: NonZeroU32::new(RANGE_BLOCKS).unwrap(),
    }
}

/// Lets the publication that comes after so many others panic. In the thread that writes that drops the writer as it is, like a kill between two
/// publications.
pub(crate) fn crash_after(writer: &Writer, publications: u64) {
    let published = AtomicU64::new(0);
    writer.reader().on_publish(Box::new(move |_| {
        if published.fetch_add(1, Ordering::Relaxed) == publications {
            panic!("crash");
        }
    }));
}

pub(crate) struct Running {
    pub(crate) progress: Arc<Progress>,
    pub(crate) reader: Reader,
    stop: Stop,
    thread: JoinHandle<Result<()>>,
}

/// How long a child of another test may hold the lock of a store that was closed.
const LOCK_PATIENCE: Duration = Duration::from_secs(20);

/// Opens a store on a disk without syncs.
pub(crate) fn open(dir: &Path, id: StoreId) -> Writer {
    let begun = Instant::now();
    loop {
        match Writer::open_on(Arc::new(QuickDisk::default()), dir, id) {
            // Another test of this process may be starting a child, which holds all our files, the lock's too, until it has become its program.
            Err(Error::Locked { .. }) if begun.elapsed() < LOCK_PATIENCE => thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

/// Begins a run on the store in `dir`.
pub(crate) fn start(source: &Arc<Scripted>, dir: &Path, settings: Settings) -> Running {
    start_on(source, open(dir, store_of(source)), settings)
}

pub(crate) fn start_on<S: BlockSource + 'static>(
    source: &Arc<S>,
    writer: Writer,
    settings: Settings,
) -> Running {
    let reader = writer.reader();
    let progress = Arc::new(Progress::new());
    let stop = Stop::new();
    let thread = {
        let (source, progress, stop) = (Arc::clone(source), Arc::clone(&progress), stop.clone());
        thread::spawn(move || run(source, writer, settings, progress, &stop))
    };
    Running {
        progress,
        reader,
        stop,
        thread,
    }
}

/// Runs to the tip and ends.
pub(crate) fn build(source: &Arc<Scripted>, dir: &Path, settings: Settings) -> Reader {
    let running = start(
        source,
        dir,
        Settings {
            until: Until::Tip,
            ..settings
        },
    );
    let reader = running.reader.clone();
    running.ended().unwrap();
    reader
}

impl Running {
    pub(crate) fn nudge(&self) -> Nudge {
        self.stop.nudge()
    }

    /// Waits until the view ends at `tip`.
    pub(crate) fn reaches(&self, tip: BlockId) -> Arc<View> {
        self.until("the tip is reached", |running| {
            let view = running.reader.view();
            (view.tip() == Some(tip)).then_some(view)
        })
    }

    pub(crate) fn until<T>(&self, what: &str, mut look: impl FnMut(&Running) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(
                !self.thread.is_finished() && Instant::now() < deadline,
                "waited in vain until {what}: view ends at {:?}, {:#?}",
                self.reader.view().tip(),
                self.progress.snapshot()
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn snapshot_when(&self, what: &str, look: impl Fn(&Snapshot) -> bool) -> Snapshot {
        self.until(what, |running| {
            let snapshot = running.progress.snapshot();
            look(&snapshot).then_some(snapshot)
        })
    }

    /// Stops, and returns how long that took.
    pub(crate) fn stop(self) -> Duration {
        let began = Instant::now();
        self.stop.stop();
        self.thread.join().unwrap().unwrap();
        began.elapsed()
    }

    /// Waits for the run's own end.
    pub(crate) fn ended(self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.thread.is_finished() {
            assert!(
                Instant::now() < deadline,
                "the run does not end: {:#?}",
                self.progress.snapshot()
            );
            thread::sleep(Duration::from_millis(1));
        }
        self.thread.join().unwrap()
    }

    /// Waits for an end by panic, which is what a crash of the process looks like to the store, or for the tip.
    pub(crate) fn crashed_or_reaches(self, tip: BlockId) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.thread.is_finished() && self.reader.view().tip() != Some(tip) {
            assert!(Instant::now() < deadline, "neither crash nor tip");
            thread::sleep(Duration::from_millis(1));
        }
        self.stop.stop();
        let _ = self.thread.join();
    }
}

/// Whether the view holds exactly the source's best chain, to the byte.
#[track_caller]
pub(crate) fn assert_model(view: &View, source: &Scripted) {
    assert_holds(view, &source.model());
}

/// Whether the view holds exactly these blocks, to the byte.
#[track_caller]
pub(crate) fn assert_holds(view: &View, model: &[EncodedBlock]) {
    assert_eq!(view.tip(), model.last().map(|block| block.id));
    for block in model {
        let height = block.id.height;
        let stored = view.block(height).unwrap().unwrap();
        assert_eq!(stored.row.hash, block.id.hash, "at {height}");
        assert_eq!(stored.row.sizes, block.sizes, "at {height}");
        assert_eq!(stored.frame, block.frame, "at {height}");
        assert_eq!(stored.transparent, block.transparent, "at {height}");
    }
    let above = Height::new(model.len() as u32);
    assert!(!view.covers(above), "the index goes on above the tip");
}
