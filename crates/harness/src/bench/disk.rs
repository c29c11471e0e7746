//! What an index takes on the disk, as a whole and by parts.
//!
//! In: a folder, and patterns that tell files of one part from those of another. Out: bytes. Which part is which is the plan's to say.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, path::Path};

use anyhow::{Context, Result};

/// `st_blocks` counts these, whatever the file system's own blocks are.
const BLOCK_BYTES: u64 = 512;

/// The size of an index on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexBytes {
    /// All of it, in bytes.
    pub all: u64,
    /// The parts that are counted apart, by name. Their sum is at most `all`.
    pub parts: BTreeMap<String, u64>,
}

impl IndexBytes {
    /// Measures `folder`. A file that several parts name belongs to the first of them, by name.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn of(folder: &Path, parts: &BTreeMap<String, Vec<String>>) -> Result<IndexBytes> {
        let mut found = IndexBytes {
            all: 0,
            parts: parts.keys().map(|name| (name.clone(), 0)).collect(),
        };
        found.add(folder, "", parts)?;
        Ok(found)
    }

    fn add(
        &mut self,
        folder: &Path,
        below: &str,
        parts: &BTreeMap<String, Vec<String>>,
    ) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let path = format!("{below}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.add(&entry.path(), &format!("{path}/"), parts)?;
                continue;
            }
            // Sparse files count what they take, not what they claim.
            let bytes = entry.metadata()?.blocks() * BLOCK_BYTES;
            self.all += bytes;
            let part = parts
                .iter()
                .find(|(_, patterns)| patterns.iter().any(|pattern| fits(&path, pattern)));
            if let Some((name, _)) = part {
                *self.parts.entry(name.clone()).or_default() += bytes;
            }
        }
        Ok(())
    }

    /// What no part counts, in bytes.
    pub fn rest(&self) -> u64 {
        self.all - self.parts.values().sum::<u64>()
    }
}

/// Whether a path is one that a pattern means: `*` stands for any letters but `/`.
fn fits(path: &str, pattern: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return path == pattern;
    };
    let Some(rest) = path.strip_prefix(before) else {
        return false;
    };
    let within = rest.find('/').unwrap_or(rest.len());
    (0..=within)
        .filter(|end| rest.is_char_boundary(*end))
        .any(|end| fits(&rest[end..], after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_letters_of_one_name() {
        for (path, pattern) in [
            ("trees/1.trees", "trees/*"),
            ("sealed/1.transparent", "sealed/*.transparent"),
            ("a/b", "a/b"),
            ("x", "*"),
            ("trees/", "trees/*"),
        ] {
            assert!(fits(path, pattern), "{path} {pattern}");
        }
        for (path, pattern) in [
            ("trees/a/b", "trees/*"),
            ("sealed/1.columns", "sealed/*.transparent"),
            ("sealed/1.transparent.new", "sealed/*.transparent"),
            ("trees", "trees/*"),
            ("a/b", "*"),
        ] {
            assert!(!fits(path, pattern), "{path} {pattern}");
        }
    }

    #[test]
    fn each_file_counts_once_and_what_no_part_names_is_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("trees")).unwrap();
        for name in ["blocks", "companion", "trees/1"] {
            fs::write(folder.path().join(name), vec![1; 20_000]).unwrap();
        }
        let parts = [
            ("companion", vec!["companion"]),
            ("none", vec!["*.none"]),
            ("trees", vec!["trees/*", "companion"]),
        ];
        let parts = parts
            .into_iter()
            .map(|(name, files)| {
                (
                    name.to_owned(),
                    files.into_iter().map(str::to_owned).collect(),
                )
            })
            .collect();
        let found = IndexBytes::of(folder.path(), &parts).unwrap();
        let each = found.parts["companion"];
        assert!(each >= 20_000);
        assert_eq!(found.parts["trees"], each);
        assert_eq!(found.parts["none"], 0);
        assert_eq!((found.all, found.rest()), (3 * each, each));
    }
}
