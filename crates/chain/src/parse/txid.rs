//! Transaction identifiers.
//!
//! In: the view of one transaction. Out: its id, `[32]`, internal byte order. Versions 1 to 4 hash the whole encoding; from version 5
//! on the id commits to effects only, by a tree of personalized BLAKE2b-256 hashes. Version 6 has one branch more (Ironwood), names
//! of its own for the digests that changed, and leaves the anchors to the digest of authorizing data.
//!
//! Spec: protocol §7.1.1 "Transaction Identifiers"; ZIP 244 "TxId Digest"; ZIP 229.

use std::sync::LazyLock;

use blake2b_simd::{Params, State};

use super::{ActionBundle, SaplingOutputs, SaplingSpends, Transaction, Version, header::field_ref};
use crate::{TxId, hash::sha256d};

pub(super) fn id(transaction: &Transaction<'_>) -> TxId {
    TxId::from_internal(match transaction.version() {
        Version::V1 | Version::V2 | Version::V3 | Version::V4 => sha256d(transaction.bytes()),
        Version::V5 | Version::V6 => effects_digest(transaction),
    })
}

/// The names of a bundle's digests.
struct ActionNames {
    bundle: &'static [u8; 16],
    compact: &'static [u8; 16],
    memos: &'static [u8; 16],
    noncompact: &'static [u8; 16],
    /// The bundle's digest where there is none.
    empty: &'static LazyLock<[u8; 32]>,
}

static ORCHARD_V5: ActionNames = ActionNames {
    bundle: b"ZTxIdOrchardHash",
    compact: b"ZTxIdOrcActCHash",
    memos: b"ZTxIdOrcActMHash",
    noncompact: b"ZTxIdOrcActNHash",
    empty: &NO_ORCHARD_V5,
};

static ORCHARD_V6: ActionNames = ActionNames {
    bundle: b"ZTxIdOrchardH_v6",
    empty: &NO_ORCHARD_V6,
    ..ORCHARD_V5
};

static IRONWOOD_V6: ActionNames = ActionNames {
    bundle: b"ZTxIdIronwd_H_v6",
    compact: b"ZTxIdIrnActCH_v6",
    memos: b"ZTxIdIrnActMH_v6",
    noncompact: b"ZTxIdIrnActNH_v6",
    empty: &NO_IRONWOOD,
};

/// The digests of parts that are not there. Most transactions lack most parts.
static NO_SAPLING: LazyLock<[u8; 32]> = LazyLock::new(|| finish(&state(b"ZTxIdSaplingHash")));
static NO_ORCHARD_V5: LazyLock<[u8; 32]> = LazyLock::new(|| finish(&state(ORCHARD_V5.bundle)));
static NO_ORCHARD_V6: LazyLock<[u8; 32]> = LazyLock::new(|| finish(&state(ORCHARD_V6.bundle)));
static NO_IRONWOOD: LazyLock<[u8; 32]> = LazyLock::new(|| finish(&state(IRONWOOD_V6.bundle)));

fn state(personal: &[u8; 16]) -> State {
    Params::new().hash_length(32).personal(personal).to_state()
}

fn finish(state: &State) -> [u8; 32] {
    *state
        .finalize()
        .as_bytes()
        .first_chunk()
        .expect("every state here was made for 32 bytes")
}

fn effects_digest(transaction: &Transaction<'_>) -> [u8; 32] {
    // Header word, version group id, branch id, lock time, expiry height: the digest's order is the encoding's.
    let header: &[u8; 20] = transaction
        .bytes()
        .first_chunk()
        .expect("versions 5 and 6 begin with these 20 bytes, and were parsed");
    let mut personal = *b"ZcashTxHash_\0\0\0\0";
    let (_, branch) = personal.split_at_mut(12);
    branch.copy_from_slice(field_ref::<8, 4, 20>(header));

    let v6 = transaction.version() == Version::V6;
    let mut root = state(&personal);
    root.update(&finish(state(b"ZTxIdHeadersHash").update(header)));
    root.update(&transparent(transaction));
    root.update(&sapling(transaction, v6));
    if v6 {
        root.update(&actions(transaction.orchard(), &ORCHARD_V6, false));
        root.update(&actions(transaction.ironwood(), &IRONWOOD_V6, false));
    } else {
        root.update(&actions(transaction.orchard(), &ORCHARD_V5, true));
    }
    finish(&root)
}

/// Spec: ZIP 244 "T.2: transparent_digest".
fn transparent(transaction: &Transaction<'_>) -> [u8; 32] {
    let mut digest = state(b"ZTxIdTranspaHash");
    if transaction.inputs().len() > 0 || transaction.outputs().len() > 0 {
        let mut prevouts = state(b"ZTxIdPrevoutHash");
        let mut sequences = state(b"ZTxIdSequencHash");
        for input in transaction.inputs() {
            prevouts.update(input.prevout_bytes());
            sequences.update(input.sequence_bytes());
        }
        let mut outputs = state(b"ZTxIdOutputsHash");
        outputs.update(transaction.outputs().bytes());
        digest.update(&finish(&prevouts));
        digest.update(&finish(&sequences));
        digest.update(&finish(&outputs));
    }
    finish(&digest)
}

/// Spec: ZIP 244 "T.3: sapling_digest"; ZIP 229 for version 6.
fn sapling(transaction: &Transaction<'_>, v6: bool) -> [u8; 32] {
    let sapling = transaction.sapling();
    let Some(value_balance) = sapling.value_balance else {
        return *NO_SAPLING;
    };
    let mut digest = state(b"ZTxIdSaplingHash");
    let mut spends = state(b"ZTxIdSSpendsHash");
    if let (SaplingSpends::V5(all), Some(anchor)) = (sapling.spends, sapling.anchor) {
        let mut nullifiers = state(b"ZTxIdSSpendCHash");
        let mut rest = state(if v6 {
            b"ZTxIdSSpendNH_v6"
        } else {
            b"ZTxIdSSpendNHash"
        });
        for spend in all {
            nullifiers.update(field_ref::<32, 32, 96>(spend));
            rest.update(field_ref::<0, 32, 96>(spend));
            if !v6 {
                rest.update(anchor);
            }
            rest.update(field_ref::<64, 32, 96>(spend));
        }
        spends.update(&finish(&nullifiers));
        spends.update(&finish(&rest));
    }
    let mut outputs = state(b"ZTxIdSOutputHash");
    if let SaplingOutputs::V5([_, ..]) = sapling.outputs {
        let mut compact = state(b"ZTxIdSOutC__Hash");
        let mut memos = state(b"ZTxIdSOutM__Hash");
        let mut noncompact = state(b"ZTxIdSOutN__Hash");
        for output in sapling.outputs {
            let bytes = output.bytes();
            compact.update(output.compact());
            memos.update(field_ref::<148, 512, 756>(bytes));
            noncompact.update(output.cv());
            // The ciphertext's last 16 bytes and the outgoing ciphertext.
            noncompact.update(field_ref::<660, 96, 756>(bytes));
        }
        outputs.update(&finish(&compact));
        outputs.update(&finish(&memos));
        outputs.update(&finish(&noncompact));
    }
    digest.update(&finish(&spends));
    digest.update(&finish(&outputs));
    digest.update(value_balance);
    finish(&digest)
}

/// Spec: ZIP 244 "T.4: orchard_digest"; ZIP 229 for version 6.
fn actions(bundle: &ActionBundle<'_>, names: &ActionNames, with_anchor: bool) -> [u8; 32] {
    let Some(effects) = bundle.effects() else {
        return **names.empty;
    };
    let mut digest = state(names.bundle);
    let mut compact = state(names.compact);
    let mut memos = state(names.memos);
    let mut noncompact = state(names.noncompact);
    for action in bundle.actions() {
        let bytes = action.bytes();
        compact.update(action.nullifier());
        compact.update(action.compact());
        memos.update(field_ref::<212, 512, 820>(bytes));
        noncompact.update(action.cv());
        noncompact.update(action.rk());
        // The ciphertext's last 16 bytes and the outgoing ciphertext.
        noncompact.update(field_ref::<724, 96, 820>(bytes));
    }
    digest.update(&finish(&compact));
    digest.update(&finish(&memos));
    digest.update(&finish(&noncompact));
    // Flags and value balance; the anchor follows them.
    let (flags_and_balance, _) = effects.split_at(9);
    digest.update(if with_anchor {
        effects
    } else {
        flags_and_balance
    });
    finish(&digest)
}
