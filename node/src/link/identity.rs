//! Who this node is in its cluster: a key that never leaves the machine, and a certificate for it.

use rcgen::{CertificateParams, KeyPair};
use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use wire::link::JoinAnswer;
use wire::replace::replace_for_good;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate is renewed after this part of its life.
const RENEWED_AFTER: u64 = 3;

/// What a member has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The key, as PEM.
    pub key: String,
    /// The certificate, as PEM.
    pub certificate: String,
    /// The authority's, as PEM.
    pub authority: String,
    /// Where the masters are.
    pub masters: Vec<String>,
}

/// Where it is kept.
pub fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("cluster")
}

/// A new key, as PEM, and a request for a certificate for it.
pub(crate) fn new_key() -> Result<(String, String), String> {
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let request = request_for(&key)?;
    Ok((key.serialize_pem(), request))
}

fn request_for(key: &KeyPair) -> Result<String, String> {
    let request = CertificateParams::default().serialize_request(key).and_then(|request| request.pem());
    request.map_err(|error| error.to_string())
}

impl Identity {
    /// Reads it; nothing if this node never joined.
    pub fn load(folder: &Path) -> io::Result<Option<Self>> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name));
        let certificate = match read("certificate.pem") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let masters = read("masters")?.lines().map(str::to_owned).collect();
        Ok(Some(Self { key: read("key.pem")?, certificate, authority: read("authority.pem")?, masters }))
    }

    /// Keeps it, for root only. The certificate comes last: without it there is nothing.
    pub fn save(&self, folder: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        write(folder, "key.pem", &self.key)?;
        write(folder, "authority.pem", &self.authority)?;
        self.save_masters(folder)?;
        write(folder, "certificate.pem", &self.certificate)
    }

    /// Keeps where the masters are.
    pub fn save_masters(&self, folder: &Path) -> io::Result<()> {
        write(folder, "masters", &(self.masters.join("\n") + "\n"))
    }

    /// A request for a new certificate for the same key; nothing while the one there is young. A file's age says nothing of it: files
    /// are copied and restored.
    pub(crate) fn renewal(&self, now: SystemTime) -> Option<String> {
        let der = self.certificate_der()?;
        let (_, read) = X509Certificate::from_der(&der).ok()?;
        let at = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).ok();
        let (from, until) = (at(read.validity().not_before)?, at(read.validity().not_after)?);
        let old_at = Duration::from_secs(from + until.saturating_sub(from) / RENEWED_AFTER);
        (now >= SystemTime::UNIX_EPOCH + old_at).then_some(())?;
        request_for(&KeyPair::from_pem(&self.key).ok()?).ok()
    }

    /// With a new certificate.
    pub(crate) fn renewed(self, answer: JoinAnswer) -> Self {
        Self { certificate: answer.certificate, ..self }
    }

    /// The digest of the authority's certificate, as a token has it.
    pub(crate) fn authority_digest(&self) -> String {
        self.authority_der().map(|der| digest(&der)).unwrap_or_default()
    }

    pub(crate) fn authority_der(&self) -> Option<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.authority.as_bytes()).ok()
    }

    pub(crate) fn certificate_der(&self) -> Option<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok()
    }

    pub(crate) fn key_der(&self) -> Option<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).ok()
    }
}

/// SHA-256, in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    replace_for_good(&folder.join(name), text, 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_kept_is_read_back_and_for_nobody_else() {
        let places = tempfile::tempdir().unwrap();
        let folder = folder(places.path());
        assert_eq!(Identity::load(&folder).unwrap(), None);
        let (key, _) = new_key().unwrap();
        let identity = Identity {
            key,
            certificate: "c".to_owned(),
            authority: "a".to_owned(),
            masters: vec!["one:1".to_owned(), "two:2".to_owned()],
        };
        identity.save(&folder).unwrap();
        assert_eq!(Identity::load(&folder).unwrap(), Some(identity.clone()));
        let mode = std::fs::metadata(folder.join("key.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_certificate_says_itself_when_it_is_old() {
        const DAY: Duration = Duration::from_hours(24);
        let (key, _) = new_key().unwrap();
        let mut about = CertificateParams::default();
        let now = SystemTime::now();
        (about.not_before, about.not_after) = (now.into(), (now + 90 * DAY).into());
        let certificate = about.self_signed(&KeyPair::from_pem(&key).unwrap()).unwrap().pem();
        let identity = Identity { key, certificate, authority: String::new(), masters: Vec::new() };
        assert_eq!(identity.renewal(now + 29 * DAY), None, "it is young");
        assert!(identity.renewal(now + 31 * DAY).is_some());
    }
}
