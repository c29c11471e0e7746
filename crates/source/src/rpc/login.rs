//! Credentials on their way from a file to a header.
//!
//! In: where the secret lies. Out: the value of an `Authorization` header, kept until the file changes or the node refuses it.
//! Zebra writes a new cookie at each start and leaves the old one lying there after a stop, so a file that exists may be stale.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;

use super::Credentials;
use crate::{Error, Result};

/// Longer files hold something else.
const MAX_SECRET_BYTES: u64 = 4096;
/// How often a file is looked at for a change. Refusals look at once.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Login {
    credentials: Credentials,
    known: Mutex<Option<Known>>,
}

struct Known {
    ticket: Ticket,
    stamp: Option<(SystemTime, u64)>,
    looked: Instant,
}

/// What one question is sent with.
#[derive(Clone)]
pub(super) struct Ticket {
    /// Marked as sensitive, so that printing it shows nothing.
    pub(super) header: Option<HeaderValue>,
    /// Grows with each secret.
    version: u64,
    /// Whether the node has taken it before.
    pub(super) proved: bool,
}

impl Login {
    pub(super) fn new(credentials: Credentials) -> Login {
        Login {
            credentials,
            known: Mutex::new(None),
        }
    }

    pub(super) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The header to send now. Reads a small file if it has changed, at most once a second.
    pub(super) fn ticket(&self) -> Result<Ticket> {
        let mut known = self.lock();
        if let Some(known) = known.as_mut() {
            if known.looked.elapsed() < LOOK_EVERY {
                return Ok(known.ticket.clone());
            }
            known.looked = Instant::now();
            let path = self.path();
            // A file that vanished for a moment does not make the secret wrong.
            if path.is_none_or(|path| [known.stamp, None].contains(&stamp(&path))) {
                return Ok(known.ticket.clone());
            }
        }
        self.read(&mut known)
    }

    /// The node took this ticket.
    pub(super) fn proved(&self, ticket: &Ticket) {
        if ticket.proved {
            return;
        }
        if let Some(known) = self.lock().as_mut()
            && known.ticket.version == ticket.version
        {
            known.ticket.proved = true;
        }
    }

    /// The node refused this ticket: whether there is another to try. Reads the file again.
    pub(super) fn refused(&self, ticket: &Ticket) -> bool {
        let mut known = self.lock();
        match self.read(&mut known) {
            Ok(now) => now.version != ticket.version,
            Err(_) => false,
        }
    }

    fn read(&self, known: &mut MutexGuard<'_, Option<Known>>) -> Result<Ticket> {
        let path = self.path();
        // Before the content: if the file changes in between, the next look finds a newer stamp.
        let stamp = path.as_deref().and_then(stamp);
        let header = match (&self.credentials, path) {
            (Credentials::UserPassword { user, .. }, Some(path)) => {
                let password = first_line(&path)?;
                Some(header(&path, &format!("{user}:{password}"))?)
            }
            (_, Some(path)) => {
                let cookie = first_line(&path)?;
                if !cookie.contains(':') {
                    return Err(unreadable(&path, INVALID, "expected a cookie, name:secret"));
                }
                Some(header(&path, &cookie)?)
            }
            (_, None) => None,
        };
        let ticket = match known.as_ref().map(|known| &known.ticket) {
            Some(old) if old.header == header => old.clone(),
            old => Ticket {
                header,
                version: old.map_or(0, |old| old.version + 1),
                proved: false,
            },
        };
        **known = Some(Known {
            ticket: ticket.clone(),
            stamp,
            looked: Instant::now(),
        });
        Ok(ticket)
    }

    fn path(&self) -> Option<PathBuf> {
        match &self.credentials {
            Credentials::None => None,
            Credentials::Cookie(path) if path.is_dir() => Some(path.join(".cookie")),
            Credentials::Cookie(path) => Some(path.clone()),
            Credentials::UserPassword { password_file, .. } => Some(password_file.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        // What is kept is replaced whole, so it is whole even if a holder panicked.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn first_line(path: &Path) -> Result<String> {
    let failed = |source| Error::Credentials {
        path: path.to_owned(),
        source: Arc::new(source),
    };
    // Opening a pipe would wait for somebody to write into it.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(unreadable(path, INVALID, "not a plain file"));
    }
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text))
        .map_err(failed)?;
    if text.len() as u64 > MAX_SECRET_BYTES {
        return Err(unreadable(path, INVALID, "expected one short line"));
    }
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        // Between the node's making the file and its writing it.
        let kind = io::ErrorKind::UnexpectedEof;
        return Err(unreadable(path, kind, "the first line is empty"));
    }
    Ok(line.to_owned())
}

fn header(path: &Path, pair: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
        .map_err(|_| unreadable(path, INVALID, "not usable as credentials"))?;
    value.set_sensitive(true);
    Ok(value)
}

const INVALID: io::ErrorKind = io::ErrorKind::InvalidData;

fn unreadable(path: &Path, kind: io::ErrorKind, problem: &'static str) -> Error {
    Error::Credentials {
        path: path.to_owned(),
        source: Arc::new(io::Error::new(kind, problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(pair: &str) -> String {
        format!("Basic {}", STANDARD.encode(pair))
    }

    fn sent(ticket: &Ticket) -> &str {
        ticket.header.as_ref().unwrap().to_str().unwrap()
    }

    #[test]
    fn a_new_cookie_is_another_ticket_and_an_old_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".cookie");
        let login = Login::new(Credentials::Cookie(folder.path().to_owned()));
        assert!(login.ticket().is_err());

        fs::write(&path, "__cookie__:one").unwrap();
        let first = login.ticket().unwrap();
        assert_eq!(sent(&first), basic("__cookie__:one"));
        assert!(!login.refused(&first));

        fs::write(&path, "__cookie__:two\n").unwrap();
        assert!(login.refused(&first));
        assert_eq!(sent(&login.ticket().unwrap()), basic("__cookie__:two"));
    }

    /// A named pipe as cookie file held the thread that opened it, and with it the whole program's end.
    #[cfg(unix)]
    #[test]
    fn a_pipe_is_no_cookie_file() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let Err(refused) = Login::new(Credentials::Cookie(pipe)).ticket() else {
            panic!("a pipe was taken for a cookie file");
        };
        let Error::Credentials { source, .. } = &refused else {
            panic!("{refused}");
        };
        assert!(source.to_string().contains("plain file"), "{source}");
        assert!(refused.is_credentials() && !refused.is_transient());
    }

    #[test]
    fn a_password_file_gives_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let password_file = folder.path().join("password");
        fs::write(&password_file, "sesame\n").unwrap();
        let login = Login::new(Credentials::UserPassword {
            user: "alice".to_owned(),
            password_file,
        });
        let ticket = login.ticket().unwrap();
        assert_eq!(sent(&ticket), basic("alice:sesame"));
        assert!(!format!("{:?}", ticket.header).contains("YWxpY2U"));
    }

    #[test]
    fn a_ticket_once_taken_stays_proved_until_the_secret_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cookie");
        fs::write(&path, "a:b").unwrap();
        let login = Login::new(Credentials::Cookie(path.clone()));
        let ticket = login.ticket().unwrap();
        login.proved(&ticket);
        assert!(!login.refused(&ticket));
        assert!(login.ticket().unwrap().proved);
        fs::write(&path, "a:c").unwrap();
        assert!(login.refused(&ticket));
        assert!(!login.ticket().unwrap().proved);
    }

    #[test]
    fn what_is_no_secret_is_refused_without_showing_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cookie");
        for content in ["marker", &"marker:".repeat(1000)] {
            fs::write(&path, content).unwrap();
            let Err(error) = Login::new(Credentials::Cookie(path.clone())).ticket() else {
                panic!("{content:.20} is a secret");
            };
            assert!(!format!("{error} {error:?}").contains("marker"));
            assert!(error.is_credentials() && !error.is_transient());
        }
    }
}
