//! The four methods whose messages are stored encoded: one small request message in, a body of stored frames out.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;
use lightship_chain::compact::project::FRAME_PREFIX_BYTES;
use prost::Message;

use crate::{
    method::Method,
    query::Query,
    range::{BlocksBody, Projection},
    status::Refusal,
};

/// Answers one of the four.
pub(super) async fn answer<B>(query: &Query, method: Method, body: B) -> Result<BlocksBody, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let limit = query.settings.limits.request_bytes;
    let message = one_message(body, limit).await?;
    match method {
        Method::GetBlock => query.block(&decode(message)?, Projection::Whole).await,
        Method::GetBlockNullifiers => {
            query
                .block(&decode(message)?, Projection::WholeNullifiers)
                .await
        }
        _ => query.range(&decode(message)?, method == Method::GetBlockRangeNullifiers),
    }
}

fn decode<M: Message + Default>(message: Bytes) -> Result<M, Refusal> {
    M::decode(message).map_err(|_| Refusal::Malformed {
        what: "not the protobuf message of this method",
    })
}

/// The one gRPC message of a request body. Its announced length is checked before its bytes are waited for.
async fn one_message<B>(mut body: B, limit: usize) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut read = BytesMut::new();
    let mut expected = None;
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
            read.advance(FRAME_PREFIX_BYTES);
            return Ok(read.freeze());
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
        assert_eq!(one_message(body, 100).await.unwrap(), "hello");
    }

    #[tokio::test]
    async fn anything_but_one_whole_message_is_refused() {
        let read = |bytes: Vec<u8>| one_message(Full::new(Bytes::from(bytes)), 10);
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
