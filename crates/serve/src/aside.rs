//! Work that takes its time, off the threads that serve everybody.
//!
//! In: work that may wait for the disk, or computes for long. Out: what it gives. What lies in memory and takes no time is done where the call is:
//! the index tells beforehand (`row_at_hand` and the like). How much of it is under way at once is bounded by the calls that are.

use std::sync::Arc;

use lightship_chain::{BlockHash, Height};
use lightship_index::{Row, View};

use crate::status::Refusal;

/// What `work` gives, done on a thread that may wait. `what` names it in the log, should it fail altogether.
pub(crate) async fn aside<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            tracing::error!(%error, "{what} failed");
            Err(Refusal::Damaged)
        })
}

/// [`View::row`], without holding anybody up.
pub(crate) async fn row(view: &Arc<View>, height: Height) -> Result<Option<Row>, Refusal> {
    if view.row_at_hand(height) {
        return Ok(view.row(height));
    }
    let view = Arc::clone(view);
    aside("reading a row", move || Ok(view.row(height))).await
}

/// [`View::height_of`], without holding anybody up.
pub(crate) async fn height_of(
    view: &Arc<View>,
    hash: BlockHash,
) -> Result<Option<Height>, Refusal> {
    if view.height_at_hand(&hash) {
        return Ok(view.height_of(&hash));
    }
    let view = Arc::clone(view);
    aside("looking for a block", move || Ok(view.height_of(&hash))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_is_a_refusal() {
        let lost: Result<(), Refusal> = aside("the work", || panic!("as a test has it")).await;
        assert_eq!(lost, Err(Refusal::Damaged));
        assert_eq!(aside("the work", || Ok(7)).await, Ok(7));
    }
}
