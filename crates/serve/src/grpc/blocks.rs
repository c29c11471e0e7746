//! The four methods whose messages are stored encoded: one small request message in, a body of stored frames out.

use super::request::{One, decode};
use crate::{
    method::Method,
    query::Query,
    range::{BlocksBody, Projection},
    status::Refusal,
};

/// Answers one of the four.
pub(super) async fn answer(
    query: &Query,
    method: Method,
    one: &One,
) -> Result<BlocksBody, Refusal> {
    let message = one.message();
    match method {
        Method::GetBlock => query.block(&decode(message)?, Projection::Whole).await,
        Method::GetBlockNullifiers => {
            query
                .block(&decode(message)?, Projection::WholeNullifiers)
                .await
        }
        _ => query.range(&decode(message)?, method == Method::GetBlockRangeNullifiers),
    }
}
