use std::time::Duration;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::*;

/// A folder with a pair in it.
struct Folder {
    dir: TempDir,
}

struct Fresh {
    chain: String,
    key: String,
}

fn fresh(last_year: i32) -> Fresh {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(last_year, 1, 1);
    let key = KeyPair::generate().unwrap();
    Fresh {
        chain: params.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

impl Folder {
    fn new(pair: &Fresh) -> Folder {
        let folder = Folder {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::write(folder.chain(), &pair.chain).unwrap();
        fs::write(folder.key(), &pair.key).unwrap();
        folder
    }

    fn chain(&self) -> PathBuf {
        self.dir.path().join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    fn load(&self) -> Result<Certificate, CertificateError> {
        Certificate::load(self.chain(), self.key())
    }

    fn rename_over(&self, path: &Path, text: &str) {
        let beside = self.dir.path().join("new");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, path).unwrap();
    }
}

fn shown(certificate: &Certificate) -> Vec<u8> {
    certificate.shown.get().certified.cert[0].to_vec()
}

fn der(pair: &Fresh) -> Vec<u8> {
    CertificateDer::from_pem_slice(pair.chain.as_bytes())
        .unwrap()
        .to_vec()
}

#[test]
fn the_end_of_a_certificate_is_read() {
    for (year, seconds) in [(2049, 2_493_072_000), (2050, 2_524_608_000)] {
        let folder = Folder::new(&fresh(year));
        let expires = folder.load().unwrap().expires();
        assert_eq!(
            expires.duration_since(UNIX_EPOCH).unwrap(),
            Duration::from_secs(seconds)
        );
    }
}

#[test]
fn a_cut_certificate_has_no_end() {
    let whole = der(&fresh(2049));
    for length in 0..whole.len() {
        assert_eq!(expiry::not_after(&whole[..length]), None, "{length}");
    }
    for at in 0..whole.len() {
        let mut bent = whole.clone();
        bent[at] ^= 0xff;
        let _ = expiry::not_after(&bent);
    }
}

#[test]
fn an_end_in_sight_is_warned_of() {
    let now = SystemTime::now();
    let day = Duration::from_secs(86_400);
    assert_eq!(warning(now + 15 * day, now), None);
    assert!(warning(now + 13 * day, now).unwrap().contains("312 h"));
    assert!(warning(now - day, now).unwrap().contains("expired"));
    let expired = Folder::new(&fresh(2021));
    assert!(expired.load().is_ok(), "an expired one is better than none");
}

#[test]
fn what_does_not_fit_is_told_by_the_file_to_mend() {
    let (one, other) = (fresh(2049), fresh(2049));
    let folder = Folder::new(&one);
    let problem = || folder.load().unwrap_err().to_string();
    fs::write(folder.key(), &other.key).unwrap();
    assert!(problem().contains("does not fit"), "{}", problem());
    fs::write(folder.key(), "no key").unwrap();
    assert!(problem().contains("key.pem holds no PEM private key"));
    fs::write(folder.key(), &one.key).unwrap();
    fs::write(folder.chain(), &one.chain[..200]).unwrap();
    assert!(problem().contains("chain.pem holds no PEM certificate"));
    fs::write(folder.chain(), vec![b'x'; 2 << 20]).unwrap();
    assert!(problem().contains("longer than"));
    fs::remove_file(folder.chain()).unwrap();
    assert!(problem().contains("cannot read"));
}

#[test]
fn renewal_by_rename_is_noticed_in_either_order() {
    let [one, two, three] = [(); 3].map(|()| fresh(2049));
    let folder = Folder::new(&one);
    let certificate = folder.load().unwrap();
    certificate.look();
    assert_eq!(shown(&certificate), der(&one));
    // The key first: for a moment the pair does not fit.
    folder.rename_over(&folder.key(), &two.key);
    certificate.look();
    certificate.look();
    assert_eq!(shown(&certificate), der(&one));
    folder.rename_over(&folder.chain(), &two.chain);
    certificate.look();
    assert_eq!(shown(&certificate), der(&two));
    // The chain first, half written.
    fs::write(folder.chain(), &three.chain[..300]).unwrap();
    certificate.look();
    assert_eq!(shown(&certificate), der(&two));
    fs::write(folder.chain(), &three.chain).unwrap();
    certificate.look();
    assert_eq!(shown(&certificate), der(&two));
    folder.rename_over(&folder.key(), &three.key);
    certificate.look();
    assert_eq!(shown(&certificate), der(&three));
}

#[cfg(unix)]
#[test]
fn renewal_by_a_swapped_link_is_noticed() {
    use std::os::unix::fs::symlink;
    let (one, two) = (Folder::new(&fresh(2049)), Folder::new(&fresh(2049)));
    let live = tempfile::tempdir().unwrap();
    let link = live.path().join("current");
    symlink(one.dir.path(), &link).unwrap();
    let certificate = Certificate::load(link.join("chain.pem"), link.join("key.pem")).unwrap();
    let before = shown(&certificate);
    let beside = live.path().join("next");
    symlink(two.dir.path(), &beside).unwrap();
    fs::rename(beside, &link).unwrap();
    certificate.look();
    assert_ne!(shown(&certificate), before);
}
