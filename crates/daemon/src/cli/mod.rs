//! What was typed: flags, their environment variables, and the help text.
//!
//! In: the process's arguments. Out: plain values as the user gave them. What they mean together, and whether they
//! can be used, is decided in [`crate::config`].

mod tuning;

use std::{net::SocketAddr, num::NonZeroU32, num::NonZeroUsize, path::PathBuf};

use clap::{Args, Parser, Subcommand};
use lightship_chain::Upgrade;

pub use tuning::TuningArgs;

/// A time that is waited for, in seconds.
fn seconds(typed: &str) -> Result<u64, String> {
    match typed.parse() {
        Ok(seconds @ 1..=86_400) => Ok(seconds),
        _ => Err("expected 1 to 86400 seconds".into()),
    }
}

/// A Zcash indexer and light-wallet server.
///
/// Stands beside a full node, keeps its blocks in the compact form that wallets read, and serves the lightwallet protocol
/// v0.5.0. Without a command it runs the demo: a chain inside this process, no node needed.
#[derive(Debug, Parser)]
#[command(name = "lightship", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do; `demo` when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a made-up chain with all pools: no node, no set-up
    Demo(DemoArgs),
    /// Build the index from a node, follow it, and serve wallets
    Serve(ServeArgs),
    /// Build the index up to the node's tip, then exit
    Index(IndexArgs),
    /// Print the settings that the same flags would make `serve` use, with where each comes from
    Config(ServeArgs),
    /// Test what the same flags would make `serve` use: node, disk, ports, certificate
    Check(ServeArgs),
    /// Check every checksum and link of a data directory and say what is wrong where
    Verify(VerifyArgs),
}

impl Command {
    /// What a bare run does: the demo with all its defaults.
    pub fn demo() -> Command {
        Cli::parse_from(["lightship", "demo"])
            .command
            .expect("the command is named")
    }
}

/// Where to listen, and how.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Address for wallets: gRPC over HTTP/2, and gRPC-web over HTTP/2 and HTTP/1.1
    #[arg(
        long,
        alias = "grpc-bind-addr",
        env = "LIGHTSHIP_GRPC_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:9067"
    )]
    pub grpc_listen: SocketAddr,

    /// Address for operators: /livez, /readyz and /metrics over HTTP
    #[arg(
        long,
        alias = "http-bind-addr",
        env = "LIGHTSHIP_HTTP_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:9068"
    )]
    pub http_listen: SocketAddr,

    /// PEM file with the certificate that wallets see and those that lead to its root; read again when it changes or on SIGHUP
    #[arg(long, env = "LIGHTSHIP_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// PEM file with the certificate's private key; without the two, wallets are spoken to in plaintext
    #[arg(long, env = "LIGHTSHIP_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Do not warn when wallets are spoken to in plaintext on an address that others can reach
    #[arg(long, env = "LIGHTSHIP_NO_TLS_VERY_INSECURE", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub no_tls_very_insecure: bool,

    /// Pages that may call over gRPC-web: * for all, none, or their origins (scheme and host) with commas between
    #[arg(
        long,
        env = "LIGHTSHIP_CORS_ORIGINS",
        value_name = "ORIGINS",
        default_value = "*"
    )]
    pub cors_origins: String,

    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub tuning: TuningArgs,
}

/// A file of settings.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// TOML file whose keys are these flags' names without the dashes in front; a flag counts more, and so does its variable
    #[arg(long, env = "LIGHTSHIP_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `lightship demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub listen: ListenArgs,

    /// Also speak the demo node's JSON-RPC here, so that other servers can stand on the same chain
    #[arg(long, env = "LIGHTSHIP_NODE_LISTEN", value_name = "ADDR")]
    pub node_listen: Option<SocketAddr>,

    /// Keep the demo's index here instead of in a temporary folder that is removed at the end
    #[arg(long, env = "LIGHTSHIP_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Blocks on the chain at the start
    #[arg(long, value_name = "N", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub blocks: u32,

    /// Seconds between new blocks
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub block_seconds: u64,

    /// The newest upgrade on the chain, for servers and wallets that know no later one
    #[arg(long, value_name = "UPGRADE", default_value = "NU7", value_parser = upgrade)]
    pub newest_upgrade: Upgrade,

    /// The same seed makes the same chain
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
}

fn upgrade(name: &str) -> Result<Upgrade, String> {
    Upgrade::ALL
        .into_iter()
        .find(|upgrade| upgrade.name() == name)
        .ok_or_else(|| {
            let known: Vec<_> = Upgrade::ALL.into_iter().map(Upgrade::name).collect();
            format!("expected one of {}", known.join(", "))
        })
}

/// The node to read from.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The node's JSON-RPC, such as http://127.0.0.1:8232 (zebrad, zakurad or zcashd)
    #[arg(long, env = "LIGHTSHIP_NODE", value_name = "URL")]
    pub node: Option<String>,

    /// That node's state, if it is a zebrad with its files on this machine: the folder it calls state.cache_dir. Final blocks are read from there, the others from the
    /// node; `index` does without --node and ends with the last final block
    #[arg(long, env = "LIGHTSHIP_ZEBRA_STATE", value_name = "DIR")]
    pub zebra_state: Option<PathBuf>,

    /// The cookie file the node writes at each start; read again when it changes
    #[arg(long, env = "LIGHTSHIP_NODE_COOKIE", value_name = "FILE")]
    pub node_cookie: Option<PathBuf>,

    /// User name for the node's JSON-RPC; needs --node-password-file
    #[arg(long, env = "LIGHTSHIP_NODE_USER", value_name = "NAME")]
    pub node_user: Option<String>,

    /// File whose first line is the password for --node-user
    #[arg(long, env = "LIGHTSHIP_NODE_PASSWORD_FILE", value_name = "FILE")]
    pub node_password_file: Option<PathBuf>,

    /// The network the node must be on: main, test, regtest, or auto to take what it is on
    #[arg(
        long,
        env = "LIGHTSHIP_NETWORK",
        value_name = "NETWORK",
        default_value = "auto"
    )]
    pub network: String,

    /// Milliseconds between two looks at the node's tip while nobody asks for it and nothing is pushed
    #[arg(long, env = "LIGHTSHIP_TIP_POLL", value_name = "MILLISECONDS", default_value = "250", value_parser = clap::value_parser!(u64).range(10..=600_000), hide_short_help = true)]
    pub tip_poll: u64,

    /// Least milliseconds between two looks at the node's tip because wallets ask for it, or because the node pushed a new one
    #[arg(long, env = "LIGHTSHIP_TIP_GAP", value_name = "MILLISECONDS", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=600_000), hide_short_help = true)]
    pub tip_gap: u64,
}

/// The index to write.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// Folder for the index; made if it is not there
    #[arg(long, env = "LIGHTSHIP_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Blocks in each sealed range; fixed when the index is made
    #[arg(long, env = "LIGHTSHIP_RANGE_BLOCKS", value_name = "N")]
    pub range_blocks: Option<NonZeroU32>,

    /// Threads that fetch and parse blocks during the build [default: one for each core, at most 8]
    #[arg(long, env = "LIGHTSHIP_BUILD_THREADS", value_name = "N")]
    pub build_threads: Option<NonZeroUsize>,

    /// While the index is far behind, so many of the newest blocks are built before the older ones; 0 for none
    #[arg(
        long,
        env = "LIGHTSHIP_NEWEST_FIRST",
        value_name = "BLOCKS",
        default_value_t = 100_000
    )]
    pub newest_first: u32,
}

/// `lightship serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub config: ConfigArgs,

    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub node: NodeArgs,

    /// The indexer gRPC of the zebrad at --node, such as http://127.0.0.1:8230 (what it calls rpc.indexer_listen_addr): new tips and changes of the mempool
    /// are looked at as soon as it tells of them
    #[arg(long, env = "LIGHTSHIP_ZEBRA_INDEXER", value_name = "URL")]
    pub zebra_indexer: Option<String>,

    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub store: StoreArgs,

    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub listen: ListenArgs,

    /// Unified address shown to wallets that want to support this server
    #[arg(long, env = "LIGHTSHIP_DONATION_ADDRESS", value_name = "ADDRESS")]
    pub donation_address: Option<String>,

    /// Answer Ping, which lets anyone hold a call open for up to 10 s; for tests only
    #[arg(long, env = "LIGHTSHIP_PING_VERY_INSECURE", value_name = "BOOL", default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub ping_very_insecure: bool,
}

/// `lightship index`.
#[derive(Debug, Args)]
pub struct IndexArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub config: ConfigArgs,

    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub node: NodeArgs,

    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub store: StoreArgs,
}

/// `lightship verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Folder of the index; a running lightship may keep writing to it
    #[arg(long, env = "LIGHTSHIP_DATA_DIR", value_name = "DIR")]
    pub data_dir: PathBuf,

    /// Also hash every note of the sealed blocks anew and compare the note commitment trees (a core hashes some 60,000 notes a second)
    #[arg(long)]
    pub trees: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bare_run_names_no_command() {
        assert!(
            Cli::try_parse_from(["lightship"])
                .unwrap()
                .command
                .is_none()
        );
    }
}
