//! Transparent addresses: history, balance, unspent outputs. The node keeps the index of addresses; what it sends is checked here
//! against what was asked.

use std::{collections::HashSet, sync::Arc};

use futures_util::{Stream, StreamExt as _, stream};
use lightship_chain::{BlockHash, Height, HeightRange, TxId};
use lightship_source::{Node, Place, Utxo};
use prost::Message as _;

use super::{Answers, Query, transactions::TRANSACTION_BYTES};
use crate::{
    address, aside,
    errand::errand,
    limits::at_most,
    memory::{Lease, Memory},
    proto,
    range::end_of_range,
    status::{Refusal, narrower},
};

/// Held while the node is asked for a list whose length nobody knows yet. So many fit into half of the usual bound as the node is asked at once.
const ANSWER_BYTES: usize = 8 << 20;
/// What one address takes in memory while it waits, as text and as what is sent on.
const ADDRESS_BYTES: usize = 128;
/// Addresses are counted by so many; the first are not.
const ADDRESSES_COUNTED: usize = 64;
/// Raw transactions of one call asked for at once.
const CONCURRENCY: usize = 8;

impl Query {
    /// `GetTaddressTransactions`, also under its old name `GetTaddressTxids`.
    pub(crate) async fn address_transactions(
        &self,
        request: proto::TransparentAddressBlockFilter,
    ) -> Result<Answers<proto::RawTransaction>, Refusal> {
        address::check(self.network(), &request.address)?;
        let range = request.range.ok_or(Refusal::Missing { field: "range" })?;
        let start = end_of_range("range.start", range.start.as_ref())?;
        // That there is none says as little as height 0.
        let end = range.end.unwrap_or_default();
        let end = end_of_range("range.end", Some(&end))?;
        if end != Height::GENESIS && start > end {
            return Err(Refusal::RangeReversed { start, end });
        }
        let picture = self.picture()?;
        let tip = picture.tip.height;
        let end = if end == Height::GENESIS {
            tip
        } else {
            end.min(tip)
        };
        let Some(range) = HeightRange::new(start, end) else {
            return Ok(Box::pin(stream::empty()));
        };
        let asking = self.memory.question(ANSWER_BYTES).await?;
        let ids = self
            .node
            .address_transactions(request.address, range)
            .await
            .map_err(narrower)?;
        let lease = asking.resize(ids.len() * size_of::<TxId>()).await?;
        let pinned = aside::row(&picture.view, range.last()).await?;
        let pinned = pinned.map(|row| row.hash);
        Ok(Box::pin(self.history(pinned, range, ids, lease)))
    }

    fn history(
        &self,
        pinned: Option<BlockHash>,
        range: HeightRange,
        ids: Vec<TxId>,
        lease: Lease,
    ) -> impl Stream<Item = Result<proto::RawTransaction, Refusal>> + use<> {
        let node = Arc::clone(&self.node);
        let reader = self.reader.clone();
        let memory = self.memory.clone();
        stream::iter(ids)
            .map(move |id| {
                // Held as long as there are ids.
                let _lease = &lease;
                errand(mined(Arc::clone(&node), memory.clone(), id, range))
            })
            .buffered(CONCURRENCY)
            .map(move |found| {
                let newest = reader.view().row(range.last()).map(|row| row.hash);
                if pinned.is_some() && newest != pinned {
                    return Err(Refusal::Replaced);
                }
                found
            })
            // The first refusal is the end.
            .scan(false, |ended, found| {
                let go_on = !*ended;
                *ended = found.is_err();
                std::future::ready(go_on.then_some(found))
            })
    }

    /// `GetTaddressBalance`, and its streaming form once the stream has ended.
    pub(crate) async fn balance(&self, addresses: Vec<String>) -> Result<proto::Balance, Refusal> {
        let (addresses, _lease) = self.checked(addresses)?;
        if addresses.is_empty() {
            return Ok(proto::Balance { value_zat: 0 });
        }
        self.picture()?;
        let value_zat = self.node.address_balance(addresses).await?;
        Ok(proto::Balance { value_zat })
    }

    /// `GetTaddressBalanceStream`: each message is checked, and counted, when it arrives.
    pub(crate) async fn balance_of_stream<E>(
        &self,
        mut messages: impl Stream<Item = Result<proto::Address, E>> + Unpin,
    ) -> Result<proto::Balance, E>
    where
        E: From<Refusal>,
    {
        let limits = &self.settings.limits;
        let network = self.network();
        let mut addresses = Vec::new();
        let mut lease: Option<Lease> = None;
        loop {
            let next = tokio::time::timeout(limits.address_patience, messages.next());
            let Some(message) = next.await.map_err(|_| Refusal::DeadlineExceeded)? else {
                // Counted anew, as a list.
                drop(lease);
                return Ok(self.balance(addresses).await?);
            };
            at_most("the stream", addresses.len() + 1, limits.addresses)?;
            if !addresses.is_empty() && addresses.len() % ADDRESSES_COUNTED == 0 {
                let bytes = ADDRESSES_COUNTED * ADDRESS_BYTES;
                match &mut lease {
                    Some(lease) => lease.try_grow(bytes)?,
                    None => lease = Some(self.memory.try_request(bytes)?),
                }
            }
            let address = message?.address;
            address::check(network, &address)?;
            addresses.push(address);
        }
    }

    /// `GetAddressUtxosStream`. The list is counted until its last entry's script is gone.
    pub(crate) async fn utxos(
        &self,
        request: proto::GetAddressUtxosArg,
    ) -> Result<Vec<proto::GetAddressUtxosReply>, Refusal> {
        let (addresses, _lease) = self.checked(request.addresses)?;
        let start = Height::try_from(request.start_height)?;
        if addresses.is_empty() {
            return Ok(Vec::new());
        }
        let picture = self.picture()?;
        if start > picture.tip.height {
            return Ok(Vec::new());
        }
        let entries = (request.max_entries > 0).then_some(request.max_entries);
        let asking = self.memory.question(ANSWER_BYTES).await?;
        let mut found = self
            .node
            .address_utxos(addresses, Some(start), entries)
            .await
            .map_err(narrower)?;
        found.retain(|utxo| start <= utxo.height);
        // The node's order inside a block is kept.
        found.sort_by_key(|utxo| utxo.height);
        if let Some(entries) = entries {
            found.truncate(entries as usize);
        }
        let mut replies = found
            .into_iter()
            .map(reply)
            .collect::<Result<Vec<_>, _>>()?;
        let bytes = replies
            .iter()
            .map(|one| size_of::<proto::GetAddressUtxosReply>() + one.encoded_len())
            .sum();
        let lease = Arc::new(asking.resize(bytes).await?);
        for one in &mut replies {
            one.script = lease.cover(std::mem::take(&mut one.script));
        }
        Ok(replies)
    }

    /// `GetAddressUtxos`: refused when default clients could not receive it.
    pub(crate) async fn utxo_list(
        &self,
        request: proto::GetAddressUtxosArg,
    ) -> Result<proto::GetAddressUtxosReplyList, Refusal> {
        let list = proto::GetAddressUtxosReplyList {
            address_utxos: self.utxos(request).await?,
        };
        let limit = self.settings.limits.answer_bytes;
        if list.encoded_len() > limit {
            return Err(Refusal::AnswerTooLarge {
                limit,
                remedy: "maxEntries, or call GetAddressUtxosStream",
            });
        }
        Ok(list)
    }

    /// The distinct addresses of a list, in its order, if all are good and there are not too many. Long lists are counted while they wait.
    fn checked(&self, mut addresses: Vec<String>) -> Result<(Vec<String>, Option<Lease>), Refusal> {
        at_most("addresses", addresses.len(), self.settings.limits.addresses)?;
        let lease = match addresses.len() {
            0..=ADDRESSES_COUNTED => None,
            count => Some(self.memory.try_request(count * ADDRESS_BYTES)?),
        };
        let network = self.network();
        for address in &addresses {
            address::check(network, address)?;
        }
        let mut seen = HashSet::with_capacity(addresses.len());
        addresses.retain(|address| seen.insert(address.clone()));
        Ok((addresses, lease))
    }
}

/// A transaction of an address's history, which must lie in the range the history was asked for.
async fn mined(
    node: Arc<dyn Node>,
    memory: Memory,
    id: TxId,
    range: HeightRange,
) -> Result<proto::RawTransaction, Refusal> {
    let asking = memory.question(TRANSACTION_BYTES).await?;
    match node.transaction(id).await? {
        Some(found) => match found.place {
            Place::Mined(height) if range.contains(height) => {
                let lease = Arc::new(asking.resize(found.bytes.len()).await?);
                Ok(proto::RawTransaction {
                    data: lease.cover(found.bytes),
                    height: height.into(),
                })
            }
            // It was in the range a moment ago.
            _ => Err(Refusal::Replaced),
        },
        None => Err(Refusal::Replaced),
    }
}

fn reply(utxo: Utxo) -> Result<proto::GetAddressUtxosReply, Refusal> {
    Ok(proto::GetAddressUtxosReply {
        address: utxo.address,
        txid: bytes::Bytes::copy_from_slice(utxo.txid.as_internal()),
        index: i32::try_from(utxo.index).map_err(|_| {
            tracing::warn!("the node names an output index above 2^31");
            Refusal::NodeAway
        })?,
        script: utxo.script,
        value_zat: utxo.value_zat,
        height: utxo.height.into(),
    })
}
