//! A light wallet client that costs next to nothing: blocking HTTP/2 on one socket, one call at a time.
//!
//! In: a method's name and framed request messages. Out: the DATA bytes as they lie in the read buffer, and the call's status. Load and server share
//! a machine's cores, so the load must not be what is measured: payload is neither copied nor decoded here, and windows never close. Frames have
//! HTTP/2's default bound of 16 KiB, as wallets have it.
//!
//! The peer is told to keep no header table, so a header block can be read without state, and of all headers only `grpc-status` is looked at.
//!
//! Spec: RFC 9113 (HTTP/2), RFC 7541 (HPACK), gRPC over HTTP/2.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

const SERVICE: &str = "/cash.z.wallet.sdk.rpc.CompactTxStreamer/";
const BUFFER_BYTES: usize = 256 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a socket may be silent before its call's deadline is looked at.
const SILENCE: Duration = Duration::from_secs(1);
/// The largest payload of a frame that is not negotiated.
const MAX_FRAME_BYTES: usize = 16_384;
const MAX_WINDOW: u32 = (1 << 31) - 1;
/// So much is taken before the windows are opened again.
const WINDOW_STEP: u32 = 256 << 20;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// A call that the server ended with a status that is not OK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("status {code:?}")]
pub struct Refused {
    /// The status.
    pub code: tonic::Code,
}

enum Transport {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Transport {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.read(into),
            Transport::Tls(stream) => stream.read(into),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.write_all(bytes),
            Transport::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

/// One connection to a server.
pub struct Wire {
    transport: Transport,
    buffer: Box<[u8]>,
    /// What is in the buffer and not yet looked at.
    start: usize,
    end: usize,
    /// The next call's stream.
    stream: u32,
    /// DATA bytes since the connection's window was opened.
    taken: u32,
    out: Vec<u8>,
    secure: bool,
}

impl Wire {
    /// Connects; over TLS with `tls`, whose roots must know the server's certificate for `localhost`.
    ///
    /// # Errors
    ///
    /// When nobody answers in ten seconds.
    pub fn connect(address: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> Result<Wire> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
            .with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        let transport = match tls {
            None => Transport::Plain(stream),
            Some(config) => {
                let name = ServerName::try_from("localhost")?;
                let connection = ClientConnection::new(config.clone(), name)?;
                Transport::Tls(Box::new(StreamOwned::new(connection, stream)))
            }
        };
        let mut wire = Wire {
            secure: tls.is_some(),
            transport,
            buffer: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
            stream: 1,
            taken: 0,
            out: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        };
        let mut settings = Vec::new();
        // No header table, no push, windows of the most there is.
        for (name, value) in [(1u16, 0u32), (2, 0), (4, MAX_WINDOW)] {
            settings.extend_from_slice(&name.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        frame(&mut wire.out, SETTINGS, 0, 0, &settings);
        frame(
            &mut wire.out,
            WINDOW_UPDATE,
            0,
            0,
            &(MAX_WINDOW - 65_535).to_be_bytes(),
        );
        wire.send()?;
        Ok(wire)
    }

    /// Calls `method` with `body`, framed messages, and hands each piece of the answer to `sink`. Returns when the answer has ended well.
    ///
    /// # Errors
    ///
    /// [`Refused`] for a status that is not OK; else when the connection breaks or `patience` ends.
    pub fn call(
        &mut self,
        method: &str,
        body: &[u8],
        patience: Duration,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<()> {
        let deadline = Instant::now() + patience;
        let stream = self.stream;
        ensure!(stream < 1 << 30, "the connection is used up");
        self.stream += 2;
        let headers = self.headers(method);
        frame(&mut self.out, HEADERS, END_HEADERS, stream, &headers);
        let mut pieces = body.chunks(MAX_FRAME_BYTES).peekable();
        if pieces.peek().is_none() {
            frame(&mut self.out, DATA, END_STREAM, stream, &[]);
        }
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() {
                END_STREAM
            } else {
                0
            };
            frame(&mut self.out, DATA, flags, stream, piece);
        }
        self.send()?;
        let mut block: Vec<u8> = Vec::new();
        let mut ending = false;
        let mut window = 0u32;
        loop {
            let (kind, flags, id, length) = self.next_frame(deadline)?;
            let payload = self.start..self.start + length;
            self.start += length;
            match kind {
                DATA if id == stream => {
                    sink(unpadded(&self.buffer[payload], flags)?);
                    window += length as u32;
                    self.taken += length as u32;
                    ensure!(
                        flags & END_STREAM == 0,
                        "the answer ended without its status"
                    );
                    if self.taken >= WINDOW_STEP {
                        let taken = std::mem::take(&mut self.taken);
                        frame(&mut self.out, WINDOW_UPDATE, 0, 0, &taken.to_be_bytes());
                        if window > 0 {
                            let window = std::mem::take(&mut window);
                            frame(
                                &mut self.out,
                                WINDOW_UPDATE,
                                0,
                                stream,
                                &window.to_be_bytes(),
                            );
                        }
                        self.send()?;
                    }
                }
                HEADERS | CONTINUATION if id == stream => {
                    let mut piece = &self.buffer[payload];
                    if kind == HEADERS {
                        piece = unpadded(piece, flags)?;
                        if flags & PRIORITY != 0 {
                            piece = piece.get(5..).context("a short HEADERS frame")?;
                        }
                        ending = flags & END_STREAM != 0;
                    }
                    block.extend_from_slice(piece);
                    if flags & END_HEADERS != 0 {
                        let status = grpc_status(&block)?;
                        block.clear();
                        if let Some(code) = status.filter(|code| *code != tonic::Code::Ok) {
                            return Err(Refused { code }.into());
                        }
                        if ending {
                            ensure!(status.is_some(), "the answer ended without its status");
                            return Ok(());
                        }
                    }
                }
                RST_STREAM if id == stream => {
                    let code = number(&self.buffer[payload]);
                    bail!("the server reset the stream, HTTP/2 error {code}");
                }
                SETTINGS if flags & ACK == 0 => {
                    frame(&mut self.out, SETTINGS, ACK, 0, &[]);
                    self.send()?;
                }
                PING if flags & ACK == 0 => {
                    let opaque = self.buffer[payload].to_vec();
                    frame(&mut self.out, PING, ACK, 0, &opaque);
                    self.send()?;
                }
                GOAWAY => {
                    let last = number(&self.buffer[payload]);
                    ensure!(
                        last >= stream,
                        "the server said goodbye before it took the call"
                    );
                }
                _ => {}
            }
        }
    }

    /// Calls `method` and collects the answer's messages.
    ///
    /// # Errors
    ///
    /// As [`Wire::call`], and when the answer is not made of messages.
    pub fn ask(&mut self, method: &str, body: &[u8], patience: Duration) -> Result<Vec<Vec<u8>>> {
        let mut answer = Vec::new();
        self.call(method, body, patience, |piece| {
            answer.extend_from_slice(piece);
        })?;
        messages(&answer)
    }

    fn headers(&self, method: &str) -> Vec<u8> {
        // The indexed names of RFC 7541, appendix A: POST, http or https, path, authority, content-type.
        let mut block = vec![0x83, if self.secure { 0x87 } else { 0x86 }];
        let mut literal = |name: &[u8], parts: [&str; 2]| {
            block.extend_from_slice(name);
            block.push((parts[0].len() + parts[1].len()) as u8);
            block.extend_from_slice(parts[0].as_bytes());
            block.extend_from_slice(parts[1].as_bytes());
        };
        literal(&[0x04], [SERVICE, method]);
        literal(&[0x01], ["localhost", ""]);
        literal(&[0x0f, 0x10], ["application/grpc", ""]);
        literal(&[0x00, 2, b't', b'e'], ["trailers", ""]);
        block
    }

    fn send(&mut self) -> Result<()> {
        self.transport.write_all(&self.out).context("sending")?;
        self.out.clear();
        Ok(())
    }

    /// The next frame's kind, flags, stream and length; its payload begins at `start` and is whole.
    fn next_frame(&mut self, deadline: Instant) -> Result<(u8, u8, u32, usize)> {
        self.fill(9, deadline)?;
        let head = &self.buffer[self.start..self.start + 9];
        let length = number(&[0, head[0], head[1], head[2]]) as usize;
        let (kind, flags) = (head[3], head[4]);
        let id = number(&head[5..9]) & MAX_WINDOW;
        ensure!(length <= MAX_FRAME_BYTES, "a frame of {length} bytes");
        self.fill(9 + length, deadline)?;
        self.start += 9;
        Ok((kind, flags, id, length))
    }

    /// Reads until so many bytes lie in the buffer.
    fn fill(&mut self, wanted: usize, deadline: Instant) -> Result<()> {
        if self.end - self.start >= wanted {
            return Ok(());
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < wanted {
            match self.transport.read(&mut self.buffer[self.end..]) {
                Ok(0) => bail!("the server hung up"),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error).context("receiving"),
            }
            ensure!(Instant::now() < deadline, "no whole answer in time");
        }
        Ok(())
    }
}

/// Spec: RFC 9113 §4.1 "Frame Format".
fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The first four bytes, big-endian; 0 if there are fewer.
fn number(bytes: &[u8]) -> u32 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn unpadded(payload: &[u8], flags: u8) -> Result<&[u8]> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().context("a short padded frame")?;
    let length = rest
        .len()
        .checked_sub(usize::from(*padding))
        .context("more padding than frame")?;
    Ok(&rest[..length])
}

/// `message` as it goes over the wire: not compressed, its length, its bytes.
pub fn framed(message: &impl prost::Message) -> Vec<u8> {
    let mut out = vec![0];
    out.extend_from_slice(&(message.encoded_len() as u32).to_be_bytes());
    out.extend_from_slice(&message.encode_to_vec());
    out
}

/// The messages that lie in the DATA bytes of an answer.
///
/// # Errors
///
/// When the bytes end in the middle of one, or one is compressed, which nobody asked for.
pub fn messages(mut bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<5>() {
        ensure!(head[0] == 0, "a compressed message");
        let length = number(&head[1..]) as usize;
        ensure!(length <= rest.len(), "an answer is cut off");
        found.push(rest[..length].to_vec());
        bytes = &rest[length..];
    }
    ensure!(bytes.is_empty(), "an answer is cut off");
    Ok(found)
}

/// Counts the messages of an answer as its pieces pass by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Whole messages so far.
    pub messages: u64,
    /// Bytes so far, frames included.
    pub bytes: u64,
    /// CRC-32C of all bytes, if it is wanted.
    pub sum: Option<u32>,
    head: [u8; 5],
    have: usize,
    inside: usize,
}

impl Counter {
    /// One that also sums up the bytes.
    pub fn summing() -> Counter {
        Counter {
            sum: Some(0),
            ..Counter::default()
        }
    }

    /// Takes the next piece.
    pub fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if let Some(sum) = &mut self.sum {
            *sum = crc32c::crc32c_append(*sum, piece);
        }
        let mut rest = piece;
        loop {
            if self.have == 5 {
                let skipped = self.inside.min(rest.len());
                self.inside -= skipped;
                rest = &rest[skipped..];
                if self.inside > 0 {
                    return;
                }
                self.messages += 1;
                self.have = 0;
            }
            if rest.is_empty() {
                return;
            }
            let taken = (5 - self.have).min(rest.len());
            self.head[self.have..self.have + taken].copy_from_slice(&rest[..taken]);
            self.have += taken;
            rest = &rest[taken..];
            if self.have < 5 {
                return;
            }
            self.inside = number(&self.head[1..]) as usize;
        }
    }

    /// Whether the last message is whole.
    pub fn whole(&self) -> bool {
        self.have == 0
    }
}

/// The gRPC status in a header block, if it has one.
///
/// Spec: RFC 7541 §6 "Binary Format". Names and values may be Huffman-coded; only those of this header are ever decoded.
fn grpc_status(block: &[u8]) -> Result<Option<tonic::Code>> {
    /// `grpc-status` in the code of RFC 7541, appendix B.
    const CODED: [u8; 8] = [0x9a, 0xca, 0xc8, 0xb2, 0x12, 0x34, 0xda, 0x8f];
    let mut rest = block;
    let mut status = None;
    while let Some(&first) = rest.first() {
        if first & 0x80 != 0 {
            integer(&mut rest, 7)?;
        } else if first & 0xe0 == 0x20 {
            integer(&mut rest, 5)?;
        } else {
            let bits = if first & 0x40 != 0 { 6 } else { 4 };
            let indexed = integer(&mut rest, bits)? != 0;
            let name = if indexed {
                None
            } else {
                Some(string(&mut rest)?)
            };
            let (coded, value) = string(&mut rest)?;
            let ours = matches!(name, Some((false, b"grpc-status")))
                || matches!(name, Some((true, name)) if name == CODED);
            if ours {
                let number = if coded {
                    digits(value)
                } else {
                    std::str::from_utf8(value)
                        .ok()
                        .and_then(|text| text.parse().ok())
                };
                status = Some(tonic::Code::from_i32(number.unwrap_or(2)));
            }
        }
    }
    Ok(status)
}

/// A Huffman-coded decimal number: `0` to `2` have five bits, `3` to `9` six.
fn digits(coded: &[u8]) -> Option<i32> {
    let bits: Vec<u8> = coded
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    let mut at = 0;
    let mut number = 0i32;
    let read = |at: usize, count: usize| -> Option<u8> {
        Some(
            bits.get(at..at + count)?
                .iter()
                .fold(0, |word, bit| word << 1 | bit),
        )
    };
    while bits.len() - at >= 5 {
        let (digit, width) = match read(at, 5)? {
            short @ 0..=2 => (short, 5),
            0b11111 => break,
            _ => match read(at, 6)? {
                long @ 0b011001..=0b011111 => (long - 0b011001 + 3, 6),
                _ => break,
            },
        };
        number = number.checked_mul(10)?.checked_add(digit.into())?;
        at += width;
    }
    (at > 0).then_some(number)
}

/// Spec: RFC 7541 §5.1 "Integer Representation".
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize> {
    let mask = (1usize << bits) - 1;
    let (first, mut tail) = rest.split_first().context("a cut header block")?;
    let mut value = usize::from(*first) & mask;
    if value == mask {
        for shift in (0..).step_by(7) {
            ensure!(shift < 28, "a header block with a huge number");
            let (byte, after) = tail.split_first().context("a cut header block")?;
            tail = after;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = tail;
    Ok(value)
}

/// Spec: RFC 7541 §5.2 "String Literal Representation". Gives whether it is Huffman-coded, and its bytes.
fn string<'a>(rest: &mut &'a [u8]) -> Result<(bool, &'a [u8])> {
    let coded = rest.first().context("a cut header block")? & 0x80 != 0;
    let length = integer(rest, 7)?;
    let text = rest.get(..length).context("a cut header block")?;
    *rest = &rest[length..];
    Ok((coded, text))
}

#[cfg(test)]
mod tests;
