//! Questions to the node that go on while the client takes nothing.
//!
//! In: a question that is a part of a stream. Out: its answer. The transport asks a stream for its next part only when the client has room for it,
//! and a future that nobody polls keeps what it holds: its turn, its place among the questions that the node is asked at once, its clock. A few
//! readers that stop would so keep the node from everybody. So such a question is a task of its own, which ends with the call.

use tokio_util::task::AbortOnDropHandle;

use crate::status::Refusal;

/// What `question` gives, whether or not this future is polled meanwhile; dropping this future ends it.
pub(crate) async fn errand<T: Send + 'static>(
    question: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    AbortOnDropHandle::new(tokio::spawn(question))
        .await
        .unwrap_or_else(|error| {
            tracing::error!(%error, "a question to the node failed");
            Err(Refusal::Damaged)
        })
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_question_goes_on_unpolled_and_ends_with_its_call() {
        let places = Arc::new(Semaphore::new(1));
        let ask = |ends: bool| {
            let places = Arc::clone(&places);
            Box::pin(errand(async move {
                let _place = places.acquire().await.expect("never closed");
                tokio::task::yield_now().await;
                if !ends {
                    std::future::pending::<()>().await;
                }
                Ok(7)
            }))
        };
        let mut begun = ask(true);
        assert!(futures_util::poll!(&mut begun).is_pending());
        // Never polled again, and the place is free.
        let free = tokio::time::timeout(Duration::from_secs(5), places.acquire());
        drop(free.await.expect("the question goes on"));
        assert_eq!(begun.await, Ok(7));
        let mut endless = ask(false);
        assert!(futures_util::poll!(&mut endless).is_pending());
        tokio::task::yield_now().await;
        assert_eq!(places.available_permits(), 0);
        drop(endless);
        let free = tokio::time::timeout(Duration::from_secs(5), places.acquire());
        drop(free.await.expect("the question ends with its call"));
    }
}
