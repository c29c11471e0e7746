//! A real node: `zebrad` in regtest, on free loopback ports, with a state folder of its own.
//!
//! In: the program (see [`binary`]) and [`Options`]. Out: a running node that mines on request, and its addresses. The node has no
//! peers and checks no proof of work, so reorgs are made with `invalidateblock`. Dropping it kills it and removes its folder.
//!
//! What a user of it must know:
//! * it cannot mine below Canopy, so all earlier upgrades activate at height 1;
//! * `invalidateblock` returns before the tip has moved ([`Zebrad::invalidate`] waits for it);
//! * its state is written synchronously here, so a restart keeps the tip; by default Zebra writes it every few seconds, and the tip can come
//!   back lower ([`Zebrad::replace_state`] makes that happen at will).

use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use lightship_chain::{BlockHash, BlockId, Height};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    json_rpc::JsonRpc,
    process::{Process, free_address, wait_for},
};

/// The version that the recorded chain and `.ci/zebrad` are made for.
pub const VERSION: &str = "7.0.0";

const START_PATIENCE: Duration = Duration::from_secs(120);
const STOP_PATIENCE: Duration = Duration::from_secs(60);
/// A shielded coinbase takes seconds to prove, on a busy machine tens of them; calls mine few at a time.
const CALL_TIMEOUT: Duration = Duration::from_secs(300);
/// How many blocks one `generate` call mines: a call stays far below [`CALL_TIMEOUT`].
const BLOCKS_A_CALL: u32 = 500;

/// The program: `$LIGHTSHIP_ZEBRAD`, or what `.ci/zebrad` has put into the cache. `None` if there is neither.
pub fn binary() -> Option<PathBuf> {
    match env::var_os("LIGHTSHIP_ZEBRAD").filter(|path| !path.is_empty()) {
        Some(path) => Some(path.into()),
        None => Some(cache_dir()?.join(format!("zebrad-{VERSION}/bin/zebrad")))
            .filter(|path| path.exists()),
    }
}

/// The same, for whoever cannot do without.
///
/// # Errors
///
/// With what to do, if there is no such program.
pub fn program() -> Result<PathBuf> {
    let path = binary().context("no zebrad: set LIGHTSHIP_ZEBRAD or run .ci/zebrad")?;
    ensure!(
        path.exists(),
        "no zebrad at {}: mend LIGHTSHIP_ZEBRAD",
        path.display()
    );
    Ok(path)
}

/// Where things that take long to make are kept: `$LIGHTSHIP_CACHE`, or `lightship` in the user's cache folder.
pub fn cache_dir() -> Option<PathBuf> {
    let named = |name| {
        env::var_os(name)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    named("LIGHTSHIP_CACHE")
        .or_else(|| Some(named("XDG_CACHE_HOME")?.join("lightship")))
        .or_else(|| Some(named("HOME")?.join(".cache/lightship")))
}

/// Where the upgrades after Canopy activate. `None`: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the upgrades' own names")]
pub struct Activations {
    pub nu5: Option<u32>,
    pub nu6: Option<u32>,
    pub nu6_1: Option<u32>,
    pub nu6_2: Option<u32>,
    pub nu6_3: Option<u32>,
}

impl Activations {
    fn lines(&self) -> String {
        [
            ("NU5", self.nu5),
            ("NU6", self.nu6),
            ("\"NU6.1\"", self.nu6_1),
            ("\"NU6.2\"", self.nu6_2),
            ("\"NU6.3\"", self.nu6_3),
        ]
        .into_iter()
        .filter_map(|(name, height)| Some(format!("{name} = {}\n", height?)))
        .collect()
    }
}

/// How a node is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where upgrades activate.
    pub activations: Activations,
    /// Who is paid by [`Zebrad::generate`].
    pub miner: &'static str,
    /// Ask callers for the secret in a cookie file, as Zebra does by default.
    pub cookie: bool,
}

/// A running (or stopped) node.
#[derive(Debug)]
pub struct Zebrad {
    process: Option<Process>,
    binary: PathBuf,
    folder: TempDir,
    rpc: JsonRpc,
    cookie: Option<PathBuf>,
    rpc_address: SocketAddr,
    lightwalletd_address: SocketAddr,
    indexer_address: SocketAddr,
}

impl Zebrad {
    /// Starts a node; `prepare` may fill its state folder first. Returns once it answers.
    ///
    /// # Errors
    ///
    /// When there is no program, or it does not answer in time; the end of its log is in the message.
    pub fn start(options: &Options, prepare: impl FnOnce(&Path) -> Result<()>) -> Result<Zebrad> {
        let binary = program()?;
        let folder = TempDir::with_prefix("lightship-zebrad-")?;
        let (rpc_address, lightwalletd_address, indexer_address) =
            (free_address()?, free_address()?, free_address()?);
        let state = folder.path().join("state");
        fs::create_dir_all(&state)?;
        prepare(&state)?;
        let config = format!(
            r#"[network]
network = "Regtest"
listen_addr = "127.0.0.1:0"
cache_dir = false
[network.testnet_parameters.activation_heights]
{activations}
[state]
cache_dir = {state:?}
debug_skip_non_finalized_state_backup_task = true
[rpc]
listen_addr = "{rpc_address}"
lightwalletd_listen_addr = "{lightwalletd_address}"
indexer_listen_addr = "{indexer_address}"
cookie_dir = {cookie_dir:?}
enable_cookie_auth = {cookie}
[mining]
miner_address = "{miner}"
"#,
            activations = options.activations.lines(),
            cookie_dir = folder.path(),
            cookie = options.cookie,
            miner = options.miner,
        );
        fs::write(folder.path().join("zebrad.toml"), config)?;
        let cookie = options.cookie.then(|| folder.path().join(".cookie"));
        let mut node = Zebrad {
            process: None,
            binary,
            folder,
            rpc: client(rpc_address, CALL_TIMEOUT, cookie.as_ref()),
            cookie,
            rpc_address,
            lightwalletd_address,
            indexer_address,
        };
        node.resume()?;
        Ok(node)
    }

    /// Starts it again after [`Zebrad::stop`] or [`Zebrad::kill`], on the same addresses and state.
    ///
    /// # Errors
    ///
    /// When it does not answer in time.
    pub fn resume(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "it runs already");
        let mut command = Command::new(&self.binary);
        command
            .arg("--config")
            .arg(self.folder.path().join("zebrad.toml"))
            .arg("start");
        let process = self.process.insert(Process::start(
            &mut command,
            &self.folder.path().join("zebrad.log"),
        )?);
        let patient = client(
            self.rpc_address,
            Duration::from_secs(2),
            self.cookie.as_ref(),
        );
        let answered = wait_for("zebrad", START_PATIENCE, || {
            if let Some(status) = process.exited()? {
                // Nothing to wait for; the log says why.
                return Ok(Err(anyhow!("zebrad ended with {status}")));
            }
            // Genesis is committed shortly after the port opens.
            patient.call("getblockcount", json!([])).map(Ok)
        });
        match answered {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) | Err(error) => {
                let log = self.process.take().map(|process| process.log_tail());
                Err(error.context(log.unwrap_or_default()))
            }
        }
    }

    /// Empties its state folder and lets `prepare` fill it, while it does not run.
    ///
    /// # Errors
    ///
    /// When it runs, or a file cannot be removed or written.
    pub fn replace_state(&mut self, prepare: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        ensure!(self.process.is_none(), "it runs");
        let state = self.state_dir();
        fs::remove_dir_all(&state)?;
        fs::create_dir_all(&state)?;
        prepare(&state)
    }

    /// Ends it in order. Its state stays for [`Zebrad::resume`].
    ///
    /// # Errors
    ///
    /// When it does not end in time (it is killed then).
    pub fn stop(&mut self) -> Result<()> {
        match self.process.take() {
            Some(mut process) => process.terminate(STOP_PATIENCE).map(drop),
            None => Ok(()),
        }
    }

    /// Ends it at once, as a power cut would. Its state stays for [`Zebrad::resume`].
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Its JSON-RPC client.
    pub fn rpc(&self) -> &JsonRpc {
        &self.rpc
    }

    /// The file with the secret its callers must send, if it asks for one.
    pub fn cookie(&self) -> Option<&Path> {
        self.cookie.as_deref()
    }

    /// Where it answers JSON-RPC.
    pub fn rpc_url(&self) -> String {
        format!("http://{}", self.rpc_address)
    }

    /// Where its built-in light wallet service answers gRPC.
    pub fn lightwalletd_url(&self) -> String {
        format!("http://{}", self.lightwalletd_address)
    }

    /// Where its indexer service answers gRPC.
    pub fn indexer_url(&self) -> String {
        format!("http://{}", self.indexer_address)
    }

    /// Its state folder (`state.cache_dir`).
    pub fn state_dir(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The best block.
    ///
    /// # Errors
    ///
    /// When the node does not answer.
    pub fn tip(&self) -> Result<BlockId> {
        let answer = self.rpc.call("getbestblockheightandhash", json!([]))?;
        let height = answer["height"].as_u64().context("a height")?;
        // Zebra writes this hash as numbers in internal order.
        let bytes: Vec<u8> = serde_json::from_value(answer["hash"].clone())?;
        let bytes: [u8; 32] = bytes.try_into().map_err(|_| anyhow!("not 32 bytes"))?;
        Ok(BlockId {
            height: Height::try_from(height)?,
            hash: BlockHash::from_internal(bytes),
        })
    }

    /// The best chain's hash at `height`.
    ///
    /// # Errors
    ///
    /// When the node does not answer or has no such block.
    pub fn hash_at(&self, height: u32) -> Result<BlockHash> {
        let answer = self.rpc.call("getblockhash", json!([height]))?;
        Ok(answer.as_str().context("a hash")?.parse()?)
    }

    /// The blocks of these heights, as consensus serializes them, in one batch.
    ///
    /// # Errors
    ///
    /// When the node does not answer or lacks one of them.
    pub fn raw_blocks(&self, heights: impl Iterator<Item = u32>) -> Result<Vec<Vec<u8>>> {
        let calls = heights.map(|height| ("getblock", json!([height.to_string(), 0])));
        self.rpc
            .batch(calls)?
            .iter()
            .map(|block| Ok(const_hex::decode(block.as_str().context("hex")?)?))
            .collect()
    }

    /// Mines `blocks` blocks that pay the configured miner.
    ///
    /// # Errors
    ///
    /// When the node refuses or does not answer.
    pub fn generate(&self, blocks: u32) -> Result<()> {
        self.generate_timed(blocks).map(drop)
    }

    /// [`Zebrad::generate`], and when the node had said that the last of them is mined. It shows it as its tip a little later, and is waited for.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn generate_timed(&self, blocks: u32) -> Result<Instant> {
        self.mine(blocks, |few| ("generate", json!([few])))
    }

    /// Mines `blocks` blocks that pay `address`: transparent, Sapling or unified.
    ///
    /// # Errors
    ///
    /// When the node refuses or does not answer.
    pub fn generate_to(&self, blocks: u32, address: &str) -> Result<()> {
        // A shielded coinbase must be proved, so one block a call keeps the calls short.
        for _ in 0..blocks {
            self.mine(1, |one| ("generatetoaddress", json!([one, address])))?;
        }
        Ok(())
    }

    fn mine(
        &self,
        mut blocks: u32,
        call: impl Fn(u32) -> (&'static str, Value),
    ) -> Result<Instant> {
        let mut said = Instant::now();
        while blocks > 0 {
            let few = blocks.min(BLOCKS_A_CALL);
            let (method, params) = call(few);
            let mined = self.rpc.call(method, params)?;
            said = Instant::now();
            let last = mined
                .as_array()
                .and_then(|hashes| hashes.last())
                .and_then(Value::as_str);
            let last: BlockHash = last.context("the hashes of the mined blocks")?.parse()?;
            // What the node calls its tip lags behind its chain.
            wait_for("the mined block", Duration::from_secs(30), || {
                let tip = self.tip()?;
                ensure!(tip.hash == last, "the tip is still {tip}");
                Ok(())
            })?;
            blocks -= few;
        }
        Ok(said)
    }

    /// Takes a block and all above it off the best chain. Returns the new tip, once the node has moved to it.
    ///
    /// # Errors
    ///
    /// When the node refuses, does not answer or does not move.
    pub fn invalidate(&self, hash: BlockHash) -> Result<BlockId> {
        self.rpc
            .call("invalidateblock", json!([hash.to_string()]))?;
        wait_for(
            "the block to leave the best chain",
            Duration::from_secs(30),
            || {
                ensure!(!self.is_on_best_chain(hash)?, "{hash} is still there");
                // What the node calls its tip lags behind its chain.
                let tip = self.tip()?;
                ensure!(self.is_on_best_chain(tip.hash)?, "the tip is still {tip}");
                Ok(tip)
            },
        )
    }

    /// Undoes [`Zebrad::invalidate`]: the block and those above it count again. Returns before the tip has moved
    /// ([`Zebrad::wait_for_tip`]), for it only moves if that branch is the heavier one.
    ///
    /// # Errors
    ///
    /// When the node refuses or does not answer.
    pub fn reconsider(&self, hash: BlockHash) -> Result<()> {
        self.rpc
            .call("reconsiderblock", json!([hash.to_string()]))
            .map(drop)
    }

    /// Returns once the best block is `tip`.
    ///
    /// # Errors
    ///
    /// When it is not within `patience`.
    pub fn wait_for_tip(&self, tip: BlockId, patience: Duration) -> Result<()> {
        wait_for("the node's tip", patience, || {
            let found = self.tip()?;
            ensure!(found == tip, "the tip is {found}, not {tip}");
            Ok(())
        })
    }

    fn is_on_best_chain(&self, hash: BlockHash) -> Result<bool> {
        match self.rpc.call("getblockheader", json!([hash.to_string()])) {
            Ok(header) => Ok(header["confirmations"]
                .as_i64()
                .is_some_and(|count| count > 0)),
            // An invalidated block is forgotten.
            Err(_) => Ok(false),
        }
    }
}

fn client(address: SocketAddr, timeout: Duration, cookie: Option<&PathBuf>) -> JsonRpc {
    let client = JsonRpc::new(format!("http://{address}"), timeout);
    match cookie {
        Some(cookie) => client.with_cookie(cookie.clone()),
        None => client,
    }
}
