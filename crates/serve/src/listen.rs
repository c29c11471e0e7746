//! Wallets' connections: taking them in, and serving each to its end.
//!
//! In: accepted sockets. Out: calls for the [`Router`]. HTTP/2 (over TLS, or in plaintext with prior knowledge) and HTTP/1.1 come in on the same port,
//! told apart by their first bytes.

use std::sync::Arc;

use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::Semaphore,
};
use tokio_util::task::TaskTracker;

use crate::{
    accept,
    clients::{Peer, Shares},
    connection::{Calls, Driver, Gathering, Turns},
    grpc::{Router, Shared},
    limits::Places,
    settings::Settings,
    stall::{Patrol, Watched},
    web,
    wire::Door,
};

/// Of HTTP/1.1 this much is buffered at most each way; the head of a request must fit.
const HTTP1_BUFFER_BYTES: usize = 64 << 10;

/// What wallets' connections are served with.
pub(crate) struct Wallets {
    shared: Arc<Shared>,
    patrol: Patrol,
    door: Door,
    places: Places,
    room: Arc<Semaphore>,
    turns: Turns,
    /// Connections, counted by client.
    shares: Arc<Shares>,
}

impl Wallets {
    /// As the settings in `shared` have it, on this runtime.
    pub(crate) fn new(shared: &Arc<Shared>, patrol: Patrol) -> Arc<Wallets> {
        let settings = &shared.query.settings;
        let limits = &settings.limits;
        Arc::new(Wallets {
            shared: Arc::clone(shared),
            patrol,
            door: Door::new(settings.certificate.as_deref(), limits),
            places: Places::new(
                limits.streams,
                limits.streams_per_connection,
                settings.clients.streams,
                limits.calls_waiting,
            ),
            room: Arc::new(Semaphore::new(
                limits.connections.min(Semaphore::MAX_PERMITS),
            )),
            turns: Turns::among(Handle::current().metrics().num_workers()),
            shares: Shares::new(settings.clients.connections),
        })
    }

    /// Serves one connection to its end, or until the server stops and its answers have ended.
    async fn connection(self: Arc<Self>, stream: TcpStream, peer: Peer, calls: Calls) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection cannot do without delay");
        }
        let stopping = &self.shared.stopping;
        let taken_in = tokio::select! {
            taken_in = self.door.accept(stream) => taken_in,
            () = stopping.cancelled() => return,
        };
        let wire = match taken_in {
            Ok(wire) => wire,
            Err(error) => {
                tracing::debug!(%error, "a connection did not come about");
                return;
            }
        };
        let places = self.places.for_connection(matches!(peer, Peer::Proxy));
        let router = Arc::new(Router::new(Arc::clone(&self.shared), places, peer));
        let service = hyper::service::service_fn(move |request| {
            let router = Arc::clone(&router);
            async move { Ok::<_, std::convert::Infallible>(web::answer(&router, request).await) }
        });
        let stream = Gathering::new(wire, calls.lent());
        let handle = stream.handle();
        let transport = transport(&self.shared.query.settings, calls.clone());
        let connection = transport.serve_connection(TokioIo::new(stream), service);
        let mut driver = Driver::new(connection, handle, calls, &self.turns);
        let ended = tokio::select! {
            ended = &mut driver => ended,
            () = stopping.cancelled() => {
                driver.connection().graceful_shutdown();
                driver.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended");
        }
    }
}

fn transport(settings: &Settings, calls: Calls) -> auto::Builder<Calls> {
    let http2 = settings.http2;
    let mut builder = auto::Builder::new(calls);
    builder
        .http1()
        .timer(TokioTimer::new())
        .max_buf_size(HTTP1_BUFFER_BYTES)
        .header_read_timeout(settings.limits.handshake);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(http2.max_concurrent_streams)
        .initial_stream_window_size(http2.stream_window_bytes)
        .initial_connection_window_size(http2.connection_window_bytes)
        .max_frame_size(http2.max_frame_bytes)
        .max_send_buf_size(http2.send_buffer_bytes)
        .keep_alive_interval(http2.keepalive)
        .keep_alive_timeout(http2.keepalive_timeout);
    builder
}

/// Accepts connections for ever.
pub(crate) async fn accept(
    listener: TcpListener,
    wallets: Arc<Wallets>,
    connections: &TaskTracker,
) {
    loop {
        let place = Arc::clone(&wallets.room)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let (stream, address) = accept::next(&listener, "wallets'").await;
        let peer = wallets.shared.query.settings.clients.peer(address.ip());
        let client = match peer {
            Peer::Client(client) => client,
            Peer::Proxy => None,
        };
        let Some(share) = wallets.shares.take(client) else {
            // Hung up on at once: it has enough of them to wait for.
            metrics::counter!("lightship_serve_refused_connections_total").increment(1);
            continue;
        };
        let calls = Calls::new(wallets.patrol.clone());
        let lent = calls.lent();
        let connection = Arc::clone(&wallets).connection(stream, peer, calls);
        // Calls over HTTP/2 are watched one by one. HTTP/1.1 has one at a time, so its connection is watched.
        let connection = Watched::new(connection, wallets.patrol.clone(), lent);
        connections.spawn(async move {
            connection.await;
            drop((place, share));
        });
    }
}
