//! What few operators need to set: limits, and the pace of things.

use std::{num::NonZeroU32, time::Duration};

use clap::Args;
use http::HeaderName;
use lightship_serve::{AddressBlock, Clients, Http2, Limits, Settings};

use super::seconds;

/// Limits on what wallets can ask and hold, and the pace of things. The defaults suit a public server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct TuningArgs {
    /// Connections of wallets at once; further ones wait
    #[arg(long, env = "LIGHTSHIP_MAX_CONNECTIONS", value_name = "N", default_value_t = count(Limits::default().connections), hide_short_help = true)]
    pub max_connections: NonZeroU32,

    /// Calls at once on one connection
    #[arg(long, env = "LIGHTSHIP_MAX_CALLS_PER_CONNECTION", value_name = "N", default_value_t = small(Http2::default().max_concurrent_streams), hide_short_help = true)]
    pub max_calls_per_connection: NonZeroU32,

    /// Long answers (ranges, mempool and address streams) at once; one more is RESOURCE_EXHAUSTED
    #[arg(long, env = "LIGHTSHIP_MAX_STREAMS", value_name = "N", default_value_t = count(Limits::default().streams), hide_short_help = true)]
    pub max_streams: NonZeroU32,

    /// Long answers at once on one connection
    #[arg(long, env = "LIGHTSHIP_MAX_STREAMS_PER_CONNECTION", value_name = "N", default_value_t = count(Limits::default().streams_per_connection), hide_short_help = true)]
    pub max_streams_per_connection: NonZeroU32,

    /// Other calls at once that wait for the node, or for the rest of their request; one more is RESOURCE_EXHAUSTED
    #[arg(long, env = "LIGHTSHIP_MAX_WAITING_CALLS", value_name = "N", default_value_t = count(Limits::default().calls_waiting), hide_short_help = true)]
    pub max_waiting_calls: NonZeroU32,

    /// Bytes that requests and answers hold in memory until they are done, all together
    #[arg(long, env = "LIGHTSHIP_MAX_HELD_BYTES", value_name = "BYTES", default_value_t = count(Limits::default().held_bytes), hide_short_help = true)]
    pub max_held_bytes: NonZeroU32,

    /// Long answers at once for one client, a network of neighbouring addresses
    #[arg(long, env = "LIGHTSHIP_MAX_STREAMS_PER_CLIENT", value_name = "N", default_value_t = count(Clients::default().streams), hide_short_help = true)]
    pub max_streams_per_client: NonZeroU32,

    /// Connections at once from one client; one more is closed
    #[arg(long, env = "LIGHTSHIP_MAX_CONNECTIONS_PER_CLIENT", value_name = "N", default_value_t = count(Clients::default().connections), hide_short_help = true)]
    pub max_connections_per_client: NonZeroU32,

    /// IPv4 addresses that agree in this many bits are one client
    #[arg(long, env = "LIGHTSHIP_CLIENT_IPV4_PREFIX", value_name = "BITS", default_value_t = Clients::default().ipv4_prefix, value_parser = clap::value_parser!(u8).range(..=32), hide_short_help = true)]
    pub client_ipv4_prefix: u8,

    /// IPv6 addresses that agree in this many bits are one client
    #[arg(long, env = "LIGHTSHIP_CLIENT_IPV6_PREFIX", value_name = "BITS", default_value_t = Clients::default().ipv6_prefix, value_parser = clap::value_parser!(u8).range(..=128), hide_short_help = true)]
    pub client_ipv6_prefix: u8,

    /// Count clients from this machine and from private networks like any other
    #[arg(long, env = "LIGHTSHIP_COUNT_PRIVATE_CLIENTS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, hide_short_help = true)]
    pub count_private_clients: bool,

    /// Proxies that are believed when they name their client: addresses or blocks such as 10.0.0.0/8, with commas between
    #[arg(
        long,
        env = "LIGHTSHIP_TRUSTED_PROXIES",
        value_name = "ADDRESSES",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub trusted_proxies: Vec<AddressBlock>,

    /// Header in which they name it: x-forwarded-for, forwarded, or one that holds a single address
    #[arg(long, env = "LIGHTSHIP_CLIENT_HEADER", value_name = "NAME", default_value = "x-forwarded-for", value_parser = header, hide_short_help = true)]
    pub client_header: HeaderName,

    /// TLS handshakes at once; further ones wait
    #[arg(long, env = "LIGHTSHIP_MAX_HANDSHAKES", value_name = "N", default_value_t = count(Limits::default().handshakes), hide_short_help = true)]
    pub max_handshakes: NonZeroU32,

    /// Seconds a wallet may take for its TLS handshake, and then for its first words
    #[arg(long, env = "LIGHTSHIP_HANDSHAKE_TIMEOUT", value_name = "SECONDS", default_value_t = Limits::default().handshake.as_secs(), value_parser = seconds, hide_short_help = true)]
    pub handshake_timeout: u64,

    /// Seconds a wallet may take to send the one message of its request
    #[arg(long, env = "LIGHTSHIP_REQUEST_TIMEOUT", value_name = "SECONDS", default_value_t = Limits::default().request.as_secs(), value_parser = seconds, hide_short_help = true)]
    pub request_timeout: u64,

    /// Seconds after which a stream is reset whose reader takes nothing; at most 5 while less than a quarter of max-held-bytes is free
    #[arg(long, env = "LIGHTSHIP_STALL_TIMEOUT", value_name = "SECONDS", default_value_t = Limits::default().stall.as_secs(), value_parser = seconds, hide_short_help = true)]
    pub stall_timeout: u64,

    /// Seconds of silence after which a connection is asked for a sign of life
    #[arg(long, env = "LIGHTSHIP_KEEPALIVE", value_name = "SECONDS", default_value_t = Http2::default().keepalive.as_secs(), value_parser = seconds, hide_short_help = true)]
    pub keepalive: u64,

    /// Seconds after which it is closed if none came
    #[arg(long, env = "LIGHTSHIP_KEEPALIVE_TIMEOUT", value_name = "SECONDS", default_value_t = Http2::default().keepalive_timeout.as_secs(), value_parser = seconds, hide_short_help = true)]
    pub keepalive_timeout: u64,

    /// Bytes in one request message
    #[arg(long, env = "LIGHTSHIP_MAX_REQUEST_BYTES", value_name = "BYTES", default_value_t = count(Limits::default().request_bytes), hide_short_help = true)]
    pub max_request_bytes: NonZeroU32,

    /// Bytes in one transaction that is sent
    #[arg(long, env = "LIGHTSHIP_MAX_TRANSACTION_BYTES", value_name = "BYTES", default_value_t = count(Limits::default().transaction_bytes), hide_short_help = true)]
    pub max_transaction_bytes: NonZeroU32,

    /// Addresses in one request or stream, repeated ones included
    #[arg(long, env = "LIGHTSHIP_MAX_ADDRESSES", value_name = "N", default_value_t = count(Limits::default().addresses), hide_short_help = true)]
    pub max_addresses: NonZeroU32,

    /// Seconds a wallet may take between two addresses of a stream
    #[arg(long, env = "LIGHTSHIP_ADDRESS_TIMEOUT", value_name = "SECONDS", default_value_t = Limits::default().address_patience.as_secs(), value_parser = seconds, hide_short_help = true)]
    pub address_timeout: u64,

    /// Suffixes in one GetMempoolTx
    #[arg(long, env = "LIGHTSHIP_MAX_EXCLUDE_SUFFIXES", value_name = "N", default_value_t = count(Limits::default().exclude_suffixes), hide_short_help = true)]
    pub max_exclude_suffixes: NonZeroU32,

    /// Bytes of raw transactions kept of the mempool
    #[arg(long, env = "LIGHTSHIP_MAX_MEMPOOL_BYTES", value_name = "BYTES", default_value_t = count(Limits::default().mempool_bytes), hide_short_help = true)]
    pub max_mempool_bytes: NonZeroU32,

    /// Transactions kept of the mempool
    #[arg(long, env = "LIGHTSHIP_MAX_MEMPOOL_TRANSACTIONS", value_name = "N", default_value_t = count(Limits::default().mempool_entries), hide_short_help = true)]
    pub max_mempool_transactions: NonZeroU32,

    /// Blocks fetched from the node at once for heights that are not indexed yet
    #[arg(long, env = "LIGHTSHIP_MAX_NODE_BLOCKS", value_name = "N", default_value_t = count(Limits::default().node_blocks), hide_short_help = true)]
    pub max_node_blocks: NonZeroU32,

    /// Milliseconds between two looks at the node's mempool
    #[arg(long, env = "LIGHTSHIP_MEMPOOL_POLL", value_name = "MILLISECONDS", default_value = "400", value_parser = clap::value_parser!(u64).range(10..=60_000), hide_short_help = true)]
    pub mempool_poll: u64,

    /// Blocks the index may be behind the best tip and still be called ready
    #[arg(long, env = "LIGHTSHIP_READY_DISTANCE", value_name = "BLOCKS", default_value_t = Settings::default().readiness.max_distance_blocks, hide_short_help = true)]
    pub ready_distance: u32,

    /// Seconds the node may be silent and the server still be called ready
    #[arg(long, env = "LIGHTSHIP_READY_SILENCE", value_name = "SECONDS", default_value_t = Settings::default().readiness.max_silence.as_secs(), value_parser = seconds, hide_short_help = true)]
    pub ready_silence: u64,

    /// Seconds that running answers have to end when the server is told to stop; the process ends within a second more
    #[arg(long, env = "LIGHTSHIP_SHUTDOWN_GRACE", value_name = "SECONDS", default_value = "4", value_parser = seconds, hide_short_help = true)]
    pub shutdown_grace: u64,

    /// Offer gRPC reflection, by which tools learn the protocol
    #[arg(long, env = "LIGHTSHIP_REFLECTION", value_name = "BOOL", default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, hide_short_help = true)]
    pub reflection: bool,

    /// Refuse the value that old wallets send in place of poolTypes, where it is otherwise ignored
    #[arg(long, env = "LIGHTSHIP_STRICT_POOLS", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, hide_short_help = true)]
    pub strict_pools: bool,
}

fn header(typed: &str) -> Result<HeaderName, String> {
    typed
        .parse()
        .map_err(|_| "expected the name of a header".into())
}

fn count(default: usize) -> NonZeroU32 {
    small(u32::try_from(default).unwrap_or(u32::MAX))
}

fn small(default: u32) -> NonZeroU32 {
    NonZeroU32::new(default).unwrap_or(NonZeroU32::MIN)
}

impl TuningArgs {
    /// `settings` with what was typed.
    pub fn apply(&self, settings: Settings) -> Settings {
        let count = |typed: NonZeroU32| usize::try_from(typed.get()).unwrap_or(usize::MAX);
        let limits = Limits {
            connections: count(self.max_connections),
            streams: count(self.max_streams),
            streams_per_connection: count(self.max_streams_per_connection),
            calls_waiting: count(self.max_waiting_calls),
            held_bytes: count(self.max_held_bytes),
            request: Duration::from_secs(self.request_timeout),
            handshakes: count(self.max_handshakes),
            handshake: Duration::from_secs(self.handshake_timeout),
            stall: Duration::from_secs(self.stall_timeout),
            request_bytes: count(self.max_request_bytes),
            transaction_bytes: count(self.max_transaction_bytes),
            addresses: count(self.max_addresses),
            address_patience: Duration::from_secs(self.address_timeout),
            exclude_suffixes: count(self.max_exclude_suffixes),
            mempool_bytes: count(self.max_mempool_bytes),
            mempool_entries: count(self.max_mempool_transactions),
            node_blocks: count(self.max_node_blocks),
            ..settings.limits
        };
        let clients = Clients {
            streams: count(self.max_streams_per_client),
            connections: count(self.max_connections_per_client),
            ipv4_prefix: self.client_ipv4_prefix,
            ipv6_prefix: self.client_ipv6_prefix,
            private: self.count_private_clients,
            proxies: self.trusted_proxies.clone(),
            header: self.client_header.clone(),
        };
        let http2 = Http2 {
            max_concurrent_streams: self.max_calls_per_connection.get(),
            keepalive: Duration::from_secs(self.keepalive),
            keepalive_timeout: Duration::from_secs(self.keepalive_timeout),
            ..settings.http2
        };
        Settings {
            limits,
            clients,
            http2,
            readiness: lightship_serve::Readiness {
                max_distance_blocks: self.ready_distance,
                max_silence: Duration::from_secs(self.ready_silence),
            },
            mempool_poll: Duration::from_millis(self.mempool_poll),
            shutdown_grace: Duration::from_secs(self.shutdown_grace),
            reflection: self.reflection,
            strict_pools: self.strict_pools,
            ..settings
        }
    }
}
