//! What is asked, and what a right answer holds.
//!
//! In: a chain file, its honest node, a seed. Out: for each method a list of requests, each with the *plain form* of its answer; and [`plain`], which
//! brings an answer to that form. Blocks and transactions are the naive model's, from the chain file; what no block tells (tree states, what
//! addresses hold) is asked of the node before any server stands beside it and before any fault is switched on.
//!
//! The plain form leaves out what servers may say differently, and nothing else; `docs/differences.md` has the reasons:
//!
//! * blocks are held to their shielded parts, for two of the servers show no more (BLOCK-1), and lists of nullifiers to the transactions that
//!   have some (NULLIFIERS-1), without tree sizes;
//! * of the server's self-description only heights and the branch id count (INFO-2 to INFO-5);
//! * unspent outputs are a set, and so are transactions of one address; of a refused transaction only the refusal counts.
//!
//! Equal plain forms have equal digests, whoever answers; the same seed asks the same in the same order.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use lightship_chain::Height;
use prost::Message;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    expected,
    wire::{framed, messages},
};
use crate::{
    conform::{
        chain::{
            Block,
            address::Prefixes,
            protocol_order,
            view::{Pools, ranged},
        },
        node::Node,
        random::Random,
    },
    forge::file::ChainFile,
    proto::{
        self, Address, AddressList, Balance, BlockId, BlockRange, ChainSpec, CompactBlock,
        CompactTx, Empty, GetAddressUtxosArg, GetAddressUtxosReply, GetAddressUtxosReplyList,
        GetMempoolTxRequest, GetSubtreeRootsArg, LightdInfo, RawTransaction, SendResponse,
        SubtreeRoot, TransparentAddressBlockFilter, TreeState, TxFilter,
    },
};

/// Different requests of a method.
const REQUESTS: usize = 64;
/// Blocks that addresses and transactions are drawn from.
const DRAWN_BLOCKS: usize = 400;
/// An address with more transactions is no wallet's.
const MOST_TRANSACTIONS: usize = 100;
/// Blocks of a short range of nullifiers.
const SHORT_RANGE: u64 = 10;

/// One request and the plain form of its right answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Framed request messages.
    pub request: Vec<u8>,
    /// [`plain`] of the right answer.
    pub answer: Vec<u8>,
    /// Framed messages of a right answer, for a handler that answers from a table.
    pub full: Vec<u8>,
}

/// The questions of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// What is asked, again and again in this order.
    pub questions: Vec<Question>,
}

impl Method {
    /// SHA-256 over the plain answers of all questions, in hex.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        for question in &self.questions {
            hasher.update((question.answer.len() as u64).to_le_bytes());
            hasher.update(&question.answer);
        }
        const_hex::encode(hasher.finalize())
    }
}

/// All methods that answer and end, with what is asked of them on a chain whose tip is `tip`.
///
/// # Errors
///
/// When the node does not answer, or the chain file is inconsistent.
pub fn make(chain: &ChainFile, tip: u32, node: &Node, seed: u64) -> Result<Vec<Method>> {
    Maker::new(chain, tip, node, seed)?.all()
}

struct Maker<'a> {
    chain: &'a ChainFile,
    node: &'a Node,
    seed: u64,
    tip: u32,
    info: Value,
    /// By height; drawn from where wallets are.
    blocks: BTreeMap<u32, Block>,
}

impl<'a> Maker<'a> {
    fn new(chain: &'a ChainFile, tip: u32, node: &'a Node, seed: u64) -> Result<Maker<'a>> {
        let info = node.call("getblockchaininfo", json!([]))?;
        ensure!(
            info["blocks"].as_u64() == Some(tip.into()),
            "the node's tip is not {tip}"
        );
        let low = lowest(chain);
        let mut random = Random::new(seed, "blocks");
        let mut blocks = BTreeMap::new();
        for _ in 0..DRAWN_BLOCKS {
            // Below what a reorg may replace while the questions are asked.
            let span = u64::from(tip.saturating_sub(low).saturating_sub(20)).max(1);
            let height = low + random.below(span) as u32;
            blocks.insert(height, expected::block(chain, Height::new(height))?);
        }
        Ok(Maker {
            chain,
            node,
            seed,
            tip,
            info,
            blocks,
        })
    }

    fn all(&self) -> Result<Vec<Method>> {
        let mut methods = vec![
            self.info()?,
            self.latest_block()?,
            self.blocks("GetBlock", Block::clone)?,
            self.blocks("GetBlockNullifiers", Block::clone)?,
            self.nullifier_ranges()?,
            self.transactions()?,
            self.tree_states()?,
            self.latest_tree_state()?,
            self.subtree_roots()?,
            self.mempool()?,
            self.refused()?,
        ];
        methods.extend(self.addresses()?);
        methods.retain(|method| !method.questions.is_empty());
        Ok(methods)
    }

    fn ask<Q: Message, A: Message>(
        &self,
        method: &'static str,
        request: &Q,
        answers: &[A],
    ) -> Result<Question> {
        let full: Vec<u8> = answers.iter().flat_map(framed).collect();
        Ok(Question {
            request: framed(request),
            answer: plain(method, &messages(&full)?)?,
            full,
        })
    }

    fn info(&self) -> Result<Method> {
        let name = "GetLightdInfo";
        let sapling = self.info["upgrades"]["76b809bb"]["activationheight"].as_u64();
        let branch = self.info["consensus"]["chaintip"].as_str();
        let info = LightdInfo {
            taddr_support: true,
            sapling_activation_height: sapling.unwrap_or(0),
            consensus_branch_id: branch.context("a branch id")?.to_owned(),
            block_height: self.tip.into(),
            ..LightdInfo::default()
        };
        let questions = vec![self.ask(name, &Empty {}, &[info])?];
        Ok(Method { name, questions })
    }

    fn latest_block(&self) -> Result<Method> {
        let name = "GetLatestBlock";
        let row = self.chain.row(Height::new(self.tip)).context("a tip")?;
        let id = BlockId {
            height: self.tip.into(),
            hash: row.hash.as_internal().to_vec(),
        };
        let questions = vec![self.ask(name, &ChainSpec {}, &[id])?];
        Ok(Method { name, questions })
    }

    /// Some of the drawn blocks, in an order of their own for each word.
    fn drawn(&self, word: &str) -> Vec<&Block> {
        let mut random = Random::new(self.seed, word);
        let all: Vec<&Block> = self.blocks.values().collect();
        (0..REQUESTS)
            .map(|_| all[random.below(all.len() as u64) as usize])
            .collect()
    }

    fn blocks(&self, name: &'static str, shown: fn(&Block) -> Block) -> Result<Method> {
        let ask = |block: &&Block| {
            let request = at(block.height.into());
            self.ask(name, &request, &[shown(block).compact])
        };
        let questions = self.drawn(name).iter().map(ask).collect::<Result<_>>()?;
        Ok(Method { name, questions })
    }

    fn nullifier_ranges(&self) -> Result<Method> {
        let name = "GetBlockRangeNullifiers";
        let mut questions = Vec::new();
        for block in self.drawn(name) {
            let first = u64::from(block.height);
            let last = (first + SHORT_RANGE - 1).min(self.tip.into());
            let request = BlockRange {
                start: Some(at(first)),
                end: Some(at(last)),
                pool_types: Vec::new(),
            };
            let answers: Vec<CompactBlock> = (first..=last)
                .map(|height| {
                    let block = expected::block(self.chain, Height::try_from(height)?)?;
                    Ok(block.compact)
                })
                .collect::<Result<_>>()?;
            questions.push(self.ask(name, &request, &answers)?);
        }
        Ok(Method { name, questions })
    }

    fn transactions(&self) -> Result<Method> {
        let name = "GetTransaction";
        let mut random = Random::new(self.seed, name);
        let mut questions = Vec::new();
        for block in self.drawn(name) {
            let nth = random.below(block.raw.len() as u64) as usize;
            let request = TxFilter {
                block: None,
                index: 0,
                hash: block.compact.vtx[nth].txid.clone(),
            };
            let answer = RawTransaction {
                data: block.raw[nth].clone(),
                height: block.height.into(),
            };
            questions.push(self.ask(name, &request, &[answer])?);
        }
        Ok(Method { name, questions })
    }

    fn tree_states(&self) -> Result<Method> {
        let name = "GetTreeState";
        let mut questions = Vec::new();
        for block in self.drawn(name) {
            let state = self.node.tree_state("", &block.height.to_string())?;
            questions.push(self.ask(name, &at(block.height.into()), &[state])?);
        }
        Ok(Method { name, questions })
    }

    fn latest_tree_state(&self) -> Result<Method> {
        let name = "GetLatestTreeState";
        let state = self.node.tree_state("", &self.tip.to_string())?;
        let questions = vec![self.ask(name, &Empty {}, &[state])?];
        Ok(Method { name, questions })
    }

    fn subtree_roots(&self) -> Result<Method> {
        let name = "GetSubtreeRoots";
        let mut questions = Vec::new();
        for (number, pool) in [(0, "sapling"), (1, "orchard")] {
            let request = GetSubtreeRootsArg {
                start_index: 0,
                shielded_protocol: number,
                max_entries: 0,
            };
            let roots = self.node.subtree_roots(pool)?;
            questions.push(self.ask(name, &request, &roots)?);
        }
        Ok(Method { name, questions })
    }

    fn mempool(&self) -> Result<Method> {
        let name = "GetMempoolTx";
        // A server does not show what the bench did not put there.
        let waiting: [CompactTx; 0] = [];
        let questions = vec![self.ask(name, &GetMempoolTxRequest::default(), &waiting)?];
        Ok(Method { name, questions })
    }

    fn refused(&self) -> Result<Method> {
        let name = "SendTransaction";
        let request = RawTransaction {
            data: vec![0xff; 100],
            height: 0,
        };
        let answer = SendResponse {
            error_code: -22,
            error_message: "TX decode failed".into(),
        };
        let questions = vec![self.ask(name, &request, &[answer])?];
        Ok(Method { name, questions })
    }

    fn addresses(&self) -> Result<Vec<Method>> {
        let main = self.info["chain"].as_str() == Some("main");
        let prefixes = if main { Prefixes::MAIN } else { Prefixes::TEST };
        let names = [
            "GetTaddressBalance",
            "GetTaddressBalanceStream",
            "GetAddressUtxos",
            "GetAddressUtxosStream",
            "GetTaddressTxids",
            "GetTaddressTransactions",
        ];
        let mut methods = names.map(|name| Method {
            name,
            questions: Vec::new(),
        });
        let mut random = Random::new(self.seed, "addresses");
        for block in self.drawn("addresses") {
            let scripts = block.compact.vtx.iter().flat_map(|tx| &tx.vout);
            let found: Vec<String> = scripts
                .filter_map(|output| prefixes.of_script(&output.script_pub_key))
                .collect();
            if found.is_empty() {
                continue;
            }
            let address = found[random.below(found.len() as u64) as usize].clone();
            let range = (block.height, (block.height + 100).min(self.tip));
            if let Some(facts) = self.facts(&address, range)? {
                self.of_address(&address, range, &facts, &mut methods)?;
            }
        }
        Ok(methods.into())
    }

    /// What the node says of an address; `None` if it is too busy for a question.
    fn facts(&self, address: &str, (first, last): (u32, u32)) -> Result<Option<AddressFacts>> {
        let everything = json!([{"addresses": [address]}]);
        // A node refuses a history that is too long.
        let Ok(history) = self.node.ask("getaddresstxids", everything.clone())? else {
            return Ok(None);
        };
        let history = history.as_array().context("ids")?.len();
        if history > MOST_TRANSACTIONS {
            return Ok(None);
        }
        let balance = self.node.call("getaddressbalance", everything.clone())?;
        let unspent = self.node.call("getaddressutxos", everything)?;
        let mut utxos = Vec::new();
        for utxo in unspent.as_array().context("outputs")? {
            let text = |key: &str| utxo[key].as_str().context("a text");
            utxos.push(GetAddressUtxosReply {
                address: text("address")?.to_owned(),
                txid: protocol_order(text("txid")?)?,
                index: utxo["outputIndex"]
                    .as_i64()
                    .context("an index")?
                    .try_into()?,
                script: const_hex::decode(text("script")?)?,
                value_zat: utxo["satoshis"].as_i64().context("a value")?,
                height: utxo["height"].as_u64().context("a height")?,
            });
        }
        let within = json!([{"addresses": [address], "start": first, "end": last}]);
        let ids = self.node.call("getaddresstxids", within)?;
        let mut transactions = Vec::new();
        for id in ids.as_array().context("ids")? {
            let answer = self.node.call("getrawtransaction", json!([id, 1]))?;
            let hex = answer["hex"].as_str().context("hex")?;
            transactions.push(RawTransaction {
                data: const_hex::decode(hex)?,
                height: answer["height"].as_u64().context("a height")?,
            });
        }
        Ok(Some(AddressFacts {
            balance: Balance {
                value_zat: balance["balance"].as_i64().context("a balance")?,
            },
            utxos,
            transactions,
        }))
    }

    fn of_address(
        &self,
        address: &str,
        (first, last): (u32, u32),
        facts: &AddressFacts,
        methods: &mut [Method; 6],
    ) -> Result<()> {
        let list = AddressList {
            addresses: vec![address.to_owned()],
        };
        let one = Address {
            address: address.to_owned(),
        };
        let unspent = GetAddressUtxosArg {
            addresses: vec![address.to_owned()],
            start_height: 0,
            max_entries: 0,
        };
        let history = TransparentAddressBlockFilter {
            address: address.to_owned(),
            range: Some(BlockRange {
                start: Some(at(first.into())),
                end: Some(at(last.into())),
                pool_types: Vec::new(),
            }),
        };
        let replies = GetAddressUtxosReplyList {
            address_utxos: facts.utxos.clone(),
        };
        let balance = std::slice::from_ref(&facts.balance);
        let asked = [
            self.ask(methods[0].name, &list, balance)?,
            self.ask(methods[1].name, &one, balance)?,
            self.ask(methods[2].name, &unspent, &[replies])?,
            self.ask(methods[3].name, &unspent, &facts.utxos)?,
            self.ask(methods[4].name, &history, &facts.transactions)?,
            self.ask(methods[5].name, &history, &facts.transactions)?,
        ];
        for (method, question) in methods.iter_mut().zip(asked) {
            method.questions.push(question);
        }
        Ok(())
    }
}

struct AddressFacts {
    balance: Balance,
    utxos: Vec<GetAddressUtxosReply>,
    transactions: Vec<RawTransaction>,
}

/// The lowest height that a wallet asks for: that of Sapling's activation.
pub fn lowest(chain: &ChainFile) -> u32 {
    let upgrades = &chain.about().upgrades;
    let sapling = upgrades.iter().find(|(name, _)| name == "Sapling");
    sapling.map_or(1, |(_, height)| (*height).max(1))
}

fn at(height: u64) -> BlockId {
    BlockId {
        height,
        hash: Vec::new(),
    }
}

/// An answer in the form in which right servers agree, whatever else they say.
///
/// # Errors
///
/// When a message does not decode, or there are too few or too many of them.
pub fn plain(method: &str, messages: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut add = |bytes: Vec<u8>| {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&bytes);
    };
    match method {
        "GetLightdInfo" => {
            let info: LightdInfo = only(messages)?;
            let plain = LightdInfo {
                sapling_activation_height: info.sapling_activation_height,
                consensus_branch_id: info.consensus_branch_id,
                block_height: info.block_height,
                ..LightdInfo::default()
            };
            add(plain.encode_to_vec());
        }
        "GetBlock" => add(shielded(only(messages)?).encode_to_vec()),
        "GetBlockNullifiers" => add(nullifiers(only(messages)?).encode_to_vec()),
        "GetBlockRange" => {
            for message in messages {
                add(shielded(CompactBlock::decode(&message[..])?).encode_to_vec());
            }
        }
        "GetBlockRangeNullifiers" => {
            for message in messages {
                add(nullifiers(CompactBlock::decode(&message[..])?).encode_to_vec());
            }
        }
        "GetTreeState" | "GetLatestTreeState" => {
            let mut state: TreeState = only(messages)?;
            // The network's name is the server's word: regtest is "test" to some.
            state.network = String::new();
            add(state.encode_to_vec());
        }
        "SendTransaction" => {
            let response: SendResponse = only(messages)?;
            add(vec![u8::from(response.error_code != 0)]);
        }
        "GetAddressUtxos" => {
            let list: GetAddressUtxosReplyList = only(messages)?;
            sorted(list.address_utxos.iter()).into_iter().for_each(add);
        }
        "GetAddressUtxosStream" => {
            let list = decoded::<GetAddressUtxosReply>(messages)?;
            sorted(list.iter()).into_iter().for_each(add);
        }
        "GetTaddressTxids" | "GetTaddressTransactions" => {
            let list = decoded::<RawTransaction>(messages)?;
            sorted(list.iter()).into_iter().for_each(add);
        }
        "GetSubtreeRoots" => {
            for root in decoded::<SubtreeRoot>(messages)? {
                add(root.encode_to_vec());
            }
        }
        _ => messages.iter().for_each(|message| add(message.clone())),
    }
    Ok(out)
}

fn only<M: Message + Default>(messages: &[Vec<u8>]) -> Result<M> {
    match messages {
        [one] => Ok(M::decode(&one[..])?),
        many => anyhow::bail!("{} messages instead of one", many.len()),
    }
}

fn decoded<M: Message + Default>(messages: &[Vec<u8>]) -> Result<Vec<M>> {
    let decode = |message: &Vec<u8>| Ok(M::decode(&message[..])?);
    messages.iter().map(decode).collect()
}

fn sorted<'a, M: Message + 'a>(list: impl Iterator<Item = &'a M>) -> Vec<Vec<u8>> {
    let mut encoded: Vec<Vec<u8>> = list.map(Message::encode_to_vec).collect();
    encoded.sort();
    encoded
}

fn shielded(block: CompactBlock) -> CompactBlock {
    let block = Block {
        height: 0,
        compact: block,
        raw: Vec::new(),
        versions: Vec::new(),
    };
    let mut compact = ranged(&block.compact, Pools::SHIELDED);
    // Deprecated, and empty or zero wherever it is not left out.
    compact.header = Vec::new();
    for transaction in &mut compact.vtx {
        transaction.fee = 0;
    }
    compact
}

fn nullifiers(block: CompactBlock) -> CompactBlock {
    let mut block = crate::conform::chain::view::nullifiers(shielded(block));
    block.chain_metadata = None;
    block.vtx.retain(|transaction: &proto::CompactTx| {
        !transaction.spends.is_empty()
            || !transaction.actions.is_empty()
            || !transaction.ironwood_actions.is_empty()
    });
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_may_say_differently_does_not_count_and_the_rest_does() {
        let info = |height, version: &str| LightdInfo {
            block_height: height,
            version: version.to_owned(),
            ..LightdInfo::default()
        };
        let form = |info: LightdInfo| plain("GetLightdInfo", &[info.encode_to_vec()]).unwrap();
        assert_eq!(form(info(7, "a")), form(info(7, "b")));
        assert_ne!(form(info(7, "a")), form(info(8, "a")));

        let utxo = |index| GetAddressUtxosReply {
            index,
            ..GetAddressUtxosReply::default()
        };
        let list = |utxos: &[GetAddressUtxosReply]| {
            let list = GetAddressUtxosReplyList {
                address_utxos: utxos.to_vec(),
            };
            plain("GetAddressUtxos", &[list.encode_to_vec()]).unwrap()
        };
        assert_eq!(list(&[utxo(1), utxo(2)]), list(&[utxo(2), utxo(1)]));
        assert_ne!(list(&[utxo(1), utxo(2)]), list(&[utxo(1)]));
    }

    #[test]
    fn an_answer_of_the_wrong_shape_is_an_error() {
        assert!(plain("GetBlock", &[]).is_err());
        assert!(plain("GetBlock", &[vec![0xff]]).is_err());
        assert!(plain("GetLightdInfo", &[vec![], vec![]]).is_err());
    }
}
