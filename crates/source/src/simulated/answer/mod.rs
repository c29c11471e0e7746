//! What the simulated node answers over JSON-RPC: the methods that wallets' servers and explorers call, in the shapes, byte orders and error codes
//! of zebrad 7.0.
//!
//! Left out where a value is not kept: pool totals other than the transparent one are 0, blocks carry no totals, and the decoded form of a
//! transaction lists no shielded parts if it has any (its `hex` holds them).

mod addresses;
mod blocks;
mod info;
mod params;
mod transactions;
mod trees;

use serde_json::Value;

use super::SimulatedNode;
use params::Params;

/// An error as JSON-RPC carries it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The error's number.
    pub code: i32,
    /// The error's words.
    pub message: String,
}

impl RpcError {
    pub(super) fn new(code: i32, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
        }
    }
}

type Answered = Result<Value, RpcError>;

impl SimulatedNode {
    /// Answers one JSON-RPC call from one state of the chain. No fault befalls it and it is not counted: that is the fronts' part.
    ///
    /// # Errors
    ///
    /// As zebrad has them: -32601 for a method it does not know, -1 for parameters of the wrong shape, and each method's own.
    pub fn answer(&self, method: &str, params: &Value) -> Answered {
        let params = Params::new(params)?;
        // The one call that changes something; all others read.
        if method == "sendrawtransaction" {
            return self.send_raw_transaction(&params);
        }
        let chain = self.chain();
        match method {
            "getinfo" => chain.get_info(),
            "getblockchaininfo" => chain.get_blockchain_info(),
            "getnetworkinfo" => Ok(info::get_network_info()),
            "getpeerinfo" => Ok(Value::Array(Vec::new())),
            "getmininginfo" => chain.get_mining_info(),
            "getdifficulty" => Ok(info::DIFFICULTY.into()),
            "getdeprecationinfo" => Ok(serde_json::json!({})),
            "ping" => Ok(Value::Null),
            "getblockcount" => Ok(chain.tip_or_error()?.id.height.get().into()),
            "getbestblockhash" => Ok(chain.tip_or_error()?.id.hash.to_string().into()),
            "getbestblockheightandhash" => chain.get_best_block_height_and_hash(),
            "getblockhash" => chain.get_block_hash(&params),
            "getblock" => chain.get_block(&params),
            "getblockheader" => chain.get_block_header(&params),
            "getchaintips" => chain.get_chain_tips(),
            "z_gettreestate" => chain.z_get_tree_state(&params),
            "z_getsubtreesbyindex" => chain.z_get_subtrees_by_index(&params),
            "getrawtransaction" => chain.get_raw_transaction(&params),
            "getrawmempool" => {
                let verbose = params.optional(0, "verbose")?.unwrap_or(false);
                Ok(chain.get_raw_mempool(verbose))
            }
            "getmempoolinfo" => Ok(chain.get_mempool_info()),
            "gettxout" => chain.get_tx_out(&params),
            "getaddresstxids" => chain.get_address_tx_ids(&params),
            "getaddressutxos" => chain.get_address_utxos(&params),
            "getaddressbalance" => chain.get_address_balance(&params),
            "validateaddress" => chain.validate_address(&params),
            _ => Err(RpcError::new(-32601, "Method not found")),
        }
    }
}

/// `[32]` in the order given.
fn hex(bytes: &[u8]) -> Value {
    const_hex::encode(bytes).into()
}

/// `[32]` byte-reversed.
fn reversed_hex(mut bytes: [u8; 32]) -> Value {
    bytes.reverse();
    hex(&bytes)
}

/// An amount in ZEC, as Zebra prints it.
fn zec(zatoshi: i64) -> Value {
    (zatoshi as f64 / 1e8).into()
}

#[cfg(test)]
mod tests;
