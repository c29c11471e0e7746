//! The chains that sources and nodes are tested on.

use bytes::Bytes;
use lightship_chain::{
    BlockId, Height, Network, TreeSizes, TxId, Upgrade,
    build::{
        Activations, BuiltBlock, ChainBuilder, Coinbase, Input, JoinSplit, Note, Output, Recipe,
        Version, regtest_genesis,
    },
    parse,
};

use crate::simulated::{Address, SimulatedNode};

/// The public key hash that coinbases pay.
const MINER: [u8; 20] = [0x11; 20];
/// The script hash that other transactions pay.
const PAYEE: [u8; 20] = [0x22; 20];

/// A node, and what is known of its chain without asking it: regtest's genesis, Sapling from 3, Orchard from 6, Ironwood from 9, tip at 24, every
/// kind of transaction, blocks from a few hundred bytes to a few hundred thousand.
pub struct Fixture {
    /// The node.
    pub node: SimulatedNode,
    /// Its best chain, by height.
    pub blocks: Vec<BuiltBlock>,
    /// Stands on the tip.
    pub builder: ChainBuilder,
}

impl Fixture {
    /// The chain described above.
    pub fn new() -> Fixture {
        let activations = Activations::new(&[
            (Upgrade::Overwinter, 2),
            (Upgrade::Sapling, 3),
            (Upgrade::Blossom, 3),
            (Upgrade::Heartwood, 4),
            (Upgrade::Canopy, 5),
            (Upgrade::Nu5, 6),
            (Upgrade::Nu6_3, 9),
            (Upgrade::Nu7, 1_000),
        ]);
        let mut fixture = Fixture::empty(activations);
        fixture.push(regtest_genesis());
        for height in 1..=24 {
            let recipes = fixture.recipes(height);
            fixture.mine(recipes);
        }
        fixture
    }

    /// A node without a block.
    pub(super) fn empty(activations: Activations) -> Fixture {
        Fixture {
            node: SimulatedNode::new(activations.clone()),
            blocks: Vec::new(),
            builder: ChainBuilder::on_regtest(11, activations),
        }
    }

    /// A chain with two complete subtrees of Sapling notes and a part of a third.
    pub(super) fn with_subtrees() -> Fixture {
        let mut fixture = Fixture::empty(Activations::all_at(Upgrade::Nu6_3, 1));
        fixture.push(regtest_genesis());
        // Given, for making random ones takes long.
        let note = Note {
            commitment: [1; 32],
            ephemeral_key: [2; 32],
            enc_ciphertext: [3; 580],
            out_ciphertext: [4; 80],
        };
        for notes in [40_000, 40_000, 60_000] {
            fixture.mine(vec![Recipe {
                sapling_outputs: vec![Some(Box::new(note.clone())); notes],
                ..Recipe::new(Version::V5)
            }]);
        }
        fixture
    }

    /// What the block at `height` holds besides its coinbase.
    fn recipes(&self, height: u32) -> Vec<Recipe> {
        let pay = |recipe: Recipe| recipe.with_output(Output::to_script_hash(300, &PAYEE));
        match height {
            1 => vec![Recipe::new(Version::V2).with_joinsplit(JoinSplit::default())],
            2 => vec![Recipe::new(Version::V3).with_joinsplit(JoinSplit::default())],
            // Sapling is active from 3 on, and has no note before 4.
            4 => vec![Recipe::new(Version::V4).with_sapling(1, 3)],
            5 => vec![
                Recipe::new(Version::V4)
                    .with_joinsplit(JoinSplit::default())
                    .with_sapling(0, 2),
                pay(Recipe::new(Version::V4).with_input(self.coinbase_of(1))),
            ],
            7 => vec![Recipe::new(Version::V5).with_orchard(2)],
            8 => vec![
                pay(Recipe::new(Version::V5)
                    .with_input(self.coinbase_of(2))
                    .with_input(self.coinbase_of(3)))
                .with_sapling(1, 1)
                .with_orchard(3),
            ],
            10 => vec![Recipe::new(Version::V6).with_ironwood(2)],
            11 => vec![
                Recipe::new(Version::V6)
                    .with_sapling(1, 2)
                    .with_orchard(2)
                    .with_ironwood(4),
                Recipe::new(Version::V4).with_sapling(2, 2),
            ],
            // Two transactions of one address in one block, the second spending from the first address and paying back to it.
            13 => vec![
                pay(Recipe::new(Version::V5).with_input(self.coinbase_of(4))),
                pay(Recipe::new(Version::V5).with_input(self.coinbase_of(5)))
                    .with_output(Output::to_public_key_hash(100, &MINER))
                    .with_output(Output::of_data(b"change")),
            ],
            17 => vec![Recipe::new(Version::V6).with_orchard(60); 2],
            19 => (0..40)
                .map(|_| Recipe::new(Version::V6).with_ironwood(1))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Adds a block with a coinbase that pays the miner.
    pub(super) fn mine(&mut self, recipes: Vec<Recipe>) -> BlockId {
        let transactions: Vec<_> = recipes
            .into_iter()
            .map(|recipe| {
                self.builder
                    .transaction(recipe)
                    .expect("the recipes fit their versions")
            })
            .collect();
        let block = self
            .builder
            .next_block(coinbase(), &transactions)
            .expect("coinbases ask for nothing special");
        self.push(block)
    }

    fn push(&mut self, block: BuiltBlock) -> BlockId {
        self.node
            .extend(block.bytes.clone())
            .expect("the block stands on the tip");
        let id = block.id;
        self.blocks.push(block);
        id
    }

    /// Spends what the miner got at `height`.
    pub(super) fn coinbase_of(&self, height: usize) -> Input {
        Input::spend(self.blocks[height].transactions[0], 0)
    }

    /// The tip.
    pub fn tip(&self) -> BlockId {
        self.blocks.last().expect("there is a genesis block").id
    }

    /// The bytes of the block at `height`.
    pub fn bytes(&self, height: u32) -> Bytes {
        self.blocks[height as usize].bytes.clone().into()
    }

    /// A branch that leaves the chain above `height`: `blocks` blocks that differ from it.
    pub(super) fn branch(&self, height: u32, blocks: usize, seed: u64) -> Vec<BuiltBlock> {
        let parent = &self.blocks[height as usize];
        let mut branch = self.builder.branch(parent.id, parent.time, seed);
        (0..blocks)
            .map(|_| {
                branch
                    .next_block(coinbase(), &[])
                    .expect("coinbases ask for nothing special")
            })
            .collect()
    }

    /// The tree sizes at the end of each block, counted from the bytes.
    pub(super) fn sizes(&self) -> Vec<TreeSizes> {
        let mut sizes = TreeSizes::ZERO;
        self.blocks
            .iter()
            .map(|block| {
                let read = parse::Block::parse(&block.bytes).expect("it was built to be read");
                for transaction in read.transactions() {
                    sizes.sapling += transaction.sapling_outputs().len() as u32;
                    sizes.orchard += transaction.orchard_actions().len() as u32;
                    sizes.ironwood += transaction.ironwood_actions().len() as u32;
                }
                sizes
            })
            .collect()
    }

    /// By full scan: the transactions of the best chain from `first` to `last` that pay to `address` or spend what was paid to it.
    pub(super) fn touching(&self, address: Address, first: u32, last: u32) -> Vec<TxId> {
        let mut owned = Vec::new();
        let mut touching = Vec::new();
        for block in &self.blocks {
            let read = parse::Block::parse(&block.bytes).expect("it was built to be read");
            for (id, transaction) in block.transactions.iter().zip(read.transactions()) {
                let spends = transaction
                    .inputs()
                    .filter(|input| {
                        let outpoint = (*input.prevout_id(), input.prevout_index());
                        owned.contains(&outpoint)
                    })
                    .count();
                let paid: Vec<_> = (0..)
                    .zip(transaction.outputs())
                    .filter(|(_, output)| Address::of_script(output.script()) == Some(address))
                    .map(|(index, _)| (*id.as_internal(), index))
                    .collect();
                let height = block.id.height.get();
                if spends + paid.len() > 0 && first <= height && height <= last {
                    touching.push(*id);
                }
                owned.extend(paid);
            }
        }
        touching
    }
}

impl Default for Fixture {
    fn default() -> Fixture {
        Fixture::new()
    }
}

pub(super) fn coinbase() -> Coinbase {
    Coinbase {
        outputs: vec![Output::to_public_key_hash(1_000, &MINER)],
        ..Coinbase::default()
    }
}

pub(super) fn miner() -> Address {
    Address::PublicKeyHash(MINER)
}

pub(super) fn payee() -> Address {
    Address::ScriptHash(PAYEE)
}

pub(super) fn text(address: Address) -> String {
    address.encode(Network::Regtest)
}

pub(super) fn height(height: u32) -> Height {
    Height::new(height)
}
