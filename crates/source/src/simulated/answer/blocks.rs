//! Blocks and headers.

use std::sync::Arc;

use lightship_chain::{BlockHash, Height, ShieldedPool, Upgrade, parse};
use serde_json::{Map, Value, json};

use super::{Answered, Params, RpcError, hex, info::DIFFICULTY, reversed_hex};
use crate::simulated::{block::Block, chain::Chain};

/// How callers name a block, and what was found.
pub(super) enum Named {
    Found(Arc<Block>),
    NoSuchHash,
    NoSuchHeight,
}

impl Chain {
    pub(super) fn tip_or_error(&self) -> Result<Arc<Block>, RpcError> {
        self.tip()
            .ok_or_else(|| RpcError::new(-1, "No blocks in state"))
    }

    /// A hash, a height, or a height below the tip (-1: the tip), as text.
    pub(super) fn named(&self, text: &str) -> Result<Named, RpcError> {
        if let Ok(hash) = text.parse::<BlockHash>() {
            return Ok(self.by_hash(&hash).map_or(Named::NoSuchHash, Named::Found));
        }
        let unreadable = || {
            RpcError::new(
                -8,
                "parse error: could not convert the input string to a hash or height",
            )
        };
        let mut height = text.parse::<i64>().map_err(|_| unreadable())?;
        if height < 0 {
            height += self.len() as i64;
            if height < 0 {
                return Err(unreadable());
            }
        }
        let height = u64::try_from(height)
            .ok()
            .and_then(|height| Height::try_from(height).ok());
        let height = height.ok_or_else(unreadable)?;
        Ok(self.at(height).map_or(Named::NoSuchHeight, Named::Found))
    }

    pub(super) fn get_best_block_height_and_hash(&self) -> Answered {
        let tip = self.tip_or_error()?;
        Ok(json!({"height": tip.id.height.get(), "hash": tip.id.hash.as_internal()}))
    }

    pub(super) fn get_block_hash(&self, params: &Params<'_>) -> Answered {
        let mut index: i64 = params.required::<i32>(0, "index")?.into();
        if index < 0 {
            index += self.len() as i64;
        }
        let block = usize::try_from(index)
            .ok()
            .and_then(|index| self.top(index.checked_add(1)?));
        block
            .map(|id| id.hash.to_string().into())
            .ok_or_else(|| RpcError::new(-1, "block height not in best chain"))
    }

    pub(super) fn get_block(&self, params: &Params<'_>) -> Answered {
        let text: String = params.required(0, "hash_or_height")?;
        let verbosity = params.optional::<u8>(1, "verbosity")?.unwrap_or(1);
        if verbosity > 3 {
            return Err(RpcError::new(-8, "invalid verbosity value"));
        }
        let block = match (self.named(&text)?, verbosity) {
            (Named::Found(block), 0) => return Ok(hex(&block.bytes)),
            (Named::Found(block), _) => block,
            (Named::NoSuchHash, 1..) => return Err(RpcError::new(-5, "block not found")),
            (Named::NoSuchHash | Named::NoSuchHeight, _) => {
                return Err(RpcError::new(-8, "block height not in best chain"));
            }
        };
        let mut object = self.header_object(&block)?;
        object.insert("size".to_owned(), block.bytes.len().into());
        if self
            .activations
            .has_pool(ShieldedPool::Orchard, block.id.height)
        {
            let root = block
                .trees()
                .of(ShieldedPool::Orchard)
                .root(&*self.hash, ShieldedPool::Orchard);
            object.insert("finalorchardroot".to_owned(), hex(&root));
        }
        object.insert("nTx".to_owned(), block.index().len().into());
        let transactions: Vec<Value> = if verbosity == 1 {
            block
                .index()
                .iter()
                .map(|(id, _)| id.to_string().into())
                .collect()
        } else {
            (0..block.index().len())
                .filter_map(|position| self.mined_object(&block, position))
                .collect()
        };
        object.insert("tx".to_owned(), transactions.into());
        let trees: Map<String, Value> = ShieldedPool::ALL
            .into_iter()
            .filter(|pool| block.sizes.of(*pool) > 0)
            .map(|pool| {
                (
                    pool.name().to_owned(),
                    json!({"size": block.sizes.of(pool)}),
                )
            })
            .collect();
        object.insert("trees".to_owned(), trees.into());
        Ok(object.into())
    }

    pub(super) fn get_block_header(&self, params: &Params<'_>) -> Answered {
        let text: String = params.required(0, "hash_or_height")?;
        let verbose = params.optional(1, "verbose")?.unwrap_or(true);
        let block = match self.named(&text)? {
            Named::Found(block) => block,
            Named::NoSuchHash => return Err(RpcError::new(-5, "block not found")),
            Named::NoSuchHeight => {
                return Err(RpcError::new(-8, "block height not in best chain"));
            }
        };
        if verbose {
            Ok(self.header_object(&block)?.into())
        } else {
            Ok(hex(&block.bytes[..block.header_bytes]))
        }
    }

    /// What `getblock` and `getblockheader` have in common.
    fn header_object(&self, block: &Block) -> Result<Map<String, Value>, RpcError> {
        let (header, _) = parse::Header::parse(&block.bytes)
            .map_err(|error| RpcError::new(-1, error.to_string()))?;
        let best = self.is_best(block);
        let confirmations = if best {
            (self.len() - block.id.height.get() as usize) as i64
        } else {
            -1
        };
        let sapling_root = if self
            .activations
            .is_active(Upgrade::Sapling, block.id.height)
        {
            block
                .trees()
                .of(ShieldedPool::Sapling)
                .root(&*self.hash, ShieldedPool::Sapling)
        } else {
            [0; 32]
        };
        let object = json!({
            "hash": block.id.hash.to_string(),
            "confirmations": confirmations,
            "height": block.id.height.get(),
            "version": header.version(),
            "merkleroot": reversed_hex(header.merkle_root()),
            "blockcommitments": reversed_hex(header.commitments()),
            "finalsaplingroot": reversed_hex(sapling_root),
            "time": header.time(),
            "nonce": reversed_hex(header.nonce()),
            "solution": hex(header.solution()),
            "bits": format!("{:08x}", header.bits()),
            "difficulty": DIFFICULTY,
            "previousblockhash": block.previous.to_string(),
        });
        let Value::Object(mut object) = object else {
            unreachable!("an object was written");
        };
        let next = block.id.height.next().and_then(|next| self.at(next));
        if let Some(next) = next.filter(|_| best) {
            object.insert("nextblockhash".to_owned(), next.id.hash.to_string().into());
        }
        Ok(object)
    }

    pub(super) fn get_chain_tips(&self) -> Answered {
        let tip = self.tip_or_error()?;
        let mut tips = vec![json!({
            "height": tip.id.height.get(),
            "hash": tip.id.hash.to_string(),
            "branchlen": 0,
            "status": "active",
        })];
        for side in self.side_tips() {
            let mut length = 0;
            let mut at = self.by_hash(&side.hash);
            while let Some(block) = at.filter(|block| !self.is_best(block)) {
                length += 1;
                at = self.by_hash(&block.previous);
            }
            tips.push(json!({
                "height": side.height.get(),
                "hash": side.hash.to_string(),
                "branchlen": length,
                "status": "valid-fork",
            }));
        }
        tips.sort_by_key(|tip| std::cmp::Reverse(tip["height"].as_u64()));
        Ok(tips.into())
    }
}
