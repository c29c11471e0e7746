//! The networks and their upgrades.

use std::{fmt, str::FromStr};

use crate::{BlockHash, Height};

/// Which chain: decided by its genesis block, for nodes disagree on names (Zebra calls regtest `test`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// The real one.
    Main,
    /// The public test network.
    Test,
    /// A private chain with its own activation heights.
    Regtest,
}

impl Network {
    /// All of them.
    pub const ALL: [Network; 3] = [Network::Main, Network::Test, Network::Regtest];

    /// `main`, `test` or `regtest`.
    pub const fn name(self) -> &'static str {
        match self {
            Network::Main => "main",
            Network::Test => "test",
            Network::Regtest => "regtest",
        }
    }

    /// The hash of the first block, in display order. Zebra's and zcashd's regtest genesis are the same block.
    pub const fn genesis_display(self) -> &'static str {
        match self {
            Network::Main => "00040fe8ec8471911baa1db1266ea15dd06b4a8a5c453883c000b031973dce08",
            Network::Test => "05a60a92d99d85997cce3b87616c089f6124d7342af37106edc76126334a2c38",
            Network::Regtest => "029f11d80ef9765602235e1bc9727e3eb6ba20839319f761fee920d63401e327",
        }
    }

    /// The network whose first block this is. `None` for a chain of one's own making.
    pub fn from_genesis(genesis: BlockHash) -> Option<Network> {
        Network::ALL
            .into_iter()
            .find(|network| network.genesis_display() == genesis.to_string())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(name: &str) -> Result<Network, String> {
        Network::ALL
            .into_iter()
            .find(|network| network.name() == name)
            .ok_or_else(|| format!("unknown network '{name}': expected main, test or regtest"))
    }
}

/// A network upgrade, by the consensus branch it opens.
///
/// Spec: ZIP 200 "Network Upgrade Mechanism", and the deployment ZIP of each upgrade for its branch id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are the upgrades' own names")]
pub enum Upgrade {
    Overwinter,
    Sapling,
    Blossom,
    Heartwood,
    Canopy,
    Nu5,
    Nu6,
    Nu6_1,
    Nu6_2,
    Nu6_3,
    Nu7,
}

impl Upgrade {
    /// All of them, in order of activation.
    pub const ALL: [Upgrade; 11] = [
        Upgrade::Overwinter,
        Upgrade::Sapling,
        Upgrade::Blossom,
        Upgrade::Heartwood,
        Upgrade::Canopy,
        Upgrade::Nu5,
        Upgrade::Nu6,
        Upgrade::Nu6_1,
        Upgrade::Nu6_2,
        Upgrade::Nu6_3,
        Upgrade::Nu7,
    ];

    /// The consensus branch id, as nodes print it in big-endian hexadecimal.
    pub const fn branch_id(self) -> u32 {
        match self {
            Upgrade::Overwinter => 0x5ba8_1b19,
            Upgrade::Sapling => 0x76b8_09bb,
            Upgrade::Blossom => 0x2bb4_0e60,
            Upgrade::Heartwood => 0xf5b9_230b,
            Upgrade::Canopy => 0xe9ff_75a6,
            Upgrade::Nu5 => 0xc2d6_d0b4,
            Upgrade::Nu6 => 0xc8e7_1055,
            Upgrade::Nu6_1 => 0x4dec_4df0,
            Upgrade::Nu6_2 => 0x5437_f330,
            Upgrade::Nu6_3 => 0x37a5_165b,
            Upgrade::Nu7 => 0x7719_0ad9,
        }
    }

    /// The name as nodes' JSON-RPC spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Upgrade::Overwinter => "Overwinter",
            Upgrade::Sapling => "Sapling",
            Upgrade::Blossom => "Blossom",
            Upgrade::Heartwood => "Heartwood",
            Upgrade::Canopy => "Canopy",
            Upgrade::Nu5 => "NU5",
            Upgrade::Nu6 => "NU6",
            Upgrade::Nu6_1 => "NU6.1",
            Upgrade::Nu6_2 => "NU6.2",
            Upgrade::Nu6_3 => "NU6.3",
            Upgrade::Nu7 => "NU7",
        }
    }

    /// The upgrade that opened `branch_id`, if it is one of those known here.
    pub fn from_branch_id(branch_id: u32) -> Option<Upgrade> {
        Upgrade::ALL
            .into_iter()
            .find(|upgrade| upgrade.branch_id() == branch_id)
    }
}

/// An upgrade as a node announces it; the node may know upgrades that this program does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeActivation {
    /// Consensus branch id.
    pub branch_id: u32,
    /// The node's spelling of the upgrade's name.
    pub name: String,
    /// The first block under the new rules.
    pub height: Height,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_known_by_its_genesis() {
        for network in Network::ALL {
            let genesis = network.genesis_display().parse().unwrap();
            assert_eq!(Network::from_genesis(genesis), Some(network));
            assert_eq!(network.name().parse(), Ok(network));
        }
        assert_eq!(Network::from_genesis(BlockHash::ZERO), None);
    }
}
