//! Raw blocks over JSON-RPC, for worker threads.

use std::{
    future::Future,
    ops::ControlFlow,
    pin::pin,
    sync::{Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use lightship_chain::{BlockHash, BlockId, Height, HeightRange, RawBlock, ShieldedPool, TreeSizes};

use super::{
    Endpoint, blocking::Blocking, bulk::BatchSize, client::Client, client::shape, envelope,
    transport::Transport,
};
use crate::{BlockSource, Error, Result, SubtreeRoot, TreeState};

/// zcashd's and Zebra's code for "the whole answer would be too large".
const BATCH_TOO_LARGE: &[i32] = &[-32011, -32008];

/// A node's best chain over JSON-RPC. Blocks the calling thread; one connection for each thread that is asking.
///
/// A call takes at most [`Endpoint::timeout`] plus [`Endpoint::patience`] for each exchange it needs; [`RpcSource::blocks`]
/// needs one for each few MiB of blocks, and after a failure starts with a smaller batch. Made without I/O: credentials are read when first needed.
pub struct RpcSource {
    client: Client<Blocking>,
    /// As last found good; the next call starts from it.
    batch: Mutex<BatchSize>,
}

impl RpcSource {
    /// A source that asks the node at `endpoint`.
    pub fn new(endpoint: Endpoint) -> RpcSource {
        let transport = Blocking::new(&endpoint);
        RpcSource {
            client: Client::new(endpoint, transport),
            batch: Mutex::new(BatchSize::new()),
        }
    }

    fn learn(&self, size: BatchSize) {
        *self.batch.lock().unwrap_or_else(PoisonError::into_inner) = size;
    }

    /// Decodes the blocks of one answer and lends them. `Break` when the visitor breaks.
    fn lend(
        blocks: &[bytes::Bytes],
        first: Height,
        buffer: &mut Vec<u8>,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        for (offset, block) in (0..).zip(blocks) {
            let height = first
                .checked_add(offset)
                .expect("the blocks answer a range of heights");
            let misread = |what: String| shape("getblock", format!("block {height}: {what}"));
            let text = envelope::plain_text(block).map_err(misread)?;
            let len = text.len() / 2;
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            const_hex::decode_to_slice(text, &mut buffer[..len])
                .map_err(|error| misread(error.to_string()))?;
            if visit(height, RawBlock::Whole(&buffer[..len])).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl BlockSource for RpcSource {
    fn genesis(&self) -> Result<BlockHash> {
        self.hash_at(Height::GENESIS)?
            .ok_or_else(|| Error::Warming {
                node: self.client.endpoint().address.to_string(),
                message: "it has no block yet".to_owned(),
            })
    }

    fn tip(&self) -> Result<Option<BlockId>> {
        ready(self.client.tip())
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>> {
        ready(self.client.hash_at(height))
    }

    fn blocks(
        &self,
        range: HeightRange,
        visit: &mut dyn FnMut(Height, RawBlock<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut size = *self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = Vec::new();
        let mut next = range.first();
        loop {
            let last = next
                .checked_add(size.blocks() - 1)
                .map_or(range.last(), |last| last.min(range.last()));
            let part = HeightRange::new(next, last).expect("next is in the range");
            let started = Instant::now();
            let answer = match ready(self.client.blocks_by_height(part)) {
                Ok(answer) => answer,
                Err(error) => {
                    if eased_by_less(&error) && part.len() > 1 {
                        size.failed();
                        self.learn(size);
                        // The node said so at once; where we waited in vain, the caller decides whether to wait again.
                        if !error.is_transient() {
                            continue;
                        }
                    }
                    return Err(error);
                }
            };
            let blocks = answer.blocks;
            size.answered(blocks.len() as u32, answer.answer_bytes, started.elapsed());
            self.learn(size);
            if Self::lend(&blocks, next, &mut buffer, visit)?.is_break() {
                return Ok(());
            }
            if blocks.len() < part.len() as usize {
                let height = next
                    .checked_add(blocks.len() as u32)
                    .expect("fewer than asked for");
                return Err(Error::AboveTip { height });
            }
            match last.next() {
                Some(above) if above <= range.last() => next = above,
                _ => return Ok(()),
            }
        }
    }

    fn block(&self, hash: BlockHash, visit: &mut dyn FnMut(RawBlock<'_>)) -> Result<bool> {
        let block = ready(self.client.block(hash))?;
        if let Some(bytes) = &block {
            visit(RawBlock::Whole(bytes));
        }
        Ok(block.is_some())
    }

    fn tree_sizes(&self, hash: BlockHash) -> Result<Option<TreeSizes>> {
        ready(self.client.tree_sizes(hash))
    }

    fn tree_state(&self, hash: BlockHash) -> Result<Option<TreeState>> {
        ready(self.client.tree_state(hash))
    }

    fn subtree_roots(
        &self,
        pool: ShieldedPool,
        start: u32,
        limit: u32,
    ) -> Result<Vec<SubtreeRoot>> {
        ready(self.client.subtree_roots(pool, start, Some(limit)))
    }

    fn wait(&self, seen: Option<BlockId>, patience: Duration) -> Result<()> {
        let started = Instant::now();
        while self.tip()? == seen {
            let left = patience.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            let pause = self.client.endpoint().poll.min(left);
            ready(self.client.transport.pause(pause));
        }
        Ok(())
    }
}

/// Whether fewer blocks in one question may do.
fn eased_by_less(error: &Error) -> bool {
    match error {
        Error::TooLarge { .. } | Error::Timeout { .. } | Error::Unreachable { .. } => true,
        // A body that is too large for a server or proxy in between.
        Error::Http { status, .. } => *status == 413,
        Error::Rpc { code, .. } => BATCH_TOO_LARGE.contains(code),
        _ => false,
    }
}

/// The value of a future over the blocking transport.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the blocking transport blocks where others wait"),
    }
}
