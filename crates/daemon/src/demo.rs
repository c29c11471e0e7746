//! `lightship demo`: a chain inside the process, served like any other.
//!
//! In: how many blocks, how often a new one, where to listen. Out: a [`DemoChain`] whose tip moves, an index that follows it, answers on two ports, the
//! simulated node's JSON-RPC on a third if asked for, and a few commands to try.

use std::{
    io::{self, Write},
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use indicatif::MultiProgress;
use lightship_ingest::Stop;
use lightship_source::simulated::{
    SimulatedNode, StandIn,
    demo::{DemoChain, Event, Kind, Settings, activations},
    http,
};
use tracing::{error, info};

use crate::{
    cli::DemoArgs,
    config::{Pace, Store},
    run::{self, Feed, Upstream, bind},
    signals,
};

/// The protocol's service, as `grpcurl` wants it.
const SERVICE: &str = "cash.z.wallet.sdk.rpc.CompactTxStreamer";

/// Runs the demo until a signal.
///
/// # Errors
///
/// If a port is in use or the data directory cannot be.
pub fn demo(typed: &DemoArgs, bars: MultiProgress) -> anyhow::Result<ExitCode> {
    let runtime = run::runtime()?;
    let done = runtime.block_on(async {
        let asked = signals::stop_requested()?;
        // The ports first: what is in use is known at once, and who connects early waits for a moment, not in vain.
        let grpc = bind("--grpc-listen", typed.listen.grpc_listen).await?;
        let http = bind("--http-listen", typed.listen.http_listen).await?;
        let node_port = match typed.node_listen {
            Some(address) => Some(bind("--node-listen", address).await?),
            None => None,
        };
        let settings = Settings {
            seed: typed.seed,
            blocks: typed.blocks,
            now: now(),
            spacing_seconds: u32::try_from(typed.block_seconds).unwrap_or(u32::MAX),
        };
        let upgrades = activations(typed.blocks).up_to(typed.newest_upgrade);
        let chain = DemoChain::with_activations(settings, upgrades)
            .context("the demo chain cannot be made")?;
        let node = chain.node().clone();
        let rpc = match node_port {
            Some(listener) => {
                info!("the demo's node: http://{}", listener.local_addr()?);
                Some(tokio::spawn(http::serve(
                    node.clone(),
                    listener,
                    http::Settings::default(),
                )))
            }
            None => None,
        };
        let settings = run::transport(&typed.listen, lightship_serve::Settings::default())?;
        let private = settings.certificate.is_some();
        print_hints(&chain, private, grpc.local_addr()?, http.local_addr()?);

        let folder = Folder::new(typed)?;
        let stop = Stop::new();
        let ticker = tick(
            chain,
            Duration::from_secs(typed.block_seconds),
            stop.clone(),
        )?;
        let upstream = upstream(node);
        let served = run::serve_on(
            upstream,
            None,
            &folder.store,
            (grpc, http),
            settings,
            bars,
            asked,
        )
        .await;
        stop.stop();
        if let Some(rpc) = rpc {
            rpc.abort();
        }
        ticker.join().ok().context("the demo's clock panicked")?;
        served
    });
    runtime.shutdown_timeout(run::RUNTIME_GRACE);
    done
}

fn upstream(node: SimulatedNode) -> Upstream {
    let node = Arc::new(node);
    Upstream {
        feed: Feed {
            source: node.clone(),
            name: "the demo's node".into(),
            pace: Pace::default(),
        },
        node,
        indexer: None,
        hash: Arc::new(StandIn),
    }
}

/// The index's place: the one asked for, or one that is removed at the end.
struct Folder {
    store: Store,
    _temporary: Option<tempfile::TempDir>,
}

impl Folder {
    fn new(typed: &DemoArgs) -> anyhow::Result<Folder> {
        let (data_dir, temporary) = match &typed.data_dir {
            Some(dir) => (dir.clone(), None),
            None => {
                let made = tempfile::Builder::new()
                    .prefix("lightship-demo-")
                    .tempdir()
                    .context("cannot make a temporary folder: give --data-dir")?;
                (made.path().to_owned(), Some(made))
            }
        };
        Ok(Folder {
            store: Store::in_folder(data_dir),
            _temporary: temporary,
        })
    }
}

/// Lets the chain live on a thread of its own until `stop`.
fn tick(mut chain: DemoChain, every: Duration, stop: Stop) -> anyhow::Result<JoinHandle<()>> {
    let clock = thread::Builder::new().name("demo".into()).spawn(move || {
        while !stop.wait_timeout(every) {
            match chain.tick(now()) {
                Ok(Event::Grew { tip }) => info!("new block {tip}"),
                Ok(Event::Reorganized { depth, tip }) => {
                    info!("the top {depth} blocks were replaced, new tip {tip}");
                }
                Err(problem) => {
                    error!("the demo chain stands still: {problem}");
                    return;
                }
            }
        }
    });
    clock.context("cannot start the demo's clock")
}

fn now() -> u32 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// What to try, as text. Nobody has to read it.
fn print_hints(chain: &DemoChain, private: bool, grpc: SocketAddr, http: SocketAddr) {
    let hints = chain.hints();
    let transport = if private { "-insecure" } else { "-plaintext" };
    let call = |request: &str, method: &str| {
        let data = if request.is_empty() {
            String::new()
        } else {
            format!(" -d '{request}'")
        };
        format!("  grpcurl {transport}{data} {grpc} {SERVICE}/{method}")
    };
    let mut lines = vec![
        "A made-up chain: valid in form, worthless in value. Notes in it are random bytes, and its tree".into(),
        "states use a stand-in hash, so wallets can sync it but find nothing. Try:\n".into(),
        call("", "GetLightdInfo"),
        call(
            r#"{"start":{"height":1},"end":{"height":10}}"#,
            "GetBlockRange",
        ),
    ];
    for hint in &hints.transactions {
        if hint.kind == Kind::Ironwood {
            let request = format!(r#"{{"height":{}}}"#, hint.height);
            lines.push(call(&request, "GetBlock"));
        }
    }
    if let Some(busy) = hints.addresses.first() {
        let request = format!(r#"{{"addresses":["{}"]}}"#, busy.address);
        lines.push(call(&request, "GetTaddressBalance"));
    }
    lines.push(call("", "GetMempoolStream"));
    lines.push(format!("  curl http://{http}/readyz\n"));
    lines.push("Ctrl-C ends it.\n".into());
    // A demo without a reader is as good as one with.
    let _ = writeln!(io::stdout(), "{}", lines.join("\n"));
}
