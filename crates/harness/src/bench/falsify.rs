//! A go-between that changes a byte of every answer: what a judge must notice.
//!
//! In: a server's address. Out: an address behind which the same server seems to send wrong answers, on connections that are opened while it is
//! switched on. Of each message, the last byte is changed on its way to the client; lengths, headers and status stay, so nothing but a look at the
//! content shows it. It understands no more of HTTP/2 than frames. Of what is encrypted it changes the last byte of each piece.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Result;

const DATA: u8 = 0;
const PIECE_BYTES: usize = 64 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs until it is dropped; connections end with their ends.
#[derive(Debug)]
pub struct Falsifier {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    on: Arc<AtomicBool>,
}

impl Falsifier {
    /// Stands before the server at `upstream`.
    ///
    /// # Errors
    ///
    /// When there is no port left.
    pub fn start(upstream: SocketAddr) -> Result<Falsifier> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let on = Arc::new(AtomicBool::new(false));
        let (stopped, wrong) = (stop.clone(), on.clone());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(server) = TcpStream::connect_timeout(&upstream, CONNECT_TIMEOUT) {
                    // A connection that cannot be joined is closed, as by a server that is not there.
                    let _ = join(client, server, wrong.load(Ordering::Relaxed));
                }
            }
        });
        Ok(Falsifier { address, stop, on })
    }

    /// Whether connections that are opened from now on are told wrong answers.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Where it stands.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Falsifier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the listener up.
        let _ = TcpStream::connect_timeout(&self.address, CONNECT_TIMEOUT);
    }
}

fn join(client: TcpStream, server: TcpStream, wrong: bool) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let _ = match wrong {
            true => falsify(server, &client),
            false => std::io::copy(&mut &server, &mut &client).map(drop),
        };
        let _ = client.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// No frame of HTTP/2's default size begins like this.
const TLS_HANDSHAKE: u8 = 0x16;

fn garble(mut server: TcpStream, mut client: &TcpStream, head: &[u8]) -> std::io::Result<()> {
    let mut piece = head.to_vec();
    loop {
        if let Some(last) = piece.last_mut() {
            *last ^= 1;
        }
        client.write_all(&piece)?;
        piece.resize(PIECE_BYTES, 0);
        match server.read(&mut piece)? {
            0 => return Ok(()),
            read => piece.truncate(read),
        }
    }
}

/// Where a stream is within its message.
#[derive(Default)]
struct Place {
    head: [u8; 5],
    have: usize,
    inside: usize,
}

fn falsify(mut server: TcpStream, mut client: &TcpStream) -> std::io::Result<()> {
    let mut streams: HashMap<u32, Place> = HashMap::new();
    let mut head = [0; 9];
    loop {
        server.read_exact(&mut head)?;
        if head[0] == TLS_HANDSHAKE {
            return garble(server, client, &head);
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut frame = head.to_vec();
        frame.resize(9 + length, 0);
        server.read_exact(&mut frame[9..])?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        if head[3] == DATA && head[4] & 8 == 0 {
            streams.entry(stream).or_default().change(&mut frame[9..]);
        }
        client.write_all(&frame)?;
    }
}

impl Place {
    /// Changes the last byte of each message that ends in `data`.
    fn change(&mut self, data: &mut [u8]) {
        for byte in data {
            if self.have < 5 {
                self.head[self.have] = *byte;
                self.have += 1;
                if self.have == 5 {
                    let [_, length @ ..] = self.head;
                    self.inside = u32::from_be_bytes(length) as usize;
                    if self.inside == 0 {
                        self.have = 0;
                    }
                }
                continue;
            }
            self.inside -= 1;
            if self.inside == 0 {
                *byte ^= 1;
                self.have = 0;
            }
        }
    }
}
