//! The served tip: one rule, used by every method, so that tip, info, tree state, ranges and clamps agree.

use lightship_chain::BlockId;
use lightship_index::View;

/// The highest block that is served from `view`, or `None` before anything is known.
///
/// While the index is being built this is the node's tip: what is not indexed yet is read from the node. A node's tip that
/// is not above the index and not in it belongs to a branch the index is about to switch to; until it has, the index's own
/// tip is served, for a call must not mix the two. Until the node has been heard it is the highest block of the index, that of
/// the newest blocks above a gap if there are such: wallets have been told of it before.
pub fn served_tip(view: &View) -> Option<BlockId> {
    let indexed = view.tip();
    let Some(target) = view.target() else {
        return view.top();
    };
    match (view.row(target.height), indexed) {
        (Some(row), _) if row.hash == target.hash => Some(target),
        (Some(_), _) => indexed,
        (None, Some(tip)) if target.height <= tip.height => indexed,
        _ => Some(target),
    }
}
