//! What the simulated node does wrong, and when.
//!
//! In: rules, set while the node runs. Out: for each call, what shall happen to it. Carrying it out is left to the fronts: over HTTP a fault
//! is bytes and closed connections ([`http`](super::http)); called directly, it is the [`Error`] that a client of such a node would give.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::{Error, Result};

/// One way to misbehave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nobody listens: connections are refused, open ones are closed.
    Refuse,
    /// The call is taken and never answered.
    Hang,
    /// The answer is right, and comes this late.
    Slow(Duration),
    /// The connection closes in the middle of the answer.
    Cut,
    /// An HTTP status without JSON: 401, 403, 429, 500, 503 and so on.
    Status(u16),
    /// HTTP 200 with a page of HTML, as proxies answer.
    Html,
    /// HTTP 200 with the first half of the JSON.
    Truncated,
    /// The node is still starting: error -28.
    Warming,
    /// A JSON-RPC error.
    Code {
        /// The error's number.
        code: i32,
        /// The error's words.
        message: String,
    },
    /// A result of the wrong type: `{"unexpected": true}`.
    WrongShape,
    /// A result that looks right and is not: the middle digit of a hexadecimal text, a number, or the last item of a list is another. Called
    /// directly, there is no answer to change, and it is as a wrong shape.
    WrongAnswer,
}

/// A fault, and the calls that it befalls.
#[derive(Clone, Debug)]
pub struct Rule {
    fault: Fault,
    method: Option<String>,
    spared: u64,
    calls: Option<u64>,
    until: Option<Instant>,
}

impl Rule {
    /// Every call, until [`Faults::clear`].
    pub fn new(fault: Fault) -> Rule {
        Rule {
            fault,
            method: None,
            spared: 0,
            calls: None,
            until: None,
        }
    }

    /// Only calls of this JSON-RPC method.
    #[must_use]
    pub fn of_method(mut self, method: &str) -> Rule {
        self.method = Some(method.to_owned());
        self
    }

    /// Only from the call after the next `calls` on.
    #[must_use]
    pub fn after(mut self, calls: u64) -> Rule {
        self.spared = calls;
        self
    }

    /// Only that many calls.
    #[must_use]
    pub fn times(mut self, calls: u64) -> Rule {
        self.calls = Some(calls);
        self
    }

    /// Only for so long from now.
    #[must_use]
    pub fn lasting(mut self, duration: Duration) -> Rule {
        self.until = Some(Instant::now() + duration);
        self
    }

    fn has_ended(&self, now: Instant) -> bool {
        self.calls == Some(0) || self.until.is_some_and(|until| until <= now)
    }
}

impl From<Fault> for Rule {
    fn from(fault: Fault) -> Rule {
        Rule::new(fault)
    }
}

type Action = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    calls: BTreeMap<String, u64>,
    total: u64,
    /// By the number of the call that sets it off.
    actions: Vec<(u64, Action)>,
}

/// The faults of one node, and how often each of its methods was called. Shared by all its fronts.
///
/// Calls through [`BlockSource`](crate::BlockSource) and [`Node`](crate::Node) count under the JSON-RPC method a remote client would use.
#[derive(Default)]
pub struct Faults {
    state: Mutex<State>,
    changed: Notify,
}

impl Faults {
    /// Adds a rule. Where several fit a call, the one added last decides.
    pub fn add(&self, rule: impl Into<Rule>) {
        self.lock().rules.push(rule.into());
        self.changed.notify_waiters();
    }

    /// Ends all faults. Calls that hang are answered.
    pub fn clear(&self) {
        self.lock().rules.clear();
        self.changed.notify_waiters();
    }

    /// Runs `action` right after the `calls`-th call from now has been let through, before it is answered: a branch switch between two
    /// calls of one request.
    pub fn after_calls(&self, calls: u64, action: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        let at = state.total + calls;
        state.actions.push((at, Box::new(action)));
    }

    /// How often `method` was called, failed calls included.
    pub fn calls_of(&self, method: &str) -> u64 {
        self.lock().calls.get(method).copied().unwrap_or(0)
    }

    /// How often any method was called.
    pub fn calls(&self) -> u64 {
        self.lock().total
    }

    /// Calls so far, by method.
    pub fn calls_by_method(&self) -> BTreeMap<String, u64> {
        self.lock().calls.clone()
    }

    /// Whether connections are to be refused now: a rule that counts calls can only close the connections they come on.
    pub(super) fn refuses(&self) -> bool {
        let now = Instant::now();
        self.lock().rules.iter().any(|rule| {
            rule.fault == Fault::Refuse
                && rule.method.is_none()
                && rule.spared == 0
                && rule.calls.is_none()
                && !rule.has_ended(now)
        })
    }

    /// Returns when connections are to be refused.
    pub(super) async fn until_refusal(&self) {
        self.until(|faults| faults.refuses(), None).await;
    }

    /// Returns when connections are to be taken again.
    pub(super) async fn until_no_refusal(&self) {
        self.until(|faults| !faults.refuses(), Some(POLL)).await;
    }

    /// Returns when no rule makes calls hang.
    pub(super) async fn until_no_hang(&self) {
        self.until(|faults| !faults.hangs(), Some(POLL)).await;
    }

    /// Returns when `holds` does. A rule may also end by time, of which nobody tells: `poll` is how often to look.
    async fn until(&self, holds: impl Fn(&Faults) -> bool, poll: Option<Duration>) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            if holds(self) {
                return;
            }
            match poll {
                None => changed.await,
                Some(poll) => {
                    let _ = tokio::time::timeout(poll, changed).await;
                }
            }
        }
    }

    /// Counts a call and says what befalls it.
    pub(super) fn strike(&self, method: &str) -> Option<Fault> {
        let mut state = self.lock();
        state.total += 1;
        *state.calls.entry(method.to_owned()).or_default() += 1;
        let now = Instant::now();
        state.rules.retain(|rule| !rule.has_ended(now));
        let mut struck = None;
        for rule in state.rules.iter_mut().rev() {
            if rule.method.as_deref().is_some_and(|only| only != method) {
                continue;
            }
            if rule.spared > 0 {
                rule.spared -= 1;
                continue;
            }
            if let Some(calls) = &mut rule.calls {
                *calls -= 1;
            }
            struck = Some(rule.fault.clone());
            break;
        }
        let total = state.total;
        let (due, later) = std::mem::take(&mut state.actions)
            .into_iter()
            .partition(|(at, _)| *at <= total);
        state.actions = later;
        drop(state);
        // Outside the lock: an action may look at the counters or change the rules.
        let due: Vec<(u64, Action)> = due;
        for (_, action) in due {
            action();
        }
        struck
    }

    /// A call without a transport in between, on a thread that may wait.
    pub(super) fn strike_blocking(&self, method: &str) -> Result<()> {
        match self.strike(method) {
            None => Ok(()),
            Some(Fault::Slow(delay)) => {
                std::thread::sleep(delay);
                Ok(())
            }
            Some(Fault::Hang) => {
                let start = Instant::now();
                while start.elapsed() < PATIENCE && self.hangs() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(timeout(method, start.elapsed()))
            }
            Some(fault) => Err(as_error(&fault, method)),
        }
    }

    /// A call without a transport in between, as a future. Waits by tokio's clock.
    pub(super) async fn strike_async(&self, method: &str) -> Result<()> {
        match self.strike(method) {
            None => Ok(()),
            Some(Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                Ok(())
            }
            Some(Fault::Hang) => {
                let start = Instant::now();
                let _ = tokio::time::timeout(PATIENCE, self.until_no_hang()).await;
                Err(timeout(method, start.elapsed()))
            }
            Some(fault) => Err(as_error(&fault, method)),
        }
    }

    fn hangs(&self) -> bool {
        let now = Instant::now();
        let state = self.lock();
        state
            .rules
            .iter()
            .any(|rule| rule.fault == Fault::Hang && !rule.has_ended(now))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("Faults")
            .field("rules", &state.rules)
            .field("calls", &state.calls)
            .finish_non_exhaustive()
    }
}

/// How often to look for rules that end by time.
const POLL: Duration = Duration::from_millis(20);

/// How long a client without a transport waits for a node that hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the node is called where there is no address.
pub(super) const NAME: &str = "simulated";

fn timeout(method: &str, after: Duration) -> Error {
    Error::Timeout {
        node: NAME.to_owned(),
        method: method.to_owned(),
        after,
    }
}

/// The error of a client whose node does this.
fn as_error(fault: &Fault, method: &str) -> Error {
    let node = NAME.to_owned();
    let method = method.to_owned();
    match fault {
        Fault::Refuse => Error::Unreachable {
            node,
            reason: "connection refused".to_owned(),
        },
        Fault::Cut => Error::Unreachable {
            node,
            reason: "connection closed in the middle of the answer".to_owned(),
        },
        Fault::Status(status @ (401 | 403)) => Error::Unauthorized {
            node,
            credentials: "none".to_owned(),
            answer: format!("HTTP {status}"),
        },
        Fault::Status(429) => Error::Busy {
            node,
            message: "HTTP 429".to_owned(),
        },
        Fault::Status(status) => Error::Http {
            node,
            method,
            status: *status,
        },
        Fault::Warming => Error::Warming {
            node,
            message: WARMING.to_owned(),
        },
        Fault::Code { code, message } => Error::Rpc {
            method,
            code: *code,
            message: message.clone(),
        },
        Fault::Html
        | Fault::Truncated
        | Fault::WrongShape
        | Fault::WrongAnswer
        | Fault::Hang
        | Fault::Slow(_) => Error::Shape {
            method,
            what: "expected an answer, found something else".to_owned(),
        },
    }
}

/// The words of a node that starts.
pub(super) const WARMING: &str = "Loading block index...";
