//! The stub on the command line.

use std::{future::pending, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use lightship_chain::Height;
use lightship_source::simulated::http;
use tokio::net::TcpListener;

use super::{FaultWords, Stub, serve_control};

/// Serves a chain file as a node's JSON-RPC.
#[derive(Clone, Debug, clap::Args)]
pub struct StubArguments {
    /// The chain file, from `forge`. Without an index it gets one first.
    #[arg(long)]
    chain: PathBuf,
    /// Where to answer JSON-RPC.
    #[arg(long, default_value = "127.0.0.1:18232")]
    listen: SocketAddr,
    /// Where to take orders: GET /status, POST /faults, DELETE /faults, POST /mine, /reorg, /rollback, /mempool.
    #[arg(long)]
    control: Option<SocketAddr>,
    /// The height of the tip at the start; the file's highest block unless told.
    #[arg(long)]
    start_height: Option<u32>,
    /// Add a block every so often: 25s, 500ms, 2m.
    #[arg(long, value_parser = duration)]
    tip_every: Option<Duration>,
    /// Replace the top blocks every so often.
    #[arg(long, value_parser = duration)]
    reorg_every: Option<Duration>,
    /// How many blocks a reorg replaces at most: 1, 2 and so on in turn.
    #[arg(long, default_value_t = 3)]
    reorg_depth: u32,
    /// Transactions a second that come to the mempool.
    #[arg(long)]
    mempool_rate: Option<f64>,
    /// Misbehave from the start: refuse, hang, slow, cut, status, html, truncated, warming, code, wrong-shape, wrong-answer, each with
    /// :key=value,.. for method, after, times, seconds, and ms, status, code, message. May be given more than once.
    #[arg(long)]
    fault: Vec<FaultWords>,
    /// `user:password` that callers must give; anyone may call unless told.
    #[arg(long)]
    login: Option<String>,
    /// Requests answered at one time; more get HTTP 429.
    #[arg(long, default_value_t = 100)]
    most_requests: usize,
}

impl StubArguments {
    /// Serves until the process is ended.
    ///
    /// # Errors
    ///
    /// If the file is no chain file, or an address cannot be had.
    pub fn run(self) -> Result<()> {
        let stub = Stub::open(&self.chain, self.start_height.map(Height::new))?;
        for FaultWords(rule) in &self.fault {
            stub.node().faults().add(rule.clone());
        }
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?
            .block_on(self.serve(stub))
    }

    async fn serve(self, stub: Stub) -> Result<()> {
        let listener = TcpListener::bind(self.listen)
            .await
            .with_context(|| format!("listening on {}", self.listen))?;
        let control = match self.control {
            None => None,
            Some(address) => Some(
                TcpListener::bind(address)
                    .await
                    .with_context(|| format!("listening on {address}"))?,
            ),
        };
        let settings = http::Settings {
            login: self.login.clone(),
            most_requests: self.most_requests,
            ..http::Settings::default()
        };
        let orders = async {
            match control {
                Some(listener) => serve_control(stub.clone(), listener).await,
                None => pending().await,
            }
        };
        let tip = every(self.tip_every, |_| stub.mine().map(drop));
        let depths = u64::from(self.reorg_depth.max(1));
        let reorg = every(self.reorg_every, |nth| {
            let depth = (nth % depths) as u32 + 1;
            // Every third branch is no longer than what it replaces.
            let blocks = if nth % 3 == 2 { depth } else { depth + 1 };
            stub.reorg(depth, blocks).map(drop)
        });
        let pause = self
            .mempool_rate
            .filter(|rate| *rate > 0.0)
            .map(|rate| Duration::from_secs_f64((1.0 / rate).min(86_400.0)));
        let mempool = every(pause, |_| stub.add_to_mempool().map(drop));
        tokio::select! {
            served = http::serve(stub.node().clone(), listener, settings) => served.map_err(Into::into),
            () = orders => Ok(()),
            ended = tip => ended,
            ended = reorg => ended,
            ended = mempool => ended,
        }
    }
}

/// Does something again and again, counting from 0; never, without a pause to keep. Ends with the first error.
async fn every(pause: Option<Duration>, mut action: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let Some(pause) = pause else {
        return pending().await;
    };
    let mut clock = tokio::time::interval(pause);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first tick comes at once.
    clock.tick().await;
    for nth in 0.. {
        clock.tick().await;
        action(nth)?;
    }
    Ok(())
}

/// A duration such as 500ms, 25s or 2m.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000)];
    let found = units.into_iter().find_map(|(unit, factor)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(factor)
    });
    match found {
        Some(0) | None => Err(format!("'{text}' is no duration like 500ms, 25s or 2m")),
        Some(milliseconds) => Ok(Duration::from_millis(milliseconds)),
    }
}
