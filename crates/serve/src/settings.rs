//! What can be set, with the defaults an operator gets.

use std::{sync::Arc, time::Duration};

use crate::{clients::Clients, tls::Certificate, web::Origins};

/// How the server answers. `Settings::default()` is what a public server wants.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shown in `GetLightdInfo`; empty for none. That it is a unified address of this network is for the caller to check.
    pub donation_address: String,
    /// What `GetLightdInfo` and tree states call the chain; `None`: the node's own name for it.
    pub chain_name: Option<String>,
    /// Of what this program was built.
    pub build: Build,
    /// When the server calls itself ready.
    pub readiness: Readiness,
    /// Whether `Ping` is answered. It lets anyone hold a call open, so it is for experiments only.
    pub ping: bool,
    /// Whether gRPC reflection is offered.
    pub reflection: bool,
    /// Whether the one value that old wallets send in place of `poolTypes` is refused, not ignored.
    pub strict_pools: bool,
    /// The certificate to show; `None` for plaintext.
    pub certificate: Option<Arc<Certificate>>,
    /// The pages that may call over gRPC-web.
    pub origins: Origins,
    /// Bounds on what wallets can ask and hold.
    pub limits: Limits,
    /// What each client may have of them.
    pub clients: Clients,
    /// The transport.
    pub http2: Http2,
    /// How often the node is asked for its mempool while it answers.
    pub mempool_poll: Duration,
    /// How long running answers have to end after the server was told to stop.
    pub shutdown_grace: Duration,
}

/// Of what a program was built, as `GetLightdInfo` shows it. Empty strings are fine; names of people and machines are not.
#[derive(Clone, Debug)]
pub struct Build {
    /// Semantic version with a leading `v`.
    pub version: String,
    /// Commit hash.
    pub commit: String,
    /// Branch name.
    pub branch: String,
    /// Date.
    pub date: String,
}

/// When the server calls itself ready.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// The index may be this many blocks behind the best tip.
    pub max_distance_blocks: u32,
    /// The node may have been silent for this long.
    pub max_silence: Duration,
}

/// Bounds on what wallets can ask and hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once; further ones wait in the listener's queue.
    pub connections: usize,
    /// TLS handshakes at once; further ones wait.
    pub handshakes: usize,
    /// How long a client may take for its TLS handshake, and then for its first words.
    pub handshake: Duration,
    /// Long answers (ranges, mempool and address streams) at once on the whole server.
    pub streams: usize,
    /// The same on one connection.
    pub streams_per_connection: usize,
    /// Calls at once, besides long answers, that wait for the rest of their request or for the node.
    pub calls_waiting: usize,
    /// What requests and answers hold in memory until they are done, all together. Slices of the mapped index are not among it.
    pub held_bytes: usize,
    /// A client may take this long to send the one message of its request.
    pub request: Duration,
    /// A stream whose reader takes nothing for this long is reset.
    pub stall: Duration,
    /// One request message.
    pub request_bytes: usize,
    /// One answer of a unary method, what default clients receive.
    pub answer_bytes: usize,
    /// Addresses in one request, repeated ones included.
    pub addresses: usize,
    /// How long a client may take between two messages of a stream of addresses.
    pub address_patience: Duration,
    /// Suffixes in one `GetMempoolTx`.
    pub exclude_suffixes: usize,
    /// One offered transaction.
    pub transaction_bytes: usize,
    /// Raw transactions kept of the mempool.
    pub mempool_bytes: usize,
    /// Transactions kept of the mempool.
    pub mempool_entries: usize,
    /// Blocks being fetched from the node at once, for heights not indexed yet, by all streams together.
    pub node_blocks: usize,
    /// The longest `Ping`, where it is switched on.
    pub ping: Duration,
}

/// The transport.
#[derive(Clone, Copy, Debug)]
pub struct Http2 {
    /// Calls at once on one connection.
    pub max_concurrent_streams: u32,
    /// How much a client may send on one stream before it is told to go on.
    pub stream_window_bytes: u32,
    /// The same for a connection.
    pub connection_window_bytes: u32,
    /// The largest frame a client may send.
    pub max_frame_bytes: u32,
    /// How much of a stream is handed to the transport ahead of the client's window.
    pub send_buffer_bytes: usize,
    /// A silent connection is asked for a sign of life this often.
    pub keepalive: Duration,
    /// And closed when none came for this long.
    pub keepalive_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            donation_address: String::new(),
            chain_name: None,
            build: Build::default(),
            readiness: Readiness::default(),
            ping: false,
            reflection: true,
            strict_pools: false,
            certificate: None,
            origins: Origins::Any,
            limits: Limits::default(),
            clients: Clients::default(),
            http2: Http2::default(),
            mempool_poll: Duration::from_millis(400),
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

impl Default for Build {
    fn default() -> Build {
        Build {
            version: concat!("v", env!("CARGO_PKG_VERSION")).into(),
            commit: String::new(),
            branch: String::new(),
            date: String::new(),
        }
    }
}

impl Default for Readiness {
    fn default() -> Readiness {
        Readiness {
            max_distance_blocks: 100,
            max_silence: Duration::from_secs(90),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 8_192,
            handshakes: 256,
            handshake: Duration::from_secs(10),
            streams: 8_192,
            streams_per_connection: 128,
            calls_waiting: 16_384,
            held_bytes: 512 << 20,
            request: Duration::from_secs(30),
            stall: Duration::from_secs(60),
            request_bytes: 4 << 20,
            answer_bytes: 4 << 20,
            addresses: 10_000,
            address_patience: Duration::from_secs(30),
            exclude_suffixes: 20_000,
            transaction_bytes: 2_000_000,
            mempool_bytes: 80 << 20,
            mempool_entries: 20_000,
            node_blocks: 16,
            ping: Duration::from_secs(10),
        }
    }
}

impl Default for Http2 {
    fn default() -> Http2 {
        Http2 {
            max_concurrent_streams: 200,
            stream_window_bytes: 256 << 10,
            connection_window_bytes: 1 << 20,
            max_frame_bytes: 64 << 10,
            send_buffer_bytes: 1 << 20,
            keepalive: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
        }
    }
}
