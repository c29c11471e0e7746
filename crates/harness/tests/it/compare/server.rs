//! A server of the protocol made of a function: from a method and a request to messages and a status.

use std::{convert::Infallible, net::Ipv4Addr, sync::Arc, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    HeaderMap, Request, Response,
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpListener, sync::oneshot};
use tonic::codegen::tokio_stream;

/// Messages, a status code, and its words.
pub(super) type Answer = (Vec<Vec<u8>>, i32, String);
/// What a server says to a method and the first message of a request.
pub(super) type Says = Arc<dyn Fn(&str, &[u8]) -> Answer + Send + Sync>;

/// Runs until it is dropped.
pub(super) struct Server {
    url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(says: Says) -> Server {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener, says) => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
        });
        Server {
            url,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().unwrap().join();
    }
}

async fn serve(listener: TcpListener, says: Says) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let says = says.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, says.clone()));
            let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    says: Says,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    let method = path.rsplit('/').next().unwrap_or_default();
    let mut body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    // One flag and four bytes of length stand before a message.
    let message = if body.len() > 5 {
        body.advance(1);
        let length = body.get_u32() as usize;
        body.slice(..length.min(body.len()))
    } else {
        Bytes::new()
    };
    let (messages, code, words) = says(method, &message);
    let mut frames: Vec<Result<Frame<Bytes>, Infallible>> = Vec::new();
    for message in messages {
        let mut framed = BytesMut::with_capacity(message.len() + 5);
        framed.put_u8(0);
        framed.put_u32(u32::try_from(message.len()).unwrap());
        framed.put_slice(&message);
        frames.push(Ok(Frame::data(framed.freeze())));
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.into());
    trailers.insert("grpc-message", words.parse().unwrap());
    frames.push(Ok(Frame::trailers(trailers)));
    let response = Response::builder()
        .header("content-type", "application/grpc")
        .body(StreamBody::new(tokio_stream::iter(frames)))
        .unwrap();
    Ok(response)
}
