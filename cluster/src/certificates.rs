//! The cluster's authority: whom it vouches for, and how long.
//!
//! A certificate says one of two things: this is a master, or this is the agent of the node with this name. The name
//! alone is not enough to report: the node's key must be the one that joined (see [`wire::kept`]), so that taking a node
//! out of the list makes its certificate worthless at once, without lists of what was revoked.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt::Write;
use std::time::{Duration, SystemTime};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use wire::link::{AGENT_NAME, MASTER_NAME};
use wire::token::SECRET_DIGITS;
use x509_parser::prelude::{FromDer, X509Certificate};

const DAY: Duration = Duration::from_hours(24);
/// The authority outlives the machines.
const AUTHORITY_LIFE: Duration = Duration::from_hours(24 * 3650);
/// As long as swarm's own.
pub const AGENT_LIFE: Duration = Duration::from_hours(24 * 90);
/// A master makes itself a new one each time it starts.
const MASTER_LIFE: Duration = Duration::from_hours(24 * 365);
/// Clocks differ.
const BEFORE: Duration = Duration::from_hours(1);
/// The longest name of a node: a DNS name's length.
pub const NAME_MAX: usize = 253;

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum NoCertificate {
    /// The library refused.
    #[error("could not make a certificate")]
    Made(#[from] rcgen::Error),
    /// The kernel gave no random bytes.
    #[error("no random bytes can be had")]
    Random,
    /// The node's name cannot stand in a certificate.
    #[error(
        "'{0}' is not a node's name: accepted are up to {NAME_MAX} letters, digits and ._- in ASCII, none of them reserved: auto"
    )]
    Name(String),
}

/// The authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, as PEM.
    pub certificate: String,
    der: CertificateDer<'static>,
}

/// Whom a certificate that the authority signed names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The node.
    pub name: String,
    /// The digest of its public key.
    pub key: String,
}

impl Authority {
    /// A new authority: its certificate and its key, as PEM.
    pub fn create() -> Result<(String, String), NoCertificate> {
        let key = KeyPair::generate()?;
        let mut about = params("Leeway cluster", AUTHORITY_LIFE)?;
        about.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        about.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok((about.self_signed(&key)?.pem(), key.serialize_pem()))
    }

    /// The authority with this certificate and this key.
    pub fn load(certificate: &str, key: &str) -> Result<Self, NoCertificate> {
        let issuer = Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key)?)?;
        let der = der_of(certificate).ok_or(rcgen::Error::CouldNotParseCertificate)?;
        Ok(Self { issuer, certificate: certificate.to_owned(), der })
    }

    /// Its certificate as TLS takes it.
    pub fn der(&self) -> CertificateDer<'static> {
        self.der.clone()
    }

    /// What a token says of it.
    pub fn digest(&self) -> String {
        digest(&self.der)
    }

    /// A certificate for a master, and its key.
    pub fn for_master(&self) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), NoCertificate> {
        let key = KeyPair::generate()?;
        let mut about = params("master", MASTER_LIFE)?;
        about.subject_alt_names = vec![SanType::DnsName(MASTER_NAME.try_into()?)];
        about.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = about.signed_by(&key, &self.issuer)?;
        Ok((certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
    }

    /// A certificate for a node's agent, and the digest of the key that it vouches for. `request` is PEM.
    pub fn for_agent(&self, name: &str, request: &str) -> Result<(String, String), NoCertificate> {
        if !is_name(name) {
            return Err(NoCertificate::Name(name.chars().take(NAME_MAX).collect()));
        }
        // Of what the request says only the key counts.
        let mut asked = CertificateSigningRequestParams::from_pem(request)?;
        let key = digest(&asked.public_key.subject_public_key_info());
        asked.params = params(name, AGENT_LIFE)?;
        asked.params.subject_alt_names = vec![SanType::DnsName(AGENT_NAME.try_into()?)];
        asked.params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok((asked.signed_by(&self.issuer)?.pem(), key))
    }
}

/// Whom a certificate names; nothing if it is no agent's. That the authority signed it is TLS's to know.
pub fn identity(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, read) = X509Certificate::from_der(certificate).ok()?;
    let names = read.subject_alternative_name().ok()??;
    let is_agent = names.value.general_names.iter().any(
        |name| matches!(name, x509_parser::extensions::GeneralName::DNSName(name) if *name == AGENT_NAME),
    );
    let name = read.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
    is_agent.then(|| Identity { name, key: digest(read.public_key().raw) })
}

/// A secret that nobody guesses.
pub fn secret() -> Result<String, NoCertificate> {
    Ok(hex(&random::<{ SECRET_DIGITS / 2 }>()?))
}

/// SHA-256, in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

/// Whether two secrets are the same, in a time that says nothing about where they differ.
pub fn same_secret(one: &str, other: &str) -> bool {
    let (one, other) = (digest(one.as_bytes()), digest(other.as_bytes()));
    one.bytes().zip(other.bytes()).fold(0, |differences, (one, other)| differences | (one ^ other)) == 0
}

/// The first certificate of a PEM text.
fn der_of(pem: &str) -> Option<CertificateDer<'static>> {
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(plain) && name != "auto"
}

fn params(name: &str, life: Duration) -> Result<CertificateParams, NoCertificate> {
    let mut about = CertificateParams::default();
    about.distinguished_name = DistinguishedName::new();
    about.distinguished_name.push(DnType::OrganizationName, "Leeway");
    about.distinguished_name.push(DnType::CommonName, name);
    about.serial_number = Some(SerialNumber::from_slice(&random::<16>()?));
    about.not_before = (SystemTime::now() - BEFORE).into();
    about.not_after = (SystemTime::now() + life.max(DAY)).into();
    Ok(about)
}

fn random<const N: usize>() -> Result<[u8; N], NoCertificate> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoCertificate::Random)?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(key: &KeyPair) -> String {
        CertificateParams::default().serialize_request(key).unwrap().pem().unwrap()
    }

    #[test]
    fn an_agents_certificate_names_its_node_and_its_key() {
        let (certificate, key) = Authority::create().unwrap();
        let authority = Authority::load(&certificate, &key).unwrap();
        let key = KeyPair::generate().unwrap();
        let (signed, digest) = authority.for_agent("gpu-1", &request(&key)).unwrap();
        let named = identity(&der_of(&signed).unwrap()).unwrap();
        assert_eq!(named, Identity { name: "gpu-1".to_owned(), key: digest.clone() });
        let (_, again) = authority.for_agent("gpu-1", &request(&key)).unwrap();
        assert_eq!(again, digest, "a renewed certificate has the same key");
        let (master, _) = authority.for_master().unwrap();
        assert_eq!(identity(&master), None, "a master is no agent");
    }

    #[test]
    fn a_name_that_could_be_mistaken_is_refused() {
        let (certificate, key) = Authority::create().unwrap();
        let authority = Authority::load(&certificate, &key).unwrap();
        let request = request(&KeyPair::generate().unwrap());
        for name in ["", "auto", "a b", "a\nb", "ü", "a/b", &"a".repeat(NAME_MAX + 1)] {
            assert!(authority.for_agent(name, &request).is_err(), "{name}");
        }
    }

    #[test]
    fn secrets_are_compared_as_a_whole() {
        let one = secret().unwrap();
        assert!(same_secret(&one, &one.clone()));
        assert!(!same_secret(&one, &secret().unwrap()));
        assert_eq!(one.len(), SECRET_DIGITS);
    }
}
