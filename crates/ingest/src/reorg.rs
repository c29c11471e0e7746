//! Where two chains part.
//!
//! In: our chain as "hash at height", and theirs either the same way or block by block from the tip down. Out: the highest
//! block both have, called the ancestor. Pure: who is asked, how, and what is done about the answer is left to the caller.
//!
//! There are two ways because each can do what the other cannot. [`walk_back`] follows parent hashes, so the branch it
//! returns is one branch even if the node switches meanwhile; but it costs one block for each step. [`common_ancestor`] costs
//! a logarithm of the depth, but its answers may come from two branches: what is built on it must be checked link by link.
//!
//! # Invariants
//!
//! Both chains are trees of parent hashes: if they agree at a height, they agree everywhere below it.

use lightship_chain::{BlockHash, BlockId, Height};

/// What a walk from a tip downwards found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// The branch reaches a block of ours.
    Joined {
        /// The highest block in common; `None` if our chain is empty and the branch reaches down to genesis.
        ancestor: Option<Height>,
        /// The blocks above it, lowest first, each one's parent right below it. Empty if the tip is a block of ours.
        branch: Vec<BlockId>,
    },
    /// The source does not know this block, which its own tip or block named: it switched branches meanwhile.
    Unknown(BlockId),
    /// More than the bound of blocks above the ancestor.
    TooLong,
    /// The walk reached height 0 at a block that is not our genesis.
    ForeignGenesis(BlockHash),
    /// Genesis was reached at another height than 0, or height 0 has a parent: the tip's height was not true.
    WrongHeight(BlockId),
}

/// Follows parent hashes from `tip` down to the first block that `ours` has, at most `limit` blocks.
///
/// `ours` gives our hash at a height, `None` above our tip; `genesis` is the block all of our chain stands on, even while it
/// is empty. `parent` gives the parent's hash of a block of theirs, `None` if they do not know the block (any more).
///
/// # Errors
///
/// Those of `parent`.
pub(crate) fn walk_back<E>(
    tip: BlockId,
    genesis: BlockHash,
    limit: usize,
    ours: impl Fn(Height) -> Option<BlockHash>,
    mut parent: impl FnMut(BlockId) -> Result<Option<BlockHash>, E>,
) -> Result<Walk, E> {
    let mut branch = Vec::new();
    let mut at = tip;
    let ancestor = loop {
        if ours(at.height) == Some(at.hash) {
            break Some(at.height);
        }
        if at.height == Height::GENESIS && at.hash != genesis {
            // Either another chain, or a tip whose height was too low by the distance to its true genesis.
            return Ok(match parent(at)? {
                None => Walk::Unknown(at),
                Some(BlockHash::ZERO) => Walk::ForeignGenesis(at.hash),
                Some(_) => Walk::WrongHeight(tip),
            });
        }
        if branch.len() == limit {
            return Ok(Walk::TooLong);
        }
        let Some(below) = parent(at)? else {
            return Ok(Walk::Unknown(at));
        };
        branch.push(at);
        match at.height.previous() {
            None if below == BlockHash::ZERO => break None,
            Some(_) if below == BlockHash::ZERO => return Ok(Walk::WrongHeight(tip)),
            None => return Ok(Walk::WrongHeight(tip)),
            Some(height) => {
                at = BlockId {
                    height,
                    hash: below,
                };
            }
        }
    };
    branch.reverse();
    Ok(Walk::Joined { ancestor, branch })
}

/// The highest height up to `top`, our tip, at which both chains have the same block, or `None` if not even genesis agrees.
///
/// Asks `theirs` at most about twice the binary logarithm of the depth. `ours` must have every height up to `top`.
///
/// # Errors
///
/// Those of `theirs`.
pub(crate) fn common_ancestor<E>(
    top: Height,
    ours: impl Fn(Height) -> Option<BlockHash>,
    mut theirs: impl FnMut(Height) -> Result<Option<BlockHash>, E>,
) -> Result<Option<Height>, E> {
    let mut agree = |height: Height| -> Result<bool, E> {
        let hash = ours(height);
        Ok(hash.is_some() && theirs(height)? == hash)
    };
    if agree(top)? {
        return Ok(Some(top));
    }
    // Strides that double until the chains agree, then halving between the last two.
    let mut differs = top;
    let mut stride = 1;
    let mut agrees = loop {
        if differs == Height::GENESIS {
            return Ok(None);
        }
        let below = differs.saturating_sub(stride);
        if agree(below)? {
            break below;
        }
        differs = below;
        stride = stride.saturating_mul(2);
    };
    while differs.get() - agrees.get() > 1 {
        let middle = agrees
            .checked_add((differs.get() - agrees.get()) / 2)
            .expect("it lies between two heights");
        if agree(middle)? {
            agrees = middle;
        } else {
            differs = middle;
        }
    }
    Ok(Some(agrees))
}

#[cfg(test)]
mod tests;
