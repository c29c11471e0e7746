//! Subsets of encoded blocks equal decode, filter, encode; stored bytes that lie are refused.

use lightship_chain::{
    PoolSet,
    compact::project::{self, Malformed, NullifierView, Stored},
};
use proptest::{collection::vec, prelude::*};
use prost::Message;

use crate::{
    reference::{
        Action, ChainMetadata, CompactBlock, CompactTx, Output, Spend, TxIn, TxOut, filtered,
        nullifiers,
    },
    samples::{message, stored, vectors},
};

/// Every projection there is.
fn views() -> impl Iterator<Item = NullifierView> {
    PoolSet::subsets()
        .map(NullifierView::Pools)
        .chain([NullifierView::Whole])
}

/// Holds every projection of `block` against the slow way.
fn check(whole: &CompactBlock, block: Stored<'_>) {
    let same = |ours: Result<Vec<u8>, Malformed>, slow: CompactBlock| {
        assert_eq!(ours.unwrap(), slow.encode_to_vec());
    };
    same(message(|out| project::whole(block, out)), whole.clone());
    for pools in PoolSet::subsets() {
        let ours = message(|out| project::pools(block, pools, out));
        same(ours, filtered(whole.clone(), pools));
    }
    for view in views() {
        let ours = message(|out| project::nullifiers(block, view, out));
        same(ours, nullifiers(whole.clone(), view));
    }
}

/// Runs every projection; whether any gave bytes.
fn run_all(block: Stored<'_>) -> bool {
    let mut any = message(|out| project::whole(block, out)).is_ok();
    for pools in PoolSet::subsets() {
        any |= message(|out| project::pools(block, pools, out)).is_ok();
    }
    for view in views() {
        any |= message(|out| project::nullifiers(block, view, out)).is_ok();
    }
    any
}

/// A whole block in the two parts that are stored.
fn split(whole: &CompactBlock) -> (Vec<u8>, Vec<u8>) {
    let default = filtered(whole.clone(), PoolSet::SHIELDED);
    let transparent = CompactBlock {
        vtx: whole
            .vtx
            .iter()
            .map(|tx| {
                let kept = default.vtx.iter().any(|kept| kept.index == tx.index);
                CompactTx {
                    index: tx.index,
                    txid: if kept { Vec::new() } else { tx.txid.clone() },
                    vin: tx.vin.clone(),
                    vout: tx.vout.clone(),
                    ..CompactTx::default()
                }
            })
            .collect(),
        ..CompactBlock::default()
    };
    (default.encode_to_vec(), transparent.encode_to_vec())
}

fn bytes(length: usize) -> impl Strategy<Value = Vec<u8>> {
    any::<u8>().prop_map(move |first| {
        (0..length)
            .map(|at| first.wrapping_add((at as u8).wrapping_mul(31)))
            .collect()
    })
}

fn action() -> impl Strategy<Value = Action> {
    (bytes(32), bytes(32), bytes(32), bytes(52)).prop_map(
        |(nullifier, cmx, ephemeral_key, ciphertext)| Action {
            nullifier,
            cmx,
            ephemeral_key,
            ciphertext,
        },
    )
}

fn spend() -> impl Strategy<Value = Spend> {
    bytes(32).prop_map(|nf| Spend { nf })
}

fn output() -> impl Strategy<Value = Output> {
    (bytes(32), bytes(32), bytes(52)).prop_map(|(cmu, ephemeral_key, ciphertext)| Output {
        cmu,
        ephemeral_key,
        ciphertext,
    })
}

fn tx_in() -> impl Strategy<Value = TxIn> {
    (bytes(32), prop_oneof![Just(0), any::<u32>()]).prop_map(|(prevout_txid, prevout_index)| TxIn {
        prevout_txid,
        prevout_index,
    })
}

fn tx_out() -> impl Strategy<Value = TxOut> {
    let script = prop_oneof![Just(0), 1usize..40, 120usize..300].prop_flat_map(bytes);
    (prop_oneof![Just(0), any::<u64>()], script).prop_map(|(value, script_pub_key)| TxOut {
        value,
        script_pub_key,
    })
}

/// Often none, mostly few.
fn some<S: Strategy>(element: fn() -> S) -> impl Strategy<Value = Vec<S::Value>> {
    prop_oneof![2 => Just(0..1), 2 => Just(1..4), 1 => Just(4..20)]
        .prop_flat_map(move |size| vec(element(), size))
}

fn tx() -> impl Strategy<Value = CompactTx> {
    (
        bytes(32),
        some(spend),
        some(output),
        some(action),
        some(tx_in),
        some(tx_out),
        some(action),
    )
        .prop_map(
            |(txid, spends, outputs, actions, vin, vout, ironwood_actions)| CompactTx {
                txid,
                spends,
                outputs,
                actions,
                vin,
                vout,
                ironwood_actions,
                ..CompactTx::default()
            },
        )
}

prop_compose! {
    fn block()(
        height in prop_oneof![Just(0u64), 0u64..0x8000_0000],
        hash in bytes(32),
        prev_hash in bytes(32),
        time in prop_oneof![Just(0u32), any::<u32>()],
        vtx in prop_oneof![4 => vec(tx(), 0..6), 1 => vec(tx(), 130..140)],
        sizes in (0u32..3, any::<u32>(), 0u32..300),
    ) -> CompactBlock {
        let mut block = CompactBlock {
            height,
            hash,
            prev_hash,
            time,
            header: Vec::new(),
            vtx,
            chain_metadata: Some(ChainMetadata {
                sapling: sizes.0,
                orchard: sizes.1,
                ironwood: sizes.2,
            }),
        };
        for (index, tx) in block.vtx.iter_mut().enumerate() {
            tx.index = index as u64;
        }
        block
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_projection_is_decode_filter_encode(block in block()) {
        let (message, transparent) = split(&block);
        check(&block, Stored { message: &message, transparent: &transparent });
    }

    #[test]
    fn one_wrong_byte_anywhere_does_not_panic(
        block in block(),
        at in any::<prop::sample::Index>(),
        wrong in any::<u8>(),
    ) {
        let (mut message, mut transparent) = split(&block);
        let at = at.index(message.len() + transparent.len());
        match at.checked_sub(message.len()) {
            None => message[at] = wrong,
            Some(at) => transparent[at] = wrong,
        }
        run_all(Stored { message: &message, transparent: &transparent });
    }
}

#[test]
fn projections_of_the_vendored_blocks_are_decode_filter_encode() {
    for sample in vectors() {
        let whole = CompactBlock::decode(&sample.recorded()[..]).unwrap();
        check(&whole, stored(&sample.encoded()));
    }
}

#[test]
fn every_truncation_of_what_is_stored_is_refused() {
    for sample in vectors() {
        if sample.bytes.len() > 20_000 {
            continue;
        }
        let encoded = sample.encoded();
        let Stored {
            message,
            transparent,
        } = stored(&encoded);
        for length in 0..message.len() {
            let message = &message[..length];
            assert!(
                !run_all(Stored {
                    message,
                    transparent
                }),
                "{}",
                sample.record.name()
            );
        }
        for length in 0..transparent.len() {
            let transparent = &transparent[..length];
            let cut = Stored {
                message,
                transparent,
            };
            let whole = self::message(|out| project::whole(cut, out));
            // A companion that lacks its last transactions is well-formed by itself: only the default view can tell, and only for those it has.
            assert!(whole.is_err() || CompactBlock::decode(transparent).is_ok());
        }
    }
}

#[test]
fn what_the_encoder_does_not_write_is_refused() {
    let samples = vectors();
    let encoded = samples
        .iter()
        .find(|s| s.record.height == 1_687_107)
        .unwrap()
        .encoded();
    let Stored {
        message,
        transparent,
    } = stored(&encoded);
    let refuses = |message: &[u8], transparent: &[u8]| {
        !run_all(Stored {
            message,
            transparent,
        })
    };
    let with = |extra: &[u8]| [message, extra].concat();
    assert!(!refuses(message, transparent));
    assert!(
        refuses(&with(&[0x42, 0]), transparent),
        "chain metadata twice"
    );
    assert!(
        refuses(&with(&[0x08, 4]), transparent),
        "the protocol version of old"
    );
    assert!(refuses(&with(&[0x50, 1]), transparent), "an unknown field");
    assert!(refuses(&[], &[]));
    let whole_only = |transparent: &[u8]| {
        self::message(|out| {
            project::whole(
                Stored {
                    message,
                    transparent,
                },
                out,
            )
        })
        .is_err()
    };
    assert!(
        whole_only(&[]),
        "no companion for the shielded transactions"
    );
    assert!(
        whole_only(&[transparent, &[0x3a, 2, 0x08, 99]].concat()),
        "a companion for none"
    );
    assert!(
        whole_only(&[transparent, &[0x3a, 2, 0x18, 1]].concat()),
        "a fee"
    );
}
