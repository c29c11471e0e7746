//! A message of both hashes: the level, then 255 bits of each child, least significant bit first.

use lightship_chain::tree::TreeNode;

/// Bits of a node that are hashed; the top bit of a canonical node is 0.
const NODE_BITS: u32 = 255;
/// 520 bits, and a word so that every window can be read from two.
const WORDS: usize = 10;

/// A message, packed.
pub(crate) struct Message([u64; WORDS]);

impl Message {
    /// `level_bits` bits of the level, then the children.
    pub(crate) fn new(level: u8, level_bits: u32, left: &TreeNode, right: &TreeNode) -> Message {
        let mut words = [0; WORDS];
        words[0] = u64::from(level);
        put(&mut words, level_bits, left);
        put(&mut words, level_bits + NODE_BITS, right);
        Message(words)
    }

    /// `count` bits, fewer than 64, from bit `at` on.
    #[inline]
    pub(crate) fn window(&self, at: u32, count: u32) -> usize {
        let (word, bit) = ((at / 64) as usize, at % 64);
        let pair = u128::from(self.0[word]) | u128::from(self.0[word + 1]) << 64;
        ((pair >> bit) as u64 & ((1 << count) - 1)) as usize
    }
}

fn put(words: &mut [u64; WORDS], at: u32, node: &TreeNode) {
    let (first, bit) = ((at / 64) as usize, at % 64);
    let (chunks, _) = node.as_chunks::<8>();
    for (index, chunk) in chunks.iter().enumerate() {
        let mut value = u64::from_le_bytes(*chunk);
        if index == 3 {
            value &= u64::MAX >> 1;
        }
        words[first + index] |= value << bit;
        if bit > 0 {
            words[first + index + 1] |= value >> (64 - bit);
        }
    }
}
