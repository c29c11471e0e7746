//! Frontiers against whole trees, hashed with a hash that is quick and nobody's.

use sha2::{Digest, Sha256};

use super::*;

struct Quick;

impl TreeHash for Quick {
    fn combine(
        &self,
        _pool: ShieldedPool,
        level: u8,
        left: &TreeNode,
        right: &TreeNode,
    ) -> TreeNode {
        Sha256::new()
            .chain_update([level])
            .chain_update(left)
            .chain_update(right)
            .finalize()
            .into()
    }
}

const POOL: ShieldedPool = ShieldedPool::Orchard;

fn note(number: u32) -> TreeNode {
    let mut note = [0; 32];
    note[..4].copy_from_slice(&number.to_le_bytes());
    note
}

/// Node `index` of `level`, by definition.
fn node(level: u8, index: u32) -> TreeNode {
    match level.checked_sub(1) {
        None => note(index),
        Some(below) => Quick.combine(
            POOL,
            below,
            &node(below, 2 * index),
            &node(below, 2 * index + 1),
        ),
    }
}

fn naive_root(notes: u32) -> TreeNode {
    let mut empty = Quick.empty_leaf(POOL);
    let mut level: Vec<_> = (0..notes).map(note).collect();
    for height in 0..DEPTH {
        level = level
            .chunks(2)
            .map(|pair| Quick.combine(POOL, height, &pair[0], pair.get(1).unwrap_or(&empty)))
            .collect();
        empty = Quick.combine(POOL, height, &empty, &empty);
    }
    level.first().copied().unwrap_or(empty)
}

#[test]
fn a_frontier_is_the_same_appended_put_together_and_read() {
    let mut grown = Frontier::default();
    for size in 0..140 {
        assert_eq!(grown.size(), size);
        let made = Frontier::of_nodes(size, |level, index| {
            assert!((index + 1) << level <= size, "all of its notes are there");
            Ok::<_, ()>(node(level, index))
        });
        assert_eq!(made.as_ref(), Ok(&grown), "{size} notes");
        assert_eq!(Frontier::from_bytes(&grown.to_bytes()).as_ref(), Ok(&grown));
        assert_eq!(grown.root(&Quick, POOL), naive_root(size), "{size} notes");
        for (level, ommer) in (0..).zip(grown.ommers(&Quick, POOL)) {
            let expected = (size >> level & 1 == 1).then(|| node(level, (size >> level) - 1));
            assert_eq!(ommer, expected, "level {level} of {size} notes");
        }
        grown.append(&Quick, POOL, note(size)).unwrap();
    }
}

#[test]
fn zebra_pads_and_zcashd_trims() {
    assert_eq!(Frontier::default().to_bytes(), [0, 0, 0]);
    let mut tree = Frontier::default();
    for number in 0..5 {
        tree.append(&Quick, POOL, note(number)).unwrap();
    }
    let padded = tree.to_bytes();
    // Left, no right, the count, one absent parent, the present one, 29 absent ones.
    assert_eq!(padded.len(), 33 + 1 + 1 + 1 + 33 + 29);
    let mut trimmed = padded[..33 + 1 + 1 + 1 + 33].to_vec();
    trimmed[34] = 2;
    assert_eq!(Frontier::from_bytes(&trimmed), Ok(tree));
}

#[test]
fn what_is_no_tree_is_refused_where_it_is_wrong() {
    let refused = |bytes: &[u8]| Frontier::from_bytes(bytes).unwrap_err().offset;
    assert_eq!(refused(&[]), 0);
    assert_eq!(refused(&[2, 0, 0]), 0);
    assert_eq!(refused(&[0, 0]), 2, "no count");
    assert_eq!(refused(&[0, 0, 32]), 2, "too many parents");
    assert_eq!(refused(&[0, 0, 0, 0]), 3, "more than a tree");
    assert_eq!(refused(&[1, 7, 7]), 0, "a node cut short");
    let mut rootless = vec![0, 0, 1, 1];
    rootless.extend([7; 32]);
    assert_eq!(refused(&rootless), 0, "parents without a leaf");
    let full = [vec![1; 33], vec![1; 33], vec![31], vec![1; 31 * 33]].concat();
    assert!(Frontier::from_bytes(&full).is_err(), "2^32 notes");
    for end in 0..full.len() {
        Frontier::from_bytes(&full[..end]).unwrap_err();
    }
}
