//! Transactions, mined and waiting.

use lightship_chain::{
    BlockHash, TxId,
    parse::{Transaction, Version},
};
use serde_json::{Map, Value, json};

use super::{Answered, Params, RpcError, hex, zec};
use crate::simulated::{
    SimulatedNode,
    address::Address,
    block::Block,
    chain::{self, Chain},
};

impl SimulatedNode {
    pub(super) fn send_raw_transaction(&self, params: &Params<'_>) -> Answered {
        let text: String = params.required(0, "raw_transaction_hex")?;
        let bytes = const_hex::decode(&text)
            .ok()
            .filter(|_| !text.starts_with("0x"))
            .ok_or_else(|| RpcError::new(-22, "raw transaction hex is not valid"))?;
        Ok(self.accept(bytes.into())?.to_string().into())
    }
}

impl Chain {
    pub(super) fn get_raw_transaction(&self, params: &Params<'_>) -> Answered {
        let text: String = params.required(0, "txid")?;
        let verbose = params.optional::<u8>(1, "verbose")?.unwrap_or(0) != 0;
        let block_text: Option<String> = params.optional(2, "block_hash")?;
        let id: TxId = text
            .parse()
            .map_err(|_| RpcError::new(-5, "invalid transaction id"))?;
        let not_found = || RpcError::new(-5, "No such mempool or main chain transaction");
        let (block, position) = match block_text {
            Some(text) => {
                let hash: BlockHash = text
                    .parse()
                    .map_err(|_| RpcError::new(-5, "invalid block hash"))?;
                let block = self
                    .by_hash(&hash)
                    .ok_or_else(|| RpcError::new(-5, "block not found"))?;
                let position = block.index().iter().position(|(each, _)| *each == id);
                (
                    block,
                    position.ok_or_else(|| RpcError::new(-5, "txid not found"))?,
                )
            }
            None => {
                if let Some(pooled) = self.mempool.get(&id) {
                    if !verbose {
                        return Ok(hex(&pooled.bytes));
                    }
                    let (transaction, _) =
                        Transaction::parse(&pooled.bytes).map_err(|_| not_found())?;
                    let mut object = self.object(id, &transaction);
                    object.insert("in_active_chain".to_owned(), false.into());
                    return Ok(object.into());
                }
                self.find(&id).ok_or_else(not_found)?
            }
        };
        if verbose {
            self.mined_object(&block, position).ok_or_else(not_found)
        } else {
            let bytes = block.transaction_bytes(position).ok_or_else(not_found)?;
            Ok(hex(&bytes))
        }
    }

    /// A transaction of a block, decoded.
    pub(super) fn mined_object(&self, block: &Block, position: usize) -> Option<Value> {
        let (id, transaction) = block.transactions().nth(position)?;
        let best = self.is_best(block);
        let mut object = self.object(id, &transaction);
        let confirmations = if best {
            self.len() - block.id.height.get() as usize
        } else {
            0
        };
        let height = if best {
            i64::from(block.id.height.get())
        } else {
            -1
        };
        object.insert("in_active_chain".to_owned(), best.into());
        object.insert("height".to_owned(), height.into());
        object.insert("confirmations".to_owned(), confirmations.into());
        object.insert("blockhash".to_owned(), block.id.hash.to_string().into());
        if best {
            object.insert("time".to_owned(), block.time.into());
            object.insert("blocktime".to_owned(), block.time.into());
        }
        Some(object.into())
    }

    /// What does not depend on where the transaction lies.
    fn object(&self, id: TxId, transaction: &Transaction<'_>) -> Map<String, Value> {
        let bytes = transaction.bytes();
        let word = |at: usize| {
            bytes
                .get(at..at + 4)
                .and_then(|word| word.try_into().ok())
                .map_or(0, u32::from_le_bytes)
        };
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("txid", id.to_string().into());
        put("hex", hex(bytes));
        put("size", bytes.len().into());
        put("version", (word(0) & 0x7fff_ffff).into());
        put("overwintered", (word(0) >> 31 == 1).into());
        if transaction.version() >= Version::V3 {
            put("versiongroupid", format!("{:08x}", word(4)).into());
        }
        if transaction.version() >= Version::V5 {
            put("locktime", word(12).into());
            put("expiryheight", word(16).into());
        }
        let inputs: Vec<Value> = transaction
            .inputs()
            .map(|input| {
                let sequence = u32::from_le_bytes(*input.sequence_bytes());
                if input.is_null() {
                    return json!({"coinbase": hex(input.script()), "sequence": sequence});
                }
                json!({
                    "txid": TxId::from_internal(*input.prevout_id()).to_string(),
                    "vout": input.prevout_index(),
                    "scriptSig": {"asm": assembly(input.script()), "hex": hex(input.script())},
                    "sequence": sequence,
                })
            })
            .collect();
        put("vin", inputs.into());
        let outputs: Vec<Value> = (0..)
            .zip(transaction.outputs())
            .map(|(n, output): (u32, _)| {
                let value = i64::try_from(output.value()).unwrap_or(i64::MAX);
                json!({
                    "value": zec(value),
                    "valueZat": value,
                    "n": n,
                    "scriptPubKey": self.script_object(output.script()),
                })
            })
            .collect();
        put("vout", outputs.into());
        if transaction.sapling_spends().len() + transaction.sapling_outputs().len() == 0 {
            put("vShieldedSpend", json!([]));
            put("vShieldedOutput", json!([]));
            put("valueBalance", json!(0.0));
            put("valueBalanceZat", json!(0));
        }
        if transaction.joinsplits() == 0 {
            put("vjoinsplit", json!([]));
        }
        if transaction.orchard_actions().len() == 0 {
            put(
                "orchard",
                json!({"actions": [], "valueBalance": 0.0, "valueBalanceZat": 0}),
            );
        }
        object
    }

    fn script_object(&self, script: &[u8]) -> Value {
        let kind = match script {
            [0x76, 0xa9, 0x14, hash @ .., 0x88, 0xac] if hash.len() == 20 => "pubkeyhash",
            [0xa9, 0x14, hash @ .., 0x87] if hash.len() == 20 => "scripthash",
            [33, key @ .., 0xac] if key.len() == 33 => "pubkey",
            [65, key @ .., 0xac] if key.len() == 65 => "pubkey",
            [0x6a, ..] => "nulldata",
            _ => "nonstandard",
        };
        let mut object = json!({"asm": assembly(script), "hex": hex(script), "type": kind});
        if let Some(address) = Address::of_script(script) {
            object["reqSigs"] = 1.into();
            object["addresses"] = json!([address.encode(self.network)]);
        }
        object
    }

    pub(super) fn get_raw_mempool(&self, verbose: bool) -> Value {
        let mut waiting: Vec<_> = self
            .mempool
            .iter()
            .map(|(id, pooled)| (id.to_string(), pooled))
            .collect();
        waiting.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        if !verbose {
            let ids: Vec<Value> = waiting.into_iter().map(|(id, _)| id.into()).collect();
            return ids.into();
        }
        let entries: Map<String, Value> = waiting
            .into_iter()
            .map(|(id, pooled)| {
                let depends: Vec<Value> = Transaction::parse(&pooled.bytes)
                    .map(|(transaction, _)| {
                        chain::outpoints(&transaction)
                            .filter(|(parent, _)| self.mempool.contains_key(parent))
                            .map(|(parent, _)| parent.to_string().into())
                            .collect()
                    })
                    .unwrap_or_default();
                let entry = json!({
                    "size": pooled.bytes.len(),
                    "fee": 0.0,
                    "modifiedfee": 0.0,
                    "time": pooled.time,
                    "height": pooled.height.get(),
                    "descendantcount": 1,
                    "descendantsize": pooled.bytes.len(),
                    "descendantfees": 0,
                    "depends": depends,
                });
                (id, entry)
            })
            .collect();
        entries.into()
    }

    pub(super) fn get_mempool_info(&self) -> Value {
        let bytes: usize = self.mempool.values().map(|each| each.bytes.len()).sum();
        json!({"size": self.mempool.len(), "bytes": bytes, "usage": bytes})
    }

    pub(super) fn get_tx_out(&self, params: &Params<'_>) -> Answered {
        let text: String = params.required(0, "txid")?;
        let index: u32 = params.required(1, "n")?;
        let mempool = params.optional(2, "include_mempool")?.unwrap_or(true);
        let id: TxId = text
            .parse()
            .map_err(|_| RpcError::new(-8, "invalid transaction id"))?;
        let outpoint = (id, index);
        let tip = self.tip_or_error()?.id;
        if mempool && self.pooled_spender(&outpoint).is_some() {
            return Ok(Value::Null);
        }
        let Some(unspent) = self.ledger.unspent(&outpoint) else {
            return Ok(Value::Null);
        };
        let version = self
            .find(&id)
            .and_then(|(block, position)| block.transaction_bytes(position))
            .and_then(|bytes| Some(u32::from_le_bytes(*bytes.first_chunk()?)))
            .map_or(0, |word| word & 0x7fff_ffff);
        let value = i64::try_from(unspent.value_zat).unwrap_or(i64::MAX);
        Ok(json!({
            "bestblock": tip.hash.to_string(),
            "confirmations": tip.height.get() - unspent.place.0.get() + 1,
            "value": zec(value),
            "scriptPubKey": self.script_object(&unspent.script),
            "version": version,
            "coinbase": unspent.coinbase,
        }))
    }
}

/// The script in words: pushes as hexadecimal, the few opcodes of standard scripts by name.
fn assembly(script: &[u8]) -> String {
    let mut words = Vec::new();
    let mut rest = script;
    while let [opcode, after @ ..] = rest {
        rest = after;
        match opcode {
            1..=75 => {
                let (push, after) = rest.split_at(rest.len().min((*opcode).into()));
                words.push(const_hex::encode(push));
                rest = after;
            }
            0x00 => words.push("0".to_owned()),
            0x51..=0x60 => words.push((opcode - 0x50).to_string()),
            0x6a => words.push("OP_RETURN".to_owned()),
            0x76 => words.push("OP_DUP".to_owned()),
            0x87 => words.push("OP_EQUAL".to_owned()),
            0x88 => words.push("OP_EQUALVERIFY".to_owned()),
            0xa9 => words.push("OP_HASH160".to_owned()),
            0xac => words.push("OP_CHECKSIG".to_owned()),
            _ => words.push("OP_UNKNOWN".to_owned()),
        }
    }
    words.join(" ")
}
