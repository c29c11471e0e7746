//! What a zebrad pushes: new tips and changes of its mempool, over the gRPC of its indexer service.
//!
//! In: the address it calls `rpc.indexer_listen_addr`. Out: [`Event`]s, for as long as anyone watches. An event is a reason to ask the node, never
//! an answer: the streams leave out, lag and end, so whoever is told asks through a [`BlockSource`](crate::BlockSource) or [`Node`](crate::Node), and
//! goes on asking by the clock as if there were no streams. A node that hangs, lies or floods here costs no more than time.
//!
//! One stream a connection, over hyper and not through a gRPC library: the room's consumers are to stay free of one, and a stream of small
//! messages needs a frame header of five bytes. The service is in `proto/zebra/indexer.proto`.
//!
//! # Invariants
//!
//! Connecting and the beginning of a stream have a timeout, a dead connection is noticed by HTTP/2 pings, messages are bounded in size and
//! in number a second, and between two streams there is a pause that grows while they fail or end early.

mod messages;
mod stream;
#[cfg(test)]
mod tests;
mod watch;

use std::time::Duration;

use lightship_chain::BlockId;

pub use watch::{Event, Topic};

use crate::{Error, Result, rpc::Address};

/// A node's indexer service.
#[derive(Clone, Debug)]
pub struct Indexer {
    /// Where it listens.
    pub address: Address,
    /// How long it may take to connect, and again until a stream has begun.
    pub timeout: Duration,
    /// The first pause between two streams; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest one.
    pub longest_pause: Duration,
    /// After a stream that has lasted so long the pauses begin anew.
    pub steady: Duration,
    /// Messages read in a second; further ones wait, and push back on the node.
    pub messages_a_second: u32,
    /// After so much silence of a connection the node is asked for a sign of life, and has as long again to give it.
    pub keepalive: Duration,
}

impl Indexer {
    /// The service at `url`, which is `http://host:port` or `host:port`, with the usual bounds: 5 s to begin, pauses from 250 ms to 15 s, 10,000 messages a
    /// second, 10 s of silence.
    ///
    /// # Errors
    ///
    /// [`Error::Endpoint`] if it is neither, or has a path or a password.
    pub fn new(url: &str) -> Result<Indexer> {
        let address = Address::parse(url)?;
        if address.path() != "/" {
            return Err(Error::Endpoint {
                url: url.to_owned(),
                problem: "expected http://host:port, without a path".to_owned(),
            });
        }
        Ok(Indexer {
            address,
            timeout: Duration::from_secs(5),
            first_pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(15),
            steady: Duration::from_secs(15),
            messages_a_second: 10_000,
            keepalive: Duration::from_secs(10),
        })
    }

    /// Whether both streams begin, and the tip that the node names first, if it names one within [`Indexer::timeout`].
    ///
    /// # Errors
    ///
    /// Why one of them does not begin.
    pub async fn probe(&self) -> Result<Option<BlockId>> {
        self.open(Topic::Mempool).await?;
        let mut tips = self.open(Topic::Tip).await?;
        match tokio::time::timeout(self.timeout, tips.next()).await {
            Ok(message) => messages::tip(&message?).map(Some),
            Err(_) => Ok(None),
        }
    }
}
