//! `mempool-1`: how long a transaction takes from the node's mempool to every open `GetMempoolStream`.
//!
//! All streams are open before a transaction comes; the clock starts when the node has said that it took it, and stops for a stream when its message has
//! arrived there. Ten streams share a connection, so that a thousand need no more descriptors than a program has by default.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use prost::Message;
use sha2::{Digest, Sha256};
use tokio::{sync::mpsc, time::timeout};

use super::Stage;
use crate::{
    bench::{
        figures::{Figure, Proof, counted, latencies},
        plan::MempoolPlan,
        server::Server,
    },
    grpc::{Client, Window, connect},
    proto::{Empty, RawTransaction},
};

const STREAMS_A_CONNECTION: u32 = 10;
/// Streams that are opened must have sent what waited already.
const SETTLES: Duration = Duration::from_secs(2);

/// Some numbers of subscribers.
///
/// # Errors
///
/// If the record cannot be written.
pub fn mempool(stage: &mut Stage<'_, '_>, server: &Server, plan: &MempoolPlan) -> Result<()> {
    for subscribers in &plan.subscribers {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let outcome = runtime.block_on(subscribe(stage, server, plan, *subscribers));
        // Streams that are still open need not be waited for.
        runtime.shutdown_background();
        stage.outcome(&counted(*subscribers, "stream"), "p50", outcome)?;
    }
    Ok(())
}

async fn subscribe(
    stage: &Stage<'_, '_>,
    server: &Server,
    plan: &MempoolPlan,
    subscribers: u32,
) -> Result<(Proof, Vec<Figure>)> {
    let url = format!("http://{}", server.address);
    let (arrived, mut arrivals) = mpsc::unbounded_channel::<Result<(Instant, Vec<u8>)>>();
    let mut client: Option<Client> = None;
    for number in 0..subscribers {
        if number % STREAMS_A_CONNECTION == 0 {
            client = Some(Client::new(connect(&url, Window::Wide).await?));
        }
        let mut client = client.clone().context("a connection")?;
        let opened = client.stream("GetMempoolStream", Empty {});
        let mut stream = timeout(plan.patience, opened)
            .await
            .with_context(|| format!("stream {number} has no headers in {:?}", plan.patience))?
            .with_context(|| format!("stream {number}"))?;
        let arrived = arrived.clone();
        tokio::spawn(async move {
            loop {
                let message = match stream.message().await {
                    Ok(Some(message)) => Ok((Instant::now(), message)),
                    Ok(None) => Err(anyhow!("a stream ended though no block came")),
                    Err(status) => Err(anyhow!("a stream broke: {status}")),
                };
                let last = message.is_err();
                if arrived.send(message).is_err() || last {
                    return;
                }
            }
        });
    }
    // What waited before is sent at once, and is not what is timed.
    let settled = tokio::time::sleep(SETTLES);
    tokio::pin!(settled);
    loop {
        tokio::select! {
            () = &mut settled => break,
            message = arrivals.recv() => { message.context("no stream")??; }
        }
    }
    let before = server.usage()?;
    let (mut delays, mut lasts) = (Vec::new(), Vec::new());
    let mut hasher = Sha256::new();
    for nth in 0..plan.transactions {
        let known = stage.setting.node.waiting()?;
        stage.setting.node.add_transaction()?;
        let added = Instant::now();
        let now = stage.setting.node.waiting()?;
        let new: Vec<_> = now.iter().filter(|each| !known.contains(each)).collect();
        let [new] = new[..] else {
            return Err(anyhow!("{} transactions came instead of one", new.len()));
        };
        let mut last = 0.0f64;
        for _ in 0..subscribers {
            let left = plan.patience.saturating_sub(added.elapsed());
            let (at, message) = timeout(left, arrivals.recv())
                .await
                .with_context(|| {
                    format!(
                        "transaction {nth}: {} of {} streams in {:?}",
                        delays.len() as u32 - nth * subscribers,
                        subscribers,
                        plan.patience
                    )
                })?
                .context("no stream")??;
            let transaction = RawTransaction::decode(&message[..])?;
            ensure!(
                transaction.data == new.bytes,
                "another transaction came than the one that waits"
            );
            let delay = at.saturating_duration_since(added).as_secs_f64() * 1e3;
            last = last.max(delay);
            delays.push(delay);
        }
        lasts.push(last);
        hasher.update(&new.id);
    }
    let usage = server.usage()?;
    let mut figures = Vec::from(latencies(&mut delays));
    lasts.sort_by(f64::total_cmp);
    figures.push(
        Figure::lower(
            "to the last stream",
            "ms",
            super::super::figures::percentile(&lasts, 0.5),
        )
        .spread(
            lasts.first().copied().unwrap_or(f64::NAN),
            lasts.last().copied().unwrap_or(f64::NAN),
        ),
    );
    figures.push(Figure::lower(
        "server cpu",
        "CPU s",
        usage.cpu() - before.cpu(),
    ));
    figures.push(Figure::lower("rss anon", "MB", usage.rss_anon as f64 / 1e6));
    let proof = Proof {
        count: delays.len() as u64,
        digest: Some(const_hex::encode(hasher.finalize())),
    };
    Ok((proof, figures))
}
