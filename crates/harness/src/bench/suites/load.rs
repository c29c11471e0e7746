//! Load on a chain that stands still: `latency-1`, `ranges-2`, `concurrency-2`, `download-1`, `rpc-1`, `tls-1`.

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

/// Ends the names of cases that were measured without the node.
const NODE_OFF: &str = ", node off";
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

/// Single calls after the node has ended, as `latency.node_off` and `rpc.node_off` say. The chain may have moved before, so only questions about
/// old blocks have the same answers; those about tree states are left out where a stand-in hashes them.
///
/// # Errors
///
/// If the node cannot be ended, or the record not be written.
pub fn without_node(
    stage: &mut Stage<'_, '_>,
    server: &Server,
    latency: Option<&LatencyPlan>,
    rpc: Option<&RpcPlan>,
) -> Result<()> {
    stage.setting.node.end()?;
    std::thread::sleep(NODE_GONE);
    let ground = stage.setting.ground;
    // Nobody can know tree states without the node whose stand-in hash they have.
    let known = |name: &&String| ground.has_true_trees() || !name.contains("TreeState");
    let prove = |name: &str| -> Result<Asked<'_>> {
        let method = ground.method(name);
        let method = method.with_context(|| format!("node_off: the bench does not ask {name}"))?;
        Asked::prove(server, None, method)
    };
    if let Some(plan) = latency {
        (stage.recorder.suite, stage.recorder.part) = ("latency-1", NODE_OFF);
        server.suite("latency-1");
        for name in plan.node_off.iter().filter(known) {
            let outcome = prove(name).and_then(|asked| asked.latency(plan.requests, plan.time));
            stage.outcome(name, "p50", outcome)?;
        }
    }
    if let Some(plan) = rpc {
        stage.recorder.suite = "rpc-1";
        server.suite("rpc-1");
        for name in plan.node_off.iter().filter(known) {
            let asked = prove(name);
            by_workers(stage, name, &asked, plan)?;
        }
    }
    stage.recorder.part = "";
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

/// Ranges by many clients, `most` of them at a time.
///
/// # Errors
///
/// If the record cannot be written.
pub fn concurrency(
    stage: &mut Stage<'_, '_>,
    server: &Server,
    plan: &ConcurrencyPlan,
    most: u32,
) -> Result<()> {
    for size in &plan.sizes {
        for clients in plan.clients.iter().filter(|clients| **clients <= most) {
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
        if wanted {
            let asked = Asked::prove(server, None, method);
            by_workers(stage, method.name, &asked, plan)?;
        }
    }
    Ok(())
}

/// One method by each number of workers; where the plan wants it, ghz does the same right after.
fn by_workers(
    stage: &mut Stage<'_, '_>,
    name: &str,
    asked: &Result<Asked<'_>>,
    plan: &RpcPlan,
) -> Result<()> {
    for workers in &plan.workers {
        let case = format!("{name}, {}", counted(*workers, "worker"));
        let outcome = match asked {
            Ok(asked) => asked.throughput(*workers, plan.time),
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        let wanted = plan.ghz.as_ref().filter(|ghz| {
            ghz.workers.contains(workers) && ghz.methods.iter().any(|each| each == name)
        });
        // Where ours found a wrong answer, a figure of one that does not look would mislead.
        let outcome = match (outcome, asked, stage.ghz, wanted) {
            (Ok((proof, figures)), Ok(asked), Some(ghz), Some(wanted)) => {
                let opinion = asked.by_ghz(ghz, wanted, *workers);
                let beside = figures.into_iter().map(|figure| figure.beside(&opinion));
                Ok((proof, beside.collect()))
            }
            (outcome, ..) => outcome,
        };
        stage.outcome(&case, "throughput", outcome)?;
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
