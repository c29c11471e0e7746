//! Taking connections in.
//!
//! In: a listener. Out: its connections, one after the other, whatever goes wrong between two of them; and for ports whose answers are short, each
//! served to its end.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    pin::{Pin, pin},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{AbortHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

/// After a failed accept (too many open files), a pause instead of a spin.
const PAUSE: Duration = Duration::from_millis(100);
/// What a client that connected a moment ago takes at most to say its first words, once connections are to end.
const FIRST_WORDS: Duration = Duration::from_secs(1);

/// Bounds on the connections of a port whose answers are short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// At once. One more takes the place of the oldest: whoever comes now is answered, whatever others hold open.
    pub(crate) connections: usize,
    /// How long each may last.
    pub(crate) time: Duration,
}

/// The next connection on `listener`, which is `name` in the log.
pub(crate) async fn next(listener: &TcpListener, name: &str) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection on the {name} port");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Runs `serve` on each connection within `bounds` until `closing` is cancelled; gives back the connections that are left. Dropped, it drops them.
pub(crate) async fn each<F>(
    listener: &TcpListener,
    name: &str,
    bounds: Bounds,
    closing: &CancellationToken,
    serve: impl Fn(TcpStream) -> F,
) -> JoinSet<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = tokio::select! {
            (stream, _) = next(listener, name) => stream,
            () = closing.cancelled() => return running,
        };
        while running.try_join_next().is_some() {}
        by_age.retain(|connection| !connection.is_finished());
        if by_age.len() >= bounds.connections
            && let Some(oldest) = by_age.pop_front()
        {
            oldest.abort();
        }
        let connection = tokio::time::timeout(bounds.time, serve(stream));
        by_age.push_back(running.spawn(async {
            // Who leaves early or stays for ever is no news.
            let _ = connection.await;
        }));
    }
}

/// Runs `connection` to its end. Once `closing` is cancelled and the client's first words are `heard`, `part` asks it to end: before them the transport
/// does not know how to say so, and would hang up on somebody who is about to ask.
pub(crate) async fn to_the_end<C: Future>(
    connection: C,
    heard: oneshot::Receiver<()>,
    closing: &CancellationToken,
    part: impl FnOnce(Pin<&mut C>),
) -> C::Output {
    let mut connection = pin!(connection);
    let due = async {
        closing.cancelled().await;
        // Whoever says nothing has nothing to be told.
        let _ = tokio::time::timeout(FIRST_WORDS, heard).await;
    };
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = due => {}
    }
    part(connection.as_mut());
    connection.await
}
