//! Bytes as a transaction, and as a header.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lightship_chain::{
    PoolSet,
    compact::transaction,
    parse::{Header, Transaction},
};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((header, used)) = Header::parse(bytes) {
        assert_eq!(header.bytes().len(), used);
        let _ = header.hash();
    }
    let Ok((parsed, used)) = Transaction::parse(bytes) else {
        assert!(transaction(bytes, PoolSet::ALL).is_err());
        return;
    };
    let (exact, _) = bytes.split_at(used);
    assert_eq!(parsed.bytes(), exact);
    assert_eq!(parsed.inputs().count(), parsed.inputs().len());
    assert_eq!(parsed.outputs().count(), parsed.outputs().len());
    for pools in PoolSet::subsets() {
        let (id, message) = transaction(exact, pools).expect("what parses compacts");
        assert_eq!(id, parsed.id());
        assert!(
            message.is_none_or(|message| message.starts_with(&[0x12, 0x20]) && message.len() > 34)
        );
    }
    assert_eq!(
        transaction(bytes, PoolSet::ALL).is_ok(),
        used == bytes.len()
    );
    if let Some((_, short)) = exact.split_last() {
        assert!(transaction(short, PoolSet::ALL).is_err());
    }
});
