//! Before there is an index: ports that answer "not yet".
//!
//! A new index cannot be made before its network is known, and that may have to be asked of a node that is still starting. Wallets that call
//! meanwhile are told `UNAVAILABLE` at once, browsers too, and the operator's `/livez` and `/readyz` say what they always say.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use crate::{
    http as operator,
    listen::ACCEPT_PAUSE,
    settings::Settings,
    status::Refusal,
    web::{self, Origins},
    wire::Door,
};

/// Nobody is served yet, so few are kept.
const MAX_CONNECTIONS: usize = 256;
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Answers every call on `grpc` with `UNAVAILABLE`, and the operator on `http`, until `until` ends; gives back what it gave.
///
/// The listeners stay open and are [`serve`](crate::serve)'s afterwards; connections are closed, for clients connect anew.
pub async fn waiting<T>(
    grpc: &TcpListener,
    http: &TcpListener,
    settings: &Settings,
    why: &str,
    until: impl Future<Output = T>,
) -> T {
    let why = why.to_owned();
    let operators = operator::Operators {
        unready: Arc::new(move || Some(why.clone())),
        alarm: Arc::new(|| None),
    };
    tokio::select! {
        done = until => done,
        () = refuse(grpc, settings) => unreachable!("accepting never ends"),
        () = operator::run(http, operators) => unreachable!("accepting never ends"),
    }
}

async fn refuse(listener: &TcpListener, settings: &Settings) {
    let door = Arc::new(Door::new(settings.certificate.as_deref(), &settings.limits));
    let origins = Arc::new(settings.origins.clone());
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let place = Arc::clone(&places)
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
        let (door, origins) = (Arc::clone(&door), Arc::clone(&origins));
        connections.spawn(async move {
            // A client that leaves early or stays for ever is no news.
            let _ =
                tokio::time::timeout(MAX_CONNECTION_TIME, connection(stream, &door, origins)).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, door: &Door, origins: Arc<Origins>) {
    let Ok(wire) = door.accept(stream).await else {
        return;
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    let service = service_fn(|request| {
        let refused = web::refuse(&request, &origins, &Refusal::NotReady);
        async { Ok::<_, Infallible>(refused) }
    });
    // As above.
    let _ = builder.serve_connection(TokioIo::new(wire), service).await;
}
