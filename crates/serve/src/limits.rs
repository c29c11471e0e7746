//! Places for long answers, and checks on what a request may hold.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    clients::{Client, Share, Shares},
    status::Refusal,
};

/// The places for long answers that one connection sees.
#[derive(Clone)]
pub(crate) struct Places {
    server: Arc<Semaphore>,
    connection: Arc<Semaphore>,
    clients: Arc<Shares>,
    per_connection: usize,
    /// For calls that are not long and not answered at once.
    waiting: Arc<Semaphore>,
}

/// One long answer's place; given back when dropped.
pub(crate) struct Place {
    _server: OwnedSemaphorePermit,
    _connection: OwnedSemaphorePermit,
    _client: Share,
}

impl Places {
    /// For a server of `streams` long answers, `per_connection` of them on one connection and `per_client` for one client, and of `waiting`
    /// other calls that wait.
    pub(crate) fn new(
        streams: usize,
        per_connection: usize,
        per_client: usize,
        waiting: usize,
    ) -> Places {
        Places {
            server: Arc::new(Semaphore::new(streams.min(Semaphore::MAX_PERMITS))),
            connection: Arc::new(Semaphore::new(0)),
            clients: Shares::new(per_client),
            per_connection: per_connection.min(Semaphore::MAX_PERMITS),
            waiting: Arc::new(Semaphore::new(waiting.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// The places of one more connection. One that a proxy shares among its clients has no limit of its own.
    pub(crate) fn for_connection(&self, is_shared: bool) -> Places {
        let most = if is_shared {
            Semaphore::MAX_PERMITS
        } else {
            self.per_connection
        };
        Places {
            connection: Arc::new(Semaphore::new(most)),
            ..self.clone()
        }
    }

    /// A place, at once or not at all: who waits in a line cannot tell it from a dead server.
    pub(crate) fn take(&self, client: Option<Client>) -> Result<Place, Refusal> {
        let take = |places: &Arc<Semaphore>, whose| {
            Arc::clone(places)
                .try_acquire_owned()
                .map_err(|_| Refusal::TooManyStreams { whose })
        };
        let _connection = take(&self.connection, "on this connection")?;
        let _client = self.clients.take(client).ok_or(Refusal::TooManyStreams {
            whose: "from this network",
        })?;
        Ok(Place {
            _connection,
            _client,
            _server: take(&self.server, "on this server")?,
        })
    }
}

impl Places {
    /// A place for a call that cannot be answered at once, be it that its message is still on its way. Who is answered at once needs none.
    pub(crate) fn wait(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.waiting)
            .try_acquire_owned()
            .map_err(|_| Refusal::TooManyCalls)
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
        let places = Places::new(3, 2, 1, 1);
        let (one, other) = (places.for_connection(false), places.for_connection(false));
        let held = [one.take(None).unwrap(), one.take(None).unwrap()];
        let refused = |whose| Refusal::TooManyStreams { whose };
        assert_eq!(one.take(None).err(), Some(refused("on this connection")));
        let third = other.take(None).unwrap();
        assert_eq!(other.take(None).err(), Some(refused("on this server")));
        drop(third);
        drop(held);
        assert!(one.take(None).is_ok() && other.take(None).is_ok());
        let shared = places.for_connection(true);
        let held: Vec<_> = (0..3).map(|_| shared.take(None).unwrap()).collect();
        let waiting = one.wait().unwrap();
        assert_eq!(other.wait().err(), Some(Refusal::TooManyCalls));
        drop(waiting);
        assert!(other.wait().is_ok());
        assert_eq!(
            held.len(),
            3,
            "a proxy's connection has no limit of its own"
        );
    }
}
