//! Ingest's numbers as metrics, beside those that the server keeps itself.

use lightship_ingest::{Snapshot, State};

/// Sets the gauges to what `now` says.
pub(crate) fn set(now: &Snapshot) {
    let height =
        |id: Option<lightship_chain::BlockId>| id.map_or(-1.0, |id| f64::from(id.height.get()));
    metrics::gauge!("lightship_ingest_indexed_height").set(height(now.indexed));
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
