//! Which pages may call: the CORS headers.
//!
//! Spec: Fetch Standard, "CORS protocol".

use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD,
        ORIGIN, VARY,
    },
};

const METHODS: HeaderValue = HeaderValue::from_static("POST, OPTIONS");
const REQUEST_HEADERS: HeaderValue =
    HeaderValue::from_static("content-type, x-grpc-web, x-user-agent, grpc-timeout");
const ANSWER_HEADERS: HeaderValue =
    HeaderValue::from_static("grpc-status, grpc-message, grpc-status-details-bin");
/// A day, in seconds. Browsers may ask again sooner.
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");
const ANY: HeaderValue = HeaderValue::from_static("*");

/// The pages that may call over gRPC-web.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// Every page. What is served is public, and nothing in a browser makes one caller more than another.
    #[default]
    Any,
    /// Pages of these origins, such as `https://wallet.example`; none if empty. Compared as a whole, as browsers write them.
    These(Vec<HeaderValue>),
}

/// What is said to the page that a request comes from.
pub(super) struct Page {
    allowed: Option<HeaderValue>,
    /// The answer is not the same for every page.
    varies: bool,
}

impl Page {
    pub(super) fn of(request: &HeaderMap, origins: &Origins) -> Page {
        let origin = request.get(ORIGIN);
        match origins {
            Origins::Any => Page {
                allowed: origin.map(|_| ANY),
                varies: false,
            },
            Origins::These(these) => Page {
                allowed: origin.filter(|origin| these.contains(origin)).cloned(),
                varies: true,
            },
        }
    }

    /// Lets the page read the answer with these headers, if it may.
    pub(super) fn allow(self, answer: &mut HeaderMap) {
        if self.varies {
            answer.append(VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = self.allowed {
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
        }
    }
}

/// Whether a browser asks before it calls.
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(ORIGIN)
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What it is told; whether its page may call at all is in [`Page::allow`].
pub(super) fn preflight() -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    response
}
