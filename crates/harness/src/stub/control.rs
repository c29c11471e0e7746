//! Orders while the stub runs, over HTTP.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /status` | tip, calls by method, transactions that wait, as JSON |
//! | `POST /faults` | adds the fault in the body, in the words of [`FaultWords`] |
//! | `DELETE /faults` | ends all faults |
//! | `POST /mine?blocks=1` | adds blocks |
//! | `POST /reorg?depth=1&blocks=2&after=0` | replaces the top blocks; with `after`, once so many calls more have been taken |
//! | `POST /rollback?depth=1` | takes the top blocks away and puts nothing there |
//! | `POST /mempool?transactions=1` | lets transactions come to the mempool |
//!
//! Answers are JSON with the new tip; 400 with a reason for what is not understood.

use std::{convert::Infallible, time::Duration};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{FaultWords, Stub};

/// More orders in one request are a mistake.
const MOST_BLOCKS: u32 = 100_000;
const MOST_BODY_BYTES: usize = 4_096;

/// Takes orders on `listener` until the future is dropped.
pub async fn serve(stub: Stub, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: others may be closed in a moment.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let stub = stub.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(&stub, request));
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    stub: &Stub,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, value) = match obey(stub, request).await {
        Ok(value) => (StatusCode::OK, value),
        Err(error) => (
            StatusCode::BAD_REQUEST,
            json!({"error": format!("{error:#}")}),
        ),
    };
    let mut response = Response::new(Full::from(format!("{value}\n")));
    *response.status_mut() = status;
    Ok(response)
}

async fn obey(stub: &Stub, request: Request<Incoming>) -> Result<Value> {
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default();
    let number = |key: &str, otherwise: u32| -> Result<u32> {
        let given = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(name, _)| *name == key);
        match given {
            None => Ok(otherwise),
            Some((_, value)) => value
                .parse()
                .ok()
                .filter(|number| *number <= MOST_BLOCKS)
                .with_context(|| format!("{key} is no number up to {MOST_BLOCKS}")),
        }
    };
    match (parts.method, parts.uri.path()) {
        (Method::GET, "/status") => {}
        (Method::POST, "/faults") => {
            let words = Limited::new(body, MOST_BODY_BYTES)
                .collect()
                .await
                .map_err(|error| anyhow::anyhow!("the body cannot be read: {error}"))?
                .to_bytes();
            let words = std::str::from_utf8(&words).context("the body is no text")?;
            let FaultWords(rule) = words.parse().map_err(anyhow::Error::msg)?;
            stub.node().faults().add(rule);
        }
        (Method::DELETE, "/faults") => stub.node().faults().clear(),
        (Method::POST, "/mine") => {
            for _ in 0..number("blocks", 1)? {
                stub.mine()?;
            }
        }
        (Method::POST, "/reorg") => {
            let depth = number("depth", 1)?;
            let blocks = number("blocks", depth + 1)?;
            let after = number("after", 0)?;
            if after == 0 {
                stub.reorg(depth, blocks)?;
            } else {
                let later = stub.clone();
                stub.node().faults().after_calls(after.into(), move || {
                    // The caller is long gone; the chain stays as it is if this fails.
                    let _ = later.reorg(depth, blocks);
                });
            }
        }
        (Method::POST, "/rollback") => {
            stub.reorg(number("depth", 1)?, 0)?;
        }
        (Method::POST, "/mempool") => {
            for _ in 0..number("transactions", 1)? {
                stub.add_to_mempool()?;
            }
        }
        (method, path) => bail!("there is no {method} {path}"),
    }
    let node = stub.node();
    Ok(json!({
        "tip": node.best().map(|tip| json!({
            "height": tip.height.get(),
            "hash": tip.hash.to_string(),
        })),
        "waiting": node.mempool_transactions().len(),
        "calls": node.faults().calls_by_method(),
    }))
}
