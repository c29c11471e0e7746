//! At which heights a chain changes its rules.

use crate::{Height, ShieldedPool, Upgrade, UpgradeActivation};

/// The first height of each upgrade that a chain has. Heights never fall from one upgrade to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activations(Vec<(Upgrade, Height)>);

impl Activations {
    /// Those given, with upgrades left out never activating.
    ///
    /// # Panics
    ///
    /// If upgrades or heights are out of order.
    pub fn new(heights: &[(Upgrade, u32)]) -> Activations {
        assert!(
            heights
                .windows(2)
                .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1),
            "upgrades activate in their order"
        );
        Activations(
            heights
                .iter()
                .map(|&(upgrade, height)| (upgrade, Height::new(height)))
                .collect(),
        )
    }

    /// Every upgrade up to and with `last`, `spacing` blocks apart, the first at `spacing`: all eras on a short chain.
    pub fn staggered(last: Upgrade, spacing: u32) -> Activations {
        let heights: Vec<_> = Upgrade::ALL
            .into_iter()
            .filter(|upgrade| *upgrade <= last)
            .zip(1..)
            .map(|(upgrade, nth)| (upgrade, nth * spacing))
            .collect();
        Activations::new(&heights)
    }

    /// Every upgrade up to and with `last` at one height, as regtest chains usually have it.
    pub fn all_at(last: Upgrade, height: u32) -> Activations {
        let heights: Vec<_> = Upgrade::ALL
            .into_iter()
            .filter(|upgrade| *upgrade <= last)
            .map(|upgrade| (upgrade, height))
            .collect();
        Activations::new(&heights)
    }

    /// These without the upgrades newer than `last`: for readers that know no later one.
    #[must_use]
    pub fn up_to(mut self, last: Upgrade) -> Activations {
        self.0.retain(|(upgrade, _)| *upgrade <= last);
        self
    }

    /// The first block under `upgrade`, if the chain ever has it.
    pub fn height_of(&self, upgrade: Upgrade) -> Option<Height> {
        self.0
            .iter()
            .find(|(each, _)| *each == upgrade)
            .map(|(_, height)| *height)
    }

    /// Whether `upgrade` is in force in the block at `height`.
    pub fn is_active(&self, upgrade: Upgrade, height: Height) -> bool {
        self.height_of(upgrade).is_some_and(|first| first <= height)
    }

    /// The newest upgrade in force at `height`; `None` before Overwinter.
    pub fn current(&self, height: Height) -> Option<Upgrade> {
        self.0
            .iter()
            .rev()
            .find(|(_, first)| *first <= height)
            .map(|(upgrade, _)| *upgrade)
    }

    /// The consensus branch id in force at `height`; 0 before Overwinter.
    pub fn branch_id(&self, height: Height) -> u32 {
        self.current(height).map_or(0, Upgrade::branch_id)
    }

    /// Whether `pool` exists in the block at `height`.
    pub fn has_pool(&self, pool: ShieldedPool, height: Height) -> bool {
        let upgrade = match pool {
            ShieldedPool::Sapling => Upgrade::Sapling,
            ShieldedPool::Orchard => Upgrade::Nu5,
            ShieldedPool::Ironwood => Upgrade::Nu6_3,
        };
        self.is_active(upgrade, height)
    }

    /// As a node announces them, in order.
    pub fn announced(&self) -> Vec<UpgradeActivation> {
        self.0
            .iter()
            .map(|&(upgrade, height)| UpgradeActivation {
                branch_id: upgrade.branch_id(),
                name: upgrade.name().to_owned(),
                height,
            })
            .collect()
    }
}
