//! Transparent addresses: their text, and the scripts that pay to them.
//!
//! Spec: protocol §5.6.1.1 "Transparent Addresses".

use lightship_chain::Network;

/// A transparent address without its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// The hash of a public key, `[20]`.
    PublicKeyHash([u8; 20]),
    /// The hash of a script, `[20]`.
    ScriptHash([u8; 20]),
}

impl Address {
    /// The address that `script` pays to, if it is one of the two standard forms.
    pub fn of_script(script: &[u8]) -> Option<Address> {
        match script {
            [0x76, 0xa9, 0x14, hash @ .., 0x88, 0xac] => {
                hash.try_into().ok().map(Address::PublicKeyHash)
            }
            [0xa9, 0x14, hash @ .., 0x87] => hash.try_into().ok().map(Address::ScriptHash),
            _ => None,
        }
    }

    /// As people write it: `t1..` and `t3..` on the main network, `tm..` and `t2..` on the others.
    pub fn encode(&self, network: Network) -> String {
        let (key_prefix, script_prefix) = prefixes(network);
        let (prefix, hash) = match self {
            Address::PublicKeyHash(hash) => (key_prefix, hash),
            Address::ScriptHash(hash) => (script_prefix, hash),
        };
        bs58::encode([&prefix, hash.as_slice()].concat())
            .with_check()
            .into_string()
    }

    /// Reads what [`Address::encode`] writes for that network; `None` for anything else, shielded and TEX addresses included.
    pub fn decode(text: &str, network: Network) -> Option<Address> {
        // No address of 22 bytes and a checksum is longer than 36 digits.
        if text.len() > 36 {
            return None;
        }
        let bytes = bs58::decode(text).with_check(None).into_vec().ok()?;
        let (prefix, hash) = bytes.split_first_chunk::<2>()?;
        let hash = hash.try_into().ok()?;
        let (key_prefix, script_prefix) = prefixes(network);
        if *prefix == key_prefix {
            Some(Address::PublicKeyHash(hash))
        } else if *prefix == script_prefix {
            Some(Address::ScriptHash(hash))
        } else {
            None
        }
    }
}

const fn prefixes(network: Network) -> ([u8; 2], [u8; 2]) {
    match network {
        Network::Main => ([0x1c, 0xb8], [0x1c, 0xbd]),
        Network::Test | Network::Regtest => ([0x1d, 0x25], [0x1c, 0xba]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_people_know_them() {
        let main = "t3Vz22vK5z2LcKEdg16Yv4FFneEL1zg9ojd";
        let address = Address::decode(main, Network::Main).unwrap();
        assert!(matches!(address, Address::ScriptHash(hash)
            if const_hex::encode(hash) == "7d46a730d31f97b1930d3368a967c309bd4d136a"));
        assert_eq!(address.encode(Network::Main), main);
        assert_eq!(Address::decode(main, Network::Regtest), None);

        let test = "tmVqEASZxBNKFTbmASZikGa5fPLkd68iJyx";
        let address = Address::decode(test, Network::Regtest).unwrap();
        assert!(matches!(address, Address::PublicKeyHash(_)));
        assert_eq!(address.encode(Network::Test), test);
    }

    #[test]
    fn other_text_is_no_address() {
        let tex = "tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgte";
        let wrong_checksum = "tmVqEASZxBNKFTbmASZikGa5fPLkd68iJyy";
        for text in [
            "",
            "x",
            tex,
            wrong_checksum,
            "zs1mrhc9y7jdh5r9ece8u5khgvj9kg0zgk",
        ] {
            assert_eq!(Address::decode(text, Network::Regtest), None, "{text}");
        }
    }
}
