//! Note commitment trees on disk: all their nodes, each written once.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::{Context, Result};
use lightship_chain::ShieldedPool;
use lightship_source::simulated::{TreeHash, TreeNode};

/// Where the node `index` of `level` (leaves: 0) lies in a file of nodes in the order of completion: behind the nodes that all leaves before
/// its last one complete, and the ones below it.
pub fn node_position(level: u8, index: u32) -> u64 {
    let last_leaf = ((u64::from(index) + 1) << level) - 1;
    // So many leaves complete 2n nodes, less one for each tree that stands alone.
    2 * last_leaf - u64::from(last_leaf.count_ones()) + u64::from(level)
}

/// Appends notes to one tree's file.
pub(super) struct TreeWriter {
    pool: ShieldedPool,
    file: BufWriter<File>,
    /// Roots of the complete trees that stand alone, with their levels, the largest first.
    alone: Vec<(u8, TreeNode)>,
}

impl TreeWriter {
    pub(super) fn new(folder: &Path, pool: ShieldedPool) -> Result<TreeWriter> {
        let path = folder.join(pool.name());
        let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(TreeWriter {
            pool,
            file: BufWriter::with_capacity(1 << 18, file),
            alone: Vec::new(),
        })
    }

    pub(super) fn append(&mut self, hash: &dyn TreeHash, note: TreeNode) -> Result<()> {
        self.file.write_all(&note)?;
        let (mut level, mut node) = (0, note);
        while let Some((_, left)) = self.alone.pop_if(|(alone, _)| *alone == level) {
            node = hash.combine(self.pool, level, &left, &node);
            level += 1;
            self.file.write_all(&node)?;
        }
        self.alone.push((level, node));
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.file.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_lie_where_they_were_completed() {
        let mut next = 0;
        for leaf in 0u32..300 {
            let mut level = 0;
            let mut index = leaf;
            loop {
                assert_eq!(
                    node_position(level, index),
                    next,
                    "level {level}, node {index}"
                );
                next += 1;
                if index % 2 == 0 {
                    break;
                }
                level += 1;
                index /= 2;
            }
        }
    }
}
