//! MerkleCRH^Orchard: Sinsemilla hashes over Pallas.
//!
//! A Sinsemilla hash goes through its message ten bits at a time: to the point so far, `A`, it adds the point that those bits choose, `S`, and then
//! `A` again. In affine coordinates that is two divisions and little else, and many hashes abreast share each division. Few hashes go
//! one by one in Jacobian coordinates, with one division at the end.
//!
//! Where an addition would meet equal or opposite points the hash is not defined, and the node is 0. Nobody can make that happen without
//! breaking the curve.
//!
//! Spec: protocol §5.4.1.9 "Sinsemilla Hash Function", §5.4.1.3 "MerkleCRH^Orchard Hash Function".

use std::sync::LazyLock;

use ff::{Field as _, PrimeField as _};
use group::Curve as _;
use lightship_chain::tree::TreeNode;
use pasta_curves::{
    arithmetic::{CurveAffine as _, CurveExt as _},
    pallas::{Affine, Base, Point},
};
use sinsemilla::{K, Q_PERSONALIZATION, SINSEMILLA_S};

use crate::bits::Message;

/// Bits of the level at the start of a message.
const LEVEL_BITS: u32 = 10;
/// Ten-bit words of a message.
const WORDS: u32 = (LEVEL_BITS + 2 * 255) / K as u32;
/// Hashes abreast: few enough for the second-level cache, enough to make a division cheap.
const LANES: usize = 256;
/// Fewer than that go one by one: two divisions a word are dearer then.
const FEW: usize = 24;

/// Where every hash begins.
static START: LazyLock<(Base, Base)> = LazyLock::new(|| {
    let start: Affine =
        Point::hash_to_curve(Q_PERSONALIZATION)(b"z.cash:Orchard-MerkleCRH").to_affine();
    let start = start
        .coordinates()
        .expect("the generator is not the identity");
    (*start.x(), *start.y())
});

pub(crate) fn combine(level: u8, left: &TreeNode, right: &TreeNode) -> TreeNode {
    alone(&Message::new(level, LEVEL_BITS, left, right))
}

pub(crate) fn combine_pairs(level: u8, pairs: &[[TreeNode; 2]], parents: &mut Vec<TreeNode>) {
    for batch in pairs.chunks(LANES) {
        let messages: Vec<_> = batch
            .iter()
            .map(|[left, right]| Message::new(level, LEVEL_BITS, left, right))
            .collect();
        if batch.len() < FEW {
            parents.extend(messages.iter().map(alone));
        } else {
            abreast(&messages, parents);
        }
    }
}

#[inline]
fn point(message: &Message, word: u32) -> &'static (Base, Base) {
    &SINSEMILLA_S[message.window(word * K as u32, K as u32)]
}

/// One hash: each step is a mixed addition that also rescales `A`, then an addition of two points that share their `z`.
fn alone(message: &Message) -> TreeNode {
    let (mut x, mut y) = *START;
    let mut z = Base::ONE;
    for word in 0..WORDS {
        let (sx, sy) = point(message, word);
        // R = A + S; then A is written with the z of R.
        let zz = z.square();
        let h = sx * zz - x;
        let r = sy * (zz * z) - y;
        let hh = h.square();
        let hhh = hh * h;
        let ax = x * hh;
        let ay = y * hhh;
        let rx = r.square() - hhh - ax.double();
        let ry = r * (ax - rx) - ay;
        z *= h;
        // A = R + A.
        let d = ax - rx;
        let dd = d.square();
        let u = rx * dd;
        let v = ax * dd;
        let e = ay - ry;
        x = e.square() - u - v;
        y = e * (u - x) - ry * (v - u);
        z *= d;
    }
    // Once equal or opposite points are met, z is 0 and stays it.
    match Option::<Base>::from(z.invert()) {
        Some(inverse) => (x * inverse.square()).to_repr(),
        None => Base::ZERO.to_repr(),
    }
}

/// Many hashes, step by step.
fn abreast(messages: &[Message], parents: &mut Vec<TreeNode>) {
    let count = messages.len();
    let mut points = vec![*START; count];
    let mut defined = vec![true; count];
    let mut slopes = vec![Base::ZERO; count];
    let mut divisors = vec![Base::ZERO; count];
    let mut sums = vec![Base::ZERO; count];
    let mut products = vec![Base::ZERO; count];
    for word in 0..WORDS {
        // R = A + S.
        for (lane, message) in messages.iter().enumerate() {
            divisors[lane] = points[lane].0 - point(message, word).0;
        }
        invert(&mut divisors, &mut products, &mut defined);
        for (lane, message) in messages.iter().enumerate() {
            let (sx, sy) = point(message, word);
            let (x, y) = points[lane];
            let slope = (y - sy) * divisors[lane];
            slopes[lane] = slope;
            sums[lane] = slope.square() - x - sx;
            divisors[lane] = x - sums[lane];
        }
        // A = R + A.
        invert(&mut divisors, &mut products, &mut defined);
        for lane in 0..count {
            let (x, y) = points[lane];
            let slope = y.double() * divisors[lane] - slopes[lane];
            let next = slope.square() - sums[lane] - x;
            points[lane] = (next, slope * (x - next) - y);
        }
    }
    parents.extend(points.iter().zip(&defined).map(|((x, _), defined)| {
        let x = if *defined { *x } else { Base::ZERO };
        x.to_repr()
    }));
}

/// Inverts all of `values` with one division. A lane with a zero is no longer defined, and goes on with a one.
fn invert(values: &mut [Base], products: &mut [Base], defined: &mut [bool]) {
    let mut product = Base::ONE;
    for ((value, before), defined) in values.iter_mut().zip(&mut *products).zip(defined) {
        if bool::from(value.is_zero()) {
            *defined = false;
            *value = Base::ONE;
        }
        *before = product;
        product *= &*value;
    }
    let mut inverse = product
        .invert()
        .expect("a product of numbers other than zero in a field is not zero");
    for (value, before) in values.iter_mut().zip(&*products).rev() {
        let own = inverse * before;
        inverse *= &*value;
        *value = own;
    }
}
