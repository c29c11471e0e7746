//! What is not native gRPC on the wallet port: gRPC-web from browsers, their preflights, and those who took the wrong door.
//!
//! In: any HTTP request. Out: its answer. Native gRPC (over HTTP/2) passes through untouched; a gRPC-web call becomes a native one for
//! the [`Router`] and its answer is put in gRPC-web's form on the way out; everything else is told in a line of text what is spoken
//! here. Answers to pages of allowed origins carry the CORS headers, refusals too, since a page cannot read them otherwise.
//!
//! - `body`: gRPC-web's form of a request's and an answer's body, binary and base64.
//! - `cors`: which pages may call.
//!
//! Spec: gRPC repository, `doc/PROTOCOL-WEB.md`.

mod body;
mod cors;

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{ACCEPT, ALLOW, CONTENT_LENGTH, CONTENT_TYPE, TE},
};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;

use self::body::{WebAnswer, WebRequest};
pub use self::cors::Origins;
use crate::{answer::Answer, grpc::Router, status::Refusal};

const GRPC: &str = "application/grpc";
const GRPC_WEB: &str = "application/grpc-web";
const GRPC_WEB_TEXT: &str = "application/grpc-web-text";

/// How gRPC-web's bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Binary,
    /// Base64, for browsers' older interfaces, which can read text as it comes but not bytes.
    Text,
}

impl Encoding {
    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Encoding::Binary => "application/grpc-web+proto",
            Encoding::Text => "application/grpc-web-text+proto",
        })
    }
}

/// What a request turns out to be.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Native,
    Web {
        sent: Encoding,
        wanted: Encoding,
    },
    Preflight,
    /// Told what is wrong: status and text.
    Stray(StatusCode, &'static str),
}

impl Kind {
    fn of<B>(request: &Request<B>) -> Kind {
        let headers = request.headers();
        if cors::is_preflight(request) {
            return Kind::Preflight;
        }
        let kind = content_type(headers, CONTENT_TYPE);
        if request.method() != Method::POST {
            return Kind::Stray(
                StatusCode::METHOD_NOT_ALLOWED,
                "this port speaks gRPC and gRPC-web: calls are POST\n",
            );
        }
        let sent = match kind {
            // What names no type is taken by the version that only gRPC speaks.
            "" if request.version() == Version::HTTP_2 => return Kind::Native,
            kind if is(kind, GRPC_WEB_TEXT) => Encoding::Text,
            kind if is(kind, GRPC_WEB) => Encoding::Binary,
            kind if is(kind, GRPC) => {
                return match request.version() {
                    Version::HTTP_2 => Kind::Native,
                    _ => Kind::Stray(
                        StatusCode::UPGRADE_REQUIRED,
                        "gRPC needs HTTP/2 (over TLS, or in plaintext with prior knowledge); over HTTP/1.1 this port speaks gRPC-web\n",
                    ),
                };
            }
            _ => {
                return Kind::Stray(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "this port speaks gRPC and gRPC-web: send application/grpc over HTTP/2, or application/grpc-web\n",
                );
            }
        };
        let wanted = match content_type(headers, ACCEPT) {
            wanted if wanted.contains(GRPC_WEB_TEXT) => Encoding::Text,
            wanted if wanted.contains(GRPC_WEB) => Encoding::Binary,
            _ => sent,
        };
        Kind::Web { sent, wanted }
    }
}

fn content_type(headers: &HeaderMap, name: http::HeaderName) -> &str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Whether `found` is `kind`, with or without a `+proto` or parameters behind it.
fn is(found: &str, kind: &str) -> bool {
    found
        .get(..kind.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(kind))
        && matches!(
            found.as_bytes().get(kind.len()),
            None | Some(b'+' | b';' | b' ')
        )
}

/// Answers one request, whatever it is.
pub(crate) async fn answer(router: &Router, request: Request<Incoming>) -> Response<Body> {
    let kind = Kind::of(&request);
    if kind == Kind::Native {
        return router.answer(request).await.map(Body::Native);
    }
    let page = cors::Page::of(request.headers(), router.origins());
    let mut response = match kind {
        Kind::Native | Kind::Preflight => cors::preflight().map(|()| Body::Text(None)),
        Kind::Stray(status, text) => stray(status, text),
        Kind::Web { sent, wanted } => web(router, request, sent, wanted).await,
    };
    page.allow(response.headers_mut());
    response
}

async fn web(
    router: &Router,
    request: Request<Incoming>,
    sent: Encoding,
    wanted: Encoding,
) -> Response<Body> {
    let (mut parts, body) = request.into_parts();
    // As the native call that it is.
    parts.headers.remove(CONTENT_LENGTH);
    parts
        .headers
        .insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    parts
        .headers
        .insert(TE, HeaderValue::from_static("trailers"));
    let native = Request::from_parts(parts, WebRequest::new(body, sent));
    let (mut parts, answer) = router.answer(native).await.into_parts();
    parts.headers.insert(CONTENT_TYPE, wanted.content_type());
    Response::from_parts(parts, Body::Web(WebAnswer::new(answer, wanted)))
}

/// Answers one request with headers only: a call is refused, whatever else comes is told what [`answer`] tells it.
pub(crate) fn refuse<B>(
    request: &Request<B>,
    origins: &Origins,
    refusal: &Refusal,
) -> Response<Body> {
    let refused = |kind| {
        let mut response = Response::new(Body::Text(None));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, kind);
        headers.extend(refusal.trailers());
        response
    };
    let mut response = match Kind::of(request) {
        Kind::Native => return refused(HeaderValue::from_static(GRPC)),
        Kind::Preflight => cors::preflight().map(|()| Body::Text(None)),
        Kind::Stray(status, text) => stray(status, text),
        Kind::Web { wanted, .. } => refused(wanted.content_type()),
    };
    cors::Page::of(request.headers(), origins).allow(response.headers_mut());
    response
}

fn stray(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::Text(Some(Bytes::from_static(text.as_bytes()))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        }
        StatusCode::UPGRADE_REQUIRED => {
            headers.insert(http::header::UPGRADE, HeaderValue::from_static("HTTP/2.0"));
            headers.insert(
                http::header::CONNECTION,
                HeaderValue::from_static("upgrade"),
            );
        }
        _ => {}
    }
    response
}

/// The body of any answer on the wallet port.
pub(crate) enum Body {
    Native(Answer),
    Web(WebAnswer),
    Text(Option<Bytes>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Body::Native(answer) => Pin::new(answer).poll_frame(cx),
            Body::Web(answer) => Pin::new(answer).poll_frame(cx),
            Body::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Native(answer) => answer.is_end_stream(),
            Body::Web(answer) => answer.is_end_stream(),
            Body::Text(text) => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Native(answer) => answer.size_hint(),
            Body::Web(answer) => answer.size_hint(),
            Body::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

#[cfg(test)]
mod tests;
