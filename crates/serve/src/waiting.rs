//! Before there is an index: ports that answer "not yet".
//!
//! A new index cannot be made before its network is known, and that may have to be asked of a node that is still starting. Wallets that call
//! meanwhile are told `UNAVAILABLE` at once, browsers too, and the operator's `/livez` and `/readyz` say what they always say. When the index is there,
//! connections end as they do when a server stops: what was asked is answered, then the client is asked to go, and connects anew.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

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
/// What is left of the connections when nobody is refused any more ends in this time, or is dropped.
const FAREWELL: Duration = Duration::from_secs(3);

/// Answers every call on `grpc` with `UNAVAILABLE`, and the operator on `http`, until `until` ends; gives back what it gave.
///
/// The listeners stay open and are [`serve`](crate::serve)'s afterwards, at once. Connections are asked to end, for clients connect anew, and do so in a
/// task of their own, which is given back too: whoever ends the process instead waits for it, and not longer than for some seconds.
pub async fn waiting<T>(
    grpc: &TcpListener,
    http: &TcpListener,
    settings: &Settings,
    why: &str,
    until: impl Future<Output = T>,
) -> (T, JoinHandle<()>) {
    let why = why.to_owned();
    let operators = operator::Operators {
        unready: Arc::new(move || Some(why.clone())),
        alarm: Arc::new(|| None),
    };
    let closing = CancellationToken::new();
    let until = async {
        let done = until.await;
        closing.cancel();
        done
    };
    let (done, wallets, operators) = tokio::join!(
        until,
        refuse(grpc, settings, &closing),
        operator::run(http, operators, &closing),
    );
    (done, tokio::spawn(see_off([wallets, operators])))
}

/// Waits for the end of connections that were asked to end, and drops those that do not.
async fn see_off(connections: [JoinSet<()>; 2]) {
    let end = Instant::now() + FAREWELL;
    for mut running in connections {
        let all_gone = async { while running.join_next().await.is_some() {} };
        // A client that does not go is cut off: it is no news.
        let _ = tokio::time::timeout_at(end, all_gone).await;
    }
}

async fn refuse(
    listener: &TcpListener,
    settings: &Settings,
    closing: &CancellationToken,
) -> JoinSet<()> {
    let door = Arc::new(Door::new(settings.certificate.as_deref(), &settings.limits));
    let origins = Arc::new(settings.origins.clone());
    accept::each(listener, "wallets'", BOUNDS, closing, |stream| {
        let (door, origins, closing) = (Arc::clone(&door), Arc::clone(&origins), closing.clone());
        async move { connection(stream, &door, origins, &closing).await }
    })
    .await
}

async fn connection(
    stream: TcpStream,
    door: &Door,
    origins: Arc<Origins>,
    closing: &CancellationToken,
) {
    let Ok(mut wire) = door.accept(stream).await else {
        return;
    };
    let heard = wire.heard();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    let service = service_fn(|request| {
        let refused = web::refuse(&request, &origins, &Refusal::NotReady);
        async { Ok::<_, Infallible>(refused) }
    });
    let connection = builder.serve_connection(TokioIo::new(wire), service);
    let part = |connection: Pin<&mut auto::Connection<'_, _, _, _>>| connection.graceful_shutdown();
    // Who leaves early is no news.
    let _ = accept::to_the_end(connection, heard, closing, part).await;
}
