//! The memory that calls hold until a client has taken or sent what it is for, counted in one place.
//!
//! In: how many bytes are about to be held. Out: a [`Lease`] on as many, or a refusal. Slices of mapped files are not counted: the
//! system takes their memory back when it needs it. What is counted, and what the sum can come to, is told in `docs/limits.md`.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::status::Refusal;

/// How long an answer that has begun waits for others to be taken. Long enough for the patrol to reset who takes nothing.
const PATIENCE: Duration = Duration::from_secs(15);

/// What all calls together may hold.
#[derive(Clone)]
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    bytes: usize,
    patience: Duration,
}

/// A part of it; given back when dropped.
pub(crate) struct Lease {
    held: Option<OwnedSemaphorePermit>,
    memory: Memory,
}

impl Memory {
    /// `bytes` for all.
    pub(crate) fn new(bytes: usize) -> Memory {
        let bytes = bytes.min(u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        Memory {
            free: Arc::new(Semaphore::new(bytes)),
            bytes,
            patience: PATIENCE,
        }
    }

    /// What is held now, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.bytes - self.free.available_permits()
    }

    /// Whether so little is left that who takes nothing should go.
    pub(crate) fn is_short(&self) -> bool {
        self.free.available_permits() < self.bytes / 4
    }

    /// A lease on `bytes`, at once or not at all.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooMuchHeld`] if less is free.
    pub(crate) fn try_take(&self, bytes: usize) -> Result<Lease, Refusal> {
        let held = Arc::clone(&self.free)
            .try_acquire_many_owned(self.permits(bytes))
            .map_err(|_| Refusal::TooMuchHeld)?;
        Ok(self.lease(held))
    }

    /// A lease on `bytes`, after waiting for a while if less is free.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooMuchHeld`] if less stays free.
    pub(crate) async fn take(&self, bytes: usize) -> Result<Lease, Refusal> {
        let taken = Arc::clone(&self.free).acquire_many_owned(self.permits(bytes));
        let held = tokio::time::timeout(self.patience, taken)
            .await
            .map_err(|_| Refusal::TooMuchHeld)?
            .expect("the semaphore is never closed");
        Ok(self.lease(held))
    }

    fn lease(&self, held: OwnedSemaphorePermit) -> Lease {
        Lease {
            held: Some(held),
            memory: self.clone(),
        }
    }

    /// As many as there are, at most: one thing that is larger than all of it goes alone.
    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.bytes)).unwrap_or(u32::MAX)
    }
}

impl Lease {
    /// Makes it one on `bytes`, waiting for what is missing.
    ///
    /// # Errors
    ///
    /// As [`Memory::take`]; the lease is then given back.
    pub(crate) async fn resize(mut self, bytes: usize) -> Result<Lease, Refusal> {
        let wanted = self.memory.permits(bytes) as usize;
        let mut held = self.held.take();
        let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted > has {
            let more = self.memory.take(wanted - has).await?;
            if let (Some(held), Some(more)) = (&mut held, more.into_permit()) {
                held.merge(more);
            }
        } else if let Some(held) = &mut held {
            drop(held.split(has - wanted));
        }
        self.held = held;
        Ok(self)
    }

    fn into_permit(mut self) -> Option<OwnedSemaphorePermit> {
        self.held.take()
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
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_covered_is_held_until_its_last_copy_is_gone() {
        let memory = Memory::new(100);
        let lease = Arc::new(memory.try_take(60).unwrap());
        let whole = lease.cover(Bytes::from(vec![7; 50]));
        drop(lease);
        let part = whole.slice(10..20);
        drop(whole);
        assert_eq!(memory.held(), 60);
        assert_eq!(memory.try_take(50).err(), Some(Refusal::TooMuchHeld));
        assert_eq!(part[..], [7; 10]);
        drop(part);
        assert_eq!(memory.held(), 0);
        // What is larger than everything goes alone.
        let all = memory.try_take(1_000).unwrap();
        assert_eq!(memory.held(), 100);
        assert!(memory.is_short() && memory.try_take(1).is_err());
        let little = all.resize(10).await.unwrap();
        assert_eq!(memory.held(), 10);
        let more = little.resize(70).await.unwrap();
        assert_eq!(memory.held(), 70);
        drop(more);
        assert!(memory.held() == 0 && !memory.is_short());
    }

    #[tokio::test]
    async fn who_waits_gets_what_is_given_back_or_a_refusal() {
        let memory = Memory {
            patience: Duration::from_secs(20),
            ..Memory::new(100)
        };
        let held = memory.try_take(90).unwrap();
        let waiting = memory.clone();
        let waiting = tokio::spawn(async move { waiting.take(50).await.map(drop) });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
        drop(held);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        let memory = Memory {
            patience: Duration::from_millis(20),
            ..memory
        };
        let _held = memory.try_take(90).unwrap();
        assert_eq!(memory.take(50).await.err(), Some(Refusal::TooMuchHeld));
        assert_eq!(memory.held(), 90);
    }
}
