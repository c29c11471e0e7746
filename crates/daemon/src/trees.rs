//! The threads of the note commitment trees: one behind which they grow, one that shows how far they are.
//!
//! In: the index's reader and the node that it follows. Out: trees to answer from, and what became of them. Nobody waits for either thread at the
//! end: what is written is whole at any moment.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::anyhow;
use lightship_index::{Reader, Trees};
use lightship_ingest::{Stop, TreesProgress};
use tracing::{error, info};

use crate::{config::Store, meters, run::Upstream};

/// How often the numbers are shown.
const STEP: Duration = Duration::from_secs(1);
/// How often a line is logged while the trees are far behind the index.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// What is no longer worth a line: ordinary growth is done in a moment.
const FAR_BLOCKS: u32 = 2_048;

/// Starts both threads, which end with `stop`.
///
/// # Errors
///
/// If the system has no room for threads.
pub(crate) fn start(
    upstream: &Upstream,
    reader: Reader,
    store: &Store,
    stop: &Stop,
) -> anyhow::Result<(Arc<Trees>, Arc<TreesProgress>)> {
    let trees = Arc::new(Trees::open(
        &store.data_dir,
        upstream.hash.clone(),
        store.build_threads,
    ));
    let progress = Arc::new(TreesProgress::new());
    {
        let (source, reader) = (upstream.feed.source.clone(), reader.clone());
        let (trees, progress, stop) = (trees.clone(), progress.clone(), stop.clone());
        thread::Builder::new().name("trees".into()).spawn(move || {
            let ended = lightship_ingest::grow_trees(&*source, &reader, &trees, &progress, &stop);
            if let Err(problem) = ended {
                error!(
                    "the trees grow no further, and the node is asked for what they do not reach: {:#}",
                    anyhow!(problem)
                );
            }
        })?;
    }
    {
        let (trees, progress, stop) = (trees.clone(), progress.clone(), stop.clone());
        thread::Builder::new()
            .name("trees-shown".into())
            .spawn(move || show(&reader, &trees, &progress, &stop))?;
    }
    Ok((trees, progress))
}

fn show(reader: &Reader, trees: &Trees, progress: &TreesProgress, stop: &Stop) {
    let (mut last, mut begun) = (Instant::now(), false);
    loop {
        meters::set_trees(trees.through(), progress);
        if stop.wait_timeout(STEP) {
            return;
        }
        let (Some(tip), Some(done)) = (reader.view().tip(), trees.through()) else {
            continue;
        };
        let (done, of) = (done.height.get(), tip.height.get());
        let far = of.saturating_sub(done) >= FAR_BLOCKS;
        if far && last.elapsed() >= LOG_EVERY {
            info!("the note commitment trees are at {done} of {of} blocks");
            (last, begun) = (Instant::now(), true);
        }
        if begun && !far {
            info!("the note commitment trees are at block {done}: tree states come from the index");
            begun = false;
        }
    }
}
