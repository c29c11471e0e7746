//! Places for long answers, and checks on what a request may hold.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::status::Refusal;

/// The places for long answers that one connection sees.
#[derive(Clone)]
pub(crate) struct Places {
    server: Arc<Semaphore>,
    connection: Arc<Semaphore>,
    per_connection: usize,
}

/// One long answer's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _server: OwnedSemaphorePermit,
    _connection: OwnedSemaphorePermit,
}

impl Places {
    /// For a server of `streams` long answers, `per_connection` of them on one connection.
    pub(crate) fn new(streams: usize, per_connection: usize) -> Places {
        Places {
            server: Arc::new(Semaphore::new(streams.min(Semaphore::MAX_PERMITS))),
            connection: Arc::new(Semaphore::new(0)),
            per_connection: per_connection.min(Semaphore::MAX_PERMITS),
        }
    }

    /// The places of one more connection.
    pub(crate) fn for_connection(&self) -> Places {
        Places {
            server: Arc::clone(&self.server),
            connection: Arc::new(Semaphore::new(self.per_connection)),
            per_connection: self.per_connection,
        }
    }

    /// A place, at once or not at all: who waits in a line cannot tell it from a dead server.
    pub(crate) fn take(&self) -> Result<Place, Refusal> {
        let take = |places: &Arc<Semaphore>, whose| {
            Arc::clone(places)
                .try_acquire_owned()
                .map_err(|_| Refusal::TooManyStreams { whose })
        };
        Ok(Place {
            _connection: take(&self.connection, "on this connection")?,
            _server: take(&self.server, "on this server")?,
        })
    }
}

/// Refuses a list of more than `limit` entries.
pub(crate) fn at_most(field: &'static str, found: usize, limit: usize) -> Result<(), Refusal> {
    if found > limit {
        return Err(Refusal::TooManyEntries { field, limit });
    }
    Ok(())
}

/// A hash or id of exactly 32 bytes.
pub(crate) fn hash_bytes(field: &'static str, bytes: &[u8]) -> Result<[u8; 32], Refusal> {
    bytes.try_into().map_err(|_| Refusal::HashLength {
        field,
        found: bytes.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_had_at_once_or_not_at_all() {
        let places = Places::new(3, 2);
        let (one, other) = (places.for_connection(), places.for_connection());
        let held = [one.take().unwrap(), one.take().unwrap()];
        let refused = |whose| Refusal::TooManyStreams { whose };
        assert_eq!(one.take().unwrap_err(), refused("on this connection"));
        let third = other.take().unwrap();
        assert_eq!(other.take().unwrap_err(), refused("on this server"));
        drop(third);
        drop(held);
        assert!(one.take().is_ok() && other.take().is_ok());
    }
}
