//! A server's life: `build-1` (from an empty store to the whole chain), `restart-1` (from a stop to serving again), `idle-1` (nobody asks).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::Stage;
use crate::bench::{
    ask::Asked,
    drain,
    figures::{Figure, Proof},
    plan::{IdlePlan, Kind},
    server::{Server, latest},
};

/// The newest blocks, as a wallet that was away for some minutes asks for them.
const NEWEST: u32 = 10;
const IDLE_SETTLES: Duration = Duration::from_secs(2);

/// Waits until the server holds the chain; writes what that took if it began with an empty store.
///
/// # Errors
///
/// When it does not come to the tip, or the record cannot be written.
pub fn build(
    stage: &mut Stage<'_, '_>,
    server: &Server,
    patience: Duration,
    recorded: bool,
) -> Result<()> {
    let case = "from an empty store";
    let came = come_up(stage, server, patience);
    // What it used to come to the tip; what goes on after that is its background's.
    let used = came.and_then(|times| {
        let usage = server.usage()?;
        let settled = settle(stage, server, patience)?;
        Ok((times, usage, settled))
    });
    let ((first, newest, whole), usage, settled) = match used {
        Ok(times) => times,
        Err(error) => {
            if recorded {
                stage.recorder.failure(case, "to tip", &error)?;
            }
            return Err(error);
        }
    };
    if !recorded {
        return Ok(());
    }
    if stage.kind() == Kind::Node {
        let error = anyhow::anyhow!("the service is the node's own and builds nothing");
        return stage.recorder.failure(case, "to tip", &error);
    }
    let ground = stage.setting.ground;
    let index = server.index_bytes(stage.setting)?;
    // Proved by every block of the chain, read once, outside of what is timed.
    let target = stage.target(server, None);
    server.falsify(true);
    let proved = drain::prove_all(&target);
    server.falsify(false);
    let blocks = f64::from(ground.tip + 1);
    let outcome = proved.map(|digest| {
        let wire = ground.expected.range(0, ground.tip.into());
        let wire = wire.map_or(f64::NAN, |bytes| bytes.len() as f64);
        let mut figures = vec![
            Figure::lower("first answer", "s", first),
            Figure::lower("first newest blocks", "s", newest),
            Figure::lower("to tip", "s", whole),
            Figure::higher("throughput", "blocks/s", blocks / whole),
            Figure::lower("server cpu", "CPU s", usage.cpu()),
            Figure::lower("index size", "MB", index.all as f64 / 1e6),
            Figure::lower(
                "index size to blocks served",
                "of their bytes",
                index.all as f64 / wire,
            ),
            Figure::lower("read", "MB", usage.read_bytes as f64 / 1e6),
            Figure::lower("written", "MB", usage.written_bytes as f64 / 1e6),
            Figure::lower("rss peak", "MB", usage.rss_peak as f64 / 1e6),
            Figure::lower("rss anon", "MB", usage.rss_anon as f64 / 1e6),
        ];
        if let Some((seconds, cpu)) = settled {
            figures.push(Figure::lower("settled", "s", seconds));
            figures.push(Figure::lower("server cpu until settled", "CPU s", cpu));
        }
        if !index.parts.is_empty() {
            figures.push(Figure::lower(
                "index size to blocks served, parts apart",
                "of their bytes",
                index.rest() as f64 / wire,
            ));
        }
        for (name, bytes) in &index.parts {
            let metric = format!("index size, {name}");
            figures.push(Figure::lower(metric, "MB", *bytes as f64 / 1e6));
        }
        let proof = Proof {
            count: u64::from(ground.tip) + 1,
            digest: Some(digest),
        };
        (proof, figures)
    });
    stage.outcome(case, "to tip", outcome)
}

/// Waits until the server has done what it goes on with in the background, if the plan knows how that is told. Gives the seconds since the start and its CPU
/// seconds until then.
fn settle(
    stage: &Stage<'_, '_>,
    server: &Server,
    patience: Duration,
) -> Result<Option<(f64, f64)>> {
    if stage.setting.plan.settled.is_none() {
        return Ok(None);
    }
    let tip = stage.setting.ground.tip;
    server.wait(patience, || {
        server
            .look_settled(stage.setting, tip)
            .context("it has not settled")
    })?;
    let seconds = server.started.elapsed().as_secs_f64();
    Ok(Some((seconds, server.usage()?.cpu())))
}

/// Seconds from the start to the first answer, to the newest blocks, to the whole chain.
fn come_up(stage: &Stage<'_, '_>, server: &Server, patience: Duration) -> Result<(f64, f64, f64)> {
    let since = || server.started.elapsed().as_secs_f64();
    if stage.kind() == Kind::RawSender {
        server.wait(patience, || {
            Ok(std::net::TcpStream::connect(server.address)?)
        })?;
        return Ok((since(), since(), since()));
    }
    let first = server.wait(patience, || {
        ensure!(server.latest()?.height > 0, "it has no block yet");
        Ok(since())
    })?;
    let tip = stage.setting.ground.tip;
    let target = stage.target(server, None);
    // Some servers answer from the node before their index holds anything, so this may be long before the end.
    let mut newest = None;
    let whole = server.wait(patience, || {
        if newest.is_none() && drain::prove_newest(&target, NEWEST).is_ok() {
            newest = Some(since());
        }
        if stage.kind() == Kind::Program {
            server.look_ready(stage.setting, tip)?;
        }
        ensure!(newest.is_some(), "its newest blocks are not the chain's");
        Ok(since())
    })?;
    Ok((first, newest.unwrap_or(whole), whole))
}

/// Stops the server, starts it again on its store, and waits for it. Between the two `meanwhile` may look at the store.
///
/// # Errors
///
/// When it does not come back, or the record cannot be written.
pub fn restart(
    stage: &mut Stage<'_, '_>,
    server: Server,
    patience: Duration,
    recorded: bool,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<Server> {
    let case = "on a finished index";
    if !server.own_process() {
        if recorded {
            let error = anyhow::anyhow!("the service is the node's own and starts with it");
            stage.recorder.failure(case, "to serving", &error)?;
        }
        return Ok(server);
    }
    let stopped = server.stop();
    meanwhile()?;
    let server = Server::start(stage.setting, false)?;
    server.suite(stage.recorder.suite);
    server.falsify(recorded);
    let came = come_up(stage, &server, patience);
    server.falsify(false);
    let outcome = came.and_then(|(first, newest, whole)| {
        let stopped = stopped?;
        let usage = server.usage()?;
        let proof = Proof {
            count: NEWEST.into(),
            digest: None,
        };
        let figures = vec![
            Figure::lower("first answer", "s", first),
            Figure::lower("to serving", "s", newest),
            Figure::lower("to tip", "s", whole),
            Figure::lower("server cpu", "CPU s", usage.cpu()),
            Figure::lower("stop", "s", stopped.as_secs_f64()),
        ];
        Ok((proof, figures))
    });
    if recorded {
        stage.outcome(case, "to serving", outcome)?;
    }
    // The raw sender has no latest block to tell, and is up as soon as it can be connected to.
    if stage.kind() != Kind::RawSender {
        server.wait(patience, || server.latest().map(drop))?;
    }
    Ok(server)
}

/// Nobody asks for a while.
///
/// # Errors
///
/// If the record cannot be written.
pub fn idle(stage: &mut Stage<'_, '_>, server: &Server, plan: &IdlePlan) -> Result<()> {
    let outcome = rest(stage, server, plan.time);
    stage.outcome("after the build", "cpu", outcome)
}

fn rest(stage: &Stage<'_, '_>, server: &Server, time: Duration) -> Result<(Proof, Vec<Figure>)> {
    std::thread::sleep(IDLE_SETTLES);
    let before = server.usage()?;
    let began = Instant::now();
    std::thread::sleep(time);
    let seconds = began.elapsed().as_secs_f64();
    let after = server.usage()?;
    let ground = stage.setting.ground;
    let method = ground.method("GetLatestBlock").context("a question")?;
    // It rested, but it is there.
    Asked::prove(server, None, method)?;
    if latest(&mut server.connect()?)?.height != u64::from(ground.tip) {
        bail!("it is not at the tip");
    }
    let proof = Proof {
        count: 1,
        digest: Some(method.digest()),
    };
    let figures = vec![
        Figure::lower("cpu", "CPU s/s", (after.cpu() - before.cpu()) / seconds),
        Figure::lower("rss anon", "MB", after.rss_anon as f64 / 1e6),
        Figure::lower("rss file", "MB", after.rss_file as f64 / 1e6),
        Figure::lower("threads", "threads", after.threads as f64),
        Figure::lower("descriptors", "descriptors", after.descriptors as f64),
    ];
    Ok((proof, figures))
}
