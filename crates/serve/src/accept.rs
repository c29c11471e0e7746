//! Taking connections in.
//!
//! In: a listener. Out: its connections, one after the other, whatever goes wrong between two of them.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
};

/// After a failed accept (too many open files), a pause instead of a spin.
const PAUSE: Duration = Duration::from_millis(100);

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

/// Runs `serve` on each connection within `bounds` until dropped, and the connections with it.
pub(crate) async fn each<F>(
    listener: &TcpListener,
    name: &str,
    bounds: Bounds,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, _) = next(listener, name).await;
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
