//! What the program holds of its own, beside the files it maps, is bounded.

use std::{fs, time::Duration};

use lightship_chain::Upgrade;
use lightship_harness::{
    grpc::{self, Client, Window},
    proto::Empty,
};

use super::Laboratory;
use crate::e2e::alone;

/// Anonymous resident memory of the process, in bytes.
fn anonymous(laboratory: &Laboratory) -> u64 {
    let id = laboratory.server.id().unwrap();
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() << 10
}

/// Each reader that had stopped cost the server all that it had asked for.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_stop_cost_a_bounded_amount_each() {
    const READERS: u64 = 96;
    // Above what one is said to cost, and far below the eight megabytes it asks for.
    const MOST_EACH: u64 = 1 << 20;
    let _turn = alone().await;
    let mut laboratory = Laboratory::new(Upgrade::Nu6_3, 300, 200);
    let mut client = laboratory.client().await;
    let tip = u64::from(laboratory.tip.id.height);
    let blocks = client.blocks(0, tip).await.unwrap();
    let bytes: usize = blocks.iter().map(Vec::len).sum();
    assert!(bytes as u64 > 6 * MOST_EACH, "{bytes}");
    let before = anonymous(&laboratory);
    let mut held = Vec::new();
    for _ in 0..6 {
        let narrow = grpc::connect(&laboratory.server.grpc_url(), Window::Narrow)
            .await
            .unwrap();
        let mut client = Client::new(narrow);
        for each in 0..READERS / 6 {
            let mut request = grpc::range(0, tip);
            if each % 2 == 0 {
                request.pool_types = vec![1, 2, 3, 4];
            }
            held.push(client.stream("GetBlockRange", request).await.unwrap());
        }
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let grown = anonymous(&laboratory).saturating_sub(before);
    eprintln!(
        "{READERS} readers that stopped: {} kB each",
        grown / READERS / 1_000
    );
    assert!(grown < READERS * MOST_EACH, "{grown} bytes");
    let latest = client.latest_block().await.unwrap();
    assert_eq!(latest.height, tip);
    drop(held);
}

/// Memory grew with each block and each wallet that came and went, until the process was killed, after days.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn memory_stays_flat_while_blocks_and_wallets_come_and_go() {
    const MOST: u64 = 12 << 20;
    let _turn = alone().await;
    let mut laboratory = Laboratory::new(Upgrade::Nu6_3, 300, 40);
    laboratory.client().await;
    let mut levels = Vec::new();
    for round in 0..5 {
        for block in 0..120 {
            if block % 30 == 29 {
                laboratory.node.rollback(2).unwrap();
                let top = laboratory.node.best().unwrap();
                let time = laboratory.tip.time;
                let seed = 1_000 + round * 120 + block;
                laboratory.chain = laboratory.chain.branch(top, time, seed);
            }
            laboratory.mine(10);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut client = laboratory.client().await;
        let tip = u64::from(laboratory.tip.id.height);
        for _ in 0..20 {
            let mut wallet = Client::connect(&laboratory.server.grpc_url())
                .await
                .unwrap();
            let mut request = grpc::range(0, tip);
            request.pool_types = vec![1, 2, 3, 4];
            let mut all = wallet.stream("GetBlockRange", request).await.unwrap();
            while all.message().await.unwrap().is_some() {}
            drop(wallet.stream("GetMempoolStream", Empty {}).await.unwrap());
        }
        assert_eq!(client.latest_block().await.unwrap().height, tip);
        levels.push(anonymous(&laboratory));
    }
    eprintln!("anonymous memory after each of five rounds: {levels:?}");
    // What a process takes once and keeps, it has by the second round.
    let grown = levels[4].saturating_sub(levels[1]);
    assert!(grown < MOST, "{levels:?}");
}
