//! When the server calls itself ready.
//!
//! Ready means that a wallet which comes now is served well: the index is near the tip, can grow, and is whole as far as it was read, and the
//! node has answered lately. A server that is not ready still answers all it can.

use lightship_index::View;

use crate::{backend::NodeHealth, settings::Readiness};

/// Why the server is not ready, in one line; `None` if it is.
pub(crate) fn unready(
    rule: Readiness,
    view: &View,
    known: NodeHealth,
    stopping: bool,
) -> Option<String> {
    if stopping {
        return Some("the server is stopping".into());
    }
    // What only the operator can mend comes first.
    if let Some(damage) = view.damage() {
        return Some(format!("the index is damaged: {damage}"));
    }
    if let Some(why) = known.standstill {
        return Some(why);
    }
    let Some(heard) = known.last_answer else {
        return Some("the node has not answered yet".into());
    };
    let silence = heard.elapsed();
    if silence > rule.max_silence {
        return Some(format!(
            "the node has not answered for {} s",
            silence.as_secs()
        ));
    }
    let Some(target) = view.target() else {
        return Some("the node's tip is not known yet".into());
    };
    let Some(tip) = view.tip() else {
        return Some(format!(
            "nothing of {} blocks is indexed yet",
            target.height
        ));
    };
    let behind = target.height.get().saturating_sub(tip.height.get());
    (behind > rule.max_distance_blocks).then(|| {
        format!(
            "the index is at {}, {behind} blocks behind the node",
            tip.height
        )
    })
}
