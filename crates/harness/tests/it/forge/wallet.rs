//! Another derivation of the laboratory's keys, and another reader of transactions, find what the forge says the wallet has.

use std::collections::HashMap;

use lightship_chain::{ShieldedPool, parse::Block};
use lightship_harness::forge::{
    Forge, Forged, Settings,
    profile::Profile,
    wallet::{Holdings, SEED},
};
use orchard::{
    keys::{PreparedIncomingViewingKey, Scope},
    note_encryption::{IronwoodDomain, OrchardDomain},
};
use sapling_crypto::note_encryption::{Zip212Enforcement, try_sapling_note_decryption};
use zcash_keys::keys::UnifiedSpendingKey;
use zcash_note_encryption::try_note_decryption;
use zcash_primitives::transaction::Transaction;
use zcash_protocol::consensus::{BranchId, TEST_NETWORK};
use zip32::AccountId;

#[test]
fn the_wallet_finds_its_notes_and_spends() {
    let settings = Settings {
        wallet_thousandths: 400,
        branch_every: 20,
        ..Settings::new(Profile::Tip, 60, 11)
    };
    let keys = UnifiedSpendingKey::from_seed(&TEST_NETWORK, SEED, AccountId::ZERO).unwrap();
    let keys = keys.to_unified_full_viewing_key();
    let sapling = keys.sapling().unwrap().to_ivk(Scope::External);
    let sapling = sapling_crypto::note_encryption::PreparedIncomingViewingKey::new(&sapling);
    let orchard_key = keys.orchard().unwrap();
    let orchard = PreparedIncomingViewingKey::new(&orchard_key.to_ivk(Scope::External));

    let mut forge = Forge::new(settings);
    let activations = forge.plan().activations.clone();
    let mut found = Holdings::default();
    let mut owned: HashMap<[u8; 32], u64> = HashMap::new();
    for forged in &mut forge {
        let Forged::Best(block) = forged else {
            continue;
        };
        let branch = activations.branch_id(block.id.height);
        let Ok(branch) = BranchId::try_from(branch) else {
            continue;
        };
        let mut receive = |pool: ShieldedPool, value_zat: u64| {
            found.received[pool as usize] += 1;
            found.balance_zat[pool as usize] += value_zat;
        };
        let mut spent = Vec::new();
        for transaction in Block::parse(&block.bytes).unwrap().transactions() {
            let transaction = Transaction::read(transaction.bytes(), branch).unwrap();
            for output in transaction
                .sapling_bundle()
                .map_or(&[][..], |bundle| bundle.shielded_outputs())
            {
                let note = try_sapling_note_decryption(&sapling, output, Zip212Enforcement::On);
                if let Some((note, _, _)) = note {
                    receive(ShieldedPool::Sapling, note.value().inner());
                }
            }
            for action in transaction
                .orchard_bundle()
                .into_iter()
                .flat_map(|bundle| bundle.actions())
            {
                let domain = OrchardDomain::for_action(action);
                if let Some(value) = owned.remove(&action.nullifier().to_bytes()) {
                    spent.push((ShieldedPool::Orchard, value));
                }
                if let Some((note, _, _)) = try_note_decryption(&domain, &orchard, action) {
                    receive(ShieldedPool::Orchard, note.value().inner());
                    let nullifier = note.nullifier(orchard_key).to_bytes();
                    owned.insert(nullifier, note.value().inner());
                }
            }
            for action in transaction
                .ironwood_bundle()
                .into_iter()
                .flat_map(|bundle| bundle.actions())
            {
                let domain = IronwoodDomain::for_action(action);
                if let Some(value) = owned.remove(&action.nullifier().to_bytes()) {
                    spent.push((ShieldedPool::Ironwood, value));
                }
                if let Some((note, _, _)) = try_note_decryption(&domain, &orchard, action) {
                    receive(ShieldedPool::Ironwood, note.value().inner());
                    let nullifier = note.nullifier(orchard_key).to_bytes();
                    owned.insert(nullifier, note.value().inner());
                }
            }
        }
        for (pool, value_zat) in spent {
            found.spent[pool as usize] += 1;
            found.balance_zat[pool as usize] -= value_zat;
        }
    }
    assert_eq!(found, forge.holdings());
    assert!(found.received.iter().all(|count| *count > 0), "{found:?}");
    assert!(found.spent[2] > 0, "{found:?}");
}
