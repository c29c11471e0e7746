//! The value pools a wallet can ask for, and the sizes of the shielded ones' note commitment trees.

use std::fmt;

/// A pool of value, as the lightwallet protocol's `PoolType` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pool {
    /// Inputs and outputs that everyone can read.
    Transparent,
    /// [Sapling onwards] Spends and outputs.
    Sapling,
    /// [NU5 onwards] Actions.
    Orchard,
    /// [NU6.3 onwards] Actions of the Orchard protocol in a pool and tree of their own.
    Ironwood,
}

/// A pool with a note commitment tree that wallets follow. (Sprout never appears in compact blocks.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ShieldedPool {
    /// [Sapling onwards]
    Sapling,
    /// [NU5 onwards]
    Orchard,
    /// [NU6.3 onwards]
    Ironwood,
}

impl ShieldedPool {
    /// All of them, oldest first.
    pub const ALL: [ShieldedPool; 3] = [
        ShieldedPool::Sapling,
        ShieldedPool::Orchard,
        ShieldedPool::Ironwood,
    ];

    /// The name nodes use in JSON-RPC: `sapling`, `orchard`, `ironwood`.
    pub const fn name(self) -> &'static str {
        match self {
            ShieldedPool::Sapling => "sapling",
            ShieldedPool::Orchard => "orchard",
            ShieldedPool::Ironwood => "ironwood",
        }
    }
}

impl fmt::Display for ShieldedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which pools a wallet asks for: any of the 16 subsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolSet(u8);

impl PoolSet {
    /// No pool.
    pub const EMPTY: PoolSet = PoolSet(0);
    /// Sapling, Orchard and Ironwood: what an empty request means, and what is stored.
    pub const SHIELDED: PoolSet = PoolSet(0b1110);
    /// Every pool.
    pub const ALL: PoolSet = PoolSet(0b1111);

    /// This set and `pool`.
    #[must_use]
    pub const fn with(self, pool: Pool) -> PoolSet {
        PoolSet(self.0 | Self::bit(pool))
    }

    /// This set less `pool`.
    #[must_use]
    pub const fn without(self, pool: Pool) -> PoolSet {
        PoolSet(self.0 & !Self::bit(pool))
    }

    /// Whether `pool` is asked for.
    pub const fn contains(self, pool: Pool) -> bool {
        self.0 & Self::bit(pool) != 0
    }

    /// Whether no pool is asked for.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All 16 subsets.
    pub fn subsets() -> impl Iterator<Item = PoolSet> {
        (0..=Self::ALL.0).map(PoolSet)
    }

    const fn bit(pool: Pool) -> u8 {
        1 << pool as u8
    }
}

impl FromIterator<Pool> for PoolSet {
    fn from_iter<I: IntoIterator<Item = Pool>>(pools: I) -> PoolSet {
        pools.into_iter().fold(PoolSet::EMPTY, PoolSet::with)
    }
}

/// How many notes each note commitment tree holds at the end of a block.
///
/// Spec: lightwallet protocol `ChainMetadata`. A tree holds at most 2^32 notes; nodes and wallets count them in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct TreeSizes {
    /// Sapling outputs so far.
    pub sapling: u32,
    /// Orchard actions so far.
    pub orchard: u32,
    /// Ironwood actions so far.
    pub ironwood: u32,
}

impl TreeSizes {
    /// No note yet.
    pub const ZERO: TreeSizes = TreeSizes {
        sapling: 0,
        orchard: 0,
        ironwood: 0,
    };

    /// The sizes after `added` more notes, or `None` if a tree would overflow.
    pub fn checked_add(self, added: TreeSizes) -> Option<TreeSizes> {
        Some(TreeSizes {
            sapling: self.sapling.checked_add(added.sapling)?,
            orchard: self.orchard.checked_add(added.orchard)?,
            ironwood: self.ironwood.checked_add(added.ironwood)?,
        })
    }

    /// The size of one tree.
    pub const fn of(self, pool: ShieldedPool) -> u32 {
        match pool {
            ShieldedPool::Sapling => self.sapling,
            ShieldedPool::Orchard => self.orchard,
            ShieldedPool::Ironwood => self.ironwood,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_sixteen_subsets() {
        let sets: Vec<_> = PoolSet::subsets().collect();
        assert_eq!(sets.len(), 16);
        assert!(sets.contains(&PoolSet::SHIELDED) && sets.contains(&PoolSet::EMPTY));
        assert!(!PoolSet::SHIELDED.contains(Pool::Transparent));
        assert_eq!(PoolSet::ALL.without(Pool::Transparent), PoolSet::SHIELDED);
    }
}
