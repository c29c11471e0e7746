//! Transparent addresses and the scripts that pay them.
//!
//! Spec: protocol §5.6.1 "Transparent Encodings".

/// The prefixes of a network's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefixes {
    key: [u8; 2],
    script: [u8; 2],
}

impl Prefixes {
    /// Of the main network.
    pub const MAIN: Prefixes = Prefixes {
        key: [0x1c, 0xb8],
        script: [0x1c, 0xbd],
    };
    /// Of the test network, and of private ones.
    pub const TEST: Prefixes = Prefixes {
        key: [0x1d, 0x25],
        script: [0x1c, 0xba],
    };

    /// The address of a public key's hash.
    pub fn of_key(self, hash: &[u8]) -> String {
        encode(self.key, hash)
    }

    /// The address of a script's hash.
    pub fn of_script_hash(self, hash: &[u8]) -> String {
        encode(self.script, hash)
    }

    /// The address that `script` pays, if it pays one.
    pub fn of_script(self, script: &[u8]) -> Option<String> {
        match script {
            [0x76, 0xa9, 20, hash @ .., 0x88, 0xac] if hash.len() == 20 => Some(self.of_key(hash)),
            [0xa9, 20, hash @ .., 0x87] if hash.len() == 20 => Some(self.of_script_hash(hash)),
            _ => None,
        }
    }
}

fn encode(prefix: [u8; 2], hash: &[u8]) -> String {
    let mut payload = prefix.to_vec();
    payload.extend_from_slice(hash);
    bs58::encode(payload).with_check().into_string()
}
