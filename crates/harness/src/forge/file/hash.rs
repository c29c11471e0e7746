//! The two ways to hash note commitment trees.

use std::sync::Arc;

use anyhow::Result;
use lightship_source::simulated::{StandIn, TreeHash};

use super::Trees;

impl Trees {
    /// The hash itself.
    ///
    /// # Errors
    ///
    /// If it is consensus's and this build has no curves (feature `curves`).
    pub fn hash(self) -> Result<Arc<dyn TreeHash>> {
        match self {
            Trees::StandIn => Ok(Arc::new(StandIn)),
            #[cfg(feature = "curves")]
            Trees::Consensus => Ok(Arc::new(consensus::Consensus)),
            #[cfg(not(feature = "curves"))]
            Trees::Consensus => {
                anyhow::bail!(
                    "hashing trees as consensus does needs a build with --features curves"
                )
            }
        }
    }
}

#[cfg(feature = "curves")]
mod consensus {
    use incrementalmerkletree::{Hashable, Level};
    use lightship_chain::ShieldedPool;
    use lightship_source::simulated::{TreeHash, TreeNode};
    use orchard::tree::MerkleHashOrchard;

    /// Pedersen for Sapling, Sinsemilla for Orchard and Ironwood; some 60 and 110 microseconds a node. A child that is no field element counts as
    /// the empty leaf: consensus lets none into a tree.
    pub(super) struct Consensus;

    impl TreeHash for Consensus {
        fn combine(
            &self,
            pool: ShieldedPool,
            level: u8,
            left: &TreeNode,
            right: &TreeNode,
        ) -> TreeNode {
            let level = Level::from(level);
            match pool {
                ShieldedPool::Sapling => {
                    let read = |node: &TreeNode| {
                        Option::from(sapling_crypto::Node::from_bytes(*node))
                            .unwrap_or_else(sapling_crypto::Node::empty_leaf)
                    };
                    sapling_crypto::Node::combine(level, &read(left), &read(right)).to_bytes()
                }
                ShieldedPool::Orchard | ShieldedPool::Ironwood => {
                    let read = |node: &TreeNode| {
                        Option::from(MerkleHashOrchard::from_bytes(node))
                            .unwrap_or_else(MerkleHashOrchard::empty_leaf)
                    };
                    MerkleHashOrchard::combine(level, &read(left), &read(right)).to_bytes()
                }
            }
        }
    }
}
