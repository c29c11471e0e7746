//! The bytes of one connection: TCP, or TLS over it, and a bound on how long it may take to say its first words.
//!
//! In: an accepted socket. Out: a byte stream that HTTP is spoken over. Which HTTP it is, is found out above.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{Semaphore, oneshot},
    time::Sleep,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{settings::Limits, tls::Certificate};

/// As long as the opening of HTTP/2; by then it is known what is spoken, and the transport's own patience counts.
///
/// Spec: RFC 9113 §3.4.
const OPENING_BYTES: usize = 24;

/// One connection's bytes.
pub(crate) struct Wire {
    bytes: Bytes,
    opening: Option<Opening>,
}

enum Bytes {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

struct Opening {
    missing: usize,
    until: Pin<Box<Sleep>>,
    /// Dropped with it.
    _told: Option<oneshot::Sender<()>>,
}

/// Where connections come in.
pub(crate) struct Door {
    tls: Option<TlsAcceptor>,
    handshakes: Semaphore,
    patience: Duration,
}

impl Door {
    /// That speaks plaintext and waits so long.
    pub(crate) fn plain(patience: Duration) -> Door {
        Door {
            tls: None,
            handshakes: Semaphore::new(0),
            patience,
        }
    }

    /// That shows `certificate`, or speaks plaintext where there is none.
    pub(crate) fn new(certificate: Option<&Certificate>, limits: &Limits) -> Door {
        Door {
            tls: certificate.map(Certificate::acceptor),
            handshakes: Semaphore::new(limits.handshakes.min(Semaphore::MAX_PERMITS)),
            patience: limits.handshake,
        }
    }

    /// Takes a connection in: the TLS handshake, if there is to be one (a place for it included), and then the client's first
    /// words, each within the door's patience.
    ///
    /// # Errors
    ///
    /// If the handshake fails or takes too long.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<Wire> {
        let bytes = match &self.tls {
            None => Bytes::Plain(stream),
            Some(acceptor) => {
                let shaken = tokio::time::timeout(self.patience, async {
                    let _place = self.handshakes.acquire().await;
                    acceptor.accept(stream).await
                });
                let shaken = shaken.await.unwrap_or(Err(io::ErrorKind::TimedOut.into()));
                if shaken.is_err() {
                    metrics::counter!("lightship_tls_failed_handshakes_total").increment(1);
                }
                Bytes::Tls(Box::new(shaken?))
            }
        };
        Ok(Wire {
            bytes,
            opening: Some(Opening {
                missing: OPENING_BYTES,
                until: Box::pin(tokio::time::sleep(self.patience)),
                _told: None,
            }),
        })
    }
}

impl Wire {
    /// Ends, with an error that means nothing, when the client's first words have come, or the connection has gone.
    pub(crate) fn heard(&mut self) -> oneshot::Receiver<()> {
        let (told, heard) = oneshot::channel();
        if let Some(opening) = &mut self.opening {
            opening._told = Some(told);
        }
        heard
    }

    /// Notes that `count` bytes came, or fails once they should have.
    fn opened(&mut self, cx: &mut Context<'_>, count: Option<usize>) -> io::Result<()> {
        let Some(opening) = &mut self.opening else {
            return Ok(());
        };
        match count {
            Some(count) => {
                opening.missing = opening.missing.saturating_sub(count);
                if opening.missing == 0 {
                    self.opening = None;
                }
            }
            None if opening.until.as_mut().poll(cx).is_ready() => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => {}
        }
        Ok(())
    }
}

macro_rules! forward {
    ($self:ident, $method:ident, $($argument:expr),*) => {
        match &mut $self.bytes {
            Bytes::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Bytes::Tls(stream) => Pin::new(&mut **stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = forward!(self, poll_read, cx, buf);
        let count = match &read {
            Poll::Ready(_) => Some(buf.filled().len() - before),
            Poll::Pending => None,
        };
        self.opened(cx, count)?;
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Who is answered has spoken.
        self.opening = None;
        forward!(self, poll_write, cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.opening = None;
        forward!(self, poll_write_vectored, cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.bytes {
            Bytes::Plain(stream) => stream.is_write_vectored(),
            Bytes::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, poll_flush, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, poll_shutdown, cx)
    }
}
