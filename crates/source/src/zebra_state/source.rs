//! The final part from the database, the rest from the node.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use lightship_chain::{
    BlockHash, BlockId, Height, HeightRange, Network, RawBlock, ShieldedPool, TreeSizes,
};

use super::{
    database::Database,
    folder::{self, wrong},
};
use crate::{BlockSource, Error, Result, SubtreeRoot, TreeState, rpc::RpcSource};

/// The database is looked at no more often than this.
const FRESH: Duration = Duration::from_millis(500);
/// How often opening is tried when the node changes files in the same moment, and the pause between.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);
/// How often a source without a node looks whether the database has grown.
const POLL: Duration = Duration::from_secs(1);

/// A node's best chain: final blocks from the state on its disk, the others over its JSON-RPC.
///
/// A call reads a bounded part of the disk; what goes to the node takes as long as [`RpcSource`] says. A source without a node
/// knows the final blocks only ([`BlockSource::sees_final_only`]).
pub struct ZebraStateSource {
    /// As the operator named it: the folder below it changes when a node is upgraded.
    path: PathBuf,
    network: Option<Network>,
    rpc: Option<RpcSource>,
    state: Mutex<State>,
}

/// The opened database, and how far it reaches.
struct State {
    database: Arc<Database>,
    end: Option<BlockId>,
    looked: Instant,
    /// The end that the node was seen to have too.
    agreed: Option<BlockId>,
}

impl ZebraStateSource {
    /// Opens the state in `path`, which is Zebra's `state.cache_dir` or the database's own folder; of `network`, which may be left open where there is
    /// one only. `rpc` is the node whose state it is.
    ///
    /// # Errors
    ///
    /// [`Error::State`] if it is no state that can be read, with the remedy; [`Error::Database`] if RocksDB cannot open it.
    pub fn open(
        path: &Path,
        network: Option<Network>,
        rpc: Option<RpcSource>,
    ) -> Result<ZebraStateSource> {
        let (database, end) = open(path, network)?;
        Ok(ZebraStateSource {
            path: path.to_owned(),
            network,
            rpc,
            state: Mutex::new(State {
                database: Arc::new(database),
                end,
                looked: Instant::now(),
                agreed: None,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database, and an end that lies in it whole.
    fn known(&self) -> (Arc<Database>, Option<BlockId>) {
        let state = self.state();
        (Arc::clone(&state.database), state.end)
    }

    /// As [`Self::known`], after a look at what the node has written since.
    fn refreshed(&self) -> Result<(Arc<Database>, Option<BlockId>)> {
        let mut state = self.state();
        if state.looked.elapsed() >= FRESH {
            self.look(&mut state)?;
        }
        Ok((Arc::clone(&state.database), state.end))
    }

    fn look(&self, state: &mut State) -> Result<()> {
        let looked = state
            .database
            .catch_up()
            .and_then(|()| state.database.end());
        match looked {
            Ok(end)
                if end.map(|end| end.height) >= state.end.map(|end| end.height)
                    && !state.database.was_replaced() =>
            {
                state.end = end;
            }
            _ => self.open_anew(state)?,
        }
        state.looked = Instant::now();
        Ok(())
    }

    /// The node may have begun another database, moved this one at an upgrade, or compacted a file away that was not open yet.
    fn open_anew(&self, state: &mut State) -> Result<()> {
        let (database, end) = open(&self.path, self.network)?;
        *state = State {
            database: Arc::new(database),
            end,
            looked: Instant::now(),
            agreed: None,
        };
        Ok(())
    }

    /// Sees to it that the state is that of the node, if the node answers.
    fn agree(&self) -> Result<()> {
        let Some(rpc) = &self.rpc else { return Ok(()) };
        for opened_anew in [false, true] {
            let end = {
                let state = self.state();
                match state.end {
                    Some(end) if state.agreed != Some(end) => end,
                    _ => return Ok(()),
                }
            };
            let theirs = match rpc.hash_at(end.height) {
                Ok(theirs) => theirs,
                // A node that is away contradicts nothing.
                Err(error) if error.is_transient() => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut state = self.state();
            if theirs == Some(end.hash) {
                if state.end == Some(end) {
                    state.agreed = Some(end);
                }
                return Ok(());
            }
            if opened_anew {
                return Err(wrong(
                    &self.path,
                    format!(
                        "ends with block {end}, and the node has {} there: --zebra-state must name the state of the node at --node",
                        theirs.map_or("no block".to_owned(), |hash| hash.to_string())
                    ),
                ));
            }
            // The node may have been given another state since.
            self.open_anew(&mut state)?;
        }
        Ok(())
    }

    fn only_the_node(&self, what: &str) -> Error {
        Error::Unsupported {
            what: format!(
                "{what} are not read from the state in {}: the node has them",
                self.path.display()
            ),
        }
    }

    /// Lends the final blocks of `range`, over as many openings of the database as its compactions make necessary.
    fn scan(
        &self,
        range: HeightRange,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut next = Some(range.first());
        let mut broke = false;
        let mut tries = 0;
        while let Some(rest) = next.and_then(|first| HeightRange::new(first, range.last())) {
            let (database, _) = self.known();
            let before = next;
            let scanned = database.scan(rest, &mut |height, block| {
                next = height.next();
                let flow = visit(height, block);
                broke = flow.is_break();
                flow
            });
            if broke {
                return Ok(ControlFlow::Break(()));
            }
            let Err(error) = scanned else { break };
            tries = if next == before { tries + 1 } else { 0 };
            if !matches!(error, Error::Database { .. }) || tries >= TRIES {
                return Err(error);
            }
            let mut state = self.state();
            // Another worker may have done it meanwhile.
            if Arc::ptr_eq(&state.database, &database) {
                self.open_anew(&mut state)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl BlockSource for ZebraStateSource {
    fn genesis(&self) -> Result<BlockHash> {
        self.refreshed()?;
        // Also where the disk could tell: another node's state, and credentials that are refused, are to show at the start.
        self.agree()?;
        if let Some(genesis) = self.known().0.hash_at(Height::GENESIS)? {
            return Ok(genesis);
        }
        match &self.rpc {
            Some(rpc) => rpc.genesis(),
            None => Err(Error::Warming {
                node: self.path.display().to_string(),
                message: "its state has no block yet".to_owned(),
            }),
        }
    }

    fn tip(&self) -> Result<Option<BlockId>> {
        let (_, end) = self.refreshed()?;
        let Some(rpc) = &self.rpc else {
            return Ok(end);
        };
        let tip = rpc.tip()?;
        self.agree()?;
        Ok(tip)
    }

    fn final_tip(&self) -> Result<Option<BlockId>> {
        Ok(self.refreshed()?.1)
    }

    fn sees_final_only(&self) -> bool {
        self.rpc.is_none()
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>> {
        let (database, end) = self.known();
        match &self.rpc {
            Some(rpc) if end.is_none_or(|end| height > end.height) => rpc.hash_at(height),
            _ => database.hash_at(height),
        }
    }

    fn blocks(
        &self,
        range: HeightRange,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut rest = Some(range);
        let mut end = self.known().1;
        if end.is_none_or(|end| end.height < range.last()) {
            end = self.refreshed()?.1;
        }
        if let Some(end) = end
            && let Some(part) = HeightRange::new(range.first(), range.last().min(end.height))
        {
            if self.scan(part, visit)?.is_break() {
                return Ok(());
            }
            rest = part
                .last()
                .next()
                .and_then(|above| HeightRange::new(above, range.last()));
        }
        match (rest, &self.rpc) {
            (None, _) => Ok(()),
            (Some(rest), Some(rpc)) => rpc.blocks(rest, visit),
            (Some(rest), None) => Err(Error::AboveTip {
                height: rest.first(),
            }),
        }
    }

    fn block(&self, hash: BlockHash, visit: &mut dyn FnMut(RawBlock<'_>)) -> Result<bool> {
        let (database, _) = self.known();
        match (database.height_of(hash)?, &self.rpc) {
            (Some(height), _) => {
                // One block, whether or not its visitor has seen enough.
                let flow = self.scan(HeightRange::single(height), &mut |_, block| {
                    visit(block);
                    ControlFlow::Break(())
                })?;
                Ok(flow.is_break())
            }
            (None, Some(rpc)) => rpc.block(hash, visit),
            (None, None) => Ok(false),
        }
    }

    fn tree_sizes(&self, hash: BlockHash) -> Result<Option<TreeSizes>> {
        let (database, _) = self.known();
        if let Some(height) = database.height_of(hash)?
            && let Some(sizes) = database.tree_sizes(height)?
        {
            return Ok(Some(sizes));
        }
        match &self.rpc {
            Some(rpc) => rpc.tree_sizes(hash),
            None => match database.height_of(hash)? {
                None => Ok(None),
                Some(_) => Err(self.only_the_node("the sizes of every tree")),
            },
        }
    }

    fn tree_state(&self, hash: BlockHash) -> Result<Option<TreeState>> {
        match &self.rpc {
            Some(rpc) => rpc.tree_state(hash),
            None => Err(self.only_the_node("tree states")),
        }
    }

    fn subtree_roots(
        &self,
        pool: ShieldedPool,
        start: u32,
        limit: u32,
    ) -> Result<Vec<SubtreeRoot>> {
        match &self.rpc {
            Some(rpc) => rpc.subtree_roots(pool, start, limit),
            None => Err(self.only_the_node("subtree roots")),
        }
    }

    fn wait(&self, seen: Option<BlockId>, patience: Duration) -> Result<()> {
        if let Some(rpc) = &self.rpc {
            return rpc.wait(seen, patience);
        }
        let started = Instant::now();
        while self.tip()? == seen {
            let left = patience.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(POLL));
        }
        Ok(())
    }
}

/// Finds and opens, again where the node may just have changed the files.
fn open(path: &Path, network: Option<Network>) -> Result<(Database, Option<BlockId>)> {
    let mut tries = 1;
    loop {
        let opened = folder::find(path, network).and_then(|folder| {
            let database = Database::open(&folder)?;
            database.catch_up()?;
            let end = database.end()?;
            check_network(&folder, &database, network)?;
            Ok((database, end))
        });
        match opened {
            Err(Error::Database { .. }) if tries < TRIES => {
                tries += 1;
                thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

fn check_network(folder: &Path, database: &Database, network: Option<Network>) -> Result<()> {
    let (Some(genesis), Some(network)) = (database.hash_at(Height::GENESIS)?, network) else {
        return Ok(());
    };
    match genesis.to_string() == network.genesis_display() {
        true => Ok(()),
        false => Err(wrong(
            folder,
            format!("is not of network {network}: its first block is {genesis}"),
        )),
    }
}
