//! From the folder that an operator names to the one that the database is in.
//!
//! In: a path, and the network if it is known. Out: the database's folder, of a format that can be read; or what was found instead,
//! and what to do. The newest format wins: Zebra leaves older ones behind until it removes them.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use lightship_chain::Network;

use super::layout::MAJORS;
use crate::{Error, Result};

/// A version file is a line of some ten characters.
const VERSION_BYTES_MOST: u64 = 100;

pub(super) fn wrong(path: &Path, problem: impl Into<String>) -> Error {
    Error::State {
        path: path.to_owned(),
        problem: problem.into(),
    }
}

/// The database's folder in or below `given`.
pub(super) fn find(given: &Path, network: Option<Network>) -> Result<PathBuf> {
    if !given.is_dir() {
        return Err(wrong(
            given,
            "is no folder that can be read: name the one that zebrad's configuration calls state.cache_dir",
        ));
    }
    let found = match is_database(given) {
        true => given.to_owned(),
        false => below(given, network)?,
    };
    check_version(&found)?;
    Ok(found)
}

fn is_database(folder: &Path) -> bool {
    folder.join("CURRENT").is_file()
}

/// In `state/v<major>/<network>`, newest first.
fn below(given: &Path, network: Option<Network>) -> Result<PathBuf> {
    let mut majors: Vec<(u32, PathBuf)> = entries(&given.join("state"))
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            Some((name.strip_prefix('v')?.parse().ok()?, path))
        })
        .collect();
    majors.sort_unstable_by_key(|(major, _)| std::cmp::Reverse(*major));
    for (_, folder) in &majors {
        let mut databases: Vec<PathBuf> = match network {
            Some(network) => vec![folder.join(folder_name(network))],
            None => entries(folder).collect(),
        };
        databases.retain(|path| is_database(path));
        databases.sort();
        match &databases[..] {
            [] => {}
            [one] => return Ok(one.clone()),
            several => {
                let names: Vec<_> = several
                    .iter()
                    .filter_map(|path| path.file_name()?.to_str())
                    .collect();
                return Err(wrong(
                    folder,
                    format!(
                        "holds the states of {}: say which with --network",
                        names.join(", ")
                    ),
                ));
            }
        }
    }
    let whose = network.map_or(String::new(), |network| format!(" of network {network}"));
    let majors: Vec<String> = majors
        .iter()
        .map(|(major, _)| format!("v{major}"))
        .collect();
    let found = match majors.is_empty() {
        true => "no folder state/v*".to_owned(),
        false => format!("only {}", majors.join(", ")),
    };
    Err(wrong(
        given,
        format!(
            "holds no Zebra state{whose} ({found} in it): name the folder that zebrad's configuration calls state.cache_dir"
        ),
    ))
}

/// The folders in `folder`; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
}

/// What Zebra calls the network's folder.
fn folder_name(network: Network) -> &'static str {
    match network {
        Network::Main => "mainnet",
        Network::Test => "testnet",
        Network::Regtest => "regtest",
    }
}

/// Refuses a format that is not known, for its bytes may mean something else.
fn check_version(folder: &Path) -> Result<()> {
    use std::io::Read;
    let path = folder.join("version");
    let mut text = String::new();
    fs::File::open(&path)
        .and_then(|file| file.take(VERSION_BYTES_MOST).read_to_string(&mut text))
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => wrong(
                folder,
                "has no file named version, so it is no Zebra state, or one that a node has only begun",
            ),
            _ => wrong(&path, error.to_string()),
        })?;
    let text = text.trim();
    let major = text.split('.').next().and_then(|major| major.parse().ok());
    match major {
        Some(major) if MAJORS.contains(&major) => Ok(()),
        Some(major) => Err(wrong(
            folder,
            format!(
                "is a Zebra state of format {text}, and formats {} to {} can be read: {}, or leave --zebra-state out and read from the node",
                MAJORS.start(),
                MAJORS.end(),
                match major < *MAJORS.start() {
                    true => "start a newer zebrad once, which upgrades it",
                    false => "use a newer lightship",
                }
            ),
        )),
        None => Err(wrong(
            &path,
            format!("holds {text:?} instead of a version such as 29.0.0"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, major: u32, name: &str, version: &str) -> PathBuf {
        let folder = root.join(format!("state/v{major}/{name}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("CURRENT"), "MANIFEST-000005\n").unwrap();
        fs::write(folder.join("version"), version).unwrap();
        folder
    }

    #[test]
    fn the_newest_state_of_the_network_is_found_and_the_folder_itself_is_too() {
        let root = tempfile::tempdir().unwrap();
        make(root.path(), 28, "mainnet", "28.1.5");
        let new = make(root.path(), 29, "mainnet", "29.0.0+indexer\n");
        let test = make(root.path(), 27, "testnet", "27.0.0");
        let find = |network| find(root.path(), network).unwrap();
        assert_eq!(find(Some(Network::Main)), new);
        assert_eq!(find(Some(Network::Test)), test);
        assert_eq!(find(None), new);
        assert_eq!(super::find(&new, None).unwrap(), new);
    }

    #[test]
    fn what_is_wrong_is_told_with_the_remedy() {
        let told = |root: &Path, network| find(root, network).unwrap_err().to_string();
        let root = tempfile::tempdir().unwrap();
        assert!(told(&root.path().join("nowhere"), None).contains("state.cache_dir"));
        assert!(told(root.path(), None).contains("no folder state/v*"));
        make(root.path(), 29, "mainnet", "29.0.0");
        let message = told(root.path(), Some(Network::Regtest));
        assert!(
            message.contains("regtest") && message.contains("v29"),
            "{message}"
        );
        make(root.path(), 29, "testnet", "29.0.0");
        assert!(told(root.path(), None).contains("mainnet, testnet: say which with --network"));
        for (major, version, remedy) in [
            (30, "30.1.0", "use a newer lightship"),
            (31, "25.3.0", "start a newer zebrad once"),
            (32, "latest", "instead of a version"),
        ] {
            make(root.path(), major, "mainnet", version);
            let message = told(root.path(), Some(Network::Main));
            assert!(
                message.contains(version) && message.contains(remedy),
                "{message}"
            );
        }
        let bare = make(root.path(), 33, "mainnet", "29.0.0");
        fs::remove_file(bare.join("version")).unwrap();
        assert!(told(root.path(), Some(Network::Main)).contains("no file named version"));
    }
}
