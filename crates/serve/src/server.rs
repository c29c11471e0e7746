//! The server: listeners, connections, background tasks, and the way down.

use std::{future::Future, io, sync::Arc, time::Duration};

use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use lightship_index::Reader;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

use crate::{
    backend::{Backend, Heard},
    connection::{Calls, Driver, Gathering},
    grpc::{Reflection, Router, Shared},
    http::{self, Unready},
    info::Info,
    limits::Places,
    mempool::Keeper,
    proto::SERVICE,
    query::Query,
    range::Live,
    readiness::unready,
    settings::{Http2, Settings},
    stall::Patrol,
    telemetry,
};

/// How often readiness is looked at for the health service.
const HEALTH_STEP: Duration = Duration::from_millis(500);
/// How often collected latencies are folded into their buckets.
const METRICS_STEP: Duration = Duration::from_secs(5);
/// After a failed accept (too many open files), a pause instead of a spin.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the server could not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A listener does not say where it listens.
    #[error("the {listener} listener has no address")]
    Listener {
        /// `grpc` or `http`.
        listener: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Answers wallets on `grpc` and the operator on `http` until `shutdown` ends; then ends running answers with `UNAVAILABLE` and
/// returns within [`Settings::shutdown_grace`].
///
/// The node may be away, also at the start. Nothing it does ends the server.
///
/// # Errors
///
/// Only if a listener is unusable from the start.
pub async fn serve(
    grpc: TcpListener,
    http: TcpListener,
    backend: Backend,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    for (listener, name) in [(&grpc, "grpc"), (&http, "http")] {
        let address = listener.local_addr().map_err(|source| Error::Listener {
            listener: name,
            source,
        })?;
        tracing::info!(%address, "{name} listens");
    }
    let metrics = telemetry::install();
    let heard = Arc::new(Heard::new());
    let published = publications(&backend.reader);
    let (keeper, mempool) = Keeper::new(
        Arc::clone(&backend.node),
        Arc::clone(&heard),
        backend.reader.clone(),
        published,
        settings.mempool_poll,
        settings.limits.mempool_bytes,
        settings.limits.mempool_entries,
    );
    let info = Arc::new(Info::new(Arc::clone(&backend.node), Arc::clone(&heard)));
    let reporter = HealthReporter::new();
    let stopping = CancellationToken::new();
    let patrol = Patrol::new(settings.limits.stall);
    let grace = settings.shutdown_grace;
    let limits = settings.limits;
    let transport = settings.http2;
    let unready = readiness(&backend, &settings, heard, stopping.clone());
    let shared = Arc::new(Shared {
        health: HealthServer::new(HealthService::from_health_reporter(reporter.clone())),
        reflection: settings.reflection.then(Reflection::new),
        stopping: stopping.clone(),
        out_of_time: CancellationToken::new(),
        query: Arc::new(Query {
            live: Live::new(Arc::clone(&backend.node), limits.node_blocks),
            reader: backend.reader,
            node: backend.node,
            info: Arc::clone(&info),
            mempool,
            settings,
            pings: Default::default(),
        }),
    });

    let mut background = JoinSet::new();
    background.spawn(keeper.keep());
    background.spawn(info.refresh());
    background.spawn(patrol.clone().walk());
    let operators = Arc::clone(&unready);
    background.spawn(async move { http::run(&http, operators).await });
    background.spawn(report_health(reporter, unready));
    if let Some(metrics) = metrics {
        background.spawn(async move {
            loop {
                tokio::time::sleep(METRICS_STEP).await;
                metrics.run_upkeep();
            }
        });
    }

    let connections = TaskTracker::new();
    tokio::select! {
        () = shutdown => {}
        () = accept(grpc, &connections, &shared, limits, transport, patrol) => {}
    }
    // Short answers get most of the time, and the transport a little of it to write what they say.
    stopping.cancel();
    connections.close();
    let all_gone = connections.wait();
    tokio::pin!(all_gone);
    if tokio::time::timeout(grace * 3 / 5, &mut all_gone)
        .await
        .is_err()
    {
        shared.out_of_time.cancel();
        if tokio::time::timeout(grace / 5, &mut all_gone)
            .await
            .is_err()
        {
            tracing::warn!("connections that did not end in time are dropped");
        }
    }
    background.shutdown().await;
    Ok(())
}

/// A channel that changes with every view.
fn publications(reader: &Reader) -> watch::Receiver<u64> {
    let (sender, published) = watch::channel(reader.view().generation());
    reader.on_publish(Box::new(move |view| {
        sender.send_replace(view.generation());
    }));
    published
}

fn readiness(
    backend: &Backend,
    settings: &Settings,
    heard: Arc<Heard>,
    stopping: CancellationToken,
) -> Unready {
    let (reader, health, rule) = (
        backend.reader.clone(),
        Arc::clone(&backend.health),
        settings.readiness,
    );
    Arc::new(move || {
        let last = health().last_answer.max(heard.last());
        unready(rule, &reader.view(), last, stopping.is_cancelled())
    })
}

async fn report_health(reporter: HealthReporter, unready: Unready) {
    let mut before = None;
    loop {
        let why = unready();
        if before.as_ref() != Some(&why.is_none()) {
            match &why {
                None => tracing::info!("ready"),
                Some(why) => tracing::info!("not ready: {why}"),
            }
            let status = if why.is_none() {
                ServingStatus::Serving
            } else {
                ServingStatus::NotServing
            };
            for service in ["", SERVICE] {
                reporter.set_service_status(service, status).await;
            }
            metrics::gauge!("lightship_serve_ready").set(f64::from(u8::from(why.is_none())));
            before = Some(why.is_none());
        }
        tokio::time::sleep(HEALTH_STEP).await;
    }
}

/// Accepts connections for ever.
async fn accept(
    listener: TcpListener,
    connections: &TaskTracker,
    shared: &Arc<Shared>,
    limits: crate::settings::Limits,
    transport: Http2,
    patrol: Patrol,
) {
    let places = Places::new(limits.streams, limits.streams_per_connection);
    let room = Arc::new(Semaphore::new(
        limits.connections.min(Semaphore::MAX_PERMITS),
    ));
    loop {
        let place = Arc::clone(&room)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let router = Router::new(Arc::clone(shared), places.for_connection());
        let stopping = shared.stopping.clone();
        let calls = Calls::new(patrol.clone());
        connections.spawn(async move {
            connection(stream, router, transport, calls, stopping).await;
            drop(place);
        });
    }
}

/// Serves one connection to its end, or until the server stops and its answers have ended.
async fn connection(
    stream: TcpStream,
    router: Router,
    transport: Http2,
    calls: Calls,
    stopping: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection cannot do without delay");
    }
    let service = hyper::service::service_fn(move |request| {
        let router = router.clone();
        async move { Ok::<_, std::convert::Infallible>(router.answer(request).await) }
    });
    let mut builder = auto::Builder::new(calls.clone()).http2_only();
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(transport.max_concurrent_streams)
        .initial_stream_window_size(transport.stream_window_bytes)
        .initial_connection_window_size(transport.connection_window_bytes)
        .max_frame_size(transport.max_frame_bytes)
        .max_send_buf_size(transport.send_buffer_bytes)
        .keep_alive_interval(transport.keepalive)
        .keep_alive_timeout(transport.keepalive_timeout);
    let stream = Gathering::new(stream, calls.lent());
    let handle = stream.handle();
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut driver = Driver::new(connection, handle, calls);
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
