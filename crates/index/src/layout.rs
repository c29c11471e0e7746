//! The names of a store's files, and disk operations that name their file when they fail.

use std::{
    ffi::OsStr,
    fmt::Write,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use lightship_chain::Height;

use crate::{
    Error, Result,
    disk::{Append, Disk, Entry},
    format::Digest,
};

/// A folder on a disk, laid out as a store.
#[derive(Clone)]
pub(crate) struct Layout {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
}

/// The three files of a sealed range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Blocks,
    Transparent,
    Columns,
}

impl Part {
    pub(crate) const ALL: [Part; 3] = [Part::Blocks, Part::Transparent, Part::Columns];

    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Part::Blocks => "blocks",
            Part::Transparent => "transparent",
            Part::Columns => "columns",
        }
    }
}

/// The ending of a file that is not yet part of the store.
pub(crate) const UNFINISHED: &str = "new";
/// The ending of a file of nodes.
const TREES: &str = "trees";

impl Layout {
    pub(crate) fn manifest(&self) -> PathBuf {
        self.dir.join("manifest")
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.dir.join("lock")
    }

    pub(crate) fn sealed(&self) -> PathBuf {
        self.dir.join("sealed")
    }

    pub(crate) fn tail(&self) -> PathBuf {
        self.dir.join("tail")
    }

    pub(crate) fn trees(&self) -> PathBuf {
        self.dir.join("trees")
    }

    /// The nodes that a range completes.
    pub(crate) fn trees_of(&self, first: Height, digest: &Digest) -> PathBuf {
        self.trees()
            .join(range_name(first, digest))
            .with_extension(TREES)
    }

    /// How far the trees behind the sealed ranges were accepted.
    pub(crate) fn accepted_trees(&self) -> PathBuf {
        self.trees().join("accepted")
    }

    pub(crate) fn segment(&self, sequence: u64) -> PathBuf {
        self.tail().join(format!("{sequence:010}.log"))
    }

    /// `sealed/<first height>-<digest prefix>`, to which a part adds its ending.
    pub(crate) fn range(&self, first: Height, digest: &Digest) -> PathBuf {
        self.sealed().join(range_name(first, digest))
    }

    pub(crate) fn part(stem: &Path, part: Part) -> PathBuf {
        stem.with_extension(part.extension())
    }

    pub(crate) fn create_dir(&self, dir: &Path) -> Result<()> {
        self.disk.create_dir(dir).map_err(at("create", dir))
    }

    /// What is in a folder; nothing if it does not exist.
    pub(crate) fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        match self.disk.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(at("list", dir)),
        }
    }

    pub(crate) fn create(&self, file: &Path) -> Result<Box<dyn Append>> {
        self.disk.create(file).map_err(at("create", file))
    }

    pub(crate) fn open_end(&self, file: &Path) -> Result<Box<dyn Append>> {
        self.disk.open_end(file).map_err(at("open", file))
    }

    pub(crate) fn map(&self, file: &Path) -> Result<Bytes> {
        self.disk.map(file).map_err(at("map", file))
    }

    /// Maps a file that the manifest names.
    pub(crate) fn map_named(&self, file: &Path) -> Result<Bytes> {
        match self.disk.map(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::Corrupt {
                path: file.to_owned(),
                offset: 0,
                expected: "a file that the manifest names".to_owned(),
                found: "none".to_owned(),
            }),
            mapped => mapped.map_err(at("map", file)),
        }
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to).map_err(at("rename", from))
    }

    pub(crate) fn remove(&self, file: &Path) -> Result<()> {
        self.disk.remove(file).map_err(at("remove", file))
    }

    pub(crate) fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir).map_err(at("sync", dir))
    }
}

/// `<first height>-<digest prefix>`, the name of a sealed range.
fn range_name(first: Height, digest: &Digest) -> String {
    let mut name = format!("{:010}-", first.get());
    for byte in &digest[..8] {
        write!(name, "{byte:02x}").expect("a string takes all that is written to it");
    }
    name
}

/// Names the operation and the file of a failure.
pub(crate) fn at<'a>(
    operation: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// Whether a name in `sealed/` is one this program gives, so that it may take it away again.
pub(crate) fn is_range_file(name: &OsStr) -> bool {
    is_of_range(name, &Part::ALL.map(Part::extension))
}

/// Whether a name in `trees/` is one this program gives.
pub(crate) fn is_trees_file(name: &OsStr) -> bool {
    is_of_range(name, &[TREES])
}

fn is_of_range(name: &OsStr, extensions: &[&str]) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let name = name.strip_suffix(".new").unwrap_or(name);
    let Some((stem, extension)) = name.rsplit_once('.') else {
        return false;
    };
    let Some((height, rest)) = stem.split_once('-') else {
        return false;
    };
    extensions.contains(&extension)
        && height.len() == 10
        && height.bytes().all(|byte| byte.is_ascii_digit())
        && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a name in `tail/` is one this program gives.
pub(crate) fn is_segment_file(name: &OsStr) -> bool {
    name.to_str()
        .and_then(|name| name.strip_suffix(".log"))
        .is_some_and(|stem| stem.len() >= 10 && stem.bytes().all(|byte| byte.is_ascii_digit()))
}
