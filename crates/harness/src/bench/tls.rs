//! A certificate for one run, and a client that trusts it alone.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Result;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// A certificate for `localhost` and 127.0.0.1 with its key, as PEM files.
pub struct Authority {
    /// The certificate's file.
    pub certificate: PathBuf,
    /// The key's file.
    pub key: PathBuf,
    /// A client that trusts it.
    pub client: Arc<ClientConfig>,
}

impl Authority {
    /// Makes one and writes its files into `folder`.
    ///
    /// # Errors
    ///
    /// When the files cannot be written.
    pub fn make(folder: &Path) -> Result<Authority> {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names)?;
        let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
        fs::write(&certificate, made.cert.pem())?;
        fs::write(&key, made.signing_key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone())?;
        let mut client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Authority {
            certificate,
            key,
            client: Arc::new(client),
        })
    }
}
