//! What the node pushes, handed to those who would otherwise wait for their clocks.
//!
//! In: the node's indexer service. Out: the follower looks at the tip and the keeper of the mempool at the list, as soon as the node tells of a
//! change; log lines and metrics about the streams. Both ask the node by the clock all the same, so a stream that is away costs time and
//! nothing else.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use lightship_ingest::Nudge;
use lightship_source::indexer::{Event, Indexer, Topic};
use tokio::{
    sync::Notify,
    task::{self, JoinHandle},
};
use tracing::{debug, info, warn};

/// Ends the watching when dropped.
pub(crate) struct Pushed(JoinHandle<()>);

impl Drop for Pushed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts to watch.
pub(crate) fn start(indexer: Indexer, nudge: Nudge, mempool_changed: Arc<Notify>) -> Pushed {
    // What is shown before there is a recorder is lost, and a stream that stays up is not shown again.
    lightship_serve::install_metrics();
    let (tips, mempool) = (Stream::new(Topic::Tip), Stream::new(Topic::Mempool));
    Pushed(task::spawn(async move {
        indexer
            .watch(|event| match event {
                Event::Tip(tip) => {
                    tips.heard();
                    debug!(%tip, "the node pushes a tip");
                    nudge.name(tip);
                }
                Event::Mempool => {
                    mempool.heard();
                    mempool_changed.notify_one();
                }
                // What was missed is asked for.
                Event::Up(Topic::Tip) => {
                    tips.is_up();
                    nudge.ask();
                }
                Event::Up(Topic::Mempool) => {
                    mempool.is_up();
                    mempool_changed.notify_one();
                }
                Event::Down {
                    topic,
                    error,
                    again_in,
                } => {
                    let stream = match topic {
                        Topic::Tip => &tips,
                        Topic::Mempool => &mempool,
                    };
                    if stream.is_down() {
                        warn!(
                            "the node does not push {} ({error}): it is asked by the clock until it does",
                            stream.of
                        );
                    } else {
                        debug!(?again_in, "the node does not push {}: {error}", stream.of);
                    }
                }
            })
            .await;
    }))
}

/// One of the streams, as it was last heard of.
struct Stream {
    of: &'static str,
    up: AtomicBool,
    /// Whether its being down was logged since it was last good.
    told: AtomicBool,
}

impl Stream {
    fn new(topic: Topic) -> Stream {
        let stream = Stream {
            of: match topic {
                Topic::Tip => "tips",
                Topic::Mempool => "mempool",
            },
            up: AtomicBool::new(false),
            told: AtomicBool::new(false),
        };
        stream.show();
        stream
    }

    fn heard(&self) {
        metrics::counter!("lightship_push_messages_total", "of" => self.of).increment(1);
    }

    fn is_up(&self) {
        self.up.store(true, Ordering::Relaxed);
        if self.told.swap(false, Ordering::Relaxed) {
            info!("the node pushes {} again", self.of);
        } else {
            info!("the node pushes {}", self.of);
        }
        self.show();
    }

    /// Whether that is news.
    fn is_down(&self) -> bool {
        self.up.store(false, Ordering::Relaxed);
        metrics::counter!("lightship_push_failures_total", "of" => self.of).increment(1);
        self.show();
        !self.told.swap(true, Ordering::Relaxed)
    }

    fn show(&self) {
        let up = self.up.load(Ordering::Relaxed);
        metrics::gauge!("lightship_push_up", "of" => self.of).set(f64::from(u8::from(up)));
    }
}
