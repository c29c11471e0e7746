//! Where a node's RPC is, and how patiently it is asked.

use std::{fmt, num::NonZeroUsize, path::PathBuf, time::Duration};

use crate::{Error, Result};

/// A node's JSON-RPC server: its address, what opens it, and the bounds on every wait and count.
///
/// Holds no secret: credentials are named by the file they lie in.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Where it listens.
    pub address: Address,
    /// What opens it.
    pub credentials: Credentials,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// How long one answer may take, from connecting to its last byte.
    pub timeout: Duration,
    /// For how long a failed question is repeated within one call, with growing pauses, before the failure is passed on.
    /// Answers that took too long are not repeated.
    pub patience: Duration,
    /// How often the tip is asked for while waiting for a new one.
    pub poll: Duration,
    /// Questions open at a time. Zebra answers 100 and refuses more with HTTP 429; zcashd works on 4 and queues 16. A
    /// refusal lowers the number in use for a while, never below 4.
    pub max_in_flight: NonZeroUsize,
    /// The largest answer that is read, in bytes. Zebra itself stops at 50 MiB.
    pub max_answer_bytes: usize,
}

impl Endpoint {
    /// The endpoint at `url`, which is `http://host:port[/path]` or `host:port`, with the usual bounds: 5 s to connect, 30 s to
    /// answer, 2 s of repeating, 4 polls a second, 32 questions at a time, 64 MiB an answer.
    ///
    /// # Errors
    ///
    /// [`Error::Endpoint`] if it is neither; a user name or password in it is refused too, and not repeated in the message.
    pub fn new(url: &str, credentials: Credentials) -> Result<Endpoint> {
        Ok(Endpoint {
            address: Address::parse(url)?,
            credentials,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            patience: Duration::from_secs(2),
            poll: Duration::from_millis(250),
            max_in_flight: NonZeroUsize::new(32).expect("32 is not 0"),
            max_answer_bytes: 64 << 20,
        })
    }
}

/// What opens a node's RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing: the node asks for nothing.
    None,
    /// The cookie file that the node writes at each start (or the folder that holds it as `.cookie`). Read again whenever it changes.
    Cookie(PathBuf),
    /// A user name, and the file that holds the password (its first line).
    UserPassword {
        /// `rpcuser` in the node's settings.
        user: String,
        /// Holds `rpcpassword`.
        password_file: PathBuf,
    },
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::None => f.write_str("none"),
            Credentials::Cookie(path) => write!(f, "cookie file {}", path.display()),
            Credentials::UserPassword { password_file, .. } => {
                write!(f, "password file {}", password_file.display())
            }
        }
    }
}

/// Host, port and path of a node's RPC. Displayed as `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    authority: String,
    path: String,
}

impl Address {
    /// From `http://host:port[/path]` or `host:port`.
    pub(crate) fn parse(url: &str) -> Result<Address> {
        let without_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
        let without_secrets = without_scheme
            .rsplit_once('@')
            .map_or(without_scheme, |(_, rest)| rest);
        let refuse = |problem: &str| {
            Err(Error::Endpoint {
                url: without_secrets.to_owned(),
                problem: problem.to_owned(),
            })
        };
        match url.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return refuse(
                    "nodes' RPC is plain HTTP; put a tunnel in front and name its http:// address",
                );
            }
            Some((scheme, _)) if !scheme.eq_ignore_ascii_case("http") => {
                return refuse("expected http://host:port");
            }
            _ => {}
        }
        if without_scheme.contains('@') {
            return refuse(
                "a password does not belong in an address; name a cookie or password file instead",
            );
        }
        let (authority, path) = match without_scheme.find('/') {
            Some(at) => without_scheme.split_at(at),
            None => (without_scheme, "/"),
        };
        let Some((host, port)) = authority.rsplit_once(':') else {
            return refuse(
                "the port is missing (zcashd and zebrad are usually given 8232 on the main network, 18232 on the others)",
            );
        };
        if port.parse::<u16>().is_ok_and(|port| port != 0) {
            if let Ok(uri) = format!("http://{authority}{path}").parse::<http::Uri>()
                && !host.is_empty()
                && uri.host().is_some()
                && !path.contains(['?', '#'])
            {
                return Ok(Address {
                    authority: authority.to_owned(),
                    path: path.to_owned(),
                });
            }
            return refuse("expected http://host:port, with an IPv6 host in brackets");
        }
        refuse("the port is not a number from 1 to 65535")
    }

    /// `host:port`.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// What follows the port, at least `/`.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// `http://host:port/path`.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.authority, self.path)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (text, url) in [
            ("127.0.0.1:8232", "http://127.0.0.1:8232/"),
            ("http://node.example:18232", "http://node.example:18232/"),
            ("HTTP://node.example:18232", "http://node.example:18232/"),
            ("http://[::1]:8232/rpc", "http://[::1]:8232/rpc"),
        ] {
            assert_eq!(Address::parse(text).unwrap().url(), url);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_remedy() {
        for (text, part) in [
            ("https://node:8232", "plain HTTP"),
            ("ftp://node:8232", "http://host:port"),
            ("node", "port is missing"),
            ("http://node:0", "1 to 65535"),
            ("http://node:99999", "1 to 65535"),
            ("http://:8232", "expected http://host:port"),
            ("::1:8232", "brackets"),
            ("http://node:8232/?a", "expected"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        let error = Address::parse("http://alice:hunter2@node:8232").unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains("password file"), "{text}");
        assert!(
            !text.contains("hunter2") && !text.contains("alice"),
            "{text}"
        );
    }
}
