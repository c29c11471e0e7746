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
use tokio::net::{TcpListener, TcpStream};

use crate::{
    accept::{self, Bounds},
    http as operator,
    settings::Settings,
    status::Refusal,
    web::{self, Origins},
    wire::Door,
};

/// Nobody is served yet, so few are kept.
const BOUNDS: Bounds = Bounds {
    connections: 256,
    time: Duration::from_secs(60),
};

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
    accept::each(listener, "wallets'", BOUNDS, |stream| {
        let (door, origins) = (Arc::clone(&door), Arc::clone(&origins));
        async move { connection(stream, &door, origins).await }
    })
    .await;
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
    // Who leaves early is no news.
    let _ = builder.serve_connection(TokioIo::new(wire), service).await;
}
