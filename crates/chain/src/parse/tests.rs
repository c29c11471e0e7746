//! Layouts: transactions made of bytes that name the field they are in, and what the views find there.

use super::*;

/// Bytes of a transaction, and a mark for each field.
#[derive(Default)]
struct Layout(Vec<u8>);

impl Layout {
    fn raw(mut self, bytes: &[u8]) -> Layout {
        self.0.extend_from_slice(bytes);
        self
    }

    /// `size` bytes of `mark`.
    fn field(self, mark: u8, size: usize) -> Layout {
        self.raw(&vec![mark; size])
    }

    /// One input that spends output 7 of a transaction of marks `0x11`, one output of 5 zatoshis.
    fn transparent(self) -> Layout {
        self.raw(&[1])
            .field(0x11, 32)
            .raw(&7u32.to_le_bytes())
            .raw(&[3, 0x12, 0x12, 0x12])
            .field(0xff, 4)
            .raw(&[1])
            .raw(&5u64.to_le_bytes())
            .raw(&[2, 0x13, 0x13])
    }

    /// cv, cmu, ephemeral key, ciphertext, outgoing ciphertext.
    fn sapling_output(self) -> Layout {
        self.field(0x40, 32)
            .field(0x41, 32)
            .field(0x42, 32)
            .field(0x43, 580)
            .field(0x44, 80)
    }

    /// A bundle of `count` actions, marks from `base` on.
    fn actions(mut self, count: u8, base: u8) -> Layout {
        self = self.raw(&[count]);
        for _ in 0..count {
            self = self
                .field(base, 32)
                .field(base + 1, 32)
                .field(base + 2, 32)
                .field(base + 3, 32)
                .field(base + 4, 32)
                .field(base + 5, 580)
                .field(base + 6, 80);
        }
        if count > 0 {
            let (proof, signatures) = (300u16, 64 * usize::from(count));
            self = self
                .field(base + 7, 1 + 8 + 32)
                .raw(&[0xfd])
                .raw(&proof.to_le_bytes())
                .field(base + 8, proof.into())
                .field(base + 9, signatures + 64);
        }
        self
    }

    /// Two spends and one output in version 5's layout.
    fn sapling_v5(mut self) -> Layout {
        self = self.raw(&[2]);
        for _ in 0..2 {
            self = self.field(0x30, 32).field(0x31, 32).field(0x32, 32);
        }
        self.raw(&[1])
            .sapling_output()
            .field(0x50, 8)
            .field(0x51, 32)
            .field(0x52, 2 * 192)
            .field(0x53, 2 * 64)
            .field(0x54, 192)
            .field(0x55, 64)
    }

    fn check(&self, version: Version, joinsplits: usize) -> Transaction<'_> {
        let (transaction, used) = Transaction::parse(&self.0).unwrap();
        assert_eq!(used, self.0.len());
        assert_eq!(transaction.version(), version);
        assert_eq!(transaction.joinsplits(), joinsplits);
        assert!(!transaction.is_coinbase());
        let input = transaction.inputs().next().unwrap();
        assert_eq!(*input.prevout_id(), [0x11; 32]);
        assert_eq!(input.prevout_index(), 7);
        assert_eq!(input.script(), [0x12; 3]);
        let output = transaction.outputs().next().unwrap();
        assert_eq!(output.value(), 5);
        assert_eq!(output.script(), [0x13; 2]);
        transaction
    }
}

fn check_sapling(transaction: &Transaction<'_>) {
    assert_eq!(transaction.sapling_spends().len(), 2);
    for spend in transaction.sapling_spends() {
        assert_eq!(*spend.nullifier(), [0x31; 32]);
    }
    assert_eq!(transaction.sapling_outputs().len(), 1);
    let output = transaction.sapling_outputs().next().unwrap();
    assert_eq!(*output.cv(), [0x40; 32]);
    assert_eq!(*output.cmu(), [0x41; 32]);
    assert_eq!(*output.ephemeral_key(), [0x42; 32]);
    assert_eq!(*output.ciphertext(), [0x43; 580]);
    let compact = [&[0x41; 32][..], &[0x42; 32], &[0x43; 52]].concat();
    assert_eq!(output.compact()[..], compact[..]);
}

fn check_actions(actions: Actions<'_>, count: usize, base: u8) {
    assert_eq!(actions.len(), count);
    for action in actions {
        assert_eq!(*action.cv(), [base; 32]);
        assert_eq!(*action.nullifier(), [base + 1; 32]);
        assert_eq!(*action.rk(), [base + 2; 32]);
        assert_eq!(*action.cmx(), [base + 3; 32]);
        assert_eq!(*action.ephemeral_key(), [base + 4; 32]);
        assert_eq!(*action.ciphertext(), [base + 5; 580]);
        let compact = [&[base + 3; 32][..], &[base + 4; 32], &[base + 5; 52]].concat();
        assert_eq!(action.compact()[..], compact[..]);
    }
}

#[test]
fn version_1_ends_with_its_lock_time() {
    let layout = Layout::default()
        .raw(&[1, 0, 0, 0])
        .transparent()
        .field(0x20, 4);
    let transaction = layout.check(Version::V1, 0);
    assert_eq!(transaction.sapling_spends().len(), 0);
    assert_eq!(transaction.orchard_actions().len(), 0);
}

#[test]
fn version_2_has_joinsplits_of_1802_bytes_and_a_signature_if_there_are_any() {
    let start = || {
        Layout::default()
            .raw(&[2, 0, 0, 0])
            .transparent()
            .field(0x20, 4)
    };
    start().raw(&[0]).check(Version::V2, 0);
    start()
        .raw(&[2])
        .field(0x21, 2 * 1802 + 32 + 64)
        .check(Version::V2, 2);
}

#[test]
fn version_3_has_an_expiry_height() {
    let start = Layout::default()
        .raw(&[3, 0, 0, 0x80, 0x70, 0x82, 0xc4, 0x03])
        .transparent();
    start
        .field(0x20, 8)
        .raw(&[1])
        .field(0x21, 1802 + 32 + 64)
        .check(Version::V3, 1);
}

#[test]
fn version_4_keeps_proofs_inside_its_elements_and_joinsplits_of_1698_bytes() {
    let start = || {
        let head = &[4, 0, 0, 0x80, 0x85, 0x20, 0x2f, 0x89];
        Layout::default().raw(head).transparent().field(0x20, 16)
    };
    start().raw(&[0, 0, 0]).check(Version::V4, 0);
    start()
        .raw(&[0, 0, 1])
        .field(0x21, 1698 + 32 + 64)
        .check(Version::V4, 1);
    let mut sapling = start().raw(&[2]);
    for _ in 0..2 {
        sapling = sapling
            .field(0x30, 32)
            .field(0x33, 32)
            .field(0x31, 32)
            .field(0x32, 32 + 192 + 64);
    }
    sapling = sapling.raw(&[1]).sapling_output().field(0x45, 192);
    sapling = sapling
        .raw(&[1])
        .field(0x21, 1698 + 32 + 64)
        .field(0x55, 64);
    check_sapling(&sapling.check(Version::V4, 1));
}

#[test]
fn version_5_keeps_proofs_behind_its_elements() {
    let start = || {
        let head = &[5, 0, 0, 0x80, 0x0a, 0x27, 0xa7, 0x26];
        Layout::default().raw(head).field(0x20, 12).transparent()
    };
    start().raw(&[0, 0, 0]).check(Version::V5, 0);
    let outputs_only = start().raw(&[0, 1]).sapling_output().field(0x50, 8);
    outputs_only
        .field(0x54, 192)
        .field(0x55, 64)
        .raw(&[0])
        .check(Version::V5, 0);
    let all = start().sapling_v5().actions(3, 0x60);
    let transaction = all.check(Version::V5, 0);
    check_sapling(&transaction);
    check_actions(transaction.orchard_actions(), 3, 0x60);
    assert_eq!(transaction.ironwood_actions().len(), 0);
}

#[test]
fn version_6_is_version_5_and_a_second_bundle() {
    let head = &[6, 0, 0, 0x80, 0x98, 0xb6, 0x84, 0xd8];
    let start = || Layout::default().raw(head).field(0x20, 12).transparent();
    start().raw(&[0, 0, 0, 0]).check(Version::V6, 0);
    let all = start().sapling_v5().actions(1, 0x60).actions(2, 0x70);
    let transaction = all.check(Version::V6, 0);
    check_sapling(&transaction);
    check_actions(transaction.orchard_actions(), 1, 0x60);
    check_actions(transaction.ironwood_actions(), 2, 0x70);
    let only = start().raw(&[0, 0, 0]).actions(2, 0x70);
    check_actions(only.check(Version::V6, 0).ironwood_actions(), 2, 0x70);
}

#[test]
fn a_coinbase_has_one_input_and_that_is_null() {
    let input = |id: u8, index: u32| {
        let layout = Layout::default().field(id, 32).raw(&index.to_le_bytes());
        layout.raw(&[0]).field(0xff, 4).0
    };
    let is_coinbase = |inputs: &[Vec<u8>]| {
        let layout = Layout::default().raw(&[1, 0, 0, 0, inputs.len() as u8]);
        let bytes = layout.raw(&inputs.concat()).field(0, 5).0;
        Transaction::parse(&bytes).unwrap().0.is_coinbase()
    };
    assert!(is_coinbase(&[input(0, u32::MAX)]));
    assert!(!is_coinbase(&[]));
    assert!(!is_coinbase(&[input(0, 0)]));
    assert!(!is_coinbase(&[input(1, u32::MAX)]));
    assert!(!is_coinbase(&[input(0, u32::MAX), input(0, u32::MAX)]));
}
