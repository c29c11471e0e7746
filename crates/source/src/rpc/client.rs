//! Asking, and asking again.
//!
//! In: a method and its parameters. Out: the node's answer, or the error that is left after the repeats that make sense within
//! one call. Longer outages are left to the caller.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Credentials, Endpoint,
    envelope::{self, Outcome, Refusal},
    login::{Login, Ticket},
    transport::{Transport, Trouble},
};
use crate::{Error, Result};

/// The pause before the second try; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);

/// A node, and how it is reached.
pub(super) struct Client<T> {
    endpoint: Endpoint,
    login: Login,
    pub(super) transport: T,
    next_id: AtomicU64,
}

/// Whether a question may be asked again when the node may have acted on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It only reads.
    Freely,
    /// It changes something: only if it certainly had no effect.
    IfUnheard,
}

/// One answer, and what it answers.
pub(super) struct Reply {
    method: &'static str,
    outcome: Outcome,
}

impl<T: Transport> Client<T> {
    pub(super) fn new(endpoint: Endpoint, transport: T) -> Client<T> {
        Client {
            login: Login::new(endpoint.credentials.clone()),
            endpoint,
            transport,
            next_id: AtomicU64::new(0),
        }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Asks one question that only reads.
    pub(super) async fn call(
        &self,
        method: &'static str,
        params: impl Serialize + Send,
    ) -> Result<Reply> {
        self.call_with(method, params, Repeat::Freely).await
    }

    pub(super) async fn call_with(
        &self,
        method: &'static str,
        params: impl Serialize + Send,
        repeat: Repeat,
    ) -> Result<Reply> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let question = envelope::question(id, method, params);
        let body = self.ask(method, question, repeat).await?;
        let outcome = envelope::answer(&body, id).map_err(|what| shape(method, what))?;
        Ok(Reply { method, outcome })
    }

    /// Asks one method many times in one exchange. The outer refusal is of all of them at once.
    pub(super) async fn batch<P: Serialize>(
        &self,
        method: &'static str,
        params: impl ExactSizeIterator<Item = P> + Send,
    ) -> Result<Result<Batch, Refusal>> {
        let count = params.len();
        let first_id = self.next_id.fetch_add(count as u64, Ordering::Relaxed);
        let questions = envelope::batch(first_id, method, params);
        let body = self.ask(method, questions, Repeat::Freely).await?;
        let answers =
            envelope::answers(&body, first_id, count).map_err(|what| shape(method, what))?;
        Ok(answers.map(|outcomes| Batch {
            bytes: body.len(),
            outcomes,
        }))
    }

    async fn ask(&self, method: &'static str, body: Bytes, repeat: Repeat) -> Result<Bytes> {
        let mut tries = Tries::new(&self.endpoint, &self.login, method, repeat);
        loop {
            let ticket = self.login.ticket()?;
            let heard = self
                .transport
                .exchange(body.clone(), ticket.header.clone())
                .await;
            match heard.and_then(|heard| heard.judge()) {
                Ok(answer) => {
                    self.login.proved(&ticket);
                    self.transport.answered();
                    return Ok(answer);
                }
                Err(trouble) => {
                    if matches!(trouble, Trouble::Busy(_)) {
                        self.transport.crowded();
                    }
                    let pause = tries.weigh(trouble, &ticket)?;
                    self.transport.pause(pause).await;
                }
            }
        }
    }
}

/// The answers to a batch, in the order of the questions.
pub(super) struct Batch {
    /// Size of the answer on the wire.
    pub(super) bytes: usize,
    pub(super) outcomes: Vec<Outcome>,
}

impl Reply {
    /// The node's refusal, if it is one.
    pub(super) fn refusal(&self) -> Option<&Refusal> {
        self.outcome.as_ref().err()
    }

    /// Whether the node refused with one of these codes.
    pub(super) fn refused_with(&self, codes: &[i32]) -> bool {
        self.refusal()
            .is_some_and(|refusal| codes.contains(&refusal.code))
    }

    /// The result's text.
    pub(super) fn result(self) -> Result<Bytes> {
        self.outcome
            .map_err(|refusal| refused(self.method, refusal))
    }

    /// The result as a value.
    pub(super) fn value<V: DeserializeOwned>(self) -> Result<V> {
        let method = self.method;
        envelope::value(&self.result()?).map_err(|what| shape(method, what))
    }

    /// The result as bytes, from a string of hexadecimal digits.
    pub(super) fn hex(self) -> Result<Bytes> {
        let method = self.method;
        let result = self.result()?;
        let text = envelope::plain_text(&result).map_err(|what| shape(method, what))?;
        let bytes = const_hex::decode(text).map_err(|error| shape(method, error.to_string()))?;
        Ok(bytes.into())
    }
}

pub(super) fn refused(method: &str, refusal: Refusal) -> Error {
    Error::Rpc {
        method: method.to_owned(),
        code: refusal.code,
        message: refusal.message,
    }
}

pub(super) fn shape(method: &str, what: impl Into<String>) -> Error {
    Error::Shape {
        method: method.to_owned(),
        what: what.into(),
    }
}

/// The tries of one question.
struct Tries<'a> {
    endpoint: &'a Endpoint,
    login: &'a Login,
    method: &'static str,
    repeat: Repeat,
    started: Instant,
    pause: Duration,
    /// In a row.
    closed: u32,
    new_ticket: bool,
}

impl<'a> Tries<'a> {
    fn new(
        endpoint: &'a Endpoint,
        login: &'a Login,
        method: &'static str,
        repeat: Repeat,
    ) -> Tries<'a> {
        Tries {
            endpoint,
            login,
            method,
            repeat,
            started: Instant::now(),
            pause: FIRST_PAUSE,
            closed: 0,
            new_ticket: false,
        }
    }

    /// How long to wait before the next try, or the error to give up with.
    fn weigh(&mut self, trouble: Trouble, ticket: &Ticket) -> Result<Duration> {
        let closed = std::mem::take(&mut self.closed);
        let may_repeat = self.repeat == Repeat::Freely;
        match trouble {
            Trouble::NotSent(reason) => {
                let error = self.unreachable(reason);
                self.again(error)
            }
            Trouble::Cut(reason) if may_repeat => {
                let error = self.unreachable(reason);
                self.again(error)
            }
            Trouble::Cut(reason) => Err(self.unreachable(reason)),
            Trouble::Closed(reason) => self.closed(reason, closed + 1, ticket),
            Trouble::TimedOut => Err(Error::Timeout {
                node: self.node(),
                method: self.method.to_owned(),
                after: self.endpoint.timeout,
            }),
            Trouble::TooLarge => Err(Error::TooLarge {
                method: self.method.to_owned(),
                limit_bytes: self.endpoint.max_answer_bytes,
            }),
            Trouble::Denied(status) => {
                if self.another_ticket(ticket) {
                    return Ok(Duration::ZERO);
                }
                Err(self.unauthorized(format!("HTTP {status}")))
            }
            Trouble::Busy(message) => {
                let node = self.node();
                self.again(Error::Busy { node, message })
            }
            Trouble::Warming(message) => {
                let node = self.node();
                self.again(Error::Warming { node, message })
            }
            Trouble::Http(status) => {
                let error = Error::Http {
                    node: self.node(),
                    method: self.method.to_owned(),
                    status,
                };
                if status >= 500 && may_repeat {
                    return self.again(error);
                }
                Err(error)
            }
        }
    }

    /// Zebra closes the connection without a word when the cookie is wrong; so does a node that is going down, and a pooled
    /// connection that went stale. What tells them apart is a second time, on a new connection, with a secret never yet taken.
    fn closed(&mut self, reason: String, in_a_row: u32, ticket: &Ticket) -> Result<Duration> {
        self.closed = in_a_row;
        if self.another_ticket(ticket) {
            return Ok(Duration::ZERO);
        }
        if self.repeat == Repeat::IfUnheard {
            return Err(self.unreachable(reason));
        }
        if in_a_row < 3 {
            let error = self.unreachable(reason);
            return self.again(error);
        }
        match self.login.credentials() {
            Credentials::None => Err(self.unreachable(format!(
                "{reason}; zebrad does so when it wants its cookie, and no credentials are set"
            ))),
            _ if ticket.proved => {
                let error = self.unreachable(reason);
                self.again(error)
            }
            _ => Err(self.unauthorized(
                "it closes the connection without a word, as zebrad does on a wrong cookie"
                    .to_owned(),
            )),
        }
    }

    /// Whether the file holds another secret by now. Once a question, lest a file that keeps changing keeps us here.
    fn another_ticket(&mut self, ticket: &Ticket) -> bool {
        !self.new_ticket && {
            self.new_ticket = self.login.refused(ticket);
            self.new_ticket
        }
    }

    fn again(&mut self, error: Error) -> Result<Duration> {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        if self.started.elapsed() + pause > self.endpoint.patience {
            return Err(error);
        }
        Ok(pause)
    }

    fn node(&self) -> String {
        self.endpoint.address.to_string()
    }

    fn unreachable(&self, reason: String) -> Error {
        Error::Unreachable {
            node: self.node(),
            reason,
        }
    }

    fn unauthorized(&self, answer: String) -> Error {
        Error::Unauthorized {
            node: self.node(),
            credentials: self.login.credentials().to_string(),
            answer,
        }
    }
}
