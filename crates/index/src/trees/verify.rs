//! The files of nodes against the notes they are made of.

use std::{num::NonZeroUsize, path::Path, sync::Arc};

use lightship_chain::tree::TreeHash;

use super::{
    grown::{Grown, TailTrees},
    range::RangeTrees,
    span::{Hasher, Span},
};
use crate::{Error, Files, Reader, Result, layout::Layout};

/// Hashes every note of the sealed ranges in `dir` and compares all nodes with the files. `report` hears of the first file that is
/// wrong or missing; ranges above it are not compared, since their nodes are made from those below. Returns how many notes were hashed and how many nodes were compared.
///
/// The trees themselves are right if the last one is what the node says; this finds files that are not what the blocks say.
///
/// # Errors
///
/// As [`Reader::open`], and [`Error::Corrupt`] or [`Error::Block`] where notes cannot be read.
pub fn verify_trees(
    dir: &Path,
    hash: &dyn TreeHash,
    threads: NonZeroUsize,
    report: &mut dyn FnMut(&Error),
) -> Result<(u64, u64)> {
    let view = Reader::open(dir)?.view();
    let layout = Layout {
        disk: Arc::new(Files),
        dir: dir.to_owned(),
    };
    let hasher = Hasher { hash, threads };
    let (mut notes, mut nodes) = (0, 0);
    let mut grown = Grown::empty();
    for range in &view.sealed.ranges()[..view.sealed.joined_count()] {
        let stored = match RangeTrees::open(&layout, range) {
            Ok(Some(stored)) => stored,
            Ok(None) => {
                report(&Error::Corrupt {
                    path: layout.trees_of(range.first(), &range.entry.columns_digest),
                    offset: 0,
                    expected: "the nodes of a sealed range".to_owned(),
                    found: "no file".to_owned(),
                });
                return Ok((notes, nodes));
            }
            Err(error) => {
                report(&error);
                return Ok((notes, nodes));
            }
        };
        let mut span = Span::new(range.header.before);
        grown.extend(&view, hasher, (range.first(), range.last()), &mut span)?;
        let (before, sizes) = (span.before(), span.sizes());
        for pool in lightship_chain::ShieldedPool::ALL {
            notes += u64::from(sizes.of(pool) - before.of(pool));
        }
        match stored.differing_node(&span) {
            Ok(compared) => nodes += compared,
            Err(error) => {
                report(&error);
                return Ok((notes, nodes));
            }
        }
        grown.ranges.push(Arc::new(stored));
        grown.tail = Arc::new(TailTrees::new(
            range.last().next().unwrap_or(range.last()),
            sizes,
            [None; 3],
        ));
    }
    Ok((notes, nodes))
}
