//! A process made of the rooms.
//!
//! In: a source of blocks, a node to pass questions to, and settings. Out: an index that follows the node's best chain, answers
//! on two ports, and an orderly end. Programs that carry a node inside themselves call [`serve_from`] with their own source.
//!
//! The node's absence never ends the process; a store that cannot be used, a port in use, refused credentials at start and a failing disk do.

use std::{
    net::SocketAddr,
    num::NonZeroUsize,
    process::ExitCode,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use indicatif::MultiProgress;
use lightship_chain::{BlockHash, Network, tree::TreeHash};
use lightship_index::{StoreId, Writer};
use lightship_ingest::{Progress, Snapshot, Stop, TreesProgress, Until};
use lightship_serve::{Certificate, NodeHealth};
use lightship_source::{BlockSource, Node, indexer::Indexer};
use tokio::{
    net::TcpListener,
    runtime,
    sync::{Notify, watch},
    task,
};
use tracing::{info, warn};

use crate::{
    cli::{IndexArgs, ListenArgs, ServeArgs},
    config::{self, Pace, Store},
    connect, open_files, push, show, signals, trees,
};

/// The longest pause between two questions for the genesis block at start.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long a node is given to say which network it is on, where it need not be known.
const GLANCE: Duration = Duration::from_secs(2);
/// What still blocks a thread of the runtime after that (a node that hangs) does not hold the process.
pub(crate) const RUNTIME_GRACE: Duration = Duration::from_millis(300);
/// How long the ingest thread may take to end; a source that hangs is left behind.
const INGEST_GRACE: Duration = Duration::from_millis(500);

/// Where blocks come from.
#[derive(Clone)]
pub struct Feed {
    /// Blocks, in bulk.
    pub source: Arc<dyn BlockSource>,
    /// What to call it in messages, such as its URL.
    pub name: String,
    /// How often its tip is asked for.
    pub pace: Pace,
}

/// Where blocks and answers come from.
#[derive(Clone)]
pub struct Upstream {
    /// Blocks, in bulk.
    pub feed: Feed,
    /// Answers that are passed through.
    pub node: Arc<dyn Node>,
    /// Where it pushes, if it does.
    pub indexer: Option<Indexer>,
    /// How its note commitment trees are hashed.
    pub hash: Arc<dyn TreeHash>,
}

/// `lightship serve`.
///
/// # Errors
///
/// Whatever makes going on pointless, with the flag to mend where there is one.
pub fn serve(typed: &ServeArgs, bars: MultiProgress) -> anyhow::Result<ExitCode> {
    let network = config::network(&typed.node.network)?;
    let settings = lightship_serve::Settings {
        donation_address: config::donation_address(typed.donation_address.as_deref())?
            .unwrap_or_default(),
        ping: typed.ping_very_insecure,
        ..lightship_serve::Settings::default()
    };
    let indexer = config::indexer(typed.zebra_indexer.as_deref())?;
    let upstream = connect::upstream(&typed.node, indexer, network)?;
    serve_from(
        upstream,
        network,
        &Store::new(&typed.store)?,
        &typed.listen,
        settings,
        bars,
    )
}

/// `lightship index`.
///
/// # Errors
///
/// Whatever makes going on pointless, with the flag to mend where there is one.
pub fn index(typed: &IndexArgs, bars: MultiProgress) -> anyhow::Result<ExitCode> {
    let network = config::network(&typed.node.network)?;
    let feed = connect::feed(&typed.node, network)?;
    let store = Store::new(&typed.store)?;
    let stop = Stop::new();
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let mut asked = signals::stop_requested()?;
        let opened = tokio::select! {
            opened = open_store(&feed, network, &store) => opened?,
            _ = asked.changed() => bail!("stopped before anything was indexed"),
        };
        let ingest = Ingest::start(&feed, opened, &store, Until::Tip, stop.clone(), bars)?;
        let mut finished = ingest.finished.clone();
        let complete = tokio::select! {
            _ = finished.wait_for(|done| *done) => true,
            _ = asked.changed() => false,
        };
        let tip = ingest.progress.snapshot().indexed;
        ingest.end().await?;
        let end = tip.map_or("before genesis".into(), |tip| format!("at block {tip}"));
        if !complete {
            bail!("stopped {end}, short of the node's tip: the same command goes on from there");
        }
        info!("the index ends {end}");
        Ok(ExitCode::SUCCESS)
    });
    runtime.shutdown_timeout(RUNTIME_GRACE);
    done
}

/// With one thread more than cores: large answers may keep every core busy, and a thread is left for short calls (see [`lightship_serve::serve`]).
pub(crate) fn runtime() -> anyhow::Result<runtime::Runtime> {
    let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    runtime::Builder::new_multi_thread()
        .worker_threads(cores.get() + 1)
        .enable_all()
        .build()
        .context("cannot start the async runtime")
}

/// Serves wallets from an index that follows `upstream`, until a signal.
///
/// # Errors
///
/// Whatever makes going on pointless, with the flag to mend where there is one.
pub fn serve_from(
    upstream: Upstream,
    network: Option<Network>,
    store: &Store,
    listen: &ListenArgs,
    settings: lightship_serve::Settings,
    bars: MultiProgress,
) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let asked = signals::stop_requested()?;
        let grpc = bind("--grpc-listen", listen.grpc_listen).await?;
        let http = bind("--http-listen", listen.http_listen).await?;
        let settings = transport(listen, settings)?;
        serve_on(
            upstream,
            network,
            store,
            (grpc, http),
            settings,
            bars,
            asked,
        )
        .await
    });
    runtime.shutdown_timeout(RUNTIME_GRACE);
    done
}

/// `settings` with what was typed of certificates, browsers and limits.
pub(crate) fn transport(
    listen: &ListenArgs,
    settings: lightship_serve::Settings,
) -> anyhow::Result<lightship_serve::Settings> {
    let certificate = match config::certificate(listen)? {
        Some((chain, key)) => {
            let loaded = Certificate::load(chain, key).context("TLS cannot be offered")?;
            Some(Arc::new(loaded))
        }
        None => {
            let address = listen.grpc_listen;
            if !address.ip().is_loopback() && !listen.no_tls_very_insecure {
                warn!(
                    "wallets are spoken to in plaintext on {address}: give --tls-cert and --tls-key, or put a TLS proxy in front and let nobody else reach it (--no-tls-very-insecure ends this warning)"
                );
            }
            None
        }
    };
    Ok(lightship_serve::Settings {
        certificate,
        origins: config::origins(&listen.cors_origins)?,
        ..listen.tuning.apply(settings)
    })
}

/// As [`serve_from`], on listeners that are already bound, until `asked` turns true.
pub(crate) async fn serve_on(
    upstream: Upstream,
    network: Option<Network>,
    store: &Store,
    (grpc, http): (TcpListener, TcpListener),
    mut settings: lightship_serve::Settings,
    bars: MultiProgress,
    mut asked: watch::Receiver<bool>,
) -> anyhow::Result<ExitCode> {
    signals::reload_on_hang_up(settings.certificate.clone())?;
    info!(
        "wallets: {}://{}  operators: http://{}",
        match settings.certificate {
            Some(_) => "grpcs",
            None => "grpc",
        },
        grpc.local_addr()?,
        http.local_addr()?
    );
    settings.limits.connections = open_files::room_for_connections(settings.limits.connections)?;
    let opening = open_store(&upstream.feed, network, store);
    let (opened, others) = {
        let opened = async {
            tokio::select! {
                opened = opening => Some(opened),
                _ = asked.changed() => None,
            }
        };
        let why = "the node has not answered yet";
        lightship_serve::waiting(&grpc, &http, &settings, why, opened).await
    };
    let opened = match opened {
        Some(Ok(opened)) => opened,
        ended => {
            // Nobody serves after this: whoever asked is answered first.
            let _ = others.await;
            return ended.map_or(Ok(ExitCode::SUCCESS), |failed| {
                failed.map(|_| ExitCode::SUCCESS)
            });
        }
    };
    let reader = opened.reader();
    let ingest = Ingest::start(
        &upstream.feed,
        opened,
        store,
        Until::Forever,
        Stop::new(),
        bars,
    )?;
    let mut finished = ingest.finished.clone();
    let shutdown = async move {
        tokio::select! {
            _ = finished.wait_for(|done| *done) => {}
            _ = asked.wait_for(|stop| *stop) => {}
        }
    };
    let progress = ingest.progress.clone();
    let (trees, grown) = trees::start(&upstream, reader.clone(), store, &ingest.stop)?;
    let mempool_changed = Arc::<Notify>::default();
    let _pushed = upstream
        .indexer
        .clone()
        .map(|indexer| push::start(indexer, ingest.stop.nudge(), mempool_changed.clone()));
    let backend = lightship_serve::Backend {
        reader,
        trees: Some(trees),
        node: upstream.node.clone(),
        health: Arc::new(move || health(&progress.snapshot(), &grown)),
        look: {
            let nudge = ingest.stop.nudge();
            Arc::new(move || nudge.ask())
        },
        mempool_changed: mempool_changed.clone(),
    };
    let served = lightship_serve::serve(grpc, http, backend, settings, shutdown).await;
    let ended = ingest.end().await;
    served.context("the server ended")?;
    ended?;
    Ok(ExitCode::SUCCESS)
}

fn health(now: &Snapshot, trees: &TreesProgress) -> NodeHealth {
    // Before the first answer there is no tip, and no moment at which it came.
    NodeHealth {
        last_answer: now
            .target
            .and_then(|_| Instant::now().checked_sub(now.source_silent)),
        differs: trees.differs(),
        standstill: now.disk_is_full.then(|| now.last_error.clone()).flatten(),
    }
}

pub(crate) async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}: stop the program that does, or give another {flag}")
    })
}

/// Opens the index, or makes one as soon as the chain's first block is known.
async fn open_store(
    feed: &Feed,
    network: Option<Network>,
    store: &Store,
) -> anyhow::Result<Writer> {
    let dir = store.data_dir.clone();
    let existing =
        StoreId::of(&dir).with_context(|| format!("cannot open the index in {}", dir.display()))?;
    let id = match (existing, network) {
        (Some(found), Some(wanted)) if found.network != wanted => bail!(
            "{} holds an index of network {}, not {wanted}: give another --data-dir or --network",
            dir.display(),
            found.network
        ),
        (Some(found), _) => match store.range_blocks {
            Some(wanted) if wanted != found.range_blocks => bail!(
                "{} holds an index in ranges of {} blocks, not {wanted}: leave --range-blocks out, or give another --data-dir",
                dir.display(),
                found.range_blocks
            ),
            _ => found,
        },
        (None, Some(network)) => {
            refuse_another_network(feed, network).await?;
            let genesis = network
                .genesis_display()
                .parse()
                .expect("the known hashes are hashes");
            new_store(network, genesis, store)
        }
        (None, None) => {
            let genesis = genesis(feed).await?;
            // A chain of one's own making is a private one.
            new_store(
                Network::from_genesis(genesis).unwrap_or(Network::Regtest),
                genesis,
                store,
            )
        }
    };
    let opened = task::spawn_blocking(move || Writer::open(&dir, id)).await?;
    opened.with_context(|| format!("cannot open the index in {}", store.data_dir.display()))
}

/// Asks the node, if it answers at once, before a folder is given to a network that it is not on.
async fn refuse_another_network(feed: &Feed, network: Network) -> anyhow::Result<()> {
    let source = feed.source.clone();
    let asked = task::spawn_blocking(move || source.genesis());
    // A node that is away, or wants other credentials, is ingest's to wait for or to refuse.
    if let Ok(Ok(Ok(genesis))) = tokio::time::timeout(GLANCE, asked).await
        && genesis.to_string() != network.genesis_display()
    {
        bail!(
            "the node at {} is not on network {network}: its first block is {genesis}, not {}",
            feed.name,
            network.genesis_display()
        );
    }
    Ok(())
}

fn new_store(network: Network, genesis: BlockHash, store: &Store) -> StoreId {
    let mut id = StoreId::new(network, genesis);
    if let Some(range_blocks) = store.range_blocks {
        id.range_blocks = range_blocks;
    }
    id
}

/// The node's first block, waiting for as long as waiting can help.
async fn genesis(feed: &Feed) -> anyhow::Result<BlockHash> {
    let mut pause = Duration::from_millis(250);
    let mut said = false;
    loop {
        let source = feed.source.clone();
        match task::spawn_blocking(move || source.genesis()).await? {
            Ok(genesis) => return Ok(genesis),
            Err(problem) if problem.is_transient() => {
                if !said {
                    warn!(
                        "{problem}; waiting for it, since a new index needs to know the node's network (--network names it beforehand)"
                    );
                    said = true;
                }
            }
            Err(problem) => return Err(anyhow!(problem)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The thread that builds and follows, and what it has to say.
struct Ingest {
    progress: Arc<Progress>,
    finished: watch::Receiver<bool>,
    stop: Stop,
    thread: JoinHandle<Result<(), lightship_ingest::Error>>,
    shown: JoinHandle<()>,
}

impl Ingest {
    fn start(
        feed: &Feed,
        writer: Writer,
        store: &Store,
        until: Until,
        stop: Stop,
        bars: MultiProgress,
    ) -> anyhow::Result<Ingest> {
        let progress = Arc::new(Progress::new());
        let (tell, finished) = watch::channel(false);
        let usual = lightship_ingest::Settings::default();
        let settings = lightship_ingest::Settings {
            workers: store.build_threads,
            newest_first_blocks: store.newest_first_blocks,
            until,
            poll: feed.pace.poll,
            nudge_gap: feed.pace.gap,
            // A source that waits longer than it polls looks at least once.
            wait: usual.wait.max(feed.pace.poll),
            ..usual
        };
        let thread = {
            let (source, progress, stop) = (feed.source.clone(), progress.clone(), stop.clone());
            thread::Builder::new()
                .name("ingest".into())
                .spawn(move || {
                    let done = lightship_ingest::run(source, writer, settings, progress, &stop);
                    // Nobody listens any more: then the process is ending anyway.
                    let _ = tell.send(true);
                    done
                })?
        };
        let shown = show::start(progress.clone(), bars, stop.clone());
        Ok(Ingest {
            progress,
            finished,
            stop,
            thread,
            shown,
        })
    }

    /// Asks the thread to end and gives its verdict. A source that hangs is left behind: the index is safe at any moment.
    async fn end(self) -> anyhow::Result<()> {
        self.stop.stop();
        let patience = Instant::now() + INGEST_GRACE;
        while !self.thread.is_finished() && Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let joined = self
            .shown
            .join()
            .map_err(|_| anyhow!("the progress display panicked"));
        if !self.thread.is_finished() {
            warn!("the node has not answered yet; leaving without it");
            return Ok(());
        }
        let done = self
            .thread
            .join()
            .map_err(|_| anyhow!("the ingest thread panicked"))?;
        joined?;
        done.context("the index cannot go on")
    }
}
