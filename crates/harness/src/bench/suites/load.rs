//! Load on a chain that stands still: `latency-1`, `ranges-2`, `concurrency-1`, `download-1`, `rpc-1`, `tls-1`.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use tokio_rustls::rustls::ClientConfig;

use super::Stage;
use crate::bench::{
    ask::Asked,
    drain,
    figures::{counted, grouped},
    plan::{ConcurrencyPlan, DownloadPlan, Kind, LatencyPlan, RangesPlan, RpcPlan, TlsPlan},
    server::Server,
};

/// Methods that have one answer; the others stream, and are in `latency-1` only.
const UNARY: [&str; 9] = [
    "GetLightdInfo",
    "GetLatestBlock",
    "GetBlock",
    "GetBlockNullifiers",
    "GetTransaction",
    "GetTreeState",
    "GetLatestTreeState",
    "GetTaddressBalance",
    "GetAddressUtxos",
];

/// A server has noticed by then.
const NODE_GONE: Duration = Duration::from_secs(3);

/// Calls one after the other, a method a case.
///
/// # Errors
///
/// If the record cannot be written.
pub fn latency(stage: &mut Stage<'_, '_>, server: &Server, plan: &LatencyPlan) -> Result<()> {
    for method in &stage.setting.ground.methods {
        let outcome = Asked::prove(server, None, method)
            .and_then(|asked| asked.latency(plan.requests, plan.time));
        stage.outcome(method.name, "p50", outcome)?;
    }
    Ok(())
}

/// Calls one after the other after the node has ended. The chain may have moved before, so only questions about old blocks have the same answers; those
/// about tree states are left out where a stand-in hashes them.
///
/// # Errors
///
/// If the node cannot be ended, or the record not be written.
pub fn latency_without_node(
    stage: &mut Stage<'_, '_>,
    server: &Server,
    plan: &LatencyPlan,
) -> Result<()> {
    stage.setting.node.end()?;
    std::thread::sleep(NODE_GONE);
    let ground = stage.setting.ground;
    // Nobody can know tree states without the node whose stand-in hash they have.
    let known = |name: &&String| ground.has_true_trees() || !name.contains("TreeState");
    for name in plan.node_off.iter().filter(known) {
        let case = format!("{name}, node off");
        let method = stage.setting.ground.method(name);
        let outcome = method
            .with_context(|| format!("latency.node_off: the bench does not ask {name}"))
            .and_then(|method| Asked::prove(server, None, method))
            .and_then(|asked| asked.latency(plan.requests, plan.time));
        stage.outcome(&case, "p50", outcome)?;
    }
    Ok(())
}

/// Ranges of many sizes by one client.
///
/// # Errors
///
/// If the record cannot be written.
pub fn ranges(stage: &mut Stage<'_, '_>, server: &Server, plan: &RangesPlan) -> Result<()> {
    for size in &plan.sizes {
        drained(stage, server, (*size, 1), plan.time, None)?;
    }
    Ok(())
}

/// Ranges by many clients.
///
/// # Errors
///
/// If the record cannot be written.
pub fn concurrency(
    stage: &mut Stage<'_, '_>,
    server: &Server,
    plan: &ConcurrencyPlan,
) -> Result<()> {
    for size in &plan.sizes {
        for clients in &plan.clients {
            drained(stage, server, (*size, *clients), plan.time, None)?;
        }
    }
    Ok(())
}

fn drained(
    stage: &mut Stage<'_, '_>,
    server: &Server,
    (size, clients): (u32, u32),
    time: Duration,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<()> {
    let target = stage.target(server, tls);
    // A chain that is too short has no such case, for any server.
    if !target.fits(size) {
        return Ok(());
    }
    let outcome = drain::measure(&target, size, clients, time);
    let case = format!("{}, {}", counted(size, "block"), counted(clients, "client"));
    stage.outcome(&case, "throughput", outcome)
}

/// All blocks, as a new wallet wants them.
///
/// # Errors
///
/// If the record cannot be written.
pub fn download(stage: &mut Stage<'_, '_>, server: &Server, plan: &DownloadPlan) -> Result<()> {
    let target = stage.target(server, None);
    let outcome = drain::download(&target, plan.span, plan.patience);
    let case = format!("all blocks, {} a range", grouped(plan.span));
    stage.outcome(&case, "throughput", outcome)
}

/// Unary methods by many workers.
///
/// # Errors
///
/// If the record cannot be written.
pub fn rpc(stage: &mut Stage<'_, '_>, server: &Server, plan: &RpcPlan) -> Result<()> {
    for method in &stage.setting.ground.methods {
        let wanted = match &plan.methods {
            None => UNARY.contains(&method.name),
            Some(names) => names.iter().any(|name| name == method.name),
        };
        if !wanted {
            continue;
        }
        let asked = Asked::prove(server, None, method);
        for workers in &plan.workers {
            let case = format!("{}, {}", method.name, counted(*workers, "worker"));
            let outcome = match &asked {
                Ok(asked) => asked.throughput(*workers, plan.time),
                Err(error) => Err(anyhow::anyhow!("{error:#}")),
            };
            stage.outcome(&case, "throughput", outcome)?;
        }
    }
    Ok(())
}

/// Ranges and single calls over TLS.
///
/// # Errors
///
/// If the record cannot be written.
pub fn tls(stage: &mut Stage<'_, '_>, server: &Server, plan: &TlsPlan) -> Result<()> {
    if stage.kind() == Kind::Node {
        let error = anyhow::anyhow!("the node's own service has no TLS");
        return stage.recorder.failure("all cases", "throughput", &error);
    }
    let client = stage.setting.authority.client.clone();
    for size in &plan.sizes {
        for clients in [1, 16] {
            drained(stage, server, (*size, clients), plan.time, Some(&client))?;
        }
    }
    for name in ["GetLatestBlock", "GetBlock"] {
        if let Some(method) = stage.setting.ground.method(name) {
            let outcome = Asked::prove(server, Some(&client), method)
                .and_then(|asked| asked.latency(500, plan.time));
            stage.outcome(name, "p50", outcome)?;
        }
    }
    Ok(())
}
