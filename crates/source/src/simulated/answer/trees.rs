//! Note commitment trees.

use lightship_chain::ShieldedPool;
use serde_json::{Value, json};

use super::{Answered, Params, RpcError, blocks::Named, hex, params::invalid, reversed_hex};
use crate::simulated::{block::Block, chain::Chain};

impl Chain {
    pub(super) fn z_get_tree_state(&self, params: &Params<'_>) -> Answered {
        let text: String = params.required(0, "hash_or_height")?;
        let Named::Found(block) = self.named(&text)? else {
            return Err(RpcError::new(
                -8,
                "the requested block is not in the main chain",
            ));
        };
        let mut object = json!({
            "hash": block.id.hash.to_string(),
            "height": block.id.height.get(),
            "time": block.time,
        });
        for pool in ShieldedPool::ALL {
            let commitments = self.commitments(&block, pool);
            // A pool that Zebra knew before it had any is there from the first block on.
            if pool != ShieldedPool::Ironwood || commitments.is_some() {
                object[pool.name()] = json!({"commitments": commitments.unwrap_or(json!({}))});
            }
        }
        Ok(object)
    }

    /// `None` before the pool's activation.
    fn commitments(&self, block: &Block, pool: ShieldedPool) -> Option<Value> {
        if !self.activations.has_pool(pool, block.id.height) {
            return None;
        }
        let tree = block.trees().of(pool);
        let root = tree.root(&*self.hash, pool);
        let root = match pool {
            ShieldedPool::Sapling => reversed_hex(root),
            ShieldedPool::Orchard | ShieldedPool::Ironwood => hex(&root),
        };
        Some(json!({"finalRoot": root, "finalState": tree.final_state()}))
    }

    pub(super) fn z_get_subtrees_by_index(&self, params: &Params<'_>) -> Answered {
        let name: String = params.required(0, "pool")?;
        let start: u16 = params.required(1, "start_index")?;
        let limit: Option<u16> = params.optional(2, "limit")?;
        let pool = ShieldedPool::ALL
            .into_iter()
            .find(|pool| pool.name() == name)
            .ok_or_else(invalid)?;
        let subtrees: Vec<_> = self
            .subtrees_from(pool, start.into(), limit.map(u32::from))
            .iter()
            .map(|subtree| {
                json!({
                    "root": hex(&subtree.root),
                    "end_height": subtree.end_height.get(),
                })
            })
            .collect();
        Ok(json!({"pool": name, "start_index": start, "subtrees": subtrees}))
    }
}
