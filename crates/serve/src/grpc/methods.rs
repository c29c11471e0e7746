//! The methods that answer message by message: the generated trait, each one line to `query`.

use std::{pin::Pin, sync::Arc};

use futures_util::{Stream, StreamExt as _, stream};
use prost::Message;
use tonic::{Code, Request, Response, Status, Streaming};

use super::request::NOT_THE_MESSAGE;
use crate::{
    memory::Memory,
    proto::{self, compact_tx_streamer_server::CompactTxStreamer},
    query::{Answers, Query},
    status::Refusal,
};

type Statuses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn statuses<T: 'static>(answers: Answers<T>) -> Response<Statuses<T>> {
    Response::new(Box::pin(answers.map(|answer| answer.map_err(Status::from))))
}

/// A whole list, which is held until its reader has taken it.
fn all<T: Message + 'static>(
    list: Vec<T>,
    memory: &Memory,
) -> Result<Response<Statuses<T>>, Status> {
    let bytes: usize = list
        .iter()
        .map(|one| size_of::<T>() + one.encoded_len())
        .sum();
    let lease = memory.try_ready(bytes)?;
    let list = list.into_iter().map(move |one| {
        let _lease = &lease;
        Ok(one)
    });
    Ok(Response::new(Box::pin(stream::iter(list))))
}

/// What the generated code says of a stream it cannot read, in our words.
fn unread(status: Status) -> Status {
    match status.code() {
        Code::Internal => NOT_THE_MESSAGE.into(),
        // There is room for any address.
        Code::OutOfRange => Refusal::Malformed {
            what: "an address longer than any",
        }
        .into(),
        _ => status,
    }
}

/// The generated trait over the one [`Query`].
#[derive(Clone)]
pub(super) struct Methods(pub(super) Arc<Query>);

#[tonic::async_trait]
impl CompactTxStreamer for Methods {
    async fn get_latest_block(
        &self,
        _: Request<proto::ChainSpec>,
    ) -> Result<Response<proto::BlockId>, Status> {
        Ok(Response::new(self.0.latest_block()?))
    }

    async fn get_transaction(
        &self,
        request: Request<proto::TxFilter>,
    ) -> Result<Response<proto::RawTransaction>, Status> {
        Ok(Response::new(self.0.transaction(request.get_ref()).await?))
    }

    async fn send_transaction(
        &self,
        request: Request<proto::RawTransaction>,
    ) -> Result<Response<proto::SendResponse>, Status> {
        let sent = self.0.send_transaction(request.into_inner()).await?;
        Ok(Response::new(sent))
    }

    type GetTaddressTxidsStream = Statuses<proto::RawTransaction>;

    async fn get_taddress_txids(
        &self,
        request: Request<proto::TransparentAddressBlockFilter>,
    ) -> Result<Response<Self::GetTaddressTxidsStream>, Status> {
        let answers = self.0.address_transactions(request.into_inner()).await?;
        Ok(statuses(answers))
    }

    type GetTaddressTransactionsStream = Statuses<proto::RawTransaction>;

    async fn get_taddress_transactions(
        &self,
        request: Request<proto::TransparentAddressBlockFilter>,
    ) -> Result<Response<Self::GetTaddressTransactionsStream>, Status> {
        self.get_taddress_txids(request).await
    }

    async fn get_taddress_balance(
        &self,
        request: Request<proto::AddressList>,
    ) -> Result<Response<proto::Balance>, Status> {
        let balance = self.0.balance(request.into_inner().addresses).await?;
        Ok(Response::new(balance))
    }

    async fn get_taddress_balance_stream(
        &self,
        request: Request<Streaming<proto::Address>>,
    ) -> Result<Response<proto::Balance>, Status> {
        let messages = request.into_inner();
        let messages = messages.map(|next| next.map_err(unread));
        let balance = self.0.balance_of_stream(messages).await?;
        Ok(Response::new(balance))
    }

    type GetMempoolTxStream = Statuses<proto::CompactTx>;

    async fn get_mempool_tx(
        &self,
        request: Request<proto::GetMempoolTxRequest>,
    ) -> Result<Response<Self::GetMempoolTxStream>, Status> {
        let found = self.0.mempool_transactions(request.get_ref()).await?;
        all(found, &self.0.memory)
    }

    type GetMempoolStreamStream = Statuses<proto::RawTransaction>;

    async fn get_mempool_stream(
        &self,
        _: Request<proto::Empty>,
    ) -> Result<Response<Self::GetMempoolStreamStream>, Status> {
        Ok(statuses(self.0.mempool_stream()?))
    }

    async fn get_tree_state(
        &self,
        request: Request<proto::BlockId>,
    ) -> Result<Response<proto::TreeState>, Status> {
        Ok(Response::new(self.0.tree_state(request.get_ref()).await?))
    }

    async fn get_latest_tree_state(
        &self,
        _: Request<proto::Empty>,
    ) -> Result<Response<proto::TreeState>, Status> {
        Ok(Response::new(self.0.latest_tree_state().await?))
    }

    type GetSubtreeRootsStream = Statuses<proto::SubtreeRoot>;

    async fn get_subtree_roots(
        &self,
        request: Request<proto::GetSubtreeRootsArg>,
    ) -> Result<Response<Self::GetSubtreeRootsStream>, Status> {
        Ok(statuses(self.0.subtree_roots(request.get_ref()).await?))
    }

    async fn get_address_utxos(
        &self,
        request: Request<proto::GetAddressUtxosArg>,
    ) -> Result<Response<proto::GetAddressUtxosReplyList>, Status> {
        Ok(Response::new(self.0.utxo_list(request.into_inner()).await?))
    }

    type GetAddressUtxosStreamStream = Statuses<proto::GetAddressUtxosReply>;

    async fn get_address_utxos_stream(
        &self,
        request: Request<proto::GetAddressUtxosArg>,
    ) -> Result<Response<Self::GetAddressUtxosStreamStream>, Status> {
        let found = self.0.utxos(request.into_inner()).await?;
        Ok(Response::new(Box::pin(stream::iter(
            found.into_iter().map(Ok),
        ))))
    }

    async fn get_lightd_info(
        &self,
        _: Request<proto::Empty>,
    ) -> Result<Response<proto::LightdInfo>, Status> {
        Ok(Response::new(self.0.lightd_info().await?))
    }

    async fn ping(
        &self,
        request: Request<proto::Duration>,
    ) -> Result<Response<proto::PingResponse>, Status> {
        Ok(Response::new(self.0.ping(request.get_ref()).await?))
    }
}
