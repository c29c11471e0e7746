//! What the blocks of each era hold on average, and which eras a profile goes through.
//!
//! Where numbers were measured their origin is given; where nobody has published any, they are set so that published totals come out, and
//! said to be so. Rates are in thousandths a block, so that drawing needs no floating point and a seed gives the same bytes on any machine.

use std::{fmt, str::FromStr};

use lightship_chain::{Height, Upgrade, build::Activations};

/// Which chain to imitate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Mainnet from genesis to height 3,523,499, squeezed into the blocks asked for: every era keeps its share of the chain.
    Mainnet,
    /// Testnet from genesis to height 4,275,170, squeezed likewise: nearly empty blocks.
    Testnet,
    /// Mainnet 1,703,000 to 2,200,000: shielded spam.
    Sandblast,
    /// Mainnet since NU6.3, every upgrade active from block 1.
    Tip,
    /// Edge cases one after the other, in every era.
    Ugly,
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 5] = [
        Profile::Mainnet,
        Profile::Testnet,
        Profile::Sandblast,
        Profile::Tip,
        Profile::Ugly,
    ];

    /// As the command line has it.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Mainnet => "mainnet",
            Profile::Testnet => "testnet",
            Profile::Sandblast => "sandblast",
            Profile::Tip => "tip",
            Profile::Ugly => "ugly",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Profile, String> {
        Profile::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
            .ok_or_else(|| format!("unknown profile '{name}'"))
    }
}

/// A stretch of a real chain, and what its blocks hold on average. All rates are thousandths a block; coinbases are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Era {
    /// What people call it.
    pub name: &'static str,
    /// Its first height on the real chain.
    pub from: u32,
    /// Sapling outputs.
    pub sapling_outputs: u64,
    /// Orchard actions.
    pub orchard_actions: u64,
    /// Ironwood actions.
    pub ironwood_actions: u64,
    /// JoinSplits.
    pub joinsplits: u64,
    /// Transactions without shielded parts.
    pub transparent: u64,
    /// Inputs of those.
    pub inputs: u64,
    /// Outputs of those.
    pub outputs: u64,
    /// Mean notes of a shielded transaction, as a whole number.
    pub notes_each: u64,
}

impl Era {
    const fn new(name: &'static str, from: u32) -> Era {
        Era {
            name,
            from,
            sapling_outputs: 0,
            orchard_actions: 0,
            ironwood_actions: 0,
            joinsplits: 0,
            transparent: 0,
            inputs: 0,
            outputs: 0,
            notes_each: 2,
        }
    }

    const fn notes(self, sapling: u64, orchard: u64, ironwood: u64) -> Era {
        Era {
            sapling_outputs: sapling,
            orchard_actions: orchard,
            ironwood_actions: ironwood,
            ..self
        }
    }

    const fn transparent(self, transparent: u64, inputs: u64, outputs: u64) -> Era {
        Era {
            transparent,
            inputs,
            outputs,
            ..self
        }
    }

    const fn joinsplits(self, joinsplits: u64) -> Era {
        Era { joinsplits, ..self }
    }

    const fn notes_each(self, notes_each: u64) -> Era {
        Era { notes_each, ..self }
    }
}

/// The height of mainnet that the last block of [`Profile::Mainnet`] stands for.
const MAINNET_END: u32 = 3_523_499;
/// The height of testnet that the last block of [`Profile::Testnet`] stands for.
const TESTNET_END: u32 = 4_275_170;

/// Mainnet's eras.
///
/// * Notes: measured, as differences of the note commitment trees' sizes between the heights named, divided by the blocks in between (sizes
///   at 2,303 heights in the crate zakura-assets 0.3524060.0). The few thousand blocks between two measured stretches go with the earlier.
///   Ironwood's 0.053 actions a block in NU6.2 are those of the first blocks after it, and are left out.
/// * Transparent: measured are the chain's totals up to 3,425,046 (17,909,015 transactions, 189,803,195 outputs, 162,228,939 inputs; published
///   by sovright/zaino at 753f3fc5f581) and two windows (4.18 transactions and 19,529 bytes a block at 20,000-31,999; 6 and 17,905 at
///   3,350,000-3,361,999; published by jpgonzalezra/lightwalletd-rs at 7c6dc7f52818). The split over the eras is made to meet them all.
/// * JoinSplits: assumed; few blocks had more than one, and hardly any have one since Canopy.
/// * Notes a transaction: 2 as wallets make them; in the spam, assumed from what was seen of it (hundreds of outputs a transaction).
const MAINNET: [Era; 19] = [
    Era::new("Sprout", 0)
        .transparent(2_600, 81_000, 95_000)
        .joinsplits(600),
    Era::new("Sapling activation", 419_200)
        .notes(530, 0, 0)
        .transparent(4_000, 77_000, 90_000)
        .joinsplits(200),
    Era::new("Blossom", 653_600)
        .notes(784, 0, 0)
        .transparent(4_000, 77_000, 90_000)
        .joinsplits(50),
    Era::new("Heartwood", 903_000)
        .notes(916, 0, 0)
        .transparent(4_000, 77_000, 90_000)
        .joinsplits(20),
    Era::new("Canopy", 1_046_400)
        .notes(1_122, 0, 0)
        .transparent(4_000, 77_000, 90_000)
        .joinsplits(2),
    Era::new("NU5 quiet", 1_687_104)
        .notes(593, 316, 0)
        .transparent(4_000, 77_000, 90_000),
    Era::new("Orchard spam ramp", 1_706_000)
        .notes(724, 108_267, 0)
        .transparent(4_000, 34_000, 40_000)
        .notes_each(20),
    Era::new("Sapling sandblast peak", 1_730_000)
        .notes(694_125, 42_519, 0)
        .transparent(4_000, 34_000, 40_000)
        .notes_each(250),
    Era::new("sandblast, Sapling to Orchard", 1_820_000)
        .notes(254_076, 110_796, 0)
        .transparent(4_000, 34_000, 40_000)
        .notes_each(60),
    Era::new("Orchard sandblast", 1_840_000)
        .notes(6_955, 258_434, 0)
        .transparent(4_000, 34_000, 40_000)
        .notes_each(40),
    Era::new("Orchard sandblast decline", 1_900_000)
        .notes(819, 119_386, 0)
        .transparent(4_000, 34_000, 40_000)
        .notes_each(40),
    Era::new("tail", 2_100_000)
        .notes(10_856, 16_495, 0)
        .transparent(4_000, 34_000, 40_000)
        .notes_each(8),
    Era::new("calm", 2_200_000)
        .notes(997, 374, 0)
        .transparent(2_500, 12_000, 14_000),
    Era::new("calm, later", 2_500_000)
        .notes(2_062, 856, 0)
        .transparent(2_500, 12_000, 14_000),
    Era::new("NU6", 2_726_400)
        .notes(283, 1_284, 0)
        .transparent(3_300, 8_500, 10_000),
    Era::new("NU6.1", 3_146_400)
        .notes(369, 2_601, 0)
        .transparent(3_400, 8_500, 10_000),
    Era::new("NU6.2", 3_364_600)
        .notes(336, 2_871, 0)
        .transparent(3_400, 8_500, 10_000),
    Era::new("NU6.3, first 45,000", 3_428_143)
        .notes(382, 4_555, 5_065)
        .transparent(3_400, 8_500, 10_000),
    Era::new("NU6.3", 3_473_000)
        .notes(635, 607, 11_501)
        .transparent(3_400, 8_500, 10_000),
];

/// Testnet's eras.
///
/// * Notes: measured, from the sizes in tree states that wallets ship as checkpoints (zcash/zcash-android-wallet-sdk at a23bcbe23722 and
///   zcash/zcash-swift-wallet-sdk).
/// * Transparent: 134 consecutive blocks from 1,028,400 held 1.27 transactions, 1.54 inputs and 3.02 outputs a block, coinbases included,
///   in 1,780 bytes (zcash-hackworks/darksidewalletd-test-data at 4aa4e669a5f0); taken to hold everywhere.
const TESTNET: [Era; 18] = [
    Era::new("Sprout", 0)
        .transparent(270, 540, 750)
        .joinsplits(20),
    Era::new("Sapling", 280_000)
        .notes(51, 0, 0)
        .transparent(270, 540, 750)
        .joinsplits(2),
    Era::new("Blossom", 584_000)
        .notes(21, 0, 0)
        .transparent(270, 540, 750),
    Era::new("Heartwood", 903_800)
        .notes(116, 0, 0)
        .transparent(270, 540, 750),
    Era::new("Canopy", 1_028_500)
        .notes(36, 0, 0)
        .transparent(270, 540, 750),
    Era::new("Canopy, later", 1_400_000)
        .notes(12, 0, 0)
        .transparent(270, 540, 750),
    Era::new("NU5", 1_842_420)
        .notes(41, 111, 0)
        .transparent(270, 540, 750),
    Era::new("NU5, from 2,000,000", 2_000_000)
        .notes(8, 24, 0)
        .transparent(270, 540, 750),
    Era::new("NU5, from 2,220,000", 2_220_000)
        .notes(16, 13, 0)
        .transparent(270, 540, 750),
    Era::new("NU5, from 2,410,000", 2_410_000)
        .notes(4, 3, 0)
        .transparent(270, 540, 750),
    Era::new("NU6", 2_976_000)
        .notes(470, 9, 0)
        .transparent(270, 540, 750),
    Era::new("NU6, from 3,210,000", 3_210_000)
        .notes(151, 154, 0)
        .transparent(270, 540, 750),
    Era::new("NU6, from 3,460,000", 3_460_000)
        .notes(18, 26, 0)
        .transparent(270, 540, 750),
    Era::new("NU6.1", 3_536_500)
        .notes(314, 163, 0)
        .transparent(270, 540, 750),
    Era::new("NU6.1, from 3,800,000", 3_800_000)
        .notes(58, 237, 0)
        .transparent(270, 540, 750),
    Era::new("NU6.1, from 4,000,000", 4_000_000)
        .notes(71, 479, 0)
        .transparent(270, 540, 750),
    Era::new("NU6.3", 4_134_000)
        .notes(170, 68, 149)
        .transparent(270, 540, 750),
    Era::new("NU6.3, from 4,205,000", 4_205_000)
        .notes(192, 104, 155)
        .transparent(270, 540, 750),
];

/// Where upgrades activated on mainnet. Spec: ZIP 200 and the deployment ZIPs.
const MAINNET_UPGRADES: [(Upgrade, u32); 10] = [
    (Upgrade::Overwinter, 347_500),
    (Upgrade::Sapling, 419_200),
    (Upgrade::Blossom, 653_600),
    (Upgrade::Heartwood, 903_000),
    (Upgrade::Canopy, 1_046_400),
    (Upgrade::Nu5, 1_687_104),
    (Upgrade::Nu6, 2_726_400),
    (Upgrade::Nu6_1, 3_146_400),
    (Upgrade::Nu6_2, 3_364_600),
    (Upgrade::Nu6_3, 3_428_143),
];

/// Where upgrades activated on testnet. Spec: the same.
const TESTNET_UPGRADES: [(Upgrade, u32); 10] = [
    (Upgrade::Overwinter, 207_500),
    (Upgrade::Sapling, 280_000),
    (Upgrade::Blossom, 584_000),
    (Upgrade::Heartwood, 903_800),
    (Upgrade::Canopy, 1_028_500),
    (Upgrade::Nu5, 1_842_420),
    (Upgrade::Nu6, 2_976_000),
    (Upgrade::Nu6_1, 3_536_500),
    (Upgrade::Nu6_2, 4_052_000),
    (Upgrade::Nu6_3, 4_134_000),
];

/// A profile, fitted to a number of blocks.
#[derive(Clone, Debug)]
pub struct Plan {
    /// When the rules change on the forged chain.
    pub activations: Activations,
    /// The first height of each era on the forged chain, in order; one that is squeezed to nothing shares its height with the next.
    eras: Vec<(u32, Era)>,
}

impl Plan {
    /// Fits `profile` to a chain of `blocks` blocks.
    pub fn new(profile: Profile, blocks: u32) -> Plan {
        match profile {
            Profile::Mainnet => Plan::squeezed(&MAINNET, &MAINNET_UPGRADES, 0, MAINNET_END, blocks),
            Profile::Testnet => Plan::squeezed(&TESTNET, &TESTNET_UPGRADES, 0, TESTNET_END, blocks),
            Profile::Sandblast => Plan {
                activations: Activations::all_at(Upgrade::Nu5, 1),
                ..Plan::squeezed(&MAINNET[5..12], &[], 1_703_000, 2_200_000, blocks)
            },
            Profile::Tip => Plan {
                activations: Activations::all_at(Upgrade::Nu6_3, 1),
                ..Plan::squeezed(&MAINNET[17..], &[], 3_428_143, MAINNET_END, blocks)
            },
            Profile::Ugly => Plan {
                activations: Activations::staggered(Upgrade::Nu6_3, (blocks / 11).max(1)),
                eras: vec![(0, MAINNET[18])],
            },
        }
    }

    fn squeezed(
        eras: &[Era],
        upgrades: &[(Upgrade, u32)],
        first: u32,
        end: u32,
        blocks: u32,
    ) -> Plan {
        let fit = |height: u32| {
            let share = u64::from(height.saturating_sub(first)) * u64::from(blocks);
            // Below `blocks`, since no height lies at the end or above.
            (share / u64::from(end - first)) as u32
        };
        // Block 0 is regtest's own; nothing activates there.
        let upgrades: Vec<_> = upgrades
            .iter()
            .map(|&(upgrade, height)| (upgrade, fit(height).max(1)))
            .collect();
        Plan {
            activations: Activations::new(&upgrades),
            eras: eras.iter().map(|era| (fit(era.from), *era)).collect(),
        }
    }

    /// What the block at `height` is to be like.
    pub fn era(&self, height: Height) -> &Era {
        let later = self
            .eras
            .partition_point(|(first, _)| *first <= height.get());
        &self.eras[later.saturating_sub(1)].1
    }

    /// The eras with their first heights.
    pub fn eras(&self) -> impl Iterator<Item = (u32, &Era)> {
        self.eras.iter().map(|(first, era)| (*first, era))
    }
}
