//! The laboratory's wallet: some notes of a forged chain are really encrypted to it.
//!
//! In: recipes of transactions. Out: the same with some of their random notes replaced by ones that the wallet's viewing keys decrypt, and with some
//! of its Orchard and Ironwood notes spent, by nullifier. Needs the feature `curves`, for encryption takes two curve libraries.
//!
//! The wallet is account 0 of [`SEED`] by ZIP 32, coin type 1 (regtest's). Its Sapling notes begin with Canopy, when plaintexts became what they
//! are (ZIP 212), and are never spent: their nullifiers depend on places that are not known while transactions are written. Outgoing
//! ciphertexts are random: nobody sent these notes.

use lightship_chain::build::Recipe;

use super::draw::Draw;

/// What the laboratory's wallet is derived from.
pub const SEED: &[u8; 32] = b"lightship laboratory wallet seed";

/// What the wallet finds on a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Holdings {
    /// Notes received in Sapling, Orchard and Ironwood.
    pub received: [u64; 3],
    /// Notes spent, likewise.
    pub spent: [u64; 3],
    /// What is left, likewise, in zatoshi.
    pub balance_zat: [u64; 3],
}

#[cfg(feature = "curves")]
pub(super) use notes::Wallet;

/// Without the feature, a wallet that gets nothing.
#[cfg(not(feature = "curves"))]
#[derive(Debug)]
pub(super) struct Wallet;

#[cfg(not(feature = "curves"))]
impl Wallet {
    pub(super) fn new(_thousandths: u64) -> Wallet {
        Wallet
    }

    pub(super) fn take(&mut self, _recipe: &mut Recipe, _zip_212: bool, _draw: &mut Draw) {}

    pub(super) fn holdings(&self) -> Holdings {
        Holdings::default()
    }
}

#[cfg(feature = "curves")]
mod notes {
    use std::collections::VecDeque;

    use lightship_chain::build::{Action, Note};
    use orchard::{
        keys::{FullViewingKey, Scope, SpendingKey},
        note::{ExtractedNoteCommitment, NoteVersion, RandomSeed, Rho},
        note_encryption::{OrchardDomain, OrchardNoteEncryption},
    };
    use sapling_crypto::{
        PaymentAddress, Rseed,
        note_encryption::{SaplingDomain, sapling_note_encryption},
        value::NoteValue,
        zip32::ExtendedSpendingKey,
    };
    use zcash_note_encryption::Domain;
    use zip32::{AccountId, ChildIndex};

    use super::{Draw, Holdings, Recipe, SEED};

    /// Regtest's and testnet's coin type. Spec: SLIP 44.
    const COIN_TYPE: u32 = 1;

    /// A note of the wallet, and what spends it.
    #[derive(Debug)]
    struct Owned {
        nullifier: [u8; 32],
        value_zat: u64,
    }

    #[derive(Debug)]
    pub(in super::super) struct Wallet {
        sapling: PaymentAddress,
        orchard_key: FullViewingKey,
        orchard: orchard::Address,
        thousandths: u64,
        /// Of Orchard and Ironwood, the oldest first.
        owned: [VecDeque<Owned>; 2],
        holdings: Holdings,
    }

    impl Wallet {
        /// A wallet that gets so many of a thousand notes.
        pub(in super::super) fn new(thousandths: u64) -> Wallet {
            let path = [32, COIN_TYPE, 0].map(ChildIndex::hardened);
            let sapling = ExtendedSpendingKey::master(SEED)
                .and_then(|master| ExtendedSpendingKey::from_path(&master, &path))
                .expect("the seed is long enough and its key valid");
            let (_, sapling) = sapling
                .to_diversifiable_full_viewing_key()
                .default_address();
            let orchard_key = SpendingKey::from_zip32_seed(SEED, COIN_TYPE, AccountId::ZERO)
                .expect("the seed is long enough and its key valid");
            let orchard_key = FullViewingKey::from(&orchard_key);
            Wallet {
                sapling,
                orchard: orchard_key.address_at(0u32, Scope::External),
                orchard_key,
                thousandths,
                owned: Default::default(),
                holdings: Holdings::default(),
            }
        }

        pub(in super::super) fn holdings(&self) -> Holdings {
            self.holdings
        }

        /// Lets the wallet have some of the recipe's notes, and spend some of its own.
        pub(in super::super) fn take(
            &mut self,
            recipe: &mut Recipe,
            zip_212: bool,
            draw: &mut Draw,
        ) {
            if zip_212 {
                for output in &mut recipe.sapling_outputs {
                    if draw.chance(self.thousandths) {
                        *output = Some(Box::new(self.sapling_note(draw)));
                    }
                }
            }
            for action in &mut recipe.orchard_actions {
                self.act(action, NoteVersion::V2, draw);
            }
            for action in &mut recipe.ironwood_actions {
                self.act(action, NoteVersion::V3, draw);
            }
        }

        fn sapling_note(&mut self, draw: &mut Draw) -> Note {
            let value_zat = value(draw);
            let note = sapling_crypto::Note::from_parts(
                self.sapling,
                NoteValue::from_raw(value_zat),
                Rseed::AfterZip212(draw.bytes()),
            );
            let commitment = note.cmu().to_bytes();
            let encryption = sapling_note_encryption(None, note, memo(), draw.rng());
            self.count(0, value_zat);
            Note {
                commitment,
                ephemeral_key: SaplingDomain::epk_bytes(encryption.epk()).0,
                enc_ciphertext: sized(encryption.encrypt_note_plaintext().as_ref()),
                out_ciphertext: draw.bytes(),
            }
        }

        /// Spends a note of the wallet in an action one time in three that it gets one.
        fn act(&mut self, action: &mut Action, version: NoteVersion, draw: &mut Draw) {
            if !draw.chance(self.thousandths) {
                return;
            }
            let pool = if version == NoteVersion::V2 { 0 } else { 1 };
            let spent = draw.chance(333).then(|| self.owned[pool].pop_front());
            let nullifier = match spent.flatten() {
                Some(owned) => {
                    self.holdings.spent[pool + 1] += 1;
                    self.holdings.balance_zat[pool + 1] -= owned.value_zat;
                    owned.nullifier
                }
                None => draw.field_element(),
            };
            action.nullifier = Some(nullifier);
            let value_zat = value(draw);
            let (note, owned) = self.action_note(nullifier, value_zat, version, draw);
            action.note = Some(Box::new(note));
            self.owned[pool].push_back(owned);
            self.count(pool + 1, value_zat);
        }

        fn action_note(
            &self,
            nullifier: [u8; 32],
            value_zat: u64,
            version: NoteVersion,
            draw: &mut Draw,
        ) -> (Note, Owned) {
            let rho = Rho::from_bytes(&nullifier).expect("a canonical field element");
            // Hardly any random seed makes no note.
            let note = loop {
                let seed: Option<RandomSeed> = RandomSeed::from_bytes(draw.bytes(), &rho).into();
                let note = seed.and_then(|seed| {
                    let value = orchard::value::NoteValue::from_raw(value_zat);
                    orchard::Note::from_parts(self.orchard, value, rho, seed, version).into()
                });
                if let Some(note) = note {
                    break note;
                }
            };
            // The note's version decides what is encrypted; both pools' domains do the rest alike.
            let encryption = OrchardNoteEncryption::new(None, note, memo());
            let encrypted = Note {
                commitment: ExtractedNoteCommitment::from(note.commitment()).to_bytes(),
                ephemeral_key: OrchardDomain::epk_bytes(encryption.epk()).0,
                enc_ciphertext: sized(encryption.encrypt_note_plaintext().as_ref()),
                out_ciphertext: draw.bytes(),
            };
            let owned = Owned {
                nullifier: note.nullifier(&self.orchard_key).to_bytes(),
                value_zat,
            };
            (encrypted, owned)
        }

        fn count(&mut self, pool: usize, value_zat: u64) {
            self.holdings.received[pool] += 1;
            self.holdings.balance_zat[pool] += value_zat;
        }
    }

    /// From a thousandth of a coin to one.
    fn value(draw: &mut Draw) -> u64 {
        draw.between(100_000, 100_000_000)
    }

    /// "No memo". Spec: ZIP 302.
    fn memo() -> [u8; 512] {
        let mut memo = [0; 512];
        memo[0] = 0xf6;
        memo
    }

    fn sized(ciphertext: &[u8]) -> [u8; 580] {
        ciphertext
            .try_into()
            .expect("a note's ciphertext has 580 bytes in every pool")
    }
}
