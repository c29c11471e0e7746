//! The files of nodes against the notes they are made of.

use std::{fmt, num::NonZeroUsize, path::Path, sync::Arc};

use lightship_chain::tree::TreeHash;

use super::{
    grown::{Grown, TailTrees},
    range::RangeTrees,
    span::{Hasher, Span},
};
use crate::{Error, Files, Reader, Result, layout::Layout};

/// What was hashed and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TreesSummary {
    /// Sealed ranges that follow each other from genesis on.
    pub ranges: u64,
    /// How many of them were compared.
    pub compared: u64,
    /// Notes hashed.
    pub notes: u64,
    /// Nodes compared.
    pub nodes: u64,
    /// How many findings there were: at most one.
    pub findings: u64,
}

impl fmt::Display for TreesSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TreesSummary {
            ranges,
            compared,
            notes,
            nodes,
            ..
        } = self;
        write!(
            f,
            "hashed {notes} notes and compared {nodes} nodes of the trees in {compared} of {ranges} sealed ranges"
        )
    }
}

/// Hashes every note of the sealed ranges in `dir` and compares all nodes with the files. `report` hears of the first file that is
/// wrong, or missing below others; ranges above it are not compared, since their nodes are made from those below. That the trees end below the
/// blocks is no fault: they are still growing.
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
) -> Result<TreesSummary> {
    let view = Reader::open(dir)?.view();
    let layout = Layout {
        disk: Arc::new(Files),
        dir: dir.to_owned(),
    };
    let hasher = Hasher { hash, threads };
    let mut grown = Grown::empty();
    let ranges = &view.sealed.ranges()[..view.sealed.joined_count()];
    let mut summary = TreesSummary {
        ranges: ranges.len() as u64,
        ..TreesSummary::default()
    };
    for (number, range) in ranges.iter().enumerate() {
        let stored = match RangeTrees::open(&layout, range) {
            Ok(Some(stored)) => stored,
            Ok(None) => {
                let there = |range| !matches!(RangeTrees::open(&layout, range), Ok(None));
                if ranges[number + 1..].iter().any(|range| there(range)) {
                    summary.findings += 1;
                    report(&Error::Corrupt {
                        path: layout.trees_of(range.first(), &range.entry.columns_digest),
                        offset: 0,
                        expected: "the nodes of a sealed range".to_owned(),
                        found: "no file".to_owned(),
                    });
                }
                return Ok(summary);
            }
            Err(error) => {
                summary.findings += 1;
                report(&error);
                return Ok(summary);
            }
        };
        let mut span = Span::new(range.header.before);
        grown.extend(&view, hasher, (range.first(), range.last()), &mut span)?;
        let (before, sizes) = (span.before(), span.sizes());
        for pool in lightship_chain::ShieldedPool::ALL {
            summary.notes += u64::from(sizes.of(pool) - before.of(pool));
        }
        match stored.differing_node(&span) {
            Ok(compared) => summary.nodes += compared,
            Err(error) => {
                summary.findings += 1;
                report(&error);
                return Ok(summary);
            }
        }
        summary.compared += 1;
        grown.ranges.push(Arc::new(stored));
        grown.tail = Arc::new(TailTrees::new(
            range.last().next().unwrap_or(range.last()),
            sizes,
            [None; 3],
        ));
    }
    Ok(summary)
}
