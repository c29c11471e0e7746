//! Limit `raw-sender`: `write(2)` of the expected bytes to a socket.
//!
//! A connection asks with 16 bytes, the first and the last height, little-endian, and gets the frames of those blocks, again and again. What is sent lies
//! in the page cache and is written in pieces of 64 KiB, as a server that does nothing but that would.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use crate::bench::{expected::Expected, wire::Counter};

const PIECE_BYTES: usize = 64 << 10;
const BUFFER_BYTES: usize = 256 << 10;
const TIMEOUT: Duration = Duration::from_secs(60);

/// `lightship-harness raw-sender`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The folder with the chain's expected bytes
    #[arg(long)]
    expected: PathBuf,
    /// Where to listen
    #[arg(long)]
    listen: SocketAddr,
}

impl Arguments {
    /// Serves until the process is ended.
    ///
    /// # Errors
    ///
    /// When the folder or the address cannot be had.
    pub fn run(&self) -> Result<()> {
        let expected = Expected::open(&self.expected)?;
        let listener = TcpListener::bind(self.listen)?;
        for stream in listener.incoming() {
            let (stream, expected) = (stream?, expected.clone());
            thread::spawn(move || {
                // The client sees what happens; there is nobody else to tell.
                let _ = send(stream, &expected);
            });
        }
        Ok(())
    }
}

fn send(mut stream: TcpStream, expected: &Expected) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; 16];
    loop {
        stream.read_exact(&mut request)?;
        let number = |bytes: &[u8]| -> Result<u64> { Ok(u64::from_le_bytes(bytes.try_into()?)) };
        let (first, last) = (number(&request[..8])?, number(&request[8..])?);
        let bytes = expected.range(first, last).context("no such blocks")?;
        for piece in bytes.chunks(PIECE_BYTES) {
            stream.write_all(piece)?;
        }
    }
}

/// The other end.
pub struct Client {
    stream: TcpStream,
    buffer: Box<[u8]>,
}

impl Client {
    /// Connects to a sender.
    ///
    /// # Errors
    ///
    /// When nobody answers.
    pub fn connect(address: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Client {
            stream,
            buffer: vec![0; BUFFER_BYTES].into(),
        })
    }

    /// Drains a range of which `bytes` bytes are to come.
    ///
    /// # Errors
    ///
    /// When they do not come in time.
    pub fn range(
        &mut self,
        (first, last): (u64, u64),
        bytes: u64,
        patience: Duration,
        counter: &mut Counter,
    ) -> Result<()> {
        let deadline = Instant::now() + patience;
        let request = [first.to_le_bytes(), last.to_le_bytes()].concat();
        self.stream.write_all(&request)?;
        while counter.bytes < bytes {
            let wanted = self.buffer.len().min((bytes - counter.bytes) as usize);
            let read = self.stream.read(&mut self.buffer[..wanted])?;
            ensure!(read > 0, "the sender hung up");
            counter.take(&self.buffer[..read]);
            ensure!(Instant::now() < deadline, "no whole answer in time");
        }
        Ok(())
    }
}
