//! The simulated node's JSON-RPC port: HTTP/1.1 with keep-alive, single calls and batches.
//!
//! In: a node and a listener. Out: zebrad's transport: its limits, its refusals, its cookie check; and every fault that [`Faults`](super::Faults)
//! has been told, as bytes on the wire. Left to [`SimulatedNode::answer`]: what calls mean.

mod body;
mod envelope;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, oneshot},
};

use super::{
    RpcError, SimulatedNode,
    faults::{Fault, WARMING},
};
use body::Body;
use envelope::{Call, refusal};

/// Zebra's bound on a request's body.
const MOST_REQUEST_BYTES: usize = 4_001_024;

/// What a node does with a caller it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// Closes the connection without an answer, as zebrad does.
    Closed,
    /// Answers 401 and names the scheme, as zcashd does.
    Unauthorized,
}

/// How the port behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `user:password` that every request must carry as HTTP Basic; zebrad's user is `__cookie__`, and only the password is compared.
    pub login: Option<String>,
    /// What happens without it.
    pub stranger: Stranger,
    /// Requests answered at one time; more get HTTP 429.
    pub most_requests: usize,
}

impl Default for Settings {
    /// No login, 100 requests.
    fn default() -> Settings {
        Settings {
            login: None,
            stranger: Stranger::Closed,
            most_requests: 100,
        }
    }
}

/// A port that is served by threads of its own until this is dropped: for callers without a runtime.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    /// Serves `node` on a free port of the loopback interface.
    ///
    /// # Errors
    ///
    /// If the system gives no port or thread.
    pub fn start(node: SimulatedNode, settings: Settings) -> io::Result<Running> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        // Not with the runtime: this may be called on a thread of another.
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("simulated-node".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    let Ok(listener) = TcpListener::from_std(listener) else {
                        return;
                    };
                    tokio::select! {
                        _ = serve(node, listener, settings) => {}
                        _ = stopped => {}
                    }
                });
                runtime.shutdown_timeout(Duration::from_secs(1));
            })?;
        Ok(Running {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers on `listener` until the future is dropped. While the node is told to refuse, the port is closed, and opened again after.
///
/// # Errors
///
/// If the port cannot be had again.
pub async fn serve(
    node: SimulatedNode,
    listener: TcpListener,
    settings: Settings,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let front = Arc::new(Front {
        permits: Semaphore::new(settings.most_requests),
        node,
        settings,
    });
    // Dropping the set ends the connections with the port.
    let mut connections = tokio::task::JoinSet::new();
    let mut listener = Some(listener);
    loop {
        if front.node.faults().refuses() {
            drop(listener.take());
            front.node.faults().until_no_refusal().await;
        }
        let open = match listener.take() {
            Some(open) => open,
            None => bind_again(address).await?,
        };
        tokio::select! {
            accepted = open.accept() => {
                // A connection that died before it was taken is no reason to stop.
                if let Ok((stream, _)) = accepted {
                    connections.spawn(Arc::clone(&front).connection(stream));
                }
            }
            () = front.node.faults().until_refusal() => {}
        }
        while connections.try_join_next().is_some() {}
        listener = Some(open);
    }
}

/// Connections of the time before may hold the port for a moment.
async fn bind_again(address: SocketAddr) -> io::Result<TcpListener> {
    let mut left = 50;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && left > 0 => {
                left -= 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            bound => return bound,
        }
    }
}

struct Front {
    node: SimulatedNode,
    settings: Settings,
    permits: Semaphore,
}

/// Why a request gets no reply: its connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed without an answer")]
struct Close;

impl Front {
    async fn connection(self: Arc<Self>, stream: TcpStream) {
        // Replies are small and waited for.
        let _ = stream.set_nodelay(true);
        let service = service_fn(|request| self.request(request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            _ = connection => {}
            () = self.node.faults().until_refusal() => {}
        }
    }

    async fn request(&self, request: Request<Incoming>) -> Result<Response<Body>, Close> {
        if request.method() != Method::POST {
            return Ok(text(
                StatusCode::METHOD_NOT_ALLOWED,
                "Used HTTP Method is not allowed. POST is required",
            ));
        }
        if !is_json(request.headers()) {
            return Ok(text(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Supplied content type is not allowed. Content-Type: application/json is required",
            ));
        }
        let Ok(_permit) = self.permits.try_acquire() else {
            return Ok(text(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many connections. Please try again later.",
            ));
        };
        if !self.knows(request.headers()) {
            return match self.settings.stranger {
                Stranger::Closed => Err(Close),
                Stranger::Unauthorized => Ok(unauthorized()),
            };
        }
        let body = Limited::new(request.into_body(), MOST_REQUEST_BYTES)
            .collect()
            .await
            .map_err(|_| Close)?
            .to_bytes();
        match serde_json::from_slice(&body) {
            Ok(Value::Array(calls)) if calls.is_empty() => {
                Ok(json_reply(&refusal(-32600, "Invalid request")))
            }
            Ok(Value::Array(calls)) => self.batch(calls).await,
            Ok(value @ Value::Object(_)) => self.single(value).await,
            Ok(_) => Ok(with_status(
                StatusCode::BAD_REQUEST,
                json_reply(&refusal(-32700, "Parse error")),
            )),
            Err(_) => {
                let reply = json_reply(&refusal(-32700, "Parse error"));
                if body.starts_with(b"{") || body.starts_with(b"[") {
                    Ok(reply)
                } else {
                    Ok(with_status(StatusCode::BAD_REQUEST, reply))
                }
            }
        }
    }

    async fn single(&self, value: Value) -> Result<Response<Body>, Close> {
        let Some(call) = Call::read(value, true) else {
            return Ok(json_reply(&refusal(-32600, "Invalid request")));
        };
        let mut wire = None;
        let reply = self.call(call, &mut wire).await;
        let bytes = reply.map(|reply| encode(&reply)).unwrap_or_default();
        deliver(bytes, wire)
    }

    async fn batch(&self, calls: Vec<Value>) -> Result<Response<Body>, Close> {
        // One after another, as zebrad does it.
        let mut wire = None;
        let mut bytes = Vec::new();
        for value in calls {
            let reply = match Call::read(value, false) {
                Some(call) => self.call(call, &mut wire).await,
                None => Some(refusal(-32600, "Invalid request")),
            };
            if let Some(reply) = reply {
                bytes.push(if bytes.is_empty() { b'[' } else { b',' });
                append(&mut bytes, &reply);
            }
        }
        if !bytes.is_empty() {
            bytes.push(b']');
        }
        deliver(bytes, wire)
    }

    /// Answers one call. A fault of the wire is left in `wire`, for it befalls the whole reply.
    async fn call(&self, call: Call, wire: &mut Option<Fault>) -> Option<Value> {
        let answer = match self.node.faults().strike(&call.method) {
            Some(Fault::Warming) => Err(RpcError::new(-28, WARMING)),
            Some(Fault::Code { code, message }) => Err(RpcError::new(code, message)),
            Some(Fault::WrongShape) => Ok(json!({"unexpected": true})),
            Some(Fault::WrongAnswer) => {
                self.node
                    .answer(&call.method, &call.params)
                    .map(|mut answer| {
                        alter(&mut answer);
                        answer
                    })
            }
            Some(Fault::Hang) => {
                self.node.faults().until_no_hang().await;
                self.node.answer(&call.method, &call.params)
            }
            Some(Fault::Slow(delay)) => {
                tokio::time::sleep(delay).await;
                self.node.answer(&call.method, &call.params)
            }
            fault => {
                *wire = wire.take().or(fault);
                self.node.answer(&call.method, &call.params)
            }
        };
        call.reply(answer)
    }

    /// Only the password is compared, and the scheme is not looked at.
    fn knows(&self, headers: &HeaderMap) -> bool {
        let Some(login) = &self.settings.login else {
            return true;
        };
        let password = |login: &str| {
            login
                .split_once(':')
                .map(|(_, password)| password.to_owned())
        };
        let given = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.split_once(' '))
            .and_then(|(_, encoded)| BASE64_STANDARD.decode(encoded).ok())
            .and_then(|login| password(&String::from_utf8(login).ok()?));
        given.is_some() && given == password(login)
    }
}

/// Makes a wrong answer of a right one, of the same shape. `false` if there is nothing in it to change.
fn alter(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            let middle = text.len() / 2;
            let digit = match text.as_bytes().get(middle) {
                Some(b'0') => "1",
                Some(b'1'..=b'9' | b'a'..=b'f') => "0",
                _ => return false,
            };
            text.replace_range(middle..=middle, digit);
            true
        }
        Value::Number(number) => {
            *value = match number.as_u64() {
                Some(whole) => whole.saturating_sub(1).into(),
                None => 0.into(),
            };
            true
        }
        Value::Array(items) => items.pop().is_some(),
        Value::Object(fields) => fields.values_mut().any(alter),
        Value::Null | Value::Bool(_) => false,
    }
}

/// Sends a reply, or what a fault of the wire makes of it.
fn deliver(bytes: Vec<u8>, wire: Option<Fault>) -> Result<Response<Body>, Close> {
    match wire {
        None => Ok(json_response(Body::whole(bytes))),
        Some(Fault::Cut) => Ok(json_response(Body::cut(bytes))),
        Some(Fault::Truncated) => {
            let half = bytes.len() / 2;
            Ok(json_response(Body::whole(bytes[..half].to_vec())))
        }
        Some(Fault::Html) => {
            let page = "<!doctype html><html><body><h1>Welcome</h1></body></html>";
            let mut response = Response::new(Body::whole(page));
            set_type(&mut response, "text/html");
            Ok(response)
        }
        Some(Fault::Status(401)) => Ok(unauthorized()),
        Some(Fault::Status(status)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let reason = match status {
                StatusCode::TOO_MANY_REQUESTS => "Too many connections. Please try again later.",
                StatusCode::INTERNAL_SERVER_ERROR => "Work queue depth exceeded",
                other => other.canonical_reason().unwrap_or("error"),
            };
            Ok(text(status, reason))
        }
        Some(_) => Err(Close),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return true;
    };
    kind.to_str().is_ok_and(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json") || kind.eq_ignore_ascii_case("text/plain")
    })
}

fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, value);
    bytes
}

fn append(bytes: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(bytes, value).expect("a buffer takes all, and keys are strings");
}

fn json_reply(value: &Value) -> Response<Body> {
    json_response(Body::whole(encode(value)))
}

fn json_response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    set_type(&mut response, "application/json; charset=utf-8");
    response
}

fn text(status: StatusCode, words: &'static str) -> Response<Body> {
    let mut response = with_status(status, Response::new(Body::whole(words)));
    set_type(&mut response, "text/plain");
    response
}

fn unauthorized() -> Response<Body> {
    let mut response = text(StatusCode::UNAUTHORIZED, "");
    let scheme = header::HeaderValue::from_static("Basic realm=\"jsonrpc\"");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, scheme);
    response
}

fn with_status(status: StatusCode, mut response: Response<Body>) -> Response<Body> {
    *response.status_mut() = status;
    response
}

fn set_type(response: &mut Response<Body>, kind: &'static str) {
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
}

#[cfg(test)]
mod tests;
