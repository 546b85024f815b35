//! [`ClientCertificate`]: a certificate that a client has shown, and the identity in it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::identity::Identity;

/// Issuer of the identities that a certificate proves; no token has it, because issuers of tokens are URLs.
pub const ISSUER: &str = vmcp_config::CLIENT_CERTIFICATES;

/// A certificate that TLS has verified.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    identity: Identity,
    /// End of its validity, in seconds since 1970: connections may outlive it.
    until: u64,
    /// PEM of the authorities that it was verified by.
    authorities: Arc<str>,
    /// SHA-256 of the certificate.
    digest: [u8; 32],
}

impl ClientCertificate {
    /// Reads a certificate that was verified by `authorities` (PEM); `None` if it has no subject.
    pub fn read(der: &[u8], authorities: Arc<str>) -> Option<ClientCertificate> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let until = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
        let (subject, mut claims) = names(&certificate)?;
        claims.insert("sub".to_owned(), subject.clone().into());
        claims.insert("exp".to_owned(), until.into());
        let identity = Identity::known(ISSUER, &subject, claims, None);
        Some(ClientCertificate { identity, until, authorities, digest: Sha256::digest(der).into() })
    }

    /// Returns the identity, unless the certificate has expired or was verified by other authorities: those
    /// of a connection may be withdrawn while it is open.
    pub(crate) fn identity(&self, authorities: &str, now: SystemTime) -> Option<&Identity> {
        let now = now.duration_since(UNIX_EPOCH).map_or(u64::MAX, |now| now.as_secs());
        (now < self.until && *self.authorities == *authorities).then_some(&self.identity)
    }

    /// Returns true for the certificate with this SHA-256 (RFC 8705, 3.1), as long as [`Self::identity`] is
    /// there.
    pub(crate) fn is_good_and_has(&self, digest: &[u8; 32], authorities: &str) -> bool {
        self.digest == *digest && self.identity(authorities, SystemTime::now()).is_some()
    }
}

/// Most certificates of a text that are looked at.
const MAX_CERTIFICATES: usize = 1_000;

/// Returns the earliest end of validity among the certificates of a PEM text, in seconds since 1970; `None`
/// if no certificate can be read.
pub fn earliest_end(pem: &str) -> Option<u64> {
    let end = |pem: Pem| {
        let certificate = pem.parse_x509().ok()?;
        u64::try_from(certificate.validity().not_after.timestamp()).ok()
    };
    Pem::iter_from_buffer(pem.as_bytes()).take(MAX_CERTIFICATES).filter_map(Result::ok).filter_map(end).min()
}

/// Returns the subject and the claims. The subject is the first alternative name: a URI (SPIFFE), else a mail
/// address, else a DNS name; else the common name.
fn names(certificate: &X509Certificate<'_>) -> Option<(String, Map<String, Value>)> {
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let alternatives = alternatives.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
    let of = |select: fn(&GeneralName<'_>) -> Option<String>| -> Vec<String> {
        alternatives.iter().filter_map(select).collect()
    };
    let uris = of(|name| if let GeneralName::URI(uri) = name { Some((*uri).to_owned()) } else { None });
    let mails =
        of(|name| if let GeneralName::RFC822Name(mail) = name { Some((*mail).to_owned()) } else { None });
    let hosts =
        of(|name| if let GeneralName::DNSName(host) = name { Some((*host).to_owned()) } else { None });
    let subject = certificate.subject();
    let common = subject.iter_common_name().find_map(|name| name.as_str().ok()).map(str::to_owned);
    let units: Vec<_> = subject.iter_organizational_unit().filter_map(|name| name.as_str().ok()).collect();
    let named = uris.first().or(mails.first()).or(hosts.first()).or(common.as_ref());
    let found = named.filter(|name| !name.trim().is_empty())?.clone();
    let mut claims = Map::new();
    for (claim, values) in [("uris", &uris), ("emails", &mails), ("hosts", &hosts)] {
        if !values.is_empty() {
            claims.insert(claim.to_owned(), values.clone().into());
        }
    }
    if let Some(common) = common {
        claims.insert("cn".to_owned(), common.into());
    }
    // Organizational units are groups, as Kubernetes and others read organizations.
    if !units.is_empty() {
        claims.insert("groups".to_owned(), units.into());
    }
    Some((found, claims))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::string::Ia5String;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};
    use serde_json::json;

    use super::*;

    fn read(names: Vec<SanType>, common: &str) -> Option<ClientCertificate> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        params.distinguished_name = rcgen::DistinguishedName::new();
        if !common.is_empty() {
            params.distinguished_name.push(DnType::CommonName, common);
            params.distinguished_name.push(DnType::OrganizationalUnitName, "builders");
        }
        params.not_after = rcgen::date_time_ymd(2100, 1, 1);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        ClientCertificate::read(certificate.der(), "the authorities".into())
    }

    fn name(text: &str) -> Ia5String {
        text.try_into().unwrap()
    }

    #[test]
    fn the_subject_is_the_first_alternative_name_or_else_the_common_name() {
        let subject = |names, common| read(names, common).unwrap().identity.subject().to_owned();
        let uri = SanType::URI(name("spiffe://example.com/ci"));
        let host = SanType::DnsName(name("ci.example.com"));
        assert_eq!(subject(vec![host.clone(), uri.clone()], "ci"), "spiffe://example.com/ci");
        assert_eq!(subject(vec![host.clone()], "ci"), "ci.example.com");
        assert_eq!(subject(vec![], "ci"), "ci");
        assert!(read(vec![], "").is_none(), "nobody");
        let all = read(vec![uri, host], "ci").unwrap();
        let claims = all.identity.as_known().unwrap().claims().clone();
        assert_eq!((&claims["cn"], &claims["groups"]), (&json!("ci"), &json!(["builders"])));
        assert_eq!(claims["hosts"], json!(["ci.example.com"]));
        assert_eq!(claims["exp"], json!(4_102_444_800_u64));
    }

    #[test]
    fn the_first_certificate_to_expire_counts() {
        let pem = |year: i32| {
            let mut params = CertificateParams::default();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
        };
        assert_eq!(earliest_end(&format!("{}{}", pem(2110), pem(2100))), Some(4_102_444_800));
        let key = KeyPair::generate().unwrap().serialize_pem();
        assert_eq!(earliest_end(&format!("words\n{key}{}", pem(2100))), Some(4_102_444_800));
        for unreadable in
            ["", "words", &key, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            assert_eq!(earliest_end(unreadable), None, "{unreadable}");
        }
    }

    #[test]
    fn an_open_connection_does_not_outlive_its_certificate_or_its_authority() {
        let certificate = read(vec![], "ci").unwrap();
        let now = SystemTime::now();
        assert!(certificate.identity("the authorities", now).is_some());
        assert!(certificate.identity("others", now).is_none());
        let end = UNIX_EPOCH + Duration::from_secs(certificate.until);
        assert!(certificate.identity("the authorities", end).is_none());
    }
}
