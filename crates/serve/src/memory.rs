//! The memory that calls hold until a client has taken or sent what it is for, counted in one place.
//!
//! In: how many bytes are about to be held, and what for. Out: a [`Lease`] on as many, or a refusal. Slices of mapped files are not counted: the
//! system takes their memory back when it needs it. What is counted, and what the sum can come to, is told in `docs/limits.md`.
//!
//! No kind of use may keep another from its part. Questions to the node wait for as long as the node does, so together they hold at most a half;
//! requests wait with them, and hold at most a quarter; and all that is not an answer in its last step leaves an eighth to those that are. (Who
//! waits in a semaphore's line has taken what was free already, so bounds on the kinds are what keeps a line from starving those who do not wait.)

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::status::Refusal;

/// How long an answer that has begun waits for others to be taken. Long enough for the patrol to reset who takes nothing.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a question waits for the questions before it. The node has 30 s for one.
const TURN: Duration = Duration::from_secs(60);

/// What all calls together may hold.
#[derive(Clone)]
pub(crate) struct Memory {
    all: Part,
    /// Of all: what is not an answer in its last step.
    unready: Part,
    /// Of the unready: what questions to the node may bring.
    questions: Part,
    /// Of the unready: request messages.
    requests: Part,
    patience: Duration,
    turn: Duration,
}

/// A number of bytes that leases are taken of.
#[derive(Clone)]
struct Part {
    free: Arc<Semaphore>,
    bytes: usize,
}

/// A part of it; given back when dropped.
pub(crate) struct Lease {
    all: Option<OwnedSemaphorePermit>,
    unready: Option<OwnedSemaphorePermit>,
    kind: Option<OwnedSemaphorePermit>,
    memory: Memory,
}

impl Part {
    fn new(bytes: usize) -> Part {
        let bytes = bytes.min(u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        Part {
            free: Arc::new(Semaphore::new(bytes)),
            bytes,
        }
    }

    /// As many as there are, at most: one thing that is larger than all of it goes alone.
    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.bytes)).unwrap_or(u32::MAX)
    }

    fn try_take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.free)
            .try_acquire_many_owned(self.permits(bytes))
            .map_err(|_| Refusal::TooMuchHeld)
    }

    async fn take(
        &self,
        bytes: usize,
        patience: Duration,
    ) -> Result<OwnedSemaphorePermit, Refusal> {
        let taken = Arc::clone(&self.free).acquire_many_owned(self.permits(bytes));
        Ok(tokio::time::timeout(patience, taken)
            .await
            .map_err(|_| Refusal::TooMuchHeld)?
            .expect("the semaphore is never closed"))
    }

    /// Gives back what `held` has above `bytes`; returns what it lacks.
    fn fit(&self, held: &mut OwnedSemaphorePermit, bytes: usize) -> usize {
        let wanted = self.permits(bytes) as usize;
        let has = held.num_permits();
        if wanted < has {
            drop(held.split(has - wanted));
        }
        wanted.saturating_sub(has)
    }
}

impl Memory {
    /// `bytes` for all.
    pub(crate) fn new(bytes: usize) -> Memory {
        let all = Part::new(bytes);
        let bytes = all.bytes;
        Memory {
            unready: Part::new(bytes - bytes / 8),
            questions: Part::new(bytes / 2),
            requests: Part::new(bytes / 4),
            all,
            patience: PATIENCE,
            turn: TURN,
        }
    }

    /// What is held now, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.all.bytes - self.all.free.available_permits()
    }

    /// Whether so little is left that who takes nothing should go.
    pub(crate) fn is_short(&self) -> bool {
        let free = |part: &Part| part.free.available_permits();
        free(&self.all) < self.all.bytes / 4 || free(&self.unready) < self.all.bytes / 8
    }

    /// For an answer of `bytes` that is ready to be sent: at once or not at all.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooMuchHeld`] if less is free.
    pub(crate) fn try_ready(&self, bytes: usize) -> Result<Lease, Refusal> {
        Ok(self.lease(self.all.try_take(bytes)?, None, None))
    }

    /// For a part of an answer that is made ahead of its being sent: at once or not at all.
    ///
    /// # Errors
    ///
    /// As [`Memory::try_ready`].
    pub(crate) fn try_ahead(&self, bytes: usize) -> Result<Lease, Refusal> {
        let bytes = bytes.min(self.unready.bytes);
        let unready = self.unready.try_take(bytes)?;
        Ok(self.lease(self.all.try_take(bytes)?, Some(unready), None))
    }

    /// For the same, after waiting for a while if less is free.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooMuchHeld`] if less stays free.
    pub(crate) async fn ahead(&self, bytes: usize) -> Result<Lease, Refusal> {
        let bytes = bytes.min(self.unready.bytes);
        let unready = self.unready.take(bytes, self.patience).await?;
        let all = self.all.take(bytes, self.patience).await?;
        Ok(self.lease(all, Some(unready), None))
    }

    /// For a request message: at once or not at all.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooMuchHeld`] if less is free, or other requests hold their part.
    pub(crate) fn try_request(&self, bytes: usize) -> Result<Lease, Refusal> {
        let kind = self.requests.try_take(bytes)?;
        let lease = self.try_ahead(bytes)?;
        Ok(Lease {
            kind: Some(kind),
            ..lease
        })
    }

    /// For the answer to a question that the node is about to be asked, of which only a usual length is known: when it is this question's turn.
    /// It is no question any more when its length is told by [`Lease::resize`]; until then it must not wait for the client.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooMuchHeld`] if the turn does not come.
    pub(crate) async fn question(&self, bytes: usize) -> Result<Lease, Refusal> {
        // An estimate: there is no use in one that shuts others out.
        let bytes = bytes.min(self.questions.bytes);
        let kind = self.questions.take(bytes, self.turn).await?;
        let lease = self.ahead(bytes).await?;
        Ok(Lease {
            kind: Some(kind),
            ..lease
        })
    }

    fn lease(
        &self,
        all: OwnedSemaphorePermit,
        unready: Option<OwnedSemaphorePermit>,
        kind: Option<OwnedSemaphorePermit>,
    ) -> Lease {
        Lease {
            all: Some(all),
            unready,
            kind,
            memory: self.clone(),
        }
    }
}

impl Lease {
    /// Makes it one on `bytes`, the length that is known by now, waiting for what is missing.
    ///
    /// # Errors
    ///
    /// As [`Memory::ahead`]; the lease is then given back.
    pub(crate) async fn resize(mut self, bytes: usize) -> Result<Lease, Refusal> {
        self.kind = None;
        let Memory {
            all,
            unready,
            patience,
            ..
        } = &self.memory;
        let bytes = match self.unready {
            Some(_) => bytes.min(unready.bytes),
            None => bytes,
        };
        for (part, held) in [(unready, &mut self.unready), (all, &mut self.all)] {
            if let Some(held) = held {
                let missing = part.fit(held, bytes);
                if missing > 0 {
                    held.merge(part.take(missing, *patience).await?);
                }
            }
        }
        Ok(self)
    }

    /// Makes a request's lease one on `bytes` more, at once or not at all.
    ///
    /// # Errors
    ///
    /// As [`Memory::try_request`]; the lease is then as it was.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let mut more = self.memory.try_request(bytes)?;
        for (held, more) in [
            (&mut self.all, &mut more.all),
            (&mut self.unready, &mut more.unready),
            (&mut self.kind, &mut more.kind),
        ] {
            if let (Some(held), Some(more)) = (held, more.take()) {
                held.merge(more);
            }
        }
        Ok(())
    }

    /// `bytes` that give their part of the lease back with their last copy; several may share one.
    pub(crate) fn cover(self: &Arc<Lease>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Covered {
            bytes,
            _lease: Arc::clone(self),
        })
    }
}

struct Covered {
    bytes: Bytes,
    _lease: Arc<Lease>,
}

impl AsRef<[u8]> for Covered {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests;
