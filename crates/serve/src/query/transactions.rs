//! Transactions: by id, to be sent on, and the mempool's.

use std::sync::Arc;

use lightship_chain::TxId;
use lightship_source::{Place, Submitted};

use super::{Answers, Query};
use crate::{
    limits::{at_most, hash_bytes},
    mempool, proto,
    range::pools_of,
    status::Refusal,
};

/// Held while the node is asked for a transaction: none is longer than a block.
pub(super) const TRANSACTION_BYTES: usize = 2 << 20;
/// The height of a transaction that only a replaced block holds.
const SIDE_CHAIN_HEIGHT: u64 = u64::MAX;
/// The height of a transaction that waits to be mined.
const MEMPOOL_HEIGHT: u64 = 0;

impl Query {
    /// `GetTransaction`.
    pub(crate) async fn transaction(
        &self,
        request: &proto::TxFilter,
    ) -> Result<proto::RawTransaction, Refusal> {
        let id = TxId::from_internal(hash_bytes("hash", &request.hash)?);
        let asking = self.memory.question(TRANSACTION_BYTES).await?;
        if let Some(found) = self.node.transaction(id).await? {
            // Counted until it is written into an answer, which a client without room for one puts off.
            let lease = Arc::new(asking.resize(found.bytes.len()).await?);
            let height = match found.place {
                Place::Mined(height) => height.into(),
                Place::Mempool => MEMPOOL_HEIGHT,
                Place::SideChain => SIDE_CHAIN_HEIGHT,
            };
            return Ok(proto::RawTransaction {
                data: lease.cover(found.bytes),
                height,
            });
        }
        drop(asking);
        // Nodes forget their mempool for moments when a block arrives; the shared copy does not.
        let snapshot = self.mempool.snapshot().await?;
        let entry = snapshot.get(id).ok_or(Refusal::TransactionNotFound)?;
        Ok(proto::RawTransaction {
            data: entry.bytes.clone(),
            height: MEMPOOL_HEIGHT,
        })
    }

    /// `SendTransaction`. A refusal by the node is an answer; its code and words are passed on unchanged.
    pub(crate) async fn send_transaction(
        &self,
        request: proto::RawTransaction,
    ) -> Result<proto::SendResponse, Refusal> {
        let limit = self.settings.limits.transaction_bytes;
        if request.data.is_empty() {
            return Err(Refusal::Missing { field: "data" });
        }
        if request.data.len() > limit {
            return Err(Refusal::TransactionTooLarge {
                found: request.data.len(),
                limit,
            });
        }
        let node = Arc::clone(&self.node);
        // On its own, so that it goes through also when the client does not wait for the verdict.
        let submitted = tokio::spawn(async move { node.submit(request.data).await })
            .await
            .map_err(|error| {
                tracing::error!(%error, "a submission failed");
                Refusal::Damaged
            })??;
        Ok(match submitted {
            Submitted::Accepted(id) => {
                self.mempool.poke();
                proto::SendResponse {
                    error_code: 0,
                    error_message: id.to_string(),
                }
            }
            Submitted::Rejected { code, message } => proto::SendResponse {
                error_code: code,
                error_message: message,
            },
        })
    }

    /// `GetMempoolTx`.
    pub(crate) async fn mempool_transactions(
        &self,
        request: &proto::GetMempoolTxRequest,
    ) -> Result<Vec<proto::CompactTx>, Refusal> {
        let suffixes = &request.exclude_txid_suffixes;
        at_most(
            "exclude_txid_suffixes",
            suffixes.len(),
            self.settings.limits.exclude_suffixes,
        )?;
        if let Some(long) = suffixes.iter().find(|suffix| suffix.len() > 32) {
            return Err(Refusal::SuffixLength { found: long.len() });
        }
        let pools = pools_of(&request.pool_types, false)?;
        (self.look)();
        let snapshot = self.mempool.snapshot().await?;
        Ok(mempool::select(
            &snapshot,
            suffixes.iter().map(|suffix| &suffix[..]),
            pools,
        ))
    }

    /// `GetMempoolStream`.
    pub(crate) fn mempool_stream(&self) -> Result<Answers<proto::RawTransaction>, Refusal> {
        (self.look)();
        Ok(Box::pin(mempool::newcomers(self.mempool.clone())?))
    }
}
