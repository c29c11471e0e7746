//! Before there is an index: ports that answer "not yet".
//!
//! A new index cannot be made before its network is known, and that may have to be asked of a node that is still starting. Wallets that call
//! meanwhile are told `UNAVAILABLE` at once, and the operator's `/livez` and `/readyz` say what they always say.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http::{HeaderValue, Response, header::CONTENT_TYPE};
use http_body_util::Empty;
use hyper::{body::Bytes, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};

use crate::{http as operator, server::ACCEPT_PAUSE, status::Refusal};

/// Nobody is served yet, so few are kept.
const MAX_CONNECTIONS: usize = 256;
const MAX_CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Answers every call on `grpc` with `UNAVAILABLE`, and the operator on `http`, until `until` ends; gives back what it gave.
///
/// The listeners stay open and are [`serve`](crate::serve)'s afterwards; connections are closed, for clients connect anew.
pub async fn waiting<T>(
    grpc: &TcpListener,
    http: &TcpListener,
    why: &str,
    until: impl Future<Output = T>,
) -> T {
    let why = why.to_owned();
    tokio::select! {
        done = until => done,
        () = refuse(grpc) => unreachable!("accepting never ends"),
        () = operator::run(http, Arc::new(move || Some(why.clone()))) => unreachable!("accepting never ends"),
    }
}

async fn refuse(listener: &TcpListener) {
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
        connections.spawn(async move {
            let mut builder = auto::Builder::new(TokioExecutor::new()).http2_only();
            builder.http2().timer(TokioTimer::new());
            let service = service_fn(|_| async { Ok::<_, Infallible>(not_yet()) });
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            // A client that leaves early or stays for ever is no news.
            let _ = tokio::time::timeout(MAX_CONNECTION_TIME, connection).await;
            drop(place);
        });
    }
}

/// An answer without a message: its headers are its trailers.
fn not_yet() -> Response<Empty<Bytes>> {
    let mut response = Response::new(Empty::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.extend(Refusal::NotReady.trailers());
    response
}
