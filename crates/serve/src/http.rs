//! The operator's side: `/livez`, `/readyz`, `/metrics`, over plain HTTP/1.1 on a listener of its own.
//!
//! `/livez` is 200 while the process runs, whatever the node does. `/readyz` is 200 or 503 with one line that says why; what somebody has to look at
//! although wallets are served well is in that line, too. `/metrics` is Prometheus text.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    accept::{self, Bounds},
    telemetry,
    wire::Door,
};

/// Monitors are few and ask briefly.
const BOUNDS: Bounds = Bounds {
    connections: 64,
    time: Duration::from_secs(60),
};
const HEADER_PATIENCE: Duration = Duration::from_secs(5);

/// Says why the server is not ready, or `None` if it is.
pub(crate) type Unready = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What operators are told.
#[derive(Clone)]
pub(crate) struct Operators {
    pub(crate) unready: Unready,
    /// What somebody has to look at, or `None`.
    pub(crate) alarm: Arc<dyn Fn() -> Option<Arc<str>> + Send + Sync>,
}

/// Answers on `listener` until `closing` is cancelled; gives back the connections that are left, which end then. Dropped, it drops them.
pub(crate) async fn run(
    listener: &TcpListener,
    operators: Operators,
    closing: &CancellationToken,
) -> JoinSet<()> {
    let door = Arc::new(Door::plain(HEADER_PATIENCE));
    accept::each(listener, "operators'", BOUNDS, closing, |stream| {
        let (door, operators, closing) = (Arc::clone(&door), operators.clone(), closing.clone());
        async move {
            let Ok(mut wire) = door.accept(stream).await else {
                return;
            };
            let heard = wire.heard();
            let service = service_fn(|request| {
                let response = answer(&request, &operators);
                async { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_PATIENCE)
                .serve_connection(TokioIo::new(wire), service);
            let part =
                |connection: Pin<&mut http1::Connection<_, _>>| connection.graceful_shutdown();
            // A monitor that leaves early is no news.
            let _ = accept::to_the_end(connection, heard, &closing, part).await;
        }
    })
    .await
}

fn answer(request: &Request<Incoming>, operators: &Operators) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is answered here\n".into(),
        );
    }
    match request.uri().path() {
        "/livez" => text(StatusCode::OK, "alive\n".into()),
        "/readyz" => match ((operators.unready)(), (operators.alarm)()) {
            (None, None) => text(StatusCode::OK, "ready\n".into()),
            (None, Some(alarm)) => text(StatusCode::OK, format!("ready, but {alarm}\n")),
            (Some(why), _) => text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("not ready: {why}\n"),
            ),
        },
        "/metrics" => match telemetry::install() {
            Some(handle) => text(StatusCode::OK, handle.render()),
            None => text(
                StatusCode::NOT_FOUND,
                "this process sends its metrics elsewhere\n".into(),
            ),
        },
        _ => text(
            StatusCode::NOT_FOUND,
            "here are /livez, /readyz and /metrics\n".into(),
        ),
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    response
}
