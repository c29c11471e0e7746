//! What servers stand on: a chain, what is expected of it, and the node that shows it.
//!
//! In: a plan's chain and a working folder. Out: a [`Ground`] once a run, and a [`GroundNode`] for each server: the stub in a process of its own, or a
//! regtest `zebrad` with the recorded chain. Both take the same orders: mine, replace, let transactions come.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use lightship_chain::{Height, Upgrade};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    chains,
    expected::{self, Expected},
    plan::ChainPlan,
    questions::{self, Method},
    record::ChainInfo,
};
use crate::{
    conform::node::Node,
    forge::{
        file::{ChainFile, Trees},
        pack::PackArguments,
    },
    process::{Process, free_address, wait_for},
    recorded,
    zebrad::Zebrad,
};

/// The stub takes in its newest blocks one by one; where their trees are hashed as consensus does, and they are full of notes, that takes half a minute on a
/// machine with nothing else to do.
const NODE_PATIENCE: Duration = Duration::from_secs(600);
const ORDER_TIMEOUT: Duration = Duration::from_secs(30);

/// A chain, ready to be stood on.
pub struct Ground {
    /// The plan's name for it.
    pub name: String,
    /// The chain.
    pub file: ChainFile,
    /// Its compact blocks.
    pub expected: Expected,
    /// The node's tip when a server starts.
    pub tip: u32,
    /// The lowest height that is asked for.
    pub lowest: u32,
    /// What is asked, with the answers.
    pub methods: Vec<Method>,
    /// For the record.
    pub info: ChainInfo,
    /// The program `lightship-harness`: stub and limits are subcommands of it.
    pub harness: PathBuf,
    path: PathBuf,
    regtest: bool,
}

impl Ground {
    /// Makes the chain in `chains`, a folder that may hold it already, and all that is expected of it below `work`.
    ///
    /// # Errors
    ///
    /// When the forge, the node or the disk say so.
    pub fn prepare(
        plan: &ChainPlan,
        harness: &Path,
        (work, chains): (&Path, &Path),
        seed: u64,
        log: &Path,
    ) -> Result<Ground> {
        let (path, command) = match (&plan.forge, &plan.file) {
            (Some(forge), _) => chains::forged(forge, chains, &plan.name)?,
            (None, Some(file)) => (file.clone(), format!("as found: {}", file.display())),
            (None, None) => packed(work, &plan.name)?,
        };
        let file = ChainFile::open_or_index(&path)?;
        let top = file.blocks().checked_sub(1).context("an empty chain")?;
        let tip = top
            .checked_sub(plan.spare_blocks)
            .filter(|tip| *tip >= 50)
            .context("spare_blocks: the chain has too few blocks")?;
        let expected = Expected::of(&path, &file)?;
        let bytes = (0..=top)
            .filter_map(|height| Some(u64::from(file.row(Height::new(height))?.length)))
            .sum();
        let mut ground = Ground {
            name: plan.name.clone(),
            tip,
            lowest: questions::lowest(&file),
            methods: Vec::new(),
            info: ChainInfo {
                name: plan.name.clone(),
                blocks: file.blocks().into(),
                bytes,
                command,
                digest: expected::digest(&file),
            },
            file,
            expected,
            harness: harness.to_owned(),
            path,
            regtest: plan.regtest,
        };
        ensure!(
            ground.lowest + 20 < tip,
            "the chain has too few blocks above Sapling's activation at {}",
            ground.lowest
        );
        let node = GroundNode::start(&ground, log)?;
        let honest = Node::new(&node.url(), None);
        ground.methods = questions::make(&ground.file, tip, &honest, seed)?;
        Ok(ground)
    }

    /// Whether its node's tree states are what consensus says, so that a server's own trees can be like them.
    pub fn has_true_trees(&self) -> bool {
        self.regtest || self.file.trees() == Trees::Consensus
    }

    /// The questions of a method.
    pub fn method(&self, name: &str) -> Option<&Method> {
        self.methods.iter().find(|method| method.name == name)
    }
}

fn packed(work: &Path, name: &str) -> Result<(PathBuf, String)> {
    let path = work.join(name);
    let heights = recorded::ACTIVATIONS;
    let of = |upgrade: Upgrade| match upgrade.name() {
        "NU5" => heights.nu5,
        "NU6" => heights.nu6,
        "NU6.1" => heights.nu6_1,
        "NU6.2" => heights.nu6_2,
        "NU6.3" => heights.nu6_3,
        "NU7" => None,
        _ => Some(1),
    };
    let upgrades = Upgrade::ALL
        .into_iter()
        .filter_map(|upgrade| Some((upgrade, of(upgrade)?)))
        .collect();
    PackArguments {
        blocks: recorded::folder()?.join("blocks.hex"),
        out: path.clone(),
        upgrades,
        trees: Trees::StandIn,
    }
    .run()?;
    Ok((path, "lightship-harness record-chain".to_owned()))
}

/// The tip that a node was ordered to move to.
pub struct Moved {
    /// Its height.
    pub height: u32,
    /// Its hash, in internal order.
    pub hash: Vec<u8>,
    /// When the node had said that it moved.
    pub said: Instant,
}

/// A running node on a ground.
pub enum GroundNode {
    /// The stub.
    Stub {
        /// Its process.
        process: Process,
        /// Where it answers JSON-RPC.
        url: String,
        /// Where it takes orders.
        control: String,
    },
    /// A real one.
    Zebrad(Box<Zebrad>),
}

impl GroundNode {
    /// Starts the ground's node at its tip.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn start(ground: &Ground, log: &Path) -> Result<GroundNode> {
        if ground.regtest {
            return Ok(GroundNode::Zebrad(Box::new(recorded::node()?)));
        }
        let (rpc, orders) = (free_address()?, free_address()?);
        let mut command = Command::new(&ground.harness);
        command
            .arg("stub")
            .arg("--chain")
            .arg(&ground.path)
            .args(["--listen", &rpc.to_string()])
            .args(["--control", &orders.to_string()])
            .args(["--start-height", &ground.tip.to_string()])
            // A server that asks for more at a time than a zebrad answers is not what is measured.
            .args(["--most-requests", "1000"]);
        let mut process = Process::start(&mut command, log)?;
        let node = Node::new(&format!("http://{rpc}"), None);
        wait_for("the stub", NODE_PATIENCE, || {
            if let Some(status) = process.exited()? {
                bail!("the stub ended with {status}\n{}", process.log_tail());
            }
            node.best()
        })?;
        Ok(GroundNode::Stub {
            process,
            url: format!("http://{rpc}"),
            control: format!("http://{orders}"),
        })
    }

    /// Where it answers JSON-RPC.
    pub fn url(&self) -> String {
        match self {
            GroundNode::Stub { url, .. } => url.clone(),
            GroundNode::Zebrad(node) => node.rpc_url(),
        }
    }

    /// Its process id.
    pub fn id(&self) -> Option<u32> {
        match self {
            GroundNode::Stub { process, .. } => Some(process.id()),
            GroundNode::Zebrad(node) => node.id(),
        }
    }

    /// Its own light wallet service.
    pub fn wallet_service(&self) -> Option<std::net::SocketAddr> {
        match self {
            GroundNode::Stub { .. } => None,
            GroundNode::Zebrad(node) => node
                .lightwalletd_url()
                .trim_start_matches("http://")
                .parse()
                .ok(),
        }
    }

    /// Adds a block.
    ///
    /// # Errors
    ///
    /// When it refuses.
    pub fn mine(&self) -> Result<Moved> {
        match self {
            GroundNode::Stub { .. } => self.order("/mine?blocks=1"),
            GroundNode::Zebrad(node) => self.moved(node.generate_timed(1)?),
        }
    }

    /// Replaces the top `depth` blocks by one more.
    ///
    /// # Errors
    ///
    /// When it refuses.
    pub fn replace(&self, depth: u32) -> Result<Moved> {
        match self {
            GroundNode::Stub { .. } => {
                self.order(&format!("/reorg?depth={depth}&blocks={}", depth + 1))
            }
            GroundNode::Zebrad(node) => {
                let height = node.tip()?.height.get() + 1 - depth;
                node.invalidate(node.hash_at(height)?)?;
                self.moved(node.generate_timed(depth + 1)?)
            }
        }
    }

    /// Lets one transaction come to the mempool.
    ///
    /// # Errors
    ///
    /// When it refuses, or is a node that wants a real one.
    pub fn add_transaction(&self) -> Result<()> {
        match self {
            GroundNode::Stub { .. } => self.order("/mempool?transactions=1").map(drop),
            GroundNode::Zebrad(_) => bail!("no transactions can be made for a real node"),
        }
    }

    /// Kills it. It does not come back.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn end(&self) -> Result<()> {
        let id = self.id().context("the node has ended")?;
        let id = Pid::from_raw(i32::try_from(id)?).context("a process id")?;
        // It is our child and not waited for before it is dropped, so the id is still its own.
        Ok(kill_process(id, Signal::KILL)?)
    }

    /// What waits in its mempool: ids in protocol order.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn waiting(&self) -> Result<Vec<crate::conform::node::Waiting>> {
        Node::new(&self.url(), None).mempool()
    }

    /// Adds a fault, in the stub's words.
    ///
    /// # Errors
    ///
    /// When the words are none, or this is a real node.
    pub fn misbehave(&self, words: &str) -> Result<()> {
        let GroundNode::Stub { control, .. } = self else {
            bail!("a real node has no faults on order");
        };
        post(&format!("{control}/faults"), words).map(drop)
    }

    /// The best block: height and hash in internal order.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn tip(&self) -> Result<(u32, Vec<u8>)> {
        let node = Node::new(&self.url(), None);
        let info = node.call("getblockchaininfo", json!([]))?;
        let height = u32::try_from(info["blocks"].as_u64().context("a height")?)?;
        Ok((height, node.hash_at(height)?))
    }

    fn moved(&self, said: Instant) -> Result<Moved> {
        let (height, hash) = self.tip()?;
        Ok(Moved { height, hash, said })
    }

    fn order(&self, what: &str) -> Result<Moved> {
        let GroundNode::Stub { control, .. } = self else {
            bail!("a real node takes no orders");
        };
        let answer = post(&format!("{control}{what}"), "")?;
        let said = Instant::now();
        let answer: Value = serde_json::from_str(&answer)?;
        let height = answer["tip"]["height"].as_u64().context("a tip")?;
        let hash = answer["tip"]["hash"].as_str().context("a hash")?;
        Ok(Moved {
            height: u32::try_from(height)?,
            hash: crate::conform::chain::protocol_order(hash)?,
            said,
        })
    }
}

fn post(url: &str, body: &str) -> Result<String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(ORDER_TIMEOUT))
        .build()
        .into();
    let mut answer = agent.post(url).send(body).with_context(|| url.to_owned())?;
    Ok(answer.body_mut().read_to_string()?)
}
