//! `mempool-1`: how long a transaction takes from the node's mempool to every open `GetMempoolStream`.
//!
//! All streams are asked for before a transaction comes; the clock starts when the node has said that it took it, and stops for a stream when its message has
//! arrived there. A stream that ends is opened again, as wallets do: servers end them at each block, and some a moment late. Some servers send no
//! headers before there is a message, so headers are not waited for. Ten streams share a connection, so that a thousand need no more
//! descriptors than a program has by default.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use prost::Message;
use tokio::{sync::mpsc, time::timeout};

use super::Stage;
use crate::{
    bench::{
        figures::{Figure, Proof, counted, latencies, percentile},
        plan::MempoolPlan,
        server::Server,
    },
    conform::node::Waiting,
    grpc::{Client, Window, connect},
    proto::{Empty, RawTransaction},
};

const STREAMS_A_CONNECTION: u32 = 10;
/// Streams that are opened must have sent what waited already.
const SETTLES: Duration = Duration::from_secs(3);
/// From the end of a stream to the next one in its place.
const REOPEN: Duration = Duration::from_millis(50);

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

/// What a stream has to say: its number, and a transaction or the reason why it is no more.
type Arrival = (u32, Result<(Instant, Vec<u8>)>);

/// Reads a stream, and the one after it, until nobody listens.
async fn read(number: u32, mut client: Client, arrived: mpsc::UnboundedSender<Arrival>) {
    loop {
        let opened = client.stream("GetMempoolStream", Empty {}).await;
        let ended = match opened {
            Err(status) => Err(status),
            Ok(mut stream) => loop {
                match stream.message().await {
                    Ok(Some(message)) => {
                        let now = Instant::now();
                        if arrived.send((number, Ok((now, message)))).is_err() {
                            return;
                        }
                    }
                    Ok(None) => break Ok(()),
                    Err(status) => break Err(status),
                }
            },
        };
        if let Err(status) = ended {
            // Whoever does not listen any more need not know.
            let _ = arrived.send((number, Err(anyhow!("stream {number} broke: {status}"))));
            return;
        }
        tokio::time::sleep(REOPEN).await;
    }
}

async fn subscribe(
    stage: &Stage<'_, '_>,
    server: &Server,
    plan: &MempoolPlan,
    subscribers: u32,
) -> Result<(Proof, Vec<Figure>)> {
    let url = format!("http://{}", server.address);
    let node = stage.setting.node;
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let mut client: Option<Client> = None;
    for number in 0..subscribers {
        if number % STREAMS_A_CONNECTION == 0 {
            client = Some(Client::new(connect(&url, Window::Wide).await?));
        }
        let client = client.clone().context("a connection")?;
        tokio::spawn(read(number, client, arrived.clone()));
    }
    // What waited before is sent at once, and is not what is timed.
    tokio::time::sleep(SETTLES).await;
    let before = server.usage()?;
    let mut known: HashSet<Vec<u8>> = bytes_of(node.waiting()?);
    let (mut delays, mut lasts) = (Vec::new(), Vec::new());
    for nth in 1..=plan.transactions {
        node.add_transaction()?;
        let added = Instant::now();
        let now = bytes_of(node.waiting()?);
        let new: Vec<&Vec<u8>> = now.difference(&known).collect();
        let [new] = new[..] else {
            bail!("{} transactions came instead of one", new.len());
        };
        let mut last = 0.0f64;
        let mut reached = HashSet::new();
        while (reached.len() as u32) < subscribers {
            let left = plan.patience.saturating_sub(added.elapsed());
            let next = timeout(left, arrivals.recv()).await.with_context(|| {
                let reached = reached.len();
                let patience = plan.patience;
                format!("transaction {nth}: {reached} of {subscribers} streams in {patience:?}")
            })?;
            let (number, message) = next.context("no stream is left")?;
            let (at, message) = message?;
            let transaction = RawTransaction::decode(&message[..])?;
            if transaction.data != *new {
                ensure!(
                    known.contains(&transaction.data),
                    "a transaction came that does not wait"
                );
                continue;
            }
            if reached.insert(number) {
                let delay = at.saturating_duration_since(added).as_secs_f64() * 1e3;
                last = last.max(delay);
                delays.push(delay);
            }
        }
        lasts.push(last);
        known = now;
    }
    let usage = server.usage()?;
    let mut figures = Vec::from(latencies(&mut delays));
    lasts.sort_by(f64::total_cmp);
    let end = |last: Option<&f64>| last.copied().unwrap_or(f64::NAN);
    figures.push(
        Figure::lower("to the last stream", "ms", percentile(&lasts, 0.5))
            .spread(end(lasts.first()), end(lasts.last())),
    );
    figures.push(Figure::lower(
        "server cpu",
        "CPU s",
        usage.cpu() - before.cpu(),
    ));
    figures.push(Figure::lower("rss anon", "MB", usage.rss_anon as f64 / 1e6));
    // The transactions are made while the bench runs, so no two servers see the same.
    let proof = Proof {
        count: delays.len() as u64,
        digest: None,
    };
    Ok((proof, figures))
}

fn bytes_of(waiting: Vec<Waiting>) -> HashSet<Vec<u8>> {
    waiting.into_iter().map(|each| each.bytes).collect()
}
