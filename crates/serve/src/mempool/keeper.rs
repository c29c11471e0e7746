//! Keeps the shared copy of the mempool equal to the node's.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use lightship_chain::{BlockId, Height, TxId, compact::project};
use lightship_index::{Reader, View};
use lightship_source::{Node, Place};
use prost::Message as _;
use tokio::sync::{Notify, watch};

use super::{Entry, Snapshot};
use crate::{
    backend::Heard, proto::CompactBlock, settings::Limits, status::Refusal, tip::served_tip,
};

/// Raw transactions asked for at once.
const CONCURRENCY: usize = 8;
/// A list that takes longer counts as no answer.
const LIST_PATIENCE: Duration = Duration::from_secs(5);
/// After so long without a good answer the copy is not shown any more.
const STALE_AFTER: Duration = Duration::from_secs(2);
/// How long an entry outlives its absence from the node's list after a new block.
const GRACE: Duration = Duration::from_secs(5);
/// How long a new tip may take from the node into the index before the mempool goes on without knowing its transactions.
const TIP_PATIENCE: Duration = Duration::from_millis(300);
/// Blocks between two tips that are looked through for what was mined.
const MAX_BLOCKS_LOOKED_THROUGH: u32 = 32;
/// The least pause before a look for the sake of a change; as long as the last look took, where that is longer.
const CHANGE_GAP: Duration = Duration::from_millis(20);
/// Nodes tell of a transaction a moment before their list has it: so long after a change it is looked at once more.
const AFTERMATH: Duration = Duration::from_millis(100);
/// How long a caller waits for a first snapshot, or for one under a new tip.
const CALLER_PATIENCE: Duration = Duration::from_secs(4);

/// What is known of the mempool.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// Nothing was asked yet.
    Unknown,
    /// The copy.
    Up(Arc<Snapshot>),
    /// The node does not answer.
    Away,
}

/// The readers' side.
#[derive(Clone)]
pub(crate) struct Mempool {
    pub(super) state: watch::Receiver<State>,
    pub(super) reader: Reader,
    /// Changes whenever the index publishes.
    pub(super) published: watch::Receiver<u64>,
    poke: Arc<Notify>,
}

impl Mempool {
    /// Asks the node at once: something has just been submitted.
    pub(crate) fn poke(&self) {
        self.poke.notify_one();
    }

    /// The current copy.
    ///
    /// # Errors
    ///
    /// [`Refusal::NodeAway`], also when the first copy takes too long.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, Refusal> {
        self.snapshot_where(|_| true).await
    }

    /// The first copy that `fits`.
    pub(super) async fn snapshot_where(
        &self,
        fits: impl Fn(&Snapshot) -> bool,
    ) -> Result<Arc<Snapshot>, Refusal> {
        let mut state = self.state.clone();
        let wait = state.wait_for(|state| match state {
            State::Unknown => false,
            State::Away => true,
            State::Up(snapshot) => fits(snapshot),
        });
        match tokio::time::timeout(CALLER_PATIENCE, wait).await {
            Ok(Ok(state)) => match &*state {
                State::Up(snapshot) => Ok(Arc::clone(snapshot)),
                State::Unknown | State::Away => Err(Refusal::NodeAway),
            },
            Ok(Err(_)) => Err(Refusal::Stopping),
            Err(_) => Err(Refusal::NodeAway),
        }
    }
}

/// The one task that asks the node.
pub(crate) struct Keeper {
    node: Arc<dyn Node>,
    heard: Arc<Heard>,
    reader: Reader,
    published: watch::Receiver<u64>,
    poke: Arc<Notify>,
    /// Rung by others when the node's mempool has changed.
    changed: Arc<Notify>,
    state: watch::Sender<State>,
    poll: Duration,
    max_bytes: usize,
    max_entries: usize,
    kept: Kept,
}

/// What is held between two questions.
#[derive(Default)]
struct Kept {
    tip: Option<BlockId>,
    /// When `tip` became the tip.
    since: Option<Instant>,
    /// Mined between the last tip and this one, as far as the index knows.
    mined: HashSet<TxId>,
    /// Whether `mined` is complete.
    mined_known: bool,
    /// In order of arrival.
    present: Vec<(u32, Arc<Entry>)>,
    /// Whether `tip` or `present` is another than was shown last: a look may fail after it has changed them.
    unshown: bool,
    /// Numbers given out under this tip, also to those that left.
    numbers: HashMap<TxId, u32>,
}

impl Keeper {
    /// A keeper, and the readers' side of it.
    pub(crate) fn new(
        node: Arc<dyn Node>,
        heard: Arc<Heard>,
        reader: Reader,
        published: watch::Receiver<u64>,
        changed: Arc<Notify>,
        poll: Duration,
        limits: &Limits,
    ) -> (Keeper, Mempool) {
        let (state, readers) = watch::channel(State::Unknown);
        let poke = Arc::<Notify>::default();
        let mempool = Mempool {
            state: readers,
            reader: reader.clone(),
            published: published.clone(),
            poke: Arc::clone(&poke),
        };
        let keeper = Keeper {
            node,
            heard,
            reader,
            published,
            poke,
            changed,
            state,
            poll,
            max_bytes: limits.mempool_bytes,
            max_entries: limits.mempool_entries,
            kept: Kept::default(),
        };
        (keeper, mempool)
    }

    /// Asks again and again, for ever.
    pub(crate) async fn keep(mut self) {
        let mut good = Instant::now();
        let mut aftermath = false;
        loop {
            let began = Instant::now();
            match self.refresh().await {
                Ok(()) => {
                    good = Instant::now();
                    self.heard.now();
                }
                Err(refusal) => {
                    tracing::debug!(%refusal, "the mempool is not known");
                    let away = good.elapsed() >= STALE_AFTER
                        || matches!(*self.state.borrow(), State::Unknown);
                    if away && !matches!(*self.state.borrow(), State::Away) {
                        self.state.send_replace(State::Away);
                    }
                }
            }
            aftermath = self.rest(began.elapsed(), aftermath).await;
        }
    }

    /// Until it is time, something was submitted, or the tip or the mempool has changed. Whether it was the mempool, so that there is an `aftermath`
    /// in the next rest; the last look `took` so long.
    async fn rest(&mut self, took: Duration, aftermath: bool) -> bool {
        let began = tokio::time::Instant::now();
        let poll = if aftermath {
            self.poll.min(AFTERMATH.max(took))
        } else {
            self.poll
        };
        let sleep = tokio::time::sleep(poll);
        tokio::pin!(sleep);
        let changed = Arc::clone(&self.changed);
        let mut has_changed = false;
        loop {
            tokio::select! {
                () = &mut sleep => return has_changed,
                () = self.poke.notified() => return has_changed,
                () = changed.notified(), if !has_changed => {
                    has_changed = true;
                    let soon = began + CHANGE_GAP.max(took);
                    if soon < sleep.deadline() {
                        sleep.as_mut().reset(soon);
                    }
                }
                published = self.published.changed() => {
                    if published.is_err() {
                        // Nothing will be published any more; the clock still runs.
                        sleep.as_mut().await;
                        return has_changed;
                    }
                    let view = self.reader.view();
                    let tip = served_tip(&view);
                    let arrived = !self.kept.mined_known
                        && tip.is_some_and(|tip| view.covers(tip.height));
                    if tip != self.kept.tip || arrived {
                        return has_changed;
                    }
                }
            }
        }
    }

    async fn refresh(&mut self) -> Result<(), Refusal> {
        let tip = self.settled_tip().await.ok_or(Refusal::NotReady)?;
        self.move_to(tip);
        let ids = tokio::time::timeout(LIST_PATIENCE, self.node.mempool())
            .await
            .map_err(|_| Refusal::NodeAway)??;
        let mut listed: HashSet<TxId> = ids.iter().copied().collect();
        for id in &self.kept.mined {
            listed.remove(id);
        }
        let before = self.kept.present.len();
        let graceful =
            self.kept.mined_known && self.kept.since.is_some_and(|since| since.elapsed() < GRACE);
        let mined = &self.kept.mined;
        self.kept.present.retain(|(_, entry)| {
            listed.contains(&entry.id) || (graceful && !mined.contains(&entry.id))
        });
        self.kept.unshown |= self.kept.present.len() != before;
        for (_, entry) in &self.kept.present {
            listed.remove(&entry.id);
        }
        let newcomers: Vec<TxId> = ids.into_iter().filter(|id| listed.remove(id)).collect();
        self.welcome(newcomers).await?;
        if self.kept.unshown || !matches!(*self.state.borrow(), State::Up(_)) {
            let snapshot = Snapshot::new(tip, self.kept.present.clone());
            metrics::gauge!("lightship_serve_mempool_transactions")
                .set(snapshot.present.len() as f64);
            self.state.send_replace(State::Up(Arc::new(snapshot)));
            self.kept.unshown = false;
        }
        Ok(())
    }

    /// The served tip, given a moment to come into the index.
    async fn settled_tip(&mut self) -> Option<BlockId> {
        let deadline = tokio::time::Instant::now() + TIP_PATIENCE;
        loop {
            self.published.mark_unchanged();
            let view = self.reader.view();
            let tip = served_tip(&view)?;
            let known = self.kept.tip == Some(tip) || view.covers(tip.height);
            let changed = tokio::time::timeout_at(deadline, self.published.changed());
            if known || !matches!(changed.await, Ok(Ok(()))) {
                return served_tip(&self.reader.view());
            }
        }
    }

    /// Notes a new tip, and what was mined on the way to it.
    fn move_to(&mut self, tip: BlockId) {
        if self.kept.tip != Some(tip) {
            self.kept.unshown = true;
            let before = self.kept.tip.replace(tip);
            self.kept.since = before.map(|_| Instant::now());
            self.kept.mined.clear();
            self.kept.mined_known = false;
            self.kept.numbers.clear();
            for ((number, entry), fresh) in self.kept.present.iter_mut().zip(0..) {
                *number = fresh;
                self.kept.numbers.insert(entry.id, fresh);
            }
            let lowest = tip.height.saturating_sub(MAX_BLOCKS_LOOKED_THROUGH - 1);
            let first = match before {
                None => tip.height,
                Some(before) if self.reader.view().hash_at(before.height) == Some(before.hash) => {
                    before.height.next().unwrap_or(tip.height).max(lowest)
                }
                // A branch was replaced, from where on is not known.
                Some(_) => lowest,
            };
            self.look_through(first, tip.height);
        } else if !self.kept.mined_known {
            self.look_through(tip.height, tip.height);
        }
    }

    fn look_through(&mut self, first: Height, last: Height) {
        let view = self.reader.view();
        let mut height = Some(first);
        while let Some(at) = height
            && at <= last
        {
            match ids_of(&view, at) {
                Some(ids) => self.kept.mined.extend(ids),
                None => return,
            }
            height = at.next();
        }
        self.kept.mined_known = true;
    }

    /// Fetches each newcomer once and takes it in.
    async fn welcome(&mut self, newcomers: Vec<TxId>) -> Result<(), Refusal> {
        let mut bytes: usize = self
            .kept
            .present
            .iter()
            .map(|(_, entry)| entry.bytes.len())
            .sum();
        let room = self.max_entries.saturating_sub(self.kept.present.len());
        let node = &self.node;
        let mut fetched = stream::iter(newcomers)
            .take(room)
            .map(|id| async move { (id, node.transaction(id).await) })
            .buffered(CONCURRENCY);
        let mut failed = None;
        while let Some((id, found)) = fetched.next().await {
            let raw: Bytes = match found {
                Ok(Some(found)) if found.place == Place::Mempool => found.bytes,
                // Gone or mined since the list was made.
                Ok(_) => continue,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            if bytes + raw.len() > self.max_bytes {
                metrics::counter!("lightship_serve_mempool_left_out_total").increment(1);
                continue;
            }
            bytes += raw.len();
            let next = u32::try_from(self.kept.numbers.len()).unwrap_or(u32::MAX);
            let number = *self.kept.numbers.entry(id).or_insert(next);
            self.kept
                .present
                .push((number, Arc::new(Entry::new(id, raw))));
            self.kept.unshown = true;
        }
        match failed {
            // What came in is kept, and shown with the next good answer.
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

/// The ids of all transactions of a block; `None` if it is not in the index.
fn ids_of(view: &View, height: Height) -> Option<Vec<TxId>> {
    let block = view.block(height).ok()??;
    let mut frame = Vec::new();
    let stored = project::Stored {
        message: block.frame.get(project::FRAME_PREFIX_BYTES..)?,
        transparent: &block.transparent,
    };
    project::whole(stored, &mut frame).ok()?;
    let whole = CompactBlock::decode(frame.get(project::FRAME_PREFIX_BYTES..)?).ok()?;
    whole
        .vtx
        .iter()
        .map(|tx| Some(TxId::from_internal(tx.txid.as_ref().try_into().ok()?)))
        .collect()
}
