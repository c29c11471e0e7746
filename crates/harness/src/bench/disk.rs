//! What an index takes on the disk, as a whole and by parts.
//!
//! In: a folder, and patterns that tell files of one part from those of another. Out: bytes. Which part is which is the plan's to say.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::Path,
};

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
        IndexBytes::by(folder, parts, taken)
    }

    /// As [`IndexBytes::of`], where each file counts what `bytes` makes of it.
    fn by(
        folder: &Path,
        parts: &BTreeMap<String, Vec<String>>,
        bytes: fn(&Metadata) -> u64,
    ) -> Result<IndexBytes> {
        let mut found = IndexBytes {
            all: 0,
            parts: parts.keys().map(|name| (name.clone(), 0)).collect(),
        };
        found.add(folder, "", parts, bytes)?;
        Ok(found)
    }

    fn add(
        &mut self,
        folder: &Path,
        below: &str,
        parts: &BTreeMap<String, Vec<String>>,
        bytes_of: fn(&Metadata) -> u64,
    ) -> Result<()> {
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let path = format!("{below}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.add(&entry.path(), &format!("{path}/"), parts, bytes_of)?;
                continue;
            }
            let bytes = bytes_of(&entry.metadata()?);
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

/// What a file takes: a sparse one less than it claims, as one does that the file system compresses.
fn taken(file: &Metadata) -> u64 {
    file.blocks() * BLOCK_BYTES
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
    use std::{process::Command, time::Duration};

    use anyhow::ensure;

    use super::*;
    use crate::process::{output_of, wait_for};

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
        for (name, bytes) in [("blocks", 1_000), ("companion", 200), ("trees/1", 30)] {
            fs::write(folder.path().join(name), vec![1; bytes]).unwrap();
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
        // By length, for how much each takes is the file system's to decide.
        let found = IndexBytes::by(folder.path(), &parts, Metadata::len).unwrap();
        assert_eq!(found.parts["companion"], 200);
        assert_eq!(found.parts["trees"], 30);
        assert_eq!(found.parts["none"], 0);
        assert_eq!((found.all, found.rest()), (1_230, 1_000));
    }

    /// Whatever that is: compressed, or not there yet.
    #[test]
    fn a_file_counts_what_the_system_says_that_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let (full, sparse) = (folder.path().join("full"), folder.path().join("sparse"));
        fs::write(&full, vec![1; 3_000_000]).unwrap();
        let hole = fs::File::create(&sparse).unwrap();
        hole.set_len(1 << 30).unwrap();
        for file in [fs::File::open(&full).unwrap(), hole] {
            file.sync_all().unwrap();
        }
        let agrees = || {
            let found = IndexBytes::of(folder.path(), &BTreeMap::new())?;
            let mut system = Command::new("du");
            system.arg("-k").args([&full, &sparse]);
            let said = output_of(&mut system, Duration::from_secs(10))?.stdout;
            let kilobytes = String::from_utf8_lossy(&said)
                .lines()
                .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok())
                .sum::<u64>();
            // Each file is rounded up.
            let rounding = (kilobytes << 10).checked_sub(found.all);
            ensure!(
                rounding.is_some_and(|bytes| bytes < 2 << 10),
                "{} bytes, and du says {kilobytes} KiB",
                found.all
            );
            Ok(found.all)
        };
        // The system may be about to write some of it.
        let all = wait_for("the file system", Duration::from_secs(20), agrees).unwrap();
        assert!(all < 1 << 29, "{all} bytes, most of which are not there");
    }
}
