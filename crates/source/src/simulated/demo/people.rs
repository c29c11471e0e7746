//! Who lives on the demo chain.

use lightship_chain::{Network, build::Output};
use sha2::{Digest, Sha256};

use super::AddressHint;
use crate::simulated::address::Address;

/// Someone with a transparent address.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) address: Address,
    what: &'static str,
    /// How often they pay, in parts of a hundred of all payments.
    pub(super) pays: u32,
    /// How often they are paid.
    pub(super) is_paid: u32,
}

impl Person {
    /// Pays them.
    pub(super) fn output(&self, value_zat: u64) -> Output {
        match &self.address {
            Address::PublicKeyHash(hash) => Output::to_public_key_hash(value_zat, hash),
            Address::ScriptHash(hash) => Output::to_script_hash(value_zat, hash),
        }
    }

    pub(super) fn hint(&self) -> AddressHint {
        AddressHint {
            address: self.address.encode(Network::Regtest),
            what: self.what,
        }
    }
}

/// The miner first, the busy ones before the quiet ones.
pub(super) fn everybody() -> Vec<Person> {
    let people: [(&str, bool, u32, u32); 9] = [
        (
            "a miner: coinbases, spent a hundred blocks later",
            false,
            45,
            0,
        ),
        (
            "an exchange: thousands of payments in and out",
            false,
            30,
            40,
        ),
        ("a faucet, behind a script", true, 15, 30),
        ("a shop, behind a script", true, 5, 20),
        ("a saver: paid now and then, pays seldom", false, 2, 4),
        (
            "a donation address: paid now and then, never pays",
            false,
            0,
            3,
        ),
        ("a quiet address: a handful of payments", false, 1, 1),
        ("a quiet address, behind a script", true, 1, 1),
        ("a quiet address: a payment or two", false, 1, 1),
    ];
    people
        .into_iter()
        .zip(0u8..)
        .map(|((what, script, pays, is_paid), number)| {
            let digest = Sha256::new()
                .chain_update(b"lightship demo")
                .chain_update([number])
                .finalize();
            let mut hash = [0; 20];
            hash.copy_from_slice(&digest[..20]);
            Person {
                address: if script {
                    Address::ScriptHash(hash)
                } else {
                    Address::PublicKeyHash(hash)
                },
                what,
                pays,
                is_paid,
            }
        })
        .collect()
}
