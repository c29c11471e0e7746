//! The request of a method that takes one message: read whole, and known to be what the method takes, before anything is done with it.
//!
//! In: a request body. Out: its one message, or what is wrong with it. The generated services call whatever they cannot read `INTERNAL`,
//! for which wallets leave a server; so nothing but whole and right messages comes to them.
//!
//! Spec: gRPC over HTTP2, "Length-Prefixed-Message".

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;
use lightship_chain::compact::project::FRAME_PREFIX_BYTES;
use prost::Message;
use tonic_health::pb::HealthCheckRequest;

use crate::{
    memory::{Lease, Memory},
    method::Method,
    proto,
    status::Refusal,
};

/// Longer messages are counted: they wait in memory for their end, and then for the node.
const FREE_BYTES: usize = 1 << 10;

/// One message in its gRPC frame.
pub(super) struct One {
    frame: Bytes,
    _lease: Option<Lease>,
}

impl One {
    /// As it came.
    pub(super) fn frame(&self) -> Bytes {
        self.frame.clone()
    }

    /// Without the prefix.
    pub(super) fn message(&self) -> Bytes {
        self.frame.slice(FRAME_PREFIX_BYTES..)
    }
}

/// Whether `method` takes one message. The others take a stream, and see to it themselves.
pub(super) fn takes_one(method: Method) -> bool {
    !matches!(
        method,
        Method::GetTaddressBalanceStream | Method::Reflection | Method::Unknown
    )
}

/// Refuses what is not the message that `method` takes.
pub(super) fn check(method: Method, one: &One) -> Result<(), Refusal> {
    fn is<M: Message + Default>(message: Bytes) -> Result<(), Refusal> {
        decode::<M>(message).map(drop)
    }
    let message = one.message();
    match method {
        Method::GetLatestBlock => is::<proto::ChainSpec>(message),
        Method::GetTransaction => is::<proto::TxFilter>(message),
        Method::SendTransaction => is::<proto::RawTransaction>(message),
        Method::GetTaddressTxids | Method::GetTaddressTransactions => {
            is::<proto::TransparentAddressBlockFilter>(message)
        }
        Method::GetTaddressBalance => is::<proto::AddressList>(message),
        Method::GetMempoolTx => is::<proto::GetMempoolTxRequest>(message),
        Method::GetMempoolStream | Method::GetLatestTreeState | Method::GetLightdInfo => {
            is::<proto::Empty>(message)
        }
        Method::GetTreeState => is::<proto::BlockId>(message),
        Method::GetSubtreeRoots => is::<proto::GetSubtreeRootsArg>(message),
        Method::GetAddressUtxos | Method::GetAddressUtxosStream => {
            is::<proto::GetAddressUtxosArg>(message)
        }
        Method::Ping => is::<proto::Duration>(message),
        Method::Health => is::<HealthCheckRequest>(message),
        // The block methods decode for themselves; the rest takes no single message.
        Method::GetBlock
        | Method::GetBlockNullifiers
        | Method::GetBlockRange
        | Method::GetBlockRangeNullifiers
        | Method::GetTaddressBalanceStream
        | Method::Reflection
        | Method::Unknown => Ok(()),
    }
}

/// A message from its protobuf bytes.
pub(super) fn decode<M: Message + Default>(message: Bytes) -> Result<M, Refusal> {
    M::decode(message).map_err(|_| NOT_THE_MESSAGE)
}

/// What is not the protobuf of the type that is due.
pub(super) const NOT_THE_MESSAGE: Refusal = Refusal::Malformed {
    what: "not the protobuf message of this method",
};

/// The one gRPC message of a request body. Its announced length is checked before its bytes are waited for.
pub(super) async fn read<B>(mut body: B, limit: usize, memory: &Memory) -> Result<One, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut read = BytesMut::new();
    let mut expected = None;
    let mut lease = None;
    loop {
        if expected.is_none()
            && let Some(mut prefix) = read.get(..FRAME_PREFIX_BYTES)
        {
            if prefix.get_u8() != 0 {
                return Err(Refusal::NotOffered {
                    what: "compression of this request",
                });
            }
            let length = prefix.get_u32() as usize;
            if length > limit {
                return Err(Refusal::RequestTooLarge { limit });
            }
            if length > FREE_BYTES {
                lease = Some(memory.try_request(length)?);
            }
            expected = Some(FRAME_PREFIX_BYTES + length);
        }
        if let Some(expected) = expected
            && read.len() >= expected
        {
            if read.len() > expected {
                return Err(Refusal::Malformed {
                    what: "more than one message",
                });
            }
            return Ok(One {
                frame: read.freeze(),
                _lease: lease,
            });
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    read.extend_from_slice(data);
                }
            }
            Some(Err(_)) | None => {
                return Err(Refusal::Malformed {
                    what: "it ends before its message does",
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};

    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        let mut frame = vec![0];
        frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        frame.extend_from_slice(message);
        frame
    }

    #[tokio::test]
    async fn a_message_may_come_in_crumbs() {
        let crumbs = framed(b"hello").into_iter().map(|byte| {
            Ok::<_, std::convert::Infallible>(http_body::Frame::data(Bytes::from(vec![byte])))
        });
        let body = StreamBody::new(futures_util::stream::iter(crumbs.collect::<Vec<_>>()));
        assert_eq!(
            read(body, 100, &Memory::new(0)).await.unwrap().message(),
            "hello"
        );
    }

    #[tokio::test]
    async fn anything_but_one_whole_message_is_refused() {
        let read = async |bytes: Vec<u8>| {
            let one = super::read(Full::new(Bytes::from(bytes)), 10, &Memory::new(0)).await;
            one.map(|one| one.message())
        };
        assert_eq!(read(framed(b"")).await.unwrap(), "");
        let mut long = framed(b"");
        long[1..5].copy_from_slice(&11u32.to_be_bytes());
        assert_eq!(
            read(long).await,
            Err(Refusal::RequestTooLarge { limit: 10 })
        );
        let mut compressed = framed(b"x");
        compressed[0] = 1;
        assert!(matches!(
            read(compressed).await,
            Err(Refusal::NotOffered { .. })
        ));
        let mut two = framed(b"x");
        two.extend(framed(b"y"));
        for wrong in [Vec::new(), vec![0; 4], framed(b"abc")[..7].to_vec(), two] {
            assert!(matches!(read(wrong).await, Err(Refusal::Malformed { .. })));
        }
    }
}
