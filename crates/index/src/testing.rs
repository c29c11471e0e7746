//! Small blocks, linked to each other, for tests of this room and of those that use it (feature `testing`).
//!
//! In: a parent and a branch. Out: a block with a few transactions of every pool, encoded as `lightship_chain::compact` encodes. The same
//! parent and branch give the same bytes. The hashes are no hashes of anything; whole blocks with true ones are made by `lightship_chain::build`.

use lightship_chain::{
    BlockHash, BlockId, Height, Network, TreeSizes,
    compact::{
        EncodedBlock,
        fields::{action, block, chain_metadata, output, spend, transaction, tx_out},
    },
};

use crate::{StoreId, format};

/// Blocks from genesis on, one after the other.
#[derive(Clone, Debug)]
pub struct TestChain {
    branch: u64,
    tip: Option<BlockId>,
    sizes: TreeSizes,
}

impl TestChain {
    /// An empty chain; chains of different branches differ in every block.
    pub fn new(branch: u64) -> TestChain {
        TestChain {
            branch,
            tip: None,
            sizes: TreeSizes::ZERO,
        }
    }

    /// A chain that goes on from a block, maybe of another branch.
    pub fn after(parent: BlockId, sizes: TreeSizes, branch: u64) -> TestChain {
        TestChain {
            branch,
            tip: Some(parent),
            sizes,
        }
    }

    /// The store that takes this chain.
    pub fn store(&self, range_blocks: u32) -> StoreId {
        let genesis = TestChain::new(self.branch).next_block().id.hash;
        StoreId {
            network: Network::Regtest,
            genesis,
            range_blocks: range_blocks.try_into().expect("a range has a block"),
        }
    }

    /// The last block made.
    pub fn tip(&self) -> Option<BlockId> {
        self.tip
    }

    /// The trees at the last block made.
    pub fn sizes(&self) -> TreeSizes {
        self.sizes
    }

    /// The next `count` blocks.
    pub fn take_blocks(&mut self, count: u32) -> Vec<EncodedBlock> {
        (0..count).map(|_| self.next_block()).collect()
    }

    /// The next block.
    ///
    /// # Panics
    ///
    /// At the end of all heights.
    pub fn next_block(&mut self) -> EncodedBlock {
        self.block(None)
    }

    /// The next block, with as many notes as asked for.
    ///
    /// # Panics
    ///
    /// At the end of all heights, and of a tree.
    pub fn next_block_of(&mut self, notes: TreeSizes) -> EncodedBlock {
        self.block(Some(notes))
    }

    fn block(&mut self, notes: Option<TreeSizes>) -> EncodedBlock {
        let previous = self.tip.map_or(BlockHash::ZERO, |tip| tip.hash);
        let height = match self.tip {
            Some(tip) => tip.height.next().expect("test chains are short"),
            None => Height::GENESIS,
        };
        let seed = format::digest(
            &[
                previous.as_internal().as_slice(),
                &self.branch.to_le_bytes(),
                &height.get().to_le_bytes(),
            ]
            .concat(),
        );
        let hash = BlockHash::from_internal(seed);
        let id = BlockId { height, hash };
        let time = 1_500_000_000 + height.get() * 75;
        let transactions = 1 + u32::from(seed[0] % 3).max(u32::from(notes.is_some()));
        let mut body = Body::default();
        for index in 0..transactions {
            match (notes, index) {
                (None, _) => body.transaction(index, &seed),
                (Some(notes), 1) => body.transaction_of(index, &seed, notes),
                (Some(_), _) => body.transaction_of(index, &seed, TreeSizes::ZERO),
            }
        }
        let sizes = self
            .sizes
            .checked_add(body.added)
            .expect("test chains are short");
        let frame = frame(id, previous, time, &body.shielded, sizes);
        self.tip = Some(id);
        self.sizes = sizes;
        EncodedBlock {
            id,
            previous,
            time,
            sizes,
            transactions,
            size_bytes: 1000 + u32::from(seed[1]),
            frame,
            transparent: body.companions,
        }
    }
}

#[derive(Default)]
struct Body {
    shielded: Vec<u8>,
    companions: Vec<u8>,
    added: TreeSizes,
}

impl Body {
    /// The first transaction is transparent, like most coinbases.
    fn transaction(&mut self, index: u32, seed: &[u8; 32]) {
        let id = transaction_id(index, seed);
        let added = if index > 0 {
            TreeSizes {
                sapling: u32::from(id[0] % 3),
                orchard: u32::from(id[1] % 2),
                ironwood: u32::from(id[2] % 2),
            }
        } else {
            TreeSizes::ZERO
        };
        self.transaction_of(index, seed, added);
    }

    fn transaction_of(&mut self, index: u32, seed: &[u8; 32], added: TreeSizes) {
        let id = transaction_id(index, seed);
        let mut head = Vec::new();
        number(&mut head, transaction::INDEX, index.into());
        let mut parts = Vec::new();
        if added != TreeSizes::ZERO {
            if added.sapling > 0 {
                sized(&mut parts, transaction::SPENDS, &element(spend::NF, &id));
            }
            for _ in 0..added.sapling {
                let mut body = element(output::CMU, &id);
                body.extend(element(output::EPHEMERAL_KEY, &id));
                sized(&mut body, output::CIPHERTEXT, &[7; 52]);
                sized(&mut parts, transaction::OUTPUTS, &body);
            }
            for (tag, count) in [
                (transaction::ACTIONS, added.orchard),
                (transaction::IRONWOOD_ACTIONS, added.ironwood),
            ] {
                for _ in 0..count {
                    let mut body = element(action::NULLIFIER, &id);
                    body.extend(element(action::CMX, &id));
                    body.extend(element(action::EPHEMERAL_KEY, &id));
                    sized(&mut body, action::CIPHERTEXT, &[9; 52]);
                    sized(&mut parts, tag, &body);
                }
            }
            self.added = self
                .added
                .checked_add(added)
                .expect("a test block is small");
        }
        let mut companion = head.clone();
        if parts.is_empty() {
            sized(&mut companion, transaction::TXID, &id);
        } else {
            let mut body = head;
            sized(&mut body, transaction::TXID, &id);
            body.extend(parts);
            sized(&mut self.shielded, block::VTX, &body);
        }
        let mut out = Vec::new();
        number(&mut out, tx_out::VALUE, 1 + u64::from(id[3]));
        sized(&mut out, tx_out::SCRIPT_PUB_KEY, &id[..25]);
        sized(&mut companion, transaction::VOUT, &out);
        sized(&mut self.companions, block::VTX, &companion);
    }
}

fn transaction_id(index: u32, seed: &[u8; 32]) -> [u8; 32] {
    format::digest(&[seed.as_slice(), &index.to_le_bytes()].concat())
}

fn frame(
    id: BlockId,
    previous: BlockHash,
    time: u32,
    transactions: &[u8],
    sizes: TreeSizes,
) -> Vec<u8> {
    let mut message = Vec::new();
    number(&mut message, block::HEIGHT, id.height.into());
    sized(&mut message, block::HASH, id.hash.as_internal());
    sized(&mut message, block::PREV_HASH, previous.as_internal());
    number(&mut message, block::TIME, time.into());
    message.extend_from_slice(transactions);
    let mut metadata = Vec::new();
    for (tag, size) in [
        (chain_metadata::SAPLING_COMMITMENT_TREE_SIZE, sizes.sapling),
        (chain_metadata::ORCHARD_COMMITMENT_TREE_SIZE, sizes.orchard),
        (
            chain_metadata::IRONWOOD_COMMITMENT_TREE_SIZE,
            sizes.ironwood,
        ),
    ] {
        number(&mut metadata, tag, size.into());
    }
    sized(&mut message, block::CHAIN_METADATA, &metadata);
    let length = u32::try_from(message.len()).expect("a test block is small");
    let mut frame = vec![0];
    frame.extend(length.to_be_bytes());
    frame.extend(message);
    frame
}

fn element(tag: u8, id: &[u8; 32]) -> Vec<u8> {
    let mut out = Vec::new();
    sized(&mut out, tag, id);
    out
}

fn number(out: &mut Vec<u8>, tag: u8, value: u64) {
    if value != 0 {
        out.push(tag);
        varint(out, value);
    }
}

fn sized(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    varint(out, body.len() as u64);
    out.extend_from_slice(body);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
