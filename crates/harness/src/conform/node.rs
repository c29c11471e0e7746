//! What the model asks the node.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::chain::protocol_order;
use crate::{
    json_rpc::{JsonRpc, Refused},
    proto::{ChainMetadata, SubtreeRoot, TreeState},
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A transaction of the mempool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its id, in protocol order.
    pub id: Vec<u8>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The node whose chain the server shows.
#[derive(Clone, Debug)]
pub struct Node {
    rpc: JsonRpc,
}

impl Node {
    /// The node at `url`, sending the secret in `cookie` if there is one.
    pub fn new(url: &str, cookie: Option<PathBuf>) -> Node {
        let rpc = JsonRpc::new(url, TIMEOUT);
        Node {
            rpc: match cookie {
                Some(cookie) => rpc.with_cookie(cookie),
                None => rpc,
            },
        }
    }

    /// Its answer to a call.
    ///
    /// # Errors
    ///
    /// When it refuses or does not answer.
    pub fn call(&self, method: &str, params: Value) -> Result<Value> {
        self.rpc.call(method, params)
    }

    /// Its answer, or its refusal.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn ask(&self, method: &str, params: Value) -> Result<Result<Value, Refused>> {
        self.rpc.ask(method, params)
    }

    /// The hash at a height, in protocol order; empty if there is no such height.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn hash_at(&self, height: u32) -> Result<Vec<u8>> {
        match self.ask("getblockhash", json!([height]))? {
            Ok(hash) => protocol_order(hash.as_str().context("a hash")?),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// The best block's hash, in display order.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn best(&self) -> Result<String> {
        let best = self.call("getbestblockhash", json!([]))?;
        Ok(best.as_str().context("a hash")?.to_owned())
    }

    /// Blocks of the best chain: height, bytes, and the decoded form with the ids.
    pub(super) fn blocks(&self, heights: &[u32]) -> Result<Vec<(u32, Vec<u8>, Value)>> {
        let calls = heights.iter().flat_map(|height| {
            [0, 1].map(|verbosity| ("getblock", json!([height.to_string(), verbosity])))
        });
        let mut answers = self.rpc.batch(calls)?.into_iter();
        let mut blocks = Vec::new();
        for &height in heights {
            let raw = answers.next().context("a block")?;
            let raw = const_hex::decode(raw.as_str().context("hex")?)?;
            blocks.push((height, raw, answers.next().context("a block's form")?));
        }
        Ok(blocks)
    }

    /// Hash and tree sizes of a block that is not read.
    pub(super) fn facts(&self, height: u32) -> Result<(Vec<u8>, ChainMetadata)> {
        let block = self.call("getblock", json!([height.to_string(), 1]))?;
        let size = |pool: &str| {
            let size = block["trees"][pool]["size"].as_u64().unwrap_or(0);
            u32::try_from(size)
        };
        let sizes = ChainMetadata {
            sapling_commitment_tree_size: size("sapling")?,
            orchard_commitment_tree_size: size("orchard")?,
            ironwood_commitment_tree_size: size("ironwood")?,
        };
        Ok((
            protocol_order(block["hash"].as_str().context("a hash")?)?,
            sizes,
        ))
    }

    /// The tree state at a height or hash (display order), in the wallet protocol's form.
    ///
    /// # Errors
    ///
    /// When it refuses or does not answer.
    pub fn tree_state(&self, network: &str, block: &str) -> Result<TreeState> {
        let state = self.call("z_gettreestate", json!([block]))?;
        let tree = |pool: &str| {
            let state = &state[pool]["commitments"]["finalState"];
            state.as_str().unwrap_or_default().to_owned()
        };
        Ok(TreeState {
            network: network.to_owned(),
            height: state["height"].as_u64().context("a height")?,
            hash: state["hash"].as_str().context("a hash")?.to_owned(),
            time: u32::try_from(state["time"].as_u64().context("a time")?)?,
            sapling_tree: tree("sapling"),
            orchard_tree: tree("orchard"),
            ironwood_tree: tree("ironwood"),
        })
    }

    /// All roots of completed subtrees of a pool.
    ///
    /// # Errors
    ///
    /// When it refuses or does not answer.
    pub fn subtree_roots(&self, pool: &str) -> Result<Vec<SubtreeRoot>> {
        let answer = self.call("z_getsubtreesbyindex", json!([pool, 0]))?;
        let mut roots = Vec::new();
        for subtree in answer["subtrees"].as_array().context("subtrees")? {
            let height = subtree["end_height"].as_u64().context("a height")?;
            let mut hash = self.hash_at(u32::try_from(height)?)?;
            // The one hash on the wire that is in display order.
            hash.reverse();
            roots.push(SubtreeRoot {
                root_hash: const_hex::decode(subtree["root"].as_str().context("a root")?)?,
                completing_block_hash: hash,
                completing_block_height: height,
            });
        }
        Ok(roots)
    }

    /// The mempool, ordered by id as it is displayed.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn mempool(&self) -> Result<Vec<Waiting>> {
        let ids = self.call("getrawmempool", json!([]))?;
        let mut ids: Vec<&str> = ids
            .as_array()
            .context("ids")?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        ids.sort_unstable();
        let mut waiting = Vec::new();
        for id in ids {
            // It may have been mined since.
            if let Ok(raw) = self.ask("getrawtransaction", json!([id, 0]))? {
                waiting.push(Waiting {
                    id: protocol_order(id)?,
                    bytes: const_hex::decode(raw.as_str().context("hex")?)?,
                });
            }
        }
        Ok(waiting)
    }
}
