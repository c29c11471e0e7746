//! Load of compact block ranges: clients that drain, and what they drained.
//!
//! A client asks again when it has its answer (closed loop), on a connection of its own that is open before the clock starts. The heights
//! come from the seed, the size and the client's number, so every server gets the same requests in the same order.
//!
//! Each answer is held against what is expected: the number of its blocks always; the number of its bytes always, if the server's bytes are the
//! expected ones; the content of one in sixteen by a checksum, and that of the first ones in full before the clock starts. A server
//! may encode the same blocks otherwise: then sampled answers are decoded and compared in plain form.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use sha2::{Digest, Sha256};
use tokio_rustls::rustls::ClientConfig;

use super::{
    expected::Expected,
    figures::{Figure, Proof, latencies},
    limits::raw_sender,
    questions::plain,
    server::Server,
    wire::{Counter, Wire, framed, messages},
};
use crate::{conform::random::Random, grpc};

/// One in so many timed answers is looked into.
const SAMPLED: u64 = 16;
/// Answers that are looked into before the clock starts.
const PROVED: u64 = 4;
/// Between two looks at a server's memory while it is measured.
const WATCH_PAUSE: Duration = Duration::from_millis(100);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whom to ask, and what is right.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The server.
    pub server: &'a Server,
    /// Whether it is the plain sender.
    pub raw: bool,
    /// Over TLS.
    pub tls: Option<&'a Arc<ClientConfig>>,
    /// What it should send.
    pub expected: &'a Expected,
    /// The lowest and the highest height that are asked for.
    pub heights: (u32, u32),
    /// Decides the heights.
    pub seed: u64,
}

/// How a server's bytes relate to the expected ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    Identical,
    SameMeaning,
}

enum Client {
    Wire(Box<Wire>),
    Raw(raw_sender::Client),
}

impl Client {
    fn connect(target: &Target<'_>) -> Result<Client> {
        let address: SocketAddr = target.server.address;
        Ok(if target.raw {
            Client::Raw(raw_sender::Client::connect(address)?)
        } else {
            Client::Wire(Box::new(Wire::connect(address, target.tls)?))
        })
    }

    /// Drains a range, only counting.
    fn drain(&mut self, target: &Target<'_>, range: (u64, u64), sum: bool) -> Result<Counter> {
        let mut counter = if sum {
            Counter::summing()
        } else {
            Counter::default()
        };
        match self {
            Client::Wire(wire) => {
                let body = framed(&grpc::range(range.0, range.1));
                wire.call("GetBlockRange", &body, PATIENCE, |piece| {
                    counter.take(piece);
                })?;
            }
            Client::Raw(client) => {
                let bytes = target.right(range)?.len() as u64;
                client.range(range, bytes, PATIENCE, &mut counter)?;
            }
        }
        ensure!(counter.whole(), "the last block is cut off");
        Ok(counter)
    }

    /// A range's messages.
    fn messages(&mut self, target: &Target<'_>, range: (u64, u64)) -> Result<Vec<Vec<u8>>> {
        match self {
            Client::Wire(wire) => {
                let body = framed(&grpc::range(range.0, range.1));
                wire.ask("GetBlockRange", &body, PATIENCE)
            }
            Client::Raw(_) => {
                let right = target.right(range)?;
                let counter = self.drain(target, range, true)?;
                ensure!(
                    counter.sum == Some(crc32c::crc32c(&right)),
                    "blocks {}-{}: other bytes than expected",
                    range.0,
                    range.1
                );
                messages(&right)
            }
        }
    }
}

impl Target<'_> {
    fn right(&self, (first, last): (u64, u64)) -> Result<bytes::Bytes> {
        self.expected
            .range(first, last)
            .with_context(|| format!("the chain has no blocks {first}-{last}"))
    }

    /// The requests of a client: ranges of `size` blocks anywhere.
    fn ranges(&self, size: u32, client: u32) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (low, high) = self.heights;
        let places = u64::from(high - low + 2).saturating_sub(size.into()).max(1);
        let mut random = Random::new(self.seed, &format!("ranges of {size}, client {client}"));
        let (low, last) = (u64::from(low), u64::from(high));
        std::iter::repeat_with(move || {
            let first = low + random.below(places);
            (first, (first + u64::from(size) - 1).min(last))
        })
    }

    /// Looks into a client's answers before the clock starts. The digest is that of the right bytes, which the answers were found to mean.
    fn prove(&self, ranges: impl Iterator<Item = (u64, u64)>) -> Result<(Likeness, String)> {
        let mut client = Client::connect(self)?;
        let mut likeness = Likeness::Identical;
        let mut hasher = Sha256::new();
        for range in ranges {
            let right = self.right(range)?;
            let found = client.messages(self, range)?;
            let wanted = messages(&right)?;
            if found != wanted {
                same_meaning(&found, &wanted, range)?;
                likeness = Likeness::SameMeaning;
            }
            hasher.update(&right);
        }
        Ok((likeness, const_hex::encode(hasher.finalize())))
    }

    /// One timed answer: its blocks and bytes.
    fn timed(
        &self,
        client: &mut Client,
        range: (u64, u64),
        sampled: bool,
        likeness: Likeness,
    ) -> Result<(u64, u64)> {
        let (first, last) = range;
        let blocks = last - first + 1;
        if sampled && likeness == Likeness::SameMeaning {
            let found = client.messages(self, range)?;
            same_meaning(&found, &messages(&self.right(range)?)?, range)?;
            let bytes = found.iter().map(|message| 5 + message.len() as u64).sum();
            return Ok((blocks, bytes));
        }
        let counter = client.drain(self, range, sampled)?;
        ensure!(
            counter.messages == blocks,
            "blocks {first}-{last}: {} came",
            counter.messages
        );
        if likeness == Likeness::Identical {
            let right = self.right(range)?;
            ensure!(
                counter.bytes == right.len() as u64,
                "blocks {first}-{last}: {} bytes came, not {}",
                counter.bytes,
                right.len()
            );
            if let Some(sum) = counter.sum {
                ensure!(
                    sum == crc32c::crc32c(&right),
                    "blocks {first}-{last}: other bytes than expected"
                );
            }
        }
        Ok((counter.messages, counter.bytes))
    }

    /// Whether ranges of `size` fit into the chain.
    pub fn fits(&self, size: u32) -> bool {
        self.heights.1 - self.heights.0 + 1 >= size
    }
}

/// Reads every block once; gives the digest of what came, which was right.
///
/// # Errors
///
/// When an answer fails or is wrong.
pub fn prove_all(target: &Target<'_>) -> Result<String> {
    let (low, high) = target.heights;
    let spans = (u64::from(low)..=high.into())
        .step_by(1_000)
        .map(|first| (first, (first + 999).min(high.into())));
    Ok(target.prove(spans)?.1)
}

/// Reads the newest blocks, of which there are `count`.
///
/// # Errors
///
/// When the answer fails or is wrong.
pub fn prove_newest(target: &Target<'_>, count: u32) -> Result<()> {
    let tip = u64::from(target.heights.1);
    let range = (tip.saturating_sub(u64::from(count) - 1), tip);
    target.prove(std::iter::once(range)).map(drop)
}

fn same_meaning(found: &[Vec<u8>], wanted: &[Vec<u8>], range: (u64, u64)) -> Result<()> {
    let (first, last) = range;
    ensure!(
        found.len() == wanted.len(),
        "blocks {first}-{last}: {} came",
        found.len()
    );
    let (found, wanted) = (
        plain("GetBlockRange", found)?,
        plain("GetBlockRange", wanted)?,
    );
    ensure!(found == wanted, "blocks {first}-{last}: wrong blocks came");
    Ok(())
}

/// What a client took.
#[derive(Clone, Debug, Default)]
struct Taken {
    blocks: u64,
    bytes: u64,
    seconds: f64,
    milliseconds: Vec<f64>,
}

/// Lets `clients` drain ranges of `size` for `time`; gives the proof and the figures.
///
/// # Errors
///
/// When any answer fails, is short, late or wrong: no figures then.
pub fn measure(
    target: &Target<'_>,
    size: u32,
    clients: u32,
    time: Duration,
) -> Result<(Proof, Vec<Figure>)> {
    let proved = target.ranges(size, 0).take(PROVED as usize);
    let (likeness, digest) = target.prove(proved)?;
    let mut open = Vec::new();
    for number in 0..clients {
        let client = Client::connect(target).with_context(|| format!("client {number}"))?;
        open.push((number, client));
    }
    // Each has asked once: what a connection costs is not what is timed.
    for (number, client) in &mut open {
        let range = (target.heights.0, target.heights.0);
        let range = (u64::from(range.0), u64::from(range.1));
        target
            .timed(client, range, false, Likeness::SameMeaning)
            .with_context(|| format!("client {number}"))?;
    }
    let before = target.server.usage()?;
    let done = AtomicBool::new(false);
    let began = Instant::now();
    let (taken, anon) = std::thread::scope(|scope| {
        // Of one client nobody asks.
        let watcher = (clients > 1).then(|| scope.spawn(|| most_anon(target.server, &done)));
        let workers: Vec<_> = open
            .iter_mut()
            .map(|(number, client)| {
                scope.spawn(move || -> Result<Taken> {
                    let mut taken = Taken::default();
                    let ranges = target.ranges(size, *number);
                    for (nth, range) in (0..).zip(ranges) {
                        let asked = Instant::now();
                        let sampled = (nth + u64::from(*number)) % SAMPLED == SAMPLED - 1;
                        let (blocks, bytes) = target.timed(client, range, sampled, likeness)?;
                        taken.milliseconds.push(asked.elapsed().as_secs_f64() * 1e3);
                        taken.blocks += blocks;
                        taken.bytes += bytes;
                        if began.elapsed() >= time {
                            break;
                        }
                    }
                    taken.seconds = began.elapsed().as_secs_f64();
                    Ok(taken)
                })
            })
            .collect();
        let taken = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow!("a client panicked"))?)
            .collect::<Result<Vec<Taken>>>();
        done.store(true, Ordering::Relaxed);
        let anon = watcher.map_or(Ok(0), |watcher| {
            watcher.join().map_err(|_| anyhow!("the watcher panicked"))
        });
        Ok::<_, anyhow::Error>((taken?, anon?))
    })?;
    // Without the watcher's last pause.
    let ends = taken.iter().map(|taken| taken.seconds);
    let seconds = ends.fold(0.0, f64::max);
    let after = target.server.usage()?;
    drop(open);
    let blocks: u64 = taken.iter().map(|taken| taken.blocks).sum();
    let bytes: u64 = taken.iter().map(|taken| taken.bytes).sum();
    let mut times: Vec<f64> = taken
        .iter()
        .flat_map(|taken| taken.milliseconds.iter().copied())
        .collect();
    let mut figures = rates(blocks, bytes, seconds, after.cpu() - before.cpu());
    figures.extend(latencies(&mut times));
    if clients > 1 {
        let mut each: Vec<f64> = taken
            .iter()
            .map(|taken| taken.blocks as f64 / taken.seconds)
            .collect();
        each.sort_by(f64::total_cmp);
        let mean = each.iter().sum::<f64>() / each.len() as f64;
        figures.push(Figure::higher(
            "slowest client",
            "of the mean",
            each[0] / mean,
        ));
        figures.push(Figure::lower("rss anon", "MB", anon as f64 / 1e6));
    }
    let proof = Proof {
        count: blocks,
        digest: Some(digest),
    };
    Ok((proof, figures))
}

/// The most anonymous memory, in bytes, that a server holds until it is `done`. What it held for clients it may give back when they have gone.
fn most_anon(server: &Server, done: &AtomicBool) -> u64 {
    let mut most = 0;
    while !done.load(Ordering::Relaxed) {
        // One that has ended fails its clients too.
        most = most.max(server.usage().map_or(0, |usage| usage.rss_anon));
        std::thread::sleep(WATCH_PAUSE);
    }
    most
}

/// All blocks once, in ranges of `span`, over and over until a second has passed.
///
/// # Errors
///
/// As [`measure`], and when it takes longer than `patience`.
pub fn download(
    target: &Target<'_>,
    span: u32,
    patience: Duration,
) -> Result<(Proof, Vec<Figure>)> {
    let (low, high) = (u64::from(target.heights.0), u64::from(target.heights.1));
    let spans = || {
        (low..=high)
            .step_by(span as usize)
            .map(move |first| (first, (first + u64::from(span) - 1).min(high)))
    };
    let (likeness, digest) = target.prove(spans())?;
    let mut client = Client::connect(target)?;
    target.timed(&mut client, (low, low), false, Likeness::SameMeaning)?;
    let before = target.server.usage()?;
    let began = Instant::now();
    let (mut blocks, mut bytes) = (0, 0);
    let mut passes = Vec::new();
    while passes.is_empty() || began.elapsed() < Duration::from_secs(1) {
        let pass = Instant::now();
        for (nth, range) in (0..).zip(spans()) {
            let sampled = nth % SAMPLED == SAMPLED - 1;
            let came = target.timed(&mut client, range, sampled, likeness)?;
            blocks += came.0;
            bytes += came.1;
            ensure!(began.elapsed() < patience, "not in {patience:?}");
        }
        passes.push(pass.elapsed().as_secs_f64());
    }
    let seconds = began.elapsed().as_secs_f64();
    let after = target.server.usage()?;
    passes.sort_by(f64::total_cmp);
    let mut figures = rates(blocks, bytes, seconds, after.cpu() - before.cpu());
    figures.push(
        Figure::lower("time", "s", seconds / passes.len() as f64)
            .spread(passes[0], passes[passes.len() - 1]),
    );
    let proof = Proof {
        count: blocks,
        digest: Some(digest),
    };
    Ok((proof, figures))
}

fn rates(blocks: u64, bytes: u64, seconds: f64, cpu: f64) -> Vec<Figure> {
    let (blocks, bytes) = (blocks as f64, bytes as f64);
    let mut figures = vec![
        Figure::higher("throughput", "blocks/s", blocks / seconds),
        Figure::higher("bytes", "MB/s", bytes / 1e6 / seconds),
        Figure::lower("server cpu", "CPU s", cpu),
    ];
    // Below this the hundredths in which CPU time is counted are the figure.
    if cpu >= 0.1 {
        figures.push(Figure::lower(
            "server cpu a GB",
            "CPU s/GB",
            cpu / bytes * 1e9,
        ));
        figures.push(Figure::higher(
            "blocks a server CPU second",
            "blocks/CPU s",
            blocks / cpu,
        ));
    }
    figures
}
