//! The server: listeners, connections, background tasks, and the way down.

use std::{future::Future, io, sync::Arc, time::Duration};

use lightship_index::Reader;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

use crate::{
    backend::{Backend, Heard},
    grpc::{Reflection, Shared},
    http::{self, Operators, Unready},
    info::Info,
    listen::{Wallets, accept},
    memory::Memory,
    mempool::Keeper,
    proto::SERVICE,
    query::Query,
    range::Live,
    readiness::unready,
    settings::Settings,
    stall::Patrol,
    telemetry,
};

/// How often readiness is looked at for the health service.
const HEALTH_STEP: Duration = Duration::from_millis(500);
/// How often collected latencies are folded into their buckets.
const METRICS_STEP: Duration = Duration::from_secs(5);

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
/// Connections that go on sending much take turns on all but one of the runtime's threads; the last is for short calls. A runtime with one thread more
/// than there are cores lets large answers have the whole machine while no other call needs it.
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
        Arc::clone(&backend.mempool_changed),
        settings.mempool_poll,
        &settings.limits,
    );
    let info = Arc::new(Info::new(Arc::clone(&backend.node), Arc::clone(&heard)));
    let reporter = HealthReporter::new();
    let stopping = CancellationToken::new();
    let memory = Memory::new(settings.limits.held_bytes);
    let patrol = Patrol::new(settings.limits.stall, memory.clone());
    let grace = settings.shutdown_grace;
    let limits = settings.limits;
    let certificate = settings.certificate.clone();
    let unready = readiness(&backend, &settings, heard, stopping.clone());
    let shared = Arc::new(Shared {
        health: HealthServer::new(HealthService::from_health_reporter(reporter.clone())),
        reflection: settings.reflection.then(Reflection::new),
        stopping: stopping.clone(),
        out_of_time: CancellationToken::new(),
        query: Arc::new(Query {
            live: Live::new(Arc::clone(&backend.node), limits.node_blocks),
            reader: backend.reader,
            trees: backend.trees,
            node: backend.node,
            look: backend.look,
            info: Arc::clone(&info),
            mempool,
            memory: memory.clone(),
            settings,
            pings: Default::default(),
        }),
    });

    let mut background = JoinSet::new();
    background.spawn(keeper.keep());
    background.spawn(info.refresh());
    background.spawn(patrol.clone().walk());
    let operators = Operators {
        unready: Arc::clone(&unready),
        alarm: {
            let health = Arc::clone(&backend.health);
            Arc::new(move || health().differs)
        },
    };
    background.spawn(async move {
        // Operators are answered for as long as this server has background work.
        http::run(&http, operators, &CancellationToken::new()).await;
    });
    background.spawn(report_health(reporter, unready, memory));
    if let Some(certificate) = certificate {
        background.spawn(certificate.watch());
    }
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
        () = accept(grpc, Wallets::new(&shared, patrol), &connections) => {}
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
    // A task that is held by the system (a file that does not answer) is left behind.
    if tokio::time::timeout(grace / 10, background.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("background work did not end in time and is dropped");
    }
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
        let mut known = health();
        known.last_answer = known.last_answer.max(heard.last());
        unready(rule, &reader.view(), known, stopping.is_cancelled())
    })
}

async fn report_health(reporter: HealthReporter, unready: Unready, memory: Memory) {
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
        metrics::gauge!("lightship_serve_held_bytes").set(memory.held() as f64);
        tokio::time::sleep(HEALTH_STEP).await;
    }
}
