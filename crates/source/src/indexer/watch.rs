//! Streams one after the other, for as long as anyone watches.

use std::{convert::Infallible, time::Duration};

use lightship_chain::BlockId;
use tokio::time::{self, Instant};

use super::{
    Indexer, messages,
    stream::{Pace, Stream},
};
use crate::{Error, Result};

/// What a stream is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The best tip.
    Tip,
    /// The mempool.
    Mempool,
}

impl Topic {
    /// The method that is called.
    pub(super) fn method(self) -> &'static str {
        match self {
            Topic::Tip => "ChainTipChange",
            Topic::Mempool => "MempoolChange",
        }
    }
}

/// What is heard of a node. Each is a reason to ask it.
#[derive(Clone, Debug)]
pub enum Event {
    /// The node says that this is its best tip. It need not be true.
    Tip(BlockId),
    /// Something came into the mempool or left it.
    Mempool,
    /// A stream has begun; what it was to say before is lost.
    Up(Topic),
    /// A stream has ended or did not begin.
    Down {
        /// Which.
        topic: Topic,
        /// Why.
        error: Error,
        /// When it is tried again.
        again_in: Duration,
    },
}

impl Indexer {
    /// Watches both streams until dropped, and `tell`s of everything that comes, at once and from within: it must not block.
    ///
    /// Needs a tokio runtime with timers and sockets.
    pub async fn watch(&self, tell: impl Fn(Event) + Sync) {
        tokio::join!(
            self.watch_one(Topic::Tip, &tell),
            self.watch_one(Topic::Mempool, &tell),
        );
    }

    async fn watch_one(&self, topic: Topic, tell: &(impl Fn(Event) + Sync)) {
        let mut pause = self.first_pause;
        loop {
            let began = Instant::now();
            let error = match self.open(topic).await {
                Ok(stream) => {
                    tell(Event::Up(topic));
                    match self.read(topic, stream, tell).await {
                        Ok(never) => match never {},
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            // One that ends again and again is no better than one that is away.
            if began.elapsed() > self.steady {
                pause = self.first_pause;
            }
            tell(Event::Down {
                topic,
                error,
                again_in: pause,
            });
            time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(self.longest_pause);
        }
    }

    /// Reads until the stream fails.
    async fn read(
        &self,
        topic: Topic,
        mut stream: Stream,
        tell: &(impl Fn(Event) + Sync),
    ) -> Result<Infallible> {
        let mut pace = Pace::new(self.messages_a_second);
        loop {
            let message = stream.next().await?;
            pace.turn().await;
            tell(match topic {
                Topic::Tip => Event::Tip(messages::tip(&message)?),
                Topic::Mempool => Event::Mempool,
            });
        }
    }
}
