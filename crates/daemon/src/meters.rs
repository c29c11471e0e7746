//! Ingest's numbers as metrics, beside those that the server keeps itself.

use lightship_chain::BlockId;
use lightship_ingest::{Snapshot, State, TreesProgress};

/// Sets the gauges to what `now` says.
pub(crate) fn set(now: &Snapshot) {
    metrics::gauge!("lightship_ingest_indexed_height").set(height(now.indexed));
    metrics::gauge!("lightship_ingest_ahead_blocks").set(f64::from(now.ahead_blocks));
    metrics::gauge!("lightship_ingest_node_height").set(height(now.target));
    metrics::gauge!("lightship_ingest_node_silent_seconds").set(now.source_silent.as_secs_f64());
    let stalled = matches!(now.state, State::Stalled { .. });
    metrics::gauge!("lightship_ingest_stalled").set(if stalled { 1.0 } else { 0.0 });
    metrics::gauge!("lightship_ingest_deepest_reorg_blocks").set(f64::from(now.deepest_reorg));
    for (name, total) in [
        ("lightship_ingest_blocks_total", now.blocks),
        ("lightship_ingest_bytes_total", now.bytes),
        ("lightship_ingest_reorgs_total", now.reorgs),
        ("lightship_ingest_stalls_total", now.stalls),
        ("lightship_ingest_refused_blocks_total", now.refused_blocks),
        ("lightship_ingest_unproven_drops_total", now.unproven_drops),
    ] {
        metrics::counter!(name).absolute(total);
    }
}

/// The same of the note commitment trees, which have grown `through` a block.
pub(crate) fn set_trees(through: Option<BlockId>, progress: &TreesProgress) {
    metrics::gauge!("lightship_trees_height").set(height(through));
    let differ = progress.differs().is_some();
    metrics::gauge!("lightship_trees_differ").set(f64::from(u8::from(differ)));
    for (name, total) in [
        ("lightship_trees_steps_total", progress.steps()),
        ("lightship_trees_subtrees_total", progress.subtrees()),
        ("lightship_trees_setbacks_total", progress.setbacks()),
    ] {
        metrics::counter!(name).absolute(total);
    }
}

/// -1 stands for no block.
fn height(id: Option<BlockId>) -> f64 {
    id.map_or(-1.0, |id| f64::from(id.height.get()))
}
