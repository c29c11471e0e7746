//! One HTTP exchange with the node, and what can go wrong with it.
//!
//! In: the body of a request. Out: the body of the answer, or a [`Trouble`]. Whether trouble is worth another try is left to
//! [`client`](super::client).

use std::{future::Future, time::Duration};

use bytes::Bytes;
use http::HeaderValue;

use super::envelope;

/// How requests reach the node. The blocking one blocks inside the future, which is ready when first polled.
pub(super) trait Transport: Send + Sync {
    /// Sends `body` and reads the whole answer, within the endpoint's bounds.
    fn exchange(
        &self,
        body: Bytes,
        authorization: Option<HeaderValue>,
    ) -> impl Future<Output = Result<Heard, Trouble>> + Send;

    /// The last exchange was answered.
    fn answered(&self) {}

    /// The last exchange was refused because the node has too much to do.
    fn crowded(&self) {}

    /// Waits.
    fn pause(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// An HTTP answer.
pub(super) struct Heard {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// What went wrong with one exchange.
#[derive(Debug)]
pub(super) enum Trouble {
    /// There is no connection: the question never left.
    NotSent(String),
    /// The connection was closed before any byte of an answer.
    Closed(String),
    /// The connection broke inside the answer.
    Cut(String),
    /// The time was over.
    TimedOut,
    /// The answer passed the bound.
    TooLarge,
    /// HTTP 401 or 403.
    Denied(u16),
    /// HTTP 429 or a full work queue: nothing was done.
    Busy(String),
    /// Code -28: nothing was done.
    Warming(String),
    /// Another HTTP status, and no JSON-RPC in the body.
    Http(u16),
}

/// zcashd's answer, with status 500, when all its workers are taken.
const QUEUE_FULL: &[u8] = b"Work queue depth exceeded";
/// "Warming up": zcashd answers so, with status 500, until it has loaded its index.
const WARMING: i32 = -28;
/// Longer answers than this are not refusals of everything.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;

impl Heard {
    /// The body, if it is JSON-RPC as far as the status tells.
    pub(super) fn judge(self) -> Result<Bytes, Trouble> {
        let Heard { status, body } = self;
        match status {
            401 | 403 => return Err(Trouble::Denied(status)),
            429 => return Err(Trouble::Busy(excerpt(&body))),
            _ => {}
        }
        if body.len() <= MAX_REFUSAL_BYTES {
            if holds(&body, b"-28")
                && let Some(message) = envelope::refusal_with_code(&body, WARMING)
            {
                return Err(Trouble::Warming(message));
            }
            if !(200..300).contains(&status) && holds(&body, QUEUE_FULL) {
                return Err(Trouble::Busy(excerpt(&body)));
            }
        }
        // zcashd sends JSON-RPC errors with status 404 and 500, zebrad with 400.
        if (200..300).contains(&status) || envelope::is_answer(&body) {
            return Ok(body);
        }
        Err(Trouble::Http(status))
    }
}

fn holds(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

/// The first words of a text answer, for a message.
fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(200)])
        .trim()
        .chars()
        .filter(|c| !c.is_control())
        .collect()
}
