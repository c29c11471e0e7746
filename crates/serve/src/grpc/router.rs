//! One call, from its headers to the headers of its answer.

use std::{convert::Infallible, pin::pin, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE};
use http_body::Body;
use http_body_util::Full;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body as Messages};
use tonic_health::{pb::health_server::HealthServer, server::HealthService};
use tower::util::BoxCloneSyncService;

use super::{
    blocks,
    methods::Methods,
    request::{self, One},
};
use crate::{
    answer::{Answer, Frames, Long},
    clients::Peer,
    limits::Places,
    method::Method,
    proto::{self, compact_tx_streamer_server::CompactTxStreamerServer},
    query::Query,
    status::{GRPC_STATUS, Refusal},
    telemetry::Call,
    web::Origins,
};

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) query: Arc<Query>,
    pub(crate) health: HealthServer<HealthService>,
    /// `None` where it is switched off.
    pub(crate) reflection: Option<Reflection>,
    /// Long answers end, and no call begins.
    pub(crate) stopping: CancellationToken,
    /// Short answers end too.
    pub(crate) out_of_time: CancellationToken,
}

/// Reflection in its two versions: wallets' tools speak one or the other.
pub(crate) struct Reflection {
    v1: Service<Messages>,
    v1alpha: Service<Messages>,
}

impl Reflection {
    /// Of the published files, and of health checks.
    pub(crate) fn new() -> Reflection {
        let builder = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let v1 = builder()
            .build_v1()
            .expect("the descriptors were written by the compiler of the .proto files");
        let v1alpha = builder()
            .build_v1alpha()
            .expect("the descriptors were written by the compiler of the .proto files");
        Reflection {
            v1: BoxCloneSyncService::new(v1),
            v1alpha: BoxCloneSyncService::new(v1alpha),
        }
    }
}

/// A generated service whose type has no name.
type Service<B> = BoxCloneSyncService<Request<B>, Response<B>, Infallible>;

/// Answers the calls of one connection.
pub(crate) struct Router {
    shared: Arc<Shared>,
    places: Places,
    peer: Peer,
    methods: CompactTxStreamerServer<Methods>,
    /// The same for requests that are streams.
    streamed: CompactTxStreamerServer<Methods>,
}

impl Router {
    /// For a connection from `peer` that sees `places`.
    pub(crate) fn new(shared: Arc<Shared>, places: Places, peer: Peer) -> Router {
        let limit = shared.query.settings.limits.request_bytes;
        let methods = CompactTxStreamerServer::new(Methods(Arc::clone(&shared.query)));
        Router {
            shared,
            places,
            peer,
            streamed: methods
                .clone()
                .max_decoding_message_size(STREAMED_MESSAGE_BYTES),
            methods: methods.max_decoding_message_size(limit),
        }
    }

    /// The pages that may call.
    pub(crate) fn origins(&self) -> &Origins {
        &self.shared.query.settings.origins
    }

    /// Answers one call; every failure is an answer too.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Answer>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let method = Method::of(request.uri().path());
        let mut call = Call::begin(method);
        let deadline = deadline(request.headers());
        let long = match self.place(method, request.headers()) {
            Ok(long) => long,
            Err(refusal) => return self.refused(&refusal, call),
        };
        let ended = async {
            match deadline {
                Some(deadline) => tokio::select! {
                    () = tokio::time::sleep_until(deadline) => Refusal::DeadlineExceeded,
                    () = self.shared.out_of_time.cancelled() => Refusal::Stopping,
                },
                None => {
                    self.shared.out_of_time.cancelled().await;
                    Refusal::Stopping
                }
            }
        };
        let mut dispatched = pin!(self.dispatch(method, request));
        let answered = match futures_util::poll!(&mut dispatched) {
            Poll::Ready(answered) => answered,
            Poll::Pending => {
                let _waiting = match &long {
                    Some(_) => None,
                    None => match self.places.wait() {
                        Ok(place) => Some(place),
                        Err(refusal) => return self.refused(&refusal, call),
                    },
                };
                tokio::select! {
                    biased;
                    answered = dispatched => answered,
                    refusal = ended => Err(refusal),
                }
            }
        };
        match answered {
            Ok(response) => {
                let (parts, frames) = response.into_parts();
                call.note(parts.headers.get(GRPC_STATUS));
                let memory = self.shared.query.memory.clone();
                let answer = Answer::new(frames, deadline, long, call, memory);
                Response::from_parts(parts, answer)
            }
            Err(refusal) => self.refused(&refusal, call),
        }
    }

    /// An answer that is only headers.
    fn refused(&self, refusal: &Refusal, mut call: Call) -> Response<Answer> {
        let response: Response<()> = Status::from(refusal).into_http();
        call.note(response.headers().get(GRPC_STATUS));
        let memory = self.shared.query.memory.clone();
        response.map(|()| Answer::new(Frames::None, None, None, call, memory))
    }

    /// A place for an answer that may be long.
    fn place(&self, method: Method, headers: &HeaderMap) -> Result<Option<Long>, Refusal> {
        if self.shared.stopping.is_cancelled() {
            return Err(Refusal::Stopping);
        }
        if !method.is_long() {
            return Ok(None);
        }
        let client = self
            .shared
            .query
            .settings
            .clients
            .caller(self.peer, headers);
        Ok(Some(Long {
            _place: self.places.take(client)?,
            stopping: Box::pin(self.shared.stopping.clone().cancelled_owned()),
        }))
    }

    /// The one message of `request`, whole and right.
    async fn one<B>(&self, method: Method, body: B) -> Result<One, Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let Query {
            settings, memory, ..
        } = &*self.shared.query;
        let limits = &settings.limits;
        let read = request::read(body, limits.request_bytes, memory);
        let one = tokio::time::timeout(limits.request, read)
            .await
            .map_err(|_| Refusal::RequestLate {
                seconds: limits.request.as_secs(),
            })??;
        request::check(method, &one)?;
        Ok(one)
    }

    async fn dispatch<B>(
        &self,
        method: Method,
        request: Request<B>,
    ) -> Result<Response<Frames>, Refusal>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if !request::takes_one(method) {
            return self.dispatch_stream(method, request).await;
        }
        let (parts, body) = request.into_parts();
        // Kept until there is an answer: it counts for as long.
        let one = self.one(method, body).await?;
        match method {
            Method::GetBlock
            | Method::GetBlockNullifiers
            | Method::GetBlockRange
            | Method::GetBlockRangeNullifiers => {
                let body = blocks::answer(&self.shared.query, method, &one).await?;
                let mut response = Response::new(Frames::Blocks(Box::new(body)));
                response.headers_mut().insert(CONTENT_TYPE, GRPC);
                Ok(response)
            }
            Method::Health => {
                let request = Request::from_parts(parts, Full::new(one.frame()));
                Ok(messages(self.shared.health.clone(), request).await)
            }
            _ => {
                let request = Request::from_parts(parts, Full::new(one.frame()));
                Ok(messages(self.methods.clone(), request).await)
            }
        }
    }

    /// Methods whose request is a stream.
    async fn dispatch_stream<B>(
        &self,
        method: Method,
        request: Request<B>,
    ) -> Result<Response<Frames>, Refusal>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match method {
            Method::Reflection => {
                let Some(reflection) = &self.shared.reflection else {
                    return Err(Refusal::NotOffered { what: "reflection" });
                };
                let service = if request.uri().path().starts_with("/grpc.reflection.v1.") {
                    &reflection.v1
                } else {
                    &reflection.v1alpha
                };
                Ok(messages(service.clone(), request).await)
            }
            Method::Unknown => Err(Refusal::NotOffered {
                what: "this method",
            }),
            _ => Ok(messages(self.streamed.clone(), request).await),
        }
    }
}

/// One message of a stream of addresses: room for any address. The generated code makes room for as much as a message announces.
const STREAMED_MESSAGE_BYTES: usize = 4 << 10;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Calls a generated service; they are always ready.
async fn messages<S, B>(mut service: S, request: Request<B>) -> Response<Frames>
where
    S: tower::Service<Request<Messages>, Response = Response<Messages>, Error = Infallible>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match service.call(request.map(Messages::new)).await {
        Ok(response) => response.map(Frames::Messages),
        Err(never) => match never {},
    }
}

/// When the client gives up, from its `grpc-timeout`; a value that is none is ignored, as the specification has it.
///
/// Spec: gRPC over HTTP2, "Timeout → TimeoutValue TimeoutUnit".
fn deadline(headers: &HeaderMap) -> Option<Instant> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    let after = match unit {
        "H" => Duration::from_secs(value * 3_600),
        "M" => Duration::from_secs(value * 60),
        "S" => Duration::from_secs(value),
        "m" => Duration::from_millis(value),
        "u" => Duration::from_micros(value),
        "n" => Duration::from_nanos(value),
        _ => return None,
    };
    Instant::now().checked_add(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_digits_and_a_unit() {
        let after = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            deadline(&headers).map(|at| at.duration_since(Instant::now()).as_secs_f64().round())
        };
        assert_eq!(after("2S"), Some(2.0));
        assert_eq!(after("3M"), Some(180.0));
        assert_eq!(after("1H"), Some(3600.0));
        assert_eq!(after("5000m"), Some(5.0));
        assert_eq!(after("99999999H"), Some(359_999_996_400.0));
        for wrong in ["", "S", "10", "123456789S", "-1S", "1.5S", "1x"] {
            assert_eq!(after(wrong), None, "{wrong}");
        }
    }
}
