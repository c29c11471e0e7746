//! `lightship check`: whether `serve` would run with these settings, before it does.
//!
//! In: what was typed for `serve`. Out: a line for each thing looked at, and an exit code that says which of them failed. Nothing is
//! changed: a folder that is missing is not made, an index is not opened for writing, a port is given back at once.

use std::{
    fmt::Display,
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use lightship_chain::{Height, HeightRange, Network, ShieldedPool};
use lightship_index::StoreId;
use lightship_serve::Certificate;
use lightship_source::{
    Answer, Error as NodeError, Node as _, NodeInfo, indexer::Indexer, rpc::RpcNode,
    simulated::Address,
};

use crate::{cli::ServeArgs, config, run};

/// The exit code where the settings themselves cannot be used, as for a mistyped flag.
pub const WRONG_SETTINGS: u8 = 2;
/// Added to the exit code if the node failed; the others likewise.
const NODE: u8 = 4;
const DISK: u8 = 8;
const PORTS: u8 = 16;
const CERTIFICATE: u8 = 32;

/// A node that takes longer for one answer is no node to build on.
const PATIENCE: Duration = Duration::from_secs(15);
/// With less than this an index cannot even grow by a day.
const LEAST_BYTES: u64 = 1 << 30;
/// What a new index of the main network takes, and room to work in.
const MAIN_BYTES: u64 = 40 << 30;
/// A certificate that ends sooner is warned of.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// What was found, and what it means.
struct Report {
    lines: Vec<String>,
    failed: u8,
}

impl Report {
    fn fine(&mut self, text: impl Display) {
        self.lines.push(format!("ok    {text}"));
    }

    fn warn(&mut self, text: impl Display) {
        self.lines.push(format!("warn  {text}"));
    }

    fn fail(&mut self, part: u8, text: impl Display) {
        self.lines.push(format!("FAIL  {text}"));
        self.failed |= part;
    }
}

/// Looks at everything, prints a line each; the exit code is 0, or 2 for settings that cannot be used plus 4 (node), 8 (disk), 16
/// (ports) and 32 (certificate) for each part that failed.
///
/// # Errors
///
/// If the report cannot be written.
pub fn check(typed: &ServeArgs) -> anyhow::Result<ExitCode> {
    let mut report = Report {
        lines: Vec::new(),
        failed: 0,
    };
    let network = settings(typed, &mut report);
    if let Ok(endpoint) = config::endpoint(&typed.node) {
        run::runtime()?.block_on(async {
            let node = RpcNode::new(endpoint);
            self::node(&node, network, &mut report).await;
            if let Ok(Some(indexer)) = config::indexer(typed.zebra_indexer.as_deref()) {
                self::indexer(&indexer, &node, &mut report).await;
            }
        });
    }
    if let Some(dir) = &typed.store.data_dir {
        disk(dir, network, &mut report);
    }
    ports(typed, &mut report);
    certificate(typed, &mut report);
    let mut out = io::stdout().lock();
    for line in &report.lines {
        writeln!(out, "{line}")?;
    }
    Ok(ExitCode::from(report.failed))
}

/// Whether the settings make sense together; the network, if one is named.
fn settings(typed: &ServeArgs, report: &mut Report) -> Option<Network> {
    let network = config::network(&typed.node.network);
    let problems = [
        network.as_ref().err().map(ToString::to_string),
        told(config::endpoint(&typed.node)),
        told(config::indexer(typed.zebra_indexer.as_deref())),
        told(config::Store::new(&typed.store)),
        told(config::donation_address(typed.donation_address.as_deref())),
        told(config::origins(&typed.listen.cors_origins)),
        told(config::certificate(&typed.listen)),
    ];
    let before = report.failed;
    for problem in problems.into_iter().flatten() {
        report.fail(WRONG_SETTINGS, format_args!("settings: {problem}"));
    }
    if report.failed == before {
        report.fine("settings: they can be used");
    }
    network.ok().flatten()
}

fn told<T>(result: Result<T, config::Error>) -> Option<String> {
    let error = anyhow::Error::from(result.err()?);
    Some(format!("{error:#}"))
}

async fn node(node: &RpcNode, network: Option<Network>, report: &mut Report) {
    let info = match within(node.info()).await {
        Ok(info) => info,
        Err(problem) => {
            let remedy = if problem.is_credentials() {
                ": see --node-cookie, or --node-user and --node-password-file"
            } else {
                ""
            };
            return report.fail(NODE, format_args!("node: {problem}{remedy}"));
        }
    };
    report.fine(format_args!(
        "node: {} at block {}",
        info.subversion, info.tip.height
    ));
    let found = info.genesis.map(|genesis| {
        // A chain of one's own making is a private one.
        Network::from_genesis(genesis).unwrap_or(Network::Regtest)
    });
    match (network, found) {
        (Some(wanted), Some(found)) if wanted != found => {
            return report.fail(
                NODE,
                format_args!("node: it is on network {found}, and --network is {wanted}"),
            );
        }
        (_, Some(found)) => report.fine(format_args!("node: it is on network {found}")),
        (_, None) => report.warn("node: it does not say which network it is on"),
    }
    methods(node, &info, found.unwrap_or(Network::Main), report).await;
}

/// Asks each kind of question once.
async fn methods(node: &RpcNode, info: &NodeInfo, network: Network, report: &mut Report) {
    let tip = info.tip;
    let address = Address::PublicKeyHash([0; 20]).encode(network);
    let at_tip = HeightRange::new(tip.height, tip.height);
    let mut answers = vec![
        ("blocks", within(node.block(tip.hash)).await.err()),
        ("hashes", within(node.hash_at(Height::GENESIS)).await.err()),
        ("tree states", within(node.tree_state(tip.hash)).await.err()),
        ("tree sizes", within(node.tree_sizes(tip.hash)).await.err()),
        ("mempool", within(node.mempool()).await.err()),
        (
            "subtree roots",
            within(node.subtree_roots(ShieldedPool::Sapling, 0, Some(1)))
                .await
                .err(),
        ),
    ];
    let needed = answers.len();
    if let Some(range) = at_tip {
        let history = within(node.address_transactions(address.clone(), range)).await;
        answers.push(("address histories", history.err()));
    }
    let balance = within(node.address_balance(vec![address])).await;
    answers.push(("address balances", balance.err()));
    let mut answered = Vec::new();
    for (place, (what, problem)) in answers.into_iter().enumerate() {
        match problem {
            None => answered.push(what),
            Some(problem) if place < needed => {
                report.fail(NODE, format_args!("node: no {what}: {problem}"));
            }
            Some(problem) => report.warn(format_args!(
                "node: no {what}, wallets will be told so: {problem}"
            )),
        }
    }
    report.fine(format_args!("node: it answers for {}", answered.join(", ")));
}

/// Whether the node pushes, and whether it is the node that is asked.
async fn indexer(indexer: &Indexer, node: &RpcNode, report: &mut Report) {
    let address = &indexer.address;
    match indexer.probe().await {
        Err(problem) => report.fail(
            NODE,
            format_args!(
                "node: it does not push at {address}: {problem} (see --zebra-indexer, and rpc.indexer_listen_addr in zebrad's configuration)"
            ),
        ),
        Ok(None) => report.warn(format_args!(
            "node: it pushes at {address}, and names no tip to begin with"
        )),
        Ok(Some(tip)) => match within(node.hash_at(tip.height)).await {
            Ok(Some(hash)) if hash != tip.hash => report.fail(
                NODE,
                format_args!(
                    "node: what pushes at {address} is another one: it names block {tip}, where --node has {hash}"
                ),
            ),
            _ => report.fine(format_args!(
                "node: it pushes tips and mempool at {address}, first block {tip}"
            )),
        },
    }
}

async fn within<T>(answer: Answer<'_, T>) -> Result<T, NodeError> {
    tokio::time::timeout(PATIENCE, answer)
        .await
        .unwrap_or_else(|_| {
            Err(NodeError::Unsupported {
                what: format!("no answer within {} s", PATIENCE.as_secs()),
            })
        })
}

fn disk(dir: &Path, network: Option<Network>, report: &mut Report) {
    let shown = dir.display();
    let existing = match StoreId::of(dir) {
        Ok(existing) => existing,
        Err(problem) => {
            let problem = anyhow::Error::from(problem);
            return report.fail(DISK, format_args!("disk: {problem:#}"));
        }
    };
    match (existing, network) {
        (Some(found), Some(wanted)) if found.network != wanted => report.fail(
            DISK,
            format_args!("disk: {shown} holds {found}, and --network is {wanted}"),
        ),
        (Some(found), _) => report.fine(format_args!("disk: {shown} holds {found}")),
        (None, _) => match stranger(dir) {
            Some(name) => report.fail(
                DISK,
                format_args!(
                    "disk: {shown} holds {name}, which is no index: give another --data-dir"
                ),
            ),
            None => report.fine(format_args!("disk: a new index will be made in {shown}")),
        },
    }
    if is_locked(dir) {
        report.fail(
            DISK,
            format_args!("disk: another lightship writes to {shown}"),
        );
    }
    // A folder that is not there will be made in the nearest one that is.
    let Some(base) = dir.ancestors().find(|base| base.is_dir()) else {
        return report.fail(DISK, format_args!("disk: {shown} cannot be made"));
    };
    match tempfile::tempfile_in(base) {
        Ok(_) => report.fine(format_args!("disk: {} can be written to", base.display())),
        Err(problem) => report.fail(
            DISK,
            format_args!("disk: {} cannot be written to: {problem}", base.display()),
        ),
    }
    room(
        base,
        existing.is_none() && network == Some(Network::Main),
        report,
    );
}

/// A file in `dir` where there is no index.
fn stranger(dir: &Path) -> Option<String> {
    fs::read_dir(dir)
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .find(|name| name != "lock")
}

fn is_locked(dir: &Path) -> bool {
    File::open(dir.join("lock"))
        .is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(unix)]
fn room(dir: &Path, new_on_main: bool, report: &mut Report) {
    let found = match rustix::fs::statvfs(dir) {
        Ok(found) => found,
        Err(problem) => {
            return report.warn(format_args!("disk: the room left is not known: {problem}"));
        }
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!("disk: {} GiB are free", free >> 30);
    if free < LEAST_BYTES {
        report.fail(DISK, text);
    } else if new_on_main && free < MAIN_BYTES {
        report.warn(format_args!(
            "{text}; an index of the main network takes up to {} GiB",
            MAIN_BYTES >> 30
        ));
    } else {
        report.fine(text);
    }
}

#[cfg(not(unix))]
fn room(_: &Path, _: bool, report: &mut Report) {
    report.warn("disk: the room left is not known on this system");
}

fn ports(typed: &ServeArgs, report: &mut Report) {
    let listen = &typed.listen;
    for (flag, address) in [
        ("--grpc-listen", listen.grpc_listen),
        ("--http-listen", listen.http_listen),
    ] {
        match TcpListener::bind(address) {
            Ok(_) => report.fine(format_args!("ports: {address} is free")),
            Err(problem) => report.fail(
                PORTS,
                format_args!("ports: cannot listen on {address} ({flag}): {problem}"),
            ),
        }
    }
    let (wallets, operators) = (listen.grpc_listen, listen.http_listen);
    if same(wallets, operators) {
        report.fail(PORTS, "ports: --grpc-listen and --http-listen are the same");
    }
    if !operators.ip().is_loopback() {
        report.warn(format_args!(
            "ports: others can reach /metrics on {operators}"
        ));
    }
}

fn same(one: SocketAddr, other: SocketAddr) -> bool {
    one == other && one.port() != 0
}

fn certificate(typed: &ServeArgs, report: &mut Report) {
    let (chain, key) = match config::certificate(&typed.listen) {
        Ok(Some(files)) => files,
        // Half a pair is told among the settings.
        Err(_) => return,
        Ok(None) => {
            let address = typed.listen.grpc_listen;
            if !address.ip().is_loopback() && !typed.listen.no_tls_very_insecure {
                report.warn(format_args!(
                    "certificate: none, so wallets are spoken to in plaintext on {address}"
                ));
            }
            return;
        }
    };
    let certificate = match Certificate::load(chain, key) {
        Ok(certificate) => certificate,
        Err(problem) => {
            let problem = anyhow::Error::from(problem);
            return report.fail(CERTIFICATE, format_args!("certificate: {problem:#}"));
        }
    };
    match certificate.expires().duration_since(SystemTime::now()) {
        Err(_) => report.fail(CERTIFICATE, "certificate: it has expired"),
        Ok(left) if left < SOON => report.warn(format_args!(
            "certificate: it ends in {} h",
            left.as_secs() / 3_600
        )),
        Ok(left) => report.fine(format_args!(
            "certificate: it fits its key and ends in {} days",
            left.as_secs() / 86_400
        )),
    }
}
