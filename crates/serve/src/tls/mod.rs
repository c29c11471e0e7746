//! TLS on the wallet port: one certificate, read again when its files change.
//!
//! In: the paths of a PEM chain and its PEM key. Out: a server that shows the newest pair that was fit to show. Connections that are
//! open keep what they began with. A pair that does not fit (half written, key before chain, wrong key) is left aside with a
//! warning, and the one before stays in use. Which TLS versions and ciphers there are is left to `rustls`.

mod expiry;

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(5);
/// A certificate that ends sooner than this is warned of.
const SOON: Duration = Duration::from_secs(14 * 86_400);
/// How often that warning is repeated.
const REMIND: Duration = Duration::from_secs(86_400);
/// No chain and no key is longer than this.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// HTTP/2 first: gRPC clients offer nothing else, browsers offer both.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Why a certificate cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is longer than any chain or key.
    #[error("{path} is longer than {MAX_FILE_BYTES} bytes, so it is no certificate or key")]
    TooLong {
        /// Which.
        path: PathBuf,
    },
    /// There is no certificate in the chain's file.
    #[error("{path} holds no PEM certificate")]
    NoCertificate {
        /// Which.
        path: PathBuf,
    },
    /// There is no private key in the key's file.
    #[error("{path} holds no PEM private key")]
    NoKey {
        /// Which.
        path: PathBuf,
    },
    /// A certificate that says nothing of its dates.
    #[error("the certificate in {path} has no readable dates")]
    Dates {
        /// Which.
        path: PathBuf,
    },
    /// The key is not the certificate's, or of a kind that is not known.
    #[error("the key in {key} does not fit the certificate in {chain}")]
    Pair {
        /// The chain's file.
        chain: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What the library said.
        source: rustls::Error,
    },
    /// The system has no randomness to make keys for session tickets from.
    #[error("TLS cannot be set up")]
    SetUp {
        /// What the library said.
        source: rustls::Error,
    },
}

/// The certificate that the server shows, and where it is read from.
pub struct Certificate {
    files: Files,
    shown: Shown,
    config: Arc<ServerConfig>,
    watched: Mutex<Watched>,
}

#[derive(Clone, Debug)]
struct Files {
    chain: PathBuf,
    key: PathBuf,
}

/// What has been noticed, so that it is said once.
#[derive(Default)]
struct Watched {
    /// The files' state when the pair in use, or one that was left aside, was read.
    stamp: Option<[Stamp; 2]>,
    /// Why the newest pair was left aside.
    problem: Option<String>,
    reminded: Option<SystemTime>,
}

/// What tells one state of a file from another.
type Stamp = Option<(SystemTime, u64, u64)>;

/// A pair that fits.
#[derive(Debug)]
struct Pair {
    certified: Arc<CertifiedKey>,
    expires: SystemTime,
}

/// The pair that new connections get.
#[derive(Clone, Debug)]
struct Shown(Arc<RwLock<Arc<Pair>>>);

impl Shown {
    fn get(&self) -> Arc<Pair> {
        // An `Arc` is whole after any panic.
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, pair: Pair) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.get().certified))
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate")
            .field("chain", &self.files.chain)
            .finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads the PEM files `chain` (the server's certificate first, then those that lead to a root) and `key`.
    ///
    /// An expired certificate is taken, with a warning: the operator may have nothing better at the moment.
    ///
    /// # Errors
    ///
    /// If the pair cannot be read or does not fit together.
    pub fn load(chain: PathBuf, key: PathBuf) -> Result<Certificate, CertificateError> {
        let files = Files { chain, key };
        let provider = Arc::new(ring::default_provider());
        let watched = Watched {
            stamp: Some(files.stamp()),
            ..Watched::default()
        };
        let shown = Shown(Arc::new(RwLock::new(Arc::new(files.read(&provider)?))));
        let set_up = |source| CertificateError::SetUp { source };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(set_up)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(shown.clone()));
        config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
        config.ticketer = ring::Ticketer::new().map_err(set_up)?;
        let certificate = Certificate {
            files,
            shown,
            config: Arc::new(config),
            watched: Mutex::new(watched),
        };
        certificate.remind(SystemTime::now());
        Ok(certificate)
    }

    /// When the certificate in use ends: the earliest end in its chain.
    pub fn expires(&self) -> SystemTime {
        self.shown.get().expires
    }

    /// Reads the files again, whether they look changed or not. Says in the log what came of it.
    pub fn reload(&self) {
        let mut watched = self.lock();
        let stamp = self.files.stamp();
        match self.files.read(self.config.crypto_provider()) {
            Ok(pair) => {
                self.shown.set(pair);
                *watched = Watched::default();
                tracing::info!("the TLS certificate was read again");
            }
            Err(error) => {
                let problem = chain_of(&error);
                if watched.problem.as_ref() != Some(&problem) || watched.stamp != Some(stamp) {
                    tracing::warn!(
                        "the new TLS certificate is left aside and the old one kept: {problem}"
                    );
                }
                watched.problem = Some(problem);
            }
        }
        watched.stamp = Some(stamp);
        drop(watched);
        self.remind(SystemTime::now());
    }

    /// Looks at the files for ever.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            self.remind(SystemTime::now());
            tokio::time::sleep(LOOK).await;
            let look = Arc::clone(&self);
            // A panic there is the runtime's to report; the next look is a new one.
            let _ = tokio::task::spawn_blocking(move || look.look()).await;
        }
    }

    /// Reads the files again if they have changed, or were not fit the last time.
    fn look(&self) {
        let again = {
            let watched = self.lock();
            watched.problem.is_some() || watched.stamp != Some(self.files.stamp())
        };
        if again {
            self.reload();
        }
    }

    /// Shows the certificate's end as a metric, and warns when it is near.
    fn remind(&self, now: SystemTime) {
        let expires = self.expires();
        let since_epoch = expires.duration_since(UNIX_EPOCH).unwrap_or_default();
        metrics::gauge!("lightship_tls_certificate_expiry_seconds")
            .set(since_epoch.as_secs() as f64);
        let Some(warning) = warning(expires, now) else {
            return;
        };
        let mut watched = self.lock();
        let due = watched.reminded.is_none_or(|last| {
            now.duration_since(last)
                .is_ok_and(|passed| passed >= REMIND)
        });
        if due {
            watched.reminded = Some(now);
            tracing::warn!("{warning}");
        }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Watched> {
        // Its fields are independent notes.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to say of a certificate that ends at `expires`; `None` if that is far off.
fn warning(expires: SystemTime, now: SystemTime) -> Option<String> {
    match expires.duration_since(now) {
        Err(_) => Some("the TLS certificate has expired: wallets will refuse this server".into()),
        Ok(left) if left < SOON => Some(format!(
            "the TLS certificate ends in {} h: renew it",
            left.as_secs() / 3_600
        )),
        Ok(_) => None,
    }
}

fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

impl Files {
    fn stamp(&self) -> [Stamp; 2] {
        [&self.chain, &self.key].map(|path| stamp(path))
    }

    fn read(&self, provider: &CryptoProvider) -> Result<Pair, CertificateError> {
        let certificates: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(&bytes(&self.chain)?)
                .collect::<Result<_, _>>()
                .unwrap_or_default();
        if certificates.is_empty() {
            return Err(CertificateError::NoCertificate {
                path: self.chain.clone(),
            });
        }
        let expires = certificates
            .iter()
            .map(|certificate| expiry::not_after(certificate))
            .min()
            .flatten()
            .ok_or_else(|| CertificateError::Dates {
                path: self.chain.clone(),
            })?;
        let key = PrivateKeyDer::from_pem_slice(&bytes(&self.key)?).map_err(|_| {
            CertificateError::NoKey {
                path: self.key.clone(),
            }
        })?;
        let certified = CertifiedKey::from_der(certificates, key, provider).map_err(|source| {
            CertificateError::Pair {
                chain: self.chain.clone(),
                key: self.key.clone(),
                source,
            }
        })?;
        Ok(Pair {
            certified: Arc::new(certified),
            expires,
        })
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let read = |source| CertificateError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    File::open(path)
        .map_err(read)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(read)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(CertificateError::TooLong {
            path: path.to_owned(),
        });
    }
    Ok(bytes)
}

/// Of the file that a symbolic link leads to, for renewal may swap the link only.
fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len(), number(&found)))
}

#[cfg(unix)]
fn number(found: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

#[cfg(not(unix))]
fn number(_: &fs::Metadata) -> u64 {
    0
}

#[cfg(test)]
mod tests;
