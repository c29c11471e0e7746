//! The transport of asynchronous callers: hyper's pooled client on a tokio runtime.
//!
//! Needs the runtime of whoever polls it, with timers and sockets enabled.

use std::{error::Error as _, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::{sync::Semaphore, time};

use super::{
    Endpoint,
    transport::{Heard, Transport, Trouble},
};

/// Waits on the runtime.
pub(super) struct Streaming {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
    places: Semaphore,
    timeout: Duration,
    max_answer_bytes: usize,
}

impl Streaming {
    pub(super) fn new(endpoint: &Endpoint) -> Streaming {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(endpoint.connect_timeout));
        connector.set_nodelay(true);
        let places = endpoint.max_in_flight.get().min(Semaphore::MAX_PERMITS);
        Streaming {
            client: Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_max_idle_per_host(places)
                .build(connector),
            uri: endpoint
                .address
                .url()
                .parse()
                .expect("an Address is made only from what parses as a Uri"),
            places: Semaphore::new(places),
            timeout: endpoint.timeout,
            max_answer_bytes: endpoint.max_answer_bytes,
        }
    }

    async fn send(
        &self,
        body: Bytes,
        authorization: Option<HeaderValue>,
    ) -> Result<Heard, Trouble> {
        let mut request = Request::post(self.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "lightship");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request
            .body(Full::new(body))
            .expect("the parts of the request were parsed before");
        let _place = self
            .places
            .acquire()
            .await
            .expect("the semaphore is never closed");
        let answer = self
            .client
            .request(request)
            .await
            .map_err(trouble_sending)?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), self.max_answer_bytes);
        match body.collect().await {
            Ok(collected) => Ok(Heard {
                status,
                body: collected.to_bytes(),
            }),
            Err(error) if error.is::<LengthLimitError>() => Err(Trouble::TooLarge),
            Err(error) => Err(Trouble::Cut(format!("the answer broke off: {error}"))),
        }
    }
}

impl Transport for Streaming {
    async fn exchange(
        &self,
        body: Bytes,
        authorization: Option<HeaderValue>,
    ) -> Result<Heard, Trouble> {
        // One clock over all: waiting for a place, connecting, and the last byte.
        time::timeout(self.timeout, self.send(body, authorization))
            .await
            .unwrap_or(Err(Trouble::TimedOut))
    }

    async fn pause(&self, time: Duration) {
        time::sleep(time).await;
    }
}

fn trouble_sending(error: hyper_util::client::legacy::Error) -> Trouble {
    let reason = deepest(&error);
    if error.is_connect() {
        return Trouble::NotSent(reason);
    }
    let hyper = error
        .source()
        .and_then(|source| source.downcast_ref::<hyper::Error>());
    match hyper {
        Some(error) if error.is_parse() => Trouble::Cut(reason),
        _ => Trouble::Closed(format!("it closed the connection: {reason}")),
    }
}

/// The innermost cause, which names the fact; the outer ones say "client error".
fn deepest(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
