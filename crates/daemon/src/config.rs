//! What is used: the typed flags, checked together and turned into types that cannot hold nonsense.
//!
//! In: [`crate::cli`]'s values. Out: settings for the rooms. Touches nothing: whether a file can be read or a port is free is
//! found out by those who use them.

use std::{num::NonZeroU32, num::NonZeroUsize, path::PathBuf, thread, time::Duration};

use lightship_chain::Network;
use lightship_serve::Origins;
use lightship_source::{
    indexer::Indexer,
    rpc::{Credentials, Endpoint},
};

use crate::cli::{ListenArgs, NodeArgs, StoreArgs};

/// Threads for the build are bounded, for a node serves no faster than this to more.
const MOST_BUILD_THREADS: usize = 8;

/// A contradiction or a value that cannot be used, with the flag to mend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--network` is none of the known ones.
    #[error("--network {typed}: expected main, test, regtest or auto")]
    Network {
        /// What was typed.
        typed: String,
    },
    /// `--node` is no address, or its credentials make no sense.
    #[error("--node")]
    Node(#[from] lightship_source::Error),
    /// `--zebra-state`, in a program that cannot read it.
    #[error(
        "--zebra-state: this program was built without it; build it with `cargo build --release --features zebra-state`, or leave the flag out and read from the node"
    )]
    NoZebraState,
    /// `--zebra-indexer` is no address.
    #[error("--zebra-indexer")]
    Indexer(#[source] lightship_source::Error),
    /// `--donation-address` is no unified address.
    #[error(
        "--donation-address: expected a unified address (u1…, utest1… or uregtest1…) of at most 255 characters"
    )]
    DonationAddress,
    /// A setting without which the command makes no sense.
    #[error(
        "{flag} is missing: give the flag, {variable}, or {key} in the file that --config names"
    )]
    Missing {
        /// The flag.
        flag: &'static str,
        /// Its variable.
        variable: &'static str,
        /// Its key.
        key: &'static str,
    },
    /// Half of a login.
    #[error("--node-user and --node-password-file go together: give both or neither")]
    HalfLogin,
    /// Two logins.
    #[error("--node-cookie and --node-user exclude each other: give one of them")]
    TwoLogins,
    /// `--tls-cert` without `--tls-key`, or the other way round.
    #[error("--tls-cert and --tls-key go together: give both or neither")]
    HalfCertificate,
    /// `--cors-origins` holds something that no browser calls its page's origin.
    #[error(
        "--cors-origins: {typed:?} is no origin: expected *, none, or a list such as https://wallet.example"
    )]
    Origin {
        /// What was typed.
        typed: String,
    },
}

/// The network a node must be on; `None` takes the one it is on.
pub fn network(typed: &str) -> Result<Option<Network>, Error> {
    match typed {
        "auto" => Ok(None),
        name => name.parse().map(Some).map_err(|_| Error::Network {
            typed: name.to_owned(),
        }),
    }
}

/// How to reach the node.
pub fn endpoint(typed: &NodeArgs) -> Result<Endpoint, Error> {
    let node = typed.node.as_deref().ok_or(Error::Missing {
        flag: "--node",
        variable: "LIGHTSHIP_NODE",
        key: "node",
    })?;
    let credentials = match (
        &typed.node_cookie,
        &typed.node_user,
        &typed.node_password_file,
    ) {
        (None, None, None) => Credentials::None,
        (Some(cookie), None, None) => Credentials::Cookie(cookie.clone()),
        (None, Some(user), Some(password_file)) => Credentials::UserPassword {
            user: user.clone(),
            password_file: password_file.clone(),
        },
        (Some(_), _, _) => return Err(Error::TwoLogins),
        (None, _, _) => return Err(Error::HalfLogin),
    };
    Ok(Endpoint {
        poll: pace(typed).poll,
        ..Endpoint::new(node, credentials)?
    })
}

/// Where the node pushes, if it does.
pub fn indexer(typed: Option<&str>) -> Result<Option<Indexer>, Error> {
    typed.map(Indexer::new).transpose().map_err(Error::Indexer)
}

/// How often a node is asked for its tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Between two looks while nobody asks for the tip.
    pub poll: Duration,
    /// At least, between two looks because somebody does.
    pub gap: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        let usual = lightship_ingest::Settings::default();
        Pace {
            poll: usual.poll,
            gap: usual.nudge_gap,
        }
    }
}

/// From what was typed.
pub fn pace(typed: &NodeArgs) -> Pace {
    Pace {
        poll: Duration::from_millis(typed.tip_poll),
        gap: Duration::from_millis(typed.tip_gap),
    }
}

/// Where the index lies and how it is built.
#[derive(Clone, Debug)]
pub struct Store {
    /// The folder.
    pub data_dir: PathBuf,
    /// Blocks in each sealed range of a new index; an existing one keeps its own.
    pub range_blocks: Option<NonZeroU32>,
    /// Threads that fetch and parse during the build.
    pub build_threads: NonZeroUsize,
    /// How many of the newest blocks are built before the older ones.
    pub newest_first_blocks: u32,
}

impl Store {
    /// From what was typed.
    pub fn new(typed: &StoreArgs) -> Result<Store, Error> {
        let data_dir = typed.data_dir.clone().ok_or(Error::Missing {
            flag: "--data-dir",
            variable: "LIGHTSHIP_DATA_DIR",
            key: "data-dir",
        })?;
        let usual = Store::in_folder(data_dir);
        Ok(Store {
            range_blocks: typed.range_blocks,
            build_threads: typed.build_threads.unwrap_or(usual.build_threads),
            newest_first_blocks: typed.newest_first,
            ..usual
        })
    }

    /// In that folder, with the machine's cores as the number of threads.
    pub fn in_folder(data_dir: PathBuf) -> Store {
        let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let most = NonZeroUsize::new(MOST_BUILD_THREADS).expect("the bound is not zero");
        Store {
            data_dir,
            range_blocks: None,
            build_threads: cores.min(most),
            newest_first_blocks: lightship_ingest::Settings::default().newest_first_blocks,
        }
    }
}

/// The files of the certificate, chain and key.
pub fn certificate(typed: &ListenArgs) -> Result<Option<(PathBuf, PathBuf)>, Error> {
    match (&typed.tls_cert, &typed.tls_key) {
        (Some(chain), Some(key)) => Ok(Some((chain.clone(), key.clone()))),
        (None, None) => Ok(None),
        _ => Err(Error::HalfCertificate),
    }
}

/// The pages that may call over gRPC-web.
///
/// Spec: RFC 6454 §6.2 for how an origin is written.
pub fn origins(typed: &str) -> Result<Origins, Error> {
    match typed.trim() {
        "*" => Ok(Origins::Any),
        "none" => Ok(Origins::These(Vec::new())),
        list => list
            .split(',')
            .map(|origin| {
                let origin = origin.trim();
                let wrong = || Error::Origin {
                    typed: origin.to_owned(),
                };
                match origin.split_once("://") {
                    Some((scheme, host))
                        if !scheme.is_empty() && !host.is_empty() && !host.contains('/') =>
                    {
                        origin.parse().map_err(|_| wrong())
                    }
                    _ => Err(wrong()),
                }
            })
            .collect::<Result<_, _>>()
            .map(Origins::These),
    }
}

/// The donation address, checked for its shape; whether it decodes for the network is left to wallets.
///
/// Spec: lightwallet protocol, `LightdInfo.donationAddress`; ZIP 316 for the prefixes.
pub fn donation_address(typed: Option<&str>) -> Result<Option<String>, Error> {
    let Some(address) = typed else {
        return Ok(None);
    };
    let plausible = ["u1", "utest1", "uregtest1"]
        .iter()
        .any(|prefix| address.starts_with(prefix))
        && address.len() <= 255
        && address
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if plausible {
        Ok(Some(address.to_owned()))
    } else {
        Err(Error::DonationAddress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_network_is_named() {
        assert_eq!(network("auto").unwrap(), None);
        assert_eq!(network("test").unwrap(), Some(Network::Test));
        let refused = network("mainnet").unwrap_err().to_string();
        assert_eq!(
            refused,
            "--network mainnet: expected main, test, regtest or auto"
        );
    }

    #[test]
    fn origins_are_written_as_browsers_write_them() {
        assert_eq!(origins("*").unwrap(), Origins::Any);
        assert_eq!(origins("none").unwrap(), Origins::These(Vec::new()));
        let both = origins("https://a.example, chrome-extension://b").unwrap();
        let expected =
            ["https://a.example", "chrome-extension://b"].map(|one| one.parse().unwrap());
        assert_eq!(both, Origins::These(expected.into()));
        for wrong in [
            "",
            "a.example",
            "https://a.example/",
            "https://a,",
            "https://",
        ] {
            assert!(origins(wrong).is_err(), "{wrong}");
        }
    }

    fn node(cookie: bool, user: bool, password: bool) -> Result<Endpoint, Error> {
        endpoint(&NodeArgs {
            node: Some("http://127.0.0.1:8232".into()),
            node_cookie: cookie.then(|| "cookie".into()),
            node_user: user.then(|| "user".into()),
            node_password_file: password.then(|| "password".into()),
            zebra_state: None,
            network: "auto".into(),
            tip_poll: 250,
            tip_gap: 10,
        })
    }

    #[test]
    fn one_whole_login_or_none_is_taken() {
        for (cookie, user, password) in [
            (false, false, false),
            (true, false, false),
            (false, true, true),
        ] {
            assert!(node(cookie, user, password).is_ok());
        }
        let refused = node(false, true, false).unwrap_err().to_string();
        assert!(refused.contains("--node-password-file"), "{refused}");
        assert!(node(false, false, true).is_err());
        let refused = node(true, true, true).unwrap_err().to_string();
        assert!(refused.contains("--node-cookie"), "{refused}");
    }

    #[test]
    fn a_transparent_donation_address_is_refused() {
        assert!(donation_address(Some("t1abc")).is_err());
        assert!(donation_address(Some("u1abc def")).is_err());
        assert_eq!(
            donation_address(Some("u1abc")).unwrap().as_deref(),
            Some("u1abc")
        );
        assert_eq!(donation_address(None).unwrap(), None);
    }
}
