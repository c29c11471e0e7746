//! Blocks, each on top of the last.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::{Activations, Built, Input, Output, Recipe, Unbuildable, Version, write::write_count};
use crate::{BlockHash, BlockId, Height, ShieldedPool, TxId, Upgrade, hash::sha256d, parse};

/// How long the Equihash solutions are. Their bytes are random: nothing here has worked for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solution {
    /// 36 bytes, as in regtest's own genesis: small blocks.
    Short,
    /// 1,344 bytes, as on the networks: headers of 1,487 bytes.
    Full,
}

/// What the coinbase of a block pays.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Coinbase {
    /// Transparent outputs.
    pub outputs: Vec<Output>,
    /// [Heartwood onwards] Sapling outputs.
    pub sapling_outputs: usize,
    /// [NU5 onwards] Orchard actions.
    pub orchard_actions: usize,
    /// [NU6.3 onwards] Ironwood actions.
    pub ironwood_actions: usize,
}

/// A block, written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltBlock {
    /// Where it is and what it is called.
    pub id: BlockId,
    /// Its parent; zeros for a genesis block.
    pub previous: BlockHash,
    /// Seconds since 1970, UTC.
    pub time: u32,
    /// The ids of its transactions, coinbase first.
    pub transactions: Vec<TxId>,
    /// The consensus serialization.
    pub bytes: Vec<u8>,
}

/// Writes one branch of a chain, block by block. The same seed and the same calls give the same bytes.
///
/// Headers link, merkle roots are true, coinbases name their height; commitments to trees and history, nonces and solutions are random. Holds
/// nothing of the blocks it made but the last one's name, so chains of any length can be streamed.
#[derive(Clone, Debug)]
pub struct ChainBuilder {
    rng: ChaCha8Rng,
    activations: Activations,
    solution: Solution,
    spacing_seconds: u32,
    tip: Option<BlockId>,
    time: u32,
}

impl ChainBuilder {
    /// The time of regtest's genesis block.
    const FIRST_TIME: u32 = 1_296_688_602;

    /// A chain with a genesis of its own: the first block made has height 0.
    pub fn new(seed: u64, activations: Activations) -> ChainBuilder {
        ChainBuilder {
            rng: ChaCha8Rng::seed_from_u64(seed),
            activations,
            solution: Solution::Short,
            spacing_seconds: 75,
            tip: None,
            time: ChainBuilder::FIRST_TIME,
        }
    }

    /// A chain on regtest's genesis block (see [`regtest_genesis`]): the first block made has height 1.
    pub fn on_regtest(seed: u64, activations: Activations) -> ChainBuilder {
        let mut chain = ChainBuilder::new(seed, activations);
        chain.tip = Some(regtest_genesis().id);
        chain.time += chain.spacing_seconds;
        chain
    }

    /// With solutions of this length from now on; [`Solution::Short`] unless told.
    #[must_use]
    pub fn with_solution(mut self, solution: Solution) -> ChainBuilder {
        self.solution = solution;
        self
    }

    /// With the next block at `time` (seconds since 1970) and each later one `spacing` seconds after its parent; 75 unless told.
    #[must_use]
    pub fn with_times(mut self, time: u32, spacing_seconds: u32) -> ChainBuilder {
        self.time = time;
        self.spacing_seconds = spacing_seconds;
        self
    }

    /// Puts the next block at `time` (seconds since 1970).
    pub fn set_time(&mut self, time: u32) {
        self.time = time;
    }

    /// Another branch: the next block made is a child of `parent`, `seed` decides its random parts.
    #[must_use]
    pub fn branch(&self, parent: BlockId, parent_time: u32, seed: u64) -> ChainBuilder {
        ChainBuilder {
            rng: ChaCha8Rng::seed_from_u64(seed),
            tip: Some(parent),
            time: parent_time.saturating_add(self.spacing_seconds),
            ..self.clone()
        }
    }

    /// The block made last, or the one that the chain was begun on.
    pub fn tip(&self) -> Option<BlockId> {
        self.tip
    }

    /// The height of the block to be made next.
    ///
    /// # Panics
    ///
    /// If the chain has reached [`Height::MAX`].
    pub fn next_height(&self) -> Height {
        match self.tip {
            None => Height::GENESIS,
            Some(tip) => tip.height.next().expect("no chain grows to 2^31 blocks"),
        }
    }

    /// When the rules change.
    pub fn activations(&self) -> &Activations {
        &self.activations
    }

    /// The newest transaction format that the next block may hold, version 4 for all from Sapling to Canopy.
    pub fn newest_version(&self) -> Version {
        match self.activations.current(self.next_height()) {
            None => Version::V2,
            Some(Upgrade::Overwinter) => Version::V3,
            Some(upgrade) if upgrade < Upgrade::Nu5 => Version::V4,
            Some(upgrade) if upgrade < Upgrade::Nu6_3 => Version::V5,
            Some(_) => Version::V6,
        }
    }

    /// The source of everything random, for recipes of the caller's making.
    pub fn rng(&mut self) -> &mut impl Rng {
        &mut self.rng
    }

    /// A number below `bound`, or 0 if that is 0: for choices that the seed shall decide too.
    pub fn draw(&mut self, bound: u32) -> u32 {
        // The product's upper half: nearly even, and the same on every machine.
        ((u64::from(self.rng.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    /// Writes a transaction for the next block: with that block's consensus branch id in place of the recipe's.
    ///
    /// # Errors
    ///
    /// If the recipe asks for a part that its version cannot hold.
    pub fn transaction(&mut self, mut recipe: Recipe) -> Result<Built, Unbuildable> {
        recipe.branch_id = self.activations.branch_id(self.next_height());
        recipe.build(&mut self.rng)
    }

    /// Writes the next block: a coinbase as asked for, then `transactions` in this order.
    ///
    /// # Errors
    ///
    /// If the coinbase asks for a pool that the block's era does not have.
    pub fn next_block(
        &mut self,
        coinbase: Coinbase,
        transactions: &[Built],
    ) -> Result<BuiltBlock, Unbuildable> {
        let coinbase = self.coinbase(coinbase)?;
        let mut ids = Vec::with_capacity(1 + transactions.len());
        ids.push(coinbase.id);
        ids.extend(transactions.iter().map(|transaction| transaction.id));

        let height = self.next_height();
        let previous = self.tip.map_or(BlockHash::ZERO, |tip| tip.hash);
        let body: usize = transactions.iter().map(|each| each.bytes.len()).sum();
        let mut bytes = Vec::with_capacity(1500 + coinbase.bytes.len() + body);
        self.header(height, previous, &parse::merkle_root(&ids), &mut bytes);
        let hash = BlockHash::from_internal(sha256d(&bytes));
        write_count(&mut bytes, ids.len());
        bytes.extend_from_slice(&coinbase.bytes);
        for transaction in transactions {
            bytes.extend_from_slice(&transaction.bytes);
        }

        let id = BlockId { height, hash };
        let time = self.time;
        self.tip = Some(id);
        self.time = self.time.saturating_add(self.spacing_seconds);
        Ok(BuiltBlock {
            id,
            previous,
            time,
            transactions: ids,
            bytes,
        })
    }

    fn coinbase(&mut self, coinbase: Coinbase) -> Result<Built, Unbuildable> {
        let height = self.next_height();
        let version = match self.newest_version() {
            Version::V2 => Version::V1,
            newer => newer,
        };
        let pools = [
            (
                ShieldedPool::Sapling,
                coinbase.sapling_outputs,
                "Sapling parts",
            ),
            (
                ShieldedPool::Orchard,
                coinbase.orchard_actions,
                "Orchard actions",
            ),
            (
                ShieldedPool::Ironwood,
                coinbase.ironwood_actions,
                "Ironwood actions",
            ),
        ];
        for (pool, count, part) in pools {
            if count > 0 && !self.activations.has_pool(pool, height) {
                return Err(Unbuildable { version, part });
            }
        }
        // A few bytes of the miner's own make equal coinbases differ between branches. (From version 5 on their ids still agree: an id
        // commits to effects only, and so it is on the real chain.)
        let mut tag = [0; 8];
        self.rng.fill_bytes(&mut tag);
        let recipe = Recipe {
            // [NU5 onwards] A coinbase expires at its own height. Spec: ZIP 203.
            expiry_height: if version >= Version::V5 {
                height.get()
            } else {
                0
            },
            outputs: coinbase.outputs,
            ..Recipe::new(version)
        }
        .with_input(Input::coinbase(height, &tag))
        .with_sapling(0, coinbase.sapling_outputs)
        .with_orchard(coinbase.orchard_actions)
        .with_ironwood(coinbase.ironwood_actions);
        self.transaction(recipe)
    }

    /// Spec: protocol §7.6 "Block Header Encoding and Consensus".
    fn header(
        &mut self,
        height: Height,
        previous: BlockHash,
        merkle_root: &[u8; 32],
        out: &mut Vec<u8>,
    ) {
        let (bits, solution_bytes): (u32, usize) = match self.solution {
            Solution::Short => (0x200f_0f0f, 36),
            Solution::Full => (0x1f07_ffff, 1344),
        };
        let mut random = [0; 32 + 32 + 1344];
        let random = &mut random[..64 + solution_bytes];
        self.rng.fill_bytes(random);
        let (commitments, rest) = random.split_at_mut(32);
        let (nonce, solution) = rest.split_at_mut(32);
        // The first block with a chain history has none behind it, and its commitment must be zeros. Spec: ZIP 221.
        if self.activations.height_of(Upgrade::Heartwood) == Some(height) {
            commitments.fill(0);
        }
        out.extend_from_slice(&4u32.to_le_bytes());
        out.extend_from_slice(previous.as_internal());
        out.extend_from_slice(merkle_root);
        out.extend_from_slice(commitments);
        out.extend_from_slice(&self.time.to_le_bytes());
        out.extend_from_slice(&bits.to_le_bytes());
        out.extend_from_slice(nonce);
        write_count(out, solution_bytes);
        out.extend_from_slice(solution);
    }
}

/// The genesis block of regtest, as every node has it built in.
pub fn regtest_genesis() -> BuiltBlock {
    let mut bytes = Vec::with_capacity(382);
    bytes.extend_from_slice(&4u32.to_le_bytes());
    bytes.extend_from_slice(&[0; 32]);
    let coinbase: TxId = "c4eaa58879081de3c24a7b117ed2b28300e7ec4c4c1dff1d3f1268b7857a4ddb"
        .parse()
        .expect("64 hexadecimal digits");
    bytes.extend_from_slice(coinbase.as_internal());
    bytes.extend_from_slice(&[0; 32]);
    bytes.extend_from_slice(&ChainBuilder::FIRST_TIME.to_le_bytes());
    bytes.extend_from_slice(&0x200f_0f0f_u32.to_le_bytes());
    bytes.push(9);
    bytes.extend_from_slice(&[0; 31]);
    bytes.extend_from_slice(&REGTEST_SOLUTION);
    let hash = BlockHash::from_internal(sha256d(&bytes));
    bytes.push(1);
    bytes.extend_from_slice(&GENESIS_COINBASE);
    BuiltBlock {
        id: BlockId {
            height: Height::GENESIS,
            hash,
        },
        previous: BlockHash::ZERO,
        time: ChainBuilder::FIRST_TIME,
        transactions: vec![coinbase],
        bytes,
    }
}

/// Length and solution.
const REGTEST_SOLUTION: [u8; 37] =
    *b"\x24\x01\x93\x6b\x7d\xb1\xeb\x4a\xc3\x9f\x15\x1b\x87\x04\x64\x2d\x0a\
    \x8b\xda\x13\xec\x54\x7d\x54\xcd\x5e\x43\xba\x14\x2f\xc6\xd8\x87\x7c\xab\x07\xb3";

/// The same coinbase on every network.
const GENESIS_COINBASE: [u8; 204] = *b"\x01\x00\x00\x00\x01\
    \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
    \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\
    \x4d\x04\xff\xff\x07\x1f\x01\x04EZcash0b9c4eef8b7cc417ee5001e3500984b6fea35683a7cac141a043c42064835d34\
    \xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x00\x00\x43\
    \x41\x04\x67\x8a\xfd\xb0\xfe\x55\x48\x27\x19\x67\xf1\xa6\x71\x30\xb7\x10\x5c\xd6\xa8\x28\xe0\x39\
    \x09\xa6\x79\x62\xe0\xea\x1f\x61\xde\xb6\x49\xf6\xbc\x3f\x4c\xef\x38\xc4\xf3\x55\x04\xe5\x1e\xc1\
    \x12\xde\x5c\x38\x4d\xf7\xba\x0b\x8d\x57\x8a\x4c\x70\x2b\x6b\xf1\x1d\x5f\xac\x00\x00\x00\x00";
