//! Single transactions: real ones, arbitrary ones of every branch, and arbitrary ones damaged.

use std::{fs::File, io::Read, path::Path};

use flate2::read::GzDecoder;
use lightship_chain::{PoolSet, compact, parse::Transaction};
use lightship_harness::proto::CompactTx;
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use prost::Message;
use zcash_primitives::transaction::testing::arb_tx;
use zcash_protocol::{TxId, consensus::BranchId};

use super::reference::{compact_transaction, read_transaction};

/// Holds our reading of a transaction that `zcash_primitives` accepts against its own.
fn compare(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (theirs, used) = read_transaction(bytes).expect("an accepted transaction");
    let (ours, ours_used) = Transaction::parse(bytes)
        .map_err(|error| TestCaseError::fail(format!("we refuse what they accept: {error}")))?;
    prop_assert_eq!(ours_used, used);
    let ours_id = ours.id();
    let theirs_id: TxId = theirs.txid();
    prop_assert_eq!(&ours_id.as_internal()[..], &theirs_id.as_ref()[..]);
    let reference = compact_transaction(0, &theirs);
    let (id, message) = compact::transaction(&bytes[..used], PoolSet::ALL)
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(id, ours_id);
    match message {
        Some(message) => {
            prop_assert_eq!(
                CompactTx::decode(&message[..]).expect("a message"),
                reference.clone()
            );
            prop_assert_eq!(message, reference.encode_to_vec());
        }
        None => prop_assert_eq!(
            CompactTx {
                txid: theirs.txid().as_ref().to_vec(),
                ..CompactTx::default()
            },
            reference
        ),
    }
    Ok(())
}

#[test]
fn every_shared_transaction_reads_alike() {
    let Some(shared) = std::env::var_os("LIGHTSHIP_SHARED") else {
        eprintln!("SKIPPED: LIGHTSHIP_SHARED is not set");
        return;
    };
    let file = Path::new(&shared).join("data/txs/real_transactions.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(File::open(file).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let mut count = 0;
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        compare(&const_hex::decode(record["raw"].as_str().unwrap()).unwrap()).unwrap();
        count += 1;
    }
    assert!(count > 50, "{count} transactions");
}

/// Every branch, and with it every version that `zcash_primitives` can make: 1, 2, 3, 4, 5 and 6.
const BRANCHES: [BranchId; 11] = [
    BranchId::Sprout,
    BranchId::Overwinter,
    BranchId::Sapling,
    BranchId::Blossom,
    BranchId::Heartwood,
    BranchId::Canopy,
    BranchId::Nu5,
    BranchId::Nu6,
    BranchId::Nu6_1,
    BranchId::Nu6_2,
    BranchId::Nu6_3,
];

fn arbitrary(cases: u32, test: impl Fn(Vec<u8>, &[(usize, u8)]) -> Result<(), TestCaseError>) {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let transactions = prop::sample::select(&BRANCHES[..]).prop_flat_map(arb_tx);
    let damage = prop::collection::vec((any::<usize>(), any::<u8>()), 1..4);
    // The same cases at every run: a check that sometimes fails is a broken check.
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    runner
        .run(&(transactions, damage), |(transaction, damage)| {
            let mut bytes = Vec::new();
            transaction.write(&mut bytes).expect("writing to memory");
            test(bytes, &damage)
        })
        .unwrap();
}

#[test]
fn arbitrary_transactions_of_every_branch_read_alike() {
    arbitrary(120, |bytes, _| compare(&bytes));
}

#[test]
fn whatever_they_accept_of_damaged_bytes_we_read_alike() {
    let accepted = std::cell::Cell::new(0);
    arbitrary(120, |mut bytes, damage| {
        let length = bytes.len();
        for (at, with) in damage {
            bytes[at % length] = *with;
        }
        if read_transaction(&bytes).is_ok() {
            accepted.set(accepted.get() + 1);
            compare(&bytes)?;
        }
        // Whether they accept it or not: a cut is never read past.
        let cut = damage[0].0 % length;
        if let Ok((_, used)) = Transaction::parse(&bytes[..cut]) {
            prop_assert!(used <= cut);
        }
        Ok(())
    });
    assert!(accepted.get() > 20, "{} accepted", accepted.get());
}
