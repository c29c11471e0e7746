//! A wallet's view of the mempool as it grows.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{Stream, stream};
use lightship_chain::BlockId;
use tokio::sync::watch;

use super::{Entry, Mempool, Snapshot, keeper::State};
use crate::{proto::RawTransaction, status::Refusal, tip::served_tip};

/// Every transaction in the mempool under the present tip, then each newcomer, each once. Ends well when the tip has
/// changed, and with a refusal for any other reason: wallets take a good end for a new block.
pub(crate) fn newcomers(
    mempool: Mempool,
) -> Result<impl Stream<Item = Result<RawTransaction, Refusal>>, Refusal> {
    let tip = served_tip(&mempool.reader.view()).ok_or(Refusal::NotReady)?;
    if matches!(*mempool.state.borrow(), State::Away) {
        return Err(Refusal::NodeAway);
    }
    let subscriber = Subscriber {
        published: mempool.published.clone(),
        state: mempool.state.clone(),
        mempool,
        tip,
        begun: false,
        sent: Numbers::default(),
        waiting: VecDeque::new(),
    };
    Ok(stream::try_unfold(subscriber, Subscriber::next))
}

struct Subscriber {
    mempool: Mempool,
    published: watch::Receiver<u64>,
    state: watch::Receiver<State>,
    /// The tip this stream lives and ends with.
    tip: BlockId,
    begun: bool,
    sent: Numbers,
    waiting: VecDeque<Arc<Entry>>,
}

impl Subscriber {
    async fn next(mut self) -> Result<Option<(RawTransaction, Subscriber)>, Refusal> {
        loop {
            self.published.mark_unchanged();
            match served_tip(&self.mempool.reader.view()) {
                Some(tip) if tip == self.tip => {}
                Some(_) => return Ok(None),
                None => return Err(Refusal::NotReady),
            }
            if let Some(entry) = self.waiting.pop_front() {
                let message = RawTransaction {
                    data: entry.bytes.clone(),
                    height: 0,
                };
                return Ok(Some((message, self)));
            }
            if !self.begun {
                self.begin().await?;
                continue;
            }
            tokio::select! {
                changed = self.state.changed() => {
                    changed.map_err(|_| Refusal::Stopping)?;
                    let state = self.state.borrow_and_update().clone();
                    match state {
                        State::Up(snapshot) if snapshot.tip == self.tip => self.take(&snapshot),
                        // Of another tip: the index has it too, or will in a moment.
                        State::Up(_) | State::Unknown => {}
                        State::Away => return Err(Refusal::NodeAway),
                    }
                }
                changed = self.published.changed() => {
                    changed.map_err(|_| Refusal::Stopping)?;
                }
            }
        }
    }

    /// Waits for the first copy under this stream's tip, or for the next tip.
    async fn begin(&mut self) -> Result<(), Refusal> {
        let tip = self.tip;
        let first = self.mempool.snapshot_where(|snapshot| snapshot.tip == tip);
        tokio::select! {
            snapshot = first => {
                let snapshot = snapshot?;
                self.take(&snapshot);
                self.begun = true;
            }
            changed = self.published.changed() => changed.map_err(|_| Refusal::Stopping)?,
        }
        Ok(())
    }

    fn take(&mut self, snapshot: &Snapshot) {
        for (number, entry) in &snapshot.present {
            if self.sent.insert(*number) {
                self.waiting.push_back(Arc::clone(entry));
            }
        }
    }
}

/// A set of small numbers.
#[derive(Default)]
struct Numbers(Vec<u64>);

impl Numbers {
    /// Whether it was not in there.
    fn insert(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let fresh = self.0[word] & bit == 0;
        self.0[word] |= bit;
        fresh
    }
}
