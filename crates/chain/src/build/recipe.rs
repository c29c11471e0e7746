//! What a transaction shall hold, before it is written.

use super::script;
use crate::{Height, TxId};

/// The transaction formats that consensus has known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Transparent only.
    V1,
    /// With JoinSplits (296-byte PHGR13 proofs).
    V2,
    /// [Overwinter onwards] V2 with an expiry height.
    V3,
    /// [Sapling onwards] With Sapling; JoinSplits have 192-byte Groth16 proofs.
    V4,
    /// [NU5 onwards] With Orchard; no JoinSplits. Spec: ZIP 225.
    V5,
    /// [NU6.3 onwards] With Ironwood. Spec: ZIP 229.
    V6,
}

/// A transparent input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The transaction whose output is spent; all zeros in a coinbase.
    pub transaction: TxId,
    /// Which of its outputs; 2^32 - 1 in a coinbase.
    pub index: u32,
    /// The unlocking script. `None`: random bytes in the shape of a signature and a key.
    pub script: Option<Vec<u8>>,
    /// Usually 2^32 - 1.
    pub sequence: u32,
}

impl Input {
    /// Spends output `index` of `transaction`.
    pub fn spend(transaction: TxId, index: u32) -> Input {
        Input {
            transaction,
            index,
            script: None,
            sequence: u32::MAX,
        }
    }

    /// The one input of a coinbase: the block's height, then `tag` (at most 90 bytes are valid).
    pub fn coinbase(height: Height, tag: &[u8]) -> Input {
        let mut script = script::coinbase_height(height);
        script.extend_from_slice(tag);
        Input {
            transaction: TxId::from_internal([0; 32]),
            index: u32::MAX,
            script: Some(script),
            sequence: u32::MAX,
        }
    }
}

/// A transparent output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Value in zatoshi.
    pub value_zat: u64,
    /// The locking script.
    pub script: Vec<u8>,
}

impl Output {
    /// Pays `value_zat` to the hash of a public key.
    pub fn to_public_key_hash(value_zat: u64, hash: &[u8; 20]) -> Output {
        Output {
            value_zat,
            script: script::pay_to_public_key_hash(hash),
        }
    }

    /// Pays `value_zat` to the hash of a script.
    pub fn to_script_hash(value_zat: u64, hash: &[u8; 20]) -> Output {
        Output {
            value_zat,
            script: script::pay_to_script_hash(hash),
        }
    }

    /// Carries `data` of at most 75 bytes and no value.
    ///
    /// # Panics
    ///
    /// If `data` is longer.
    pub fn of_data(data: &[u8]) -> Output {
        Output {
            value_zat: 0,
            script: script::data_carrier(data),
        }
    }
}

/// What moves between the transparent and the Sprout pool in one JoinSplit, in zatoshi. One of the two is 0 in a valid one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct JoinSplit {
    /// Out of the transparent pool (`vpub_old`).
    pub shielded_zat: u64,
    /// Into the transparent pool (`vpub_new`).
    pub unshielded_zat: u64,
}

/// The parts of a shielded output that its receiver reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// `cmu` or `cmx`, `[32]` little-endian, canonical.
    pub commitment: [u8; 32],
    /// `[32]`; for Orchard and Ironwood a point of Pallas.
    pub ephemeral_key: [u8; 32],
    /// The note, encrypted to its receiver.
    pub enc_ciphertext: [u8; 580],
    /// The note, encrypted to its sender.
    pub out_ciphertext: [u8; 80],
}

/// One Orchard or Ironwood action. `None` means random, but well-formed, bytes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Action {
    /// The nullifier of the note spent, `[32]` little-endian, canonical.
    pub nullifier: Option<[u8; 32]>,
    /// The note made.
    pub note: Option<Box<Note>>,
}

/// A transaction, described. Everything that is not described is random bytes that decode: proofs, signatures, keys and ciphertexts have the
/// right length and no meaning.
///
/// Struct update syntax over [`Recipe::new`] names what is wanted; the `with_` methods cover the common cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The format; decides what else may be asked for.
    pub version: Version,
    /// [NU5 onwards] Consensus branch id; written from version 5 on.
    pub branch_id: u32,
    /// The first block or time that may include it; 0 for any.
    pub lock_time: u32,
    /// [Overwinter onwards] The last height that may include it; 0 for any.
    pub expiry_height: u32,
    /// Transparent inputs.
    pub inputs: Vec<Input>,
    /// Transparent outputs.
    pub outputs: Vec<Output>,
    /// [versions 2 to 4] JoinSplits.
    pub joinsplits: Vec<JoinSplit>,
    /// [version 4 onwards] Sapling spends, by nullifier, `[32]`; `None` for a random one.
    pub sapling_spends: Vec<Option<[u8; 32]>>,
    /// [version 4 onwards] Sapling outputs; `None` for a random one.
    pub sapling_outputs: Vec<Option<Box<Note>>>,
    /// Zatoshi that leave the Sapling pool for the transparent one; negative the other way.
    pub sapling_balance_zat: i64,
    /// [version 5 onwards] Orchard actions.
    pub orchard_actions: Vec<Action>,
    /// Zatoshi that leave the Orchard pool; negative the other way.
    pub orchard_balance_zat: i64,
    /// [version 6] Ironwood actions.
    pub ironwood_actions: Vec<Action>,
    /// Zatoshi that leave the Ironwood pool; negative the other way.
    pub ironwood_balance_zat: i64,
}

impl Recipe {
    /// An empty transaction of `version`.
    pub fn new(version: Version) -> Recipe {
        Recipe {
            version,
            branch_id: 0,
            lock_time: 0,
            expiry_height: 0,
            inputs: Vec::new(),
            outputs: Vec::new(),
            joinsplits: Vec::new(),
            sapling_spends: Vec::new(),
            sapling_outputs: Vec::new(),
            sapling_balance_zat: 0,
            orchard_actions: Vec::new(),
            orchard_balance_zat: 0,
            ironwood_actions: Vec::new(),
            ironwood_balance_zat: 0,
        }
    }

    /// Adds a transparent input.
    #[must_use]
    pub fn with_input(mut self, input: Input) -> Recipe {
        self.inputs.push(input);
        self
    }

    /// Adds a transparent output.
    #[must_use]
    pub fn with_output(mut self, output: Output) -> Recipe {
        self.outputs.push(output);
        self
    }

    /// Adds a JoinSplit.
    #[must_use]
    pub fn with_joinsplit(mut self, joinsplit: JoinSplit) -> Recipe {
        self.joinsplits.push(joinsplit);
        self
    }

    /// Adds random Sapling spends and outputs.
    #[must_use]
    pub fn with_sapling(mut self, spends: usize, outputs: usize) -> Recipe {
        self.sapling_spends
            .resize(self.sapling_spends.len() + spends, None);
        self.sapling_outputs
            .resize(self.sapling_outputs.len() + outputs, None);
        self
    }

    /// Adds random Orchard actions.
    #[must_use]
    pub fn with_orchard(mut self, actions: usize) -> Recipe {
        self.orchard_actions
            .resize(self.orchard_actions.len() + actions, Action::default());
        self
    }

    /// Adds random Ironwood actions.
    #[must_use]
    pub fn with_ironwood(mut self, actions: usize) -> Recipe {
        self.ironwood_actions
            .resize(self.ironwood_actions.len() + actions, Action::default());
        self
    }

    /// Whether it is a coinbase: one input, of no output.
    pub(super) fn is_coinbase(&self) -> bool {
        matches!(&self.inputs[..], [input] if input.index == u32::MAX
            && *input.transaction.as_internal() == [0; 32])
    }
}
