//! Workload `ranges-1`: one client asks for consecutive ranges, one after the other, and reads them to their ends.
//!
//! Timed: from the first request to the last block of the last range, over one connection that is open before. The client splits the stream
//! into messages, copies and hashes them, so on a fast server it is the client that is measured; the digest is that of the same blocks
//! from any right server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::Samples;
use crate::grpc::Client;

/// How long a server may send nothing.
const PATIENCE: Duration = Duration::from_secs(120);

/// `lightship-harness bench-ranges`: Measures how fast one client receives compact blocks (workload ranges-1).
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The servers, such as http://127.0.0.1:9067; with several, they are measured in turns and must send the same bytes
    #[arg(long = "server", value_name = "URL", required = true)]
    pub servers: Vec<String>,
    /// Lowest height asked for (Zebra's built-in service refuses 0)
    #[arg(long, value_name = "HEIGHT", default_value = "1")]
    pub first: u64,
    /// Highest height asked for; the first server's tip when left out
    #[arg(long, value_name = "HEIGHT")]
    pub last: Option<u64>,
    /// Blocks in each range
    #[arg(long, value_name = "BLOCKS", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    pub span: u64,
    /// Times that each server is measured
    #[arg(long, value_name = "N", default_value = "5")]
    pub repeats: u32,
}

/// What one pass over all ranges gave.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Received {
    blocks: u64,
    bytes: u64,
    digest: [u8; 32],
}

impl Arguments {
    /// Measures and tells.
    ///
    /// # Errors
    ///
    /// When a server cannot be reached, refuses, or sends other bytes than the first.
    pub fn run(&self) -> Result<String> {
        tokio::runtime::Runtime::new()?.block_on(self.measure())
    }

    async fn measure(&self) -> Result<String> {
        let mut clients = Vec::new();
        for server in &self.servers {
            clients.push((Client::connect(server).await?, Samples::default()));
        }
        let last = match self.last {
            Some(last) => last,
            None => {
                let (client, _) = clients.first_mut().context("a server")?;
                client.latest_block().await?.height
            }
        };
        ensure!(self.first <= last, "--first {} is above {last}", self.first);
        let mut agreed: Option<Received> = None;
        for _ in 0..self.repeats {
            for ((client, samples), server) in clients.iter_mut().zip(&self.servers) {
                let start = Instant::now();
                let received = self
                    .pass(client, last)
                    .await
                    .with_context(|| server.clone())?;
                samples.add(received.blocks, start.elapsed());
                let agreed = agreed.get_or_insert_with(|| received.clone());
                ensure!(
                    *agreed == received,
                    "{server} sent {received:?}, others {agreed:?}"
                );
            }
        }
        let received = agreed.context("nothing was measured: --repeats 0")?;
        let mut report = format!(
            "ranges-1: heights {}-{last} in ranges of {}; {} blocks, {} bytes, SHA-256 {}",
            self.first,
            self.span,
            received.blocks,
            received.bytes,
            const_hex::encode(received.digest),
        );
        for ((_, samples), server) in clients.iter().zip(&self.servers) {
            report.push_str(&format!("\n{server}: blocks {samples}"));
        }
        Ok(report)
    }

    async fn pass(&self, client: &mut Client, last: u64) -> Result<Received> {
        let (mut blocks, mut bytes, mut hasher) = (0, 0, Sha256::new());
        let mut from = self.first;
        while from <= last {
            let to = last.min(from.saturating_add(self.span - 1));
            let late = || format!("{from}-{to}: nothing came in {PATIENCE:?}");
            let range = timeout(PATIENCE, client.block_range(from, to)).await;
            let mut range = range.with_context(late)??;
            let before = blocks;
            while let Some(block) = timeout(PATIENCE, range.message())
                .await
                .with_context(late)??
            {
                blocks += 1;
                bytes += block.len() as u64;
                hasher.update(&block);
            }
            ensure!(
                blocks - before == to - from + 1,
                "{from}-{to}: {} blocks",
                blocks - before
            );
            from = to + 1;
        }
        Ok(Received {
            blocks,
            bytes,
            digest: hasher.finalize().into(),
        })
    }
}
