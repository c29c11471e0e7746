//! MerkleCRH^Sapling: Pedersen hashes over Jubjub.
//!
//! A Pedersen hash adds up, for each three bits of the message, a multiple of a generator that those bits choose. Here the sums for each nine
//! bits are in a table, so a hash of 516 bits is 58 additions, and many hashes share one division at the end.
//!
//! Spec: protocol §5.4.1.7 "Pedersen Hash Function", §5.4.9.5 "Group Hash into Jubjub".

use std::sync::LazyLock;

use blake2s_simd::Params;
use ff::PrimeField;
use group::{Group as _, GroupEncoding as _, cofactor::CofactorGroup as _};
use jubjub::{AffineNielsPoint, AffinePoint, ExtendedPoint, SubgroupPoint};
use lightship_chain::tree::TreeNode;

use crate::bits::Message;

/// Bits of the level at the start of a message.
const LEVEL_BITS: u32 = 6;
/// Level and two nodes.
const MESSAGE_BITS: u32 = LEVEL_BITS + 2 * 255;
/// Bits that choose one multiple of a generator.
const CHUNK_BITS: u32 = 3;
/// Chunks that share a generator; the next is 2^4 times the multiple of the one before.
const SEGMENT_CHUNKS: u32 = 63;
/// Bits looked up at once: three chunks, which divide a segment evenly.
const WINDOW_BITS: u32 = 9;
const WINDOWS: u32 = MESSAGE_BITS.div_ceil(WINDOW_BITS);
/// Sums that are divided together.
const BATCH: usize = 256;

/// The first block of every group hash into Jubjub, "URS" in the specification.
const URS: &[u8; 64] = b"096b36a5804bfacef1691e173c366a47ff5ba84a44f26ddd7e8d9f79d5b42df0";

/// For each window, what each of its values adds.
static TABLE: LazyLock<Vec<Vec<AffineNielsPoint>>> =
    LazyLock::new(|| (0..WINDOWS).map(window_table).collect());

pub(crate) fn combine(level: u8, left: &TreeNode, right: &TreeNode) -> TreeNode {
    node(&AffinePoint::from(sum(level, left, right)))
}

pub(crate) fn combine_pairs(level: u8, pairs: &[[TreeNode; 2]], parents: &mut Vec<TreeNode>) {
    let mut sums = Vec::with_capacity(BATCH.min(pairs.len()));
    for batch in pairs.chunks(BATCH) {
        sums.clear();
        sums.extend(batch.iter().map(|[left, right]| sum(level, left, right)));
        parents.extend(jubjub::batch_normalize(&mut sums).map(|point| node(&point)));
    }
}

fn node(point: &AffinePoint) -> TreeNode {
    point.get_u().to_repr()
}

fn sum(level: u8, left: &TreeNode, right: &TreeNode) -> ExtendedPoint {
    let message = Message::new(level, LEVEL_BITS, left, right);
    let mut sum = ExtendedPoint::identity();
    for (window, table) in (0..).zip(&*TABLE) {
        sum += &table[message.window(window * WINDOW_BITS, WINDOW_BITS)];
    }
    sum
}

/// What each value of a window adds; the bits behind the message's end are never set.
fn window_table(window: u32) -> Vec<AffineNielsPoint> {
    let first_chunk = window * WINDOW_BITS / CHUNK_BITS;
    let chunks = (WINDOW_BITS / CHUNK_BITS).min(MESSAGE_BITS / CHUNK_BITS - first_chunk);
    let mut base = ExtendedPoint::from(generator(first_chunk / SEGMENT_CHUNKS));
    for _ in 0..4 * (first_chunk % SEGMENT_CHUNKS) {
        base = base.double();
    }
    let mut sums = vec![ExtendedPoint::identity()];
    for _ in 0..chunks {
        // The lower bits vary fastest.
        sums = (0..1 << CHUNK_BITS)
            .flat_map(|bits| {
                let multiple = multiple(base, bits);
                sums.iter()
                    .map(move |sum| sum + multiple)
                    .collect::<Vec<_>>()
            })
            .collect();
        base = (0..4).fold(base, |base, _| base.double());
    }
    jubjub::batch_normalize(&mut sums)
        .map(|point| point.to_niels())
        .collect()
}

/// `(1 - 2 s2) (1 + s0 + 2 s1)` times a point.
fn multiple(base: ExtendedPoint, bits: u32) -> ExtendedPoint {
    let magnitude = (0..bits & 3).fold(base, |sum, _| sum + base);
    if bits & 4 == 0 { magnitude } else { -magnitude }
}

/// The generator of a segment.
fn generator(segment: u32) -> SubgroupPoint {
    (0..=u8::MAX)
        .find_map(|attempt| {
            let hash = Params::new()
                .hash_length(32)
                .personal(b"Zcash_PH")
                .to_state()
                .update(URS)
                .update(&segment.to_le_bytes())
                .update(&[attempt])
                .finalize();
            let point = Option::<ExtendedPoint>::from(ExtendedPoint::from_bytes(hash.as_array()))?;
            let point = point.clear_cofactor();
            (!bool::from(point.is_identity())).then_some(point)
        })
        .expect("each of the generators is found within 256 attempts")
}
