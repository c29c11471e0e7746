//! Transparent addresses and coins: who is paid, and what there is to spend.
//!
//! Shaped after mainnet's whole-chain figures (published by sovright/zaino at 753f3fc5f581): 189.8 million outputs went to 9.2 million
//! addresses, so one output in 20.6 is an address's first; the two busiest addresses have one event a block each; 27.5 million outputs are unspent.

use std::collections::VecDeque;

use lightship_chain::{Height, TxId, build::Output};
use sha2::{Digest, Sha256};

use super::draw::Draw;

/// An output that can be spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coin {
    pub(super) id: TxId,
    pub(super) index: u32,
    pub(super) value_zat: u64,
    /// Of its block.
    pub(super) height: u32,
}

/// Owners of coins, by what they are like.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// The miner of most blocks, and the fund that every block pays: an event a block each.
    Hot(u8),
    /// Exchanges and pools.
    Busy(u32),
    /// Everyone else.
    Quiet(u64),
}

impl Owner {
    /// The script that pays to this owner: the hash of a key, or of a script for one owner in six.
    pub(super) fn output(self, value_zat: u64) -> Output {
        let (kind, number) = match self {
            Owner::Hot(number) => (0u8, u64::from(number)),
            Owner::Busy(number) => (1, u64::from(number)),
            Owner::Quiet(number) => (2, number),
        };
        let digest = Sha256::new()
            .chain_update(b"lightship address")
            .chain_update([kind])
            .chain_update(number.to_le_bytes())
            .finalize();
        let hash = digest.first_chunk().expect("a SHA-256 digest has 32 bytes");
        if number % 6 == 5 {
            Output::to_script_hash(value_zat, hash)
        } else {
            Output::to_public_key_hash(value_zat, hash)
        }
    }
}

/// Coins not yet spent. Bounded: when full, a coin drawn by lot is forgotten and stays unspent for ever, as most of the real ones do.
#[derive(Clone, Debug)]
pub(super) struct Purse {
    coins: Vec<Coin>,
    /// Coinbase outputs that have not matured.
    young: VecDeque<Coin>,
    maturity_blocks: u32,
    /// How many quiet owners there have been.
    quiet: u64,
}

impl Purse {
    /// 12 MiB.
    const MOST_COINS: usize = 1 << 18;
    const BUSY_OWNERS: u64 = 600;
    /// A quiet owner is paid again for as long as it is among the last so many.
    const REMEMBERED_OWNERS: u64 = 4096;

    /// Without a coin. A coinbase matures after so many blocks.
    pub(super) fn new(maturity_blocks: u32) -> Purse {
        Purse {
            coins: Vec::new(),
            young: VecDeque::new(),
            maturity_blocks,
            quiet: 0,
        }
    }

    /// Whoever the next output shall pay.
    pub(super) fn payee(&mut self, draw: &mut Draw) -> Owner {
        match draw.below(1000) {
            // Squaring makes the first ones busier than the last.
            0..300 => {
                let draw = draw.below(Self::BUSY_OWNERS * Self::BUSY_OWNERS);
                Owner::Busy((Self::BUSY_OWNERS - 1 - draw.isqrt()) as u32)
            }
            300..349 => {
                self.quiet += 1;
                Owner::Quiet(self.quiet - 1)
            }
            _ => {
                let back = draw.below(self.quiet.clamp(1, Self::REMEMBERED_OWNERS));
                Owner::Quiet(self.quiet.saturating_sub(back + 1))
            }
        }
    }

    /// Lets `coin` be spent, at once.
    pub(super) fn put(&mut self, coin: Coin, draw: &mut Draw) {
        if self.coins.len() < Self::MOST_COINS {
            self.coins.push(coin);
        } else {
            let lost = draw.below(Self::MOST_COINS as u64) as usize;
            self.coins[lost] = coin;
        }
    }

    /// Lets a coinbase's `coin` be spent when it has matured.
    pub(super) fn put_young(&mut self, coin: Coin) {
        self.young.push_back(coin);
    }

    /// Moves on to the block at `height`.
    pub(super) fn mature(&mut self, height: Height, draw: &mut Draw) {
        while let Some(coin) = self.young.front().copied() {
            if coin.height + self.maturity_blocks > height.get() {
                break;
            }
            self.young.pop_front();
            self.put(coin, draw);
        }
    }

    /// Takes a coin, drawn by lot.
    pub(super) fn take(&mut self, draw: &mut Draw) -> Option<Coin> {
        if self.coins.is_empty() {
            return None;
        }
        let at = draw.below(self.coins.len() as u64) as usize;
        Some(self.coins.swap_remove(at))
    }

    /// Takes that coin, if it is here.
    pub(super) fn take_named(&mut self, id: TxId, index: u32) -> Option<Coin> {
        let at = self
            .coins
            .iter()
            .rposition(|coin| coin.id == id && coin.index == index)?;
        Some(self.coins.swap_remove(at))
    }

    /// Shows a coin that a branch from `fork` may spend too. A few tries: young coins may be all there are.
    pub(super) fn peek(&self, fork: Height, draw: &mut Draw) -> Option<Coin> {
        (0..8)
            .filter_map(|_| {
                let at = draw.below(self.coins.len().max(1) as u64) as usize;
                self.coins.get(at).copied()
            })
            .find(|coin| coin.height <= fork.get())
    }

    pub(super) fn len(&self) -> usize {
        self.coins.len()
    }
}
