//! Certificate authorities that servers are trusted by.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

/// Largest bundle of authorities, 4 MiB; a larger one is refused. Those of operating systems have some
/// 250 KiB.
const MAX_BUNDLE_BYTES: u64 = 4 << 20;

/// Returns a TLS configuration that trusts the authorities of the system (`SSL_CERT_FILE` and `SSL_CERT_DIR`
/// included) and `extra`; an image without any trusts Mozilla's.
pub fn client_tls(extra: &[CertificateDer<'static>]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    let (known, _) = roots.add_parsable_certificates(native.certs);
    if known == 0 {
        tracing::debug!(errors = ?native.errors, "no system certificates, using the built-in ones");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots.add_parsable_certificates(extra.iter().cloned());
    builder().with_root_certificates(roots).with_no_client_auth()
}

#[expect(clippy::expect_used, reason = "ring implements the default versions; it depends on no input")]
fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
}

/// Reads a PEM file of authorities; the error says why none can be used.
pub fn read_ca_bundle(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut pem = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_BUNDLE_BYTES + 1).read_to_end(&mut pem).map_err(|error| error.to_string())?;
    ca_certificates(&pem)
}

/// Parses authorities in PEM, at most 4 MiB; the error says why they cannot be used.
pub fn ca_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    if pem.len() as u64 > MAX_BUNDLE_BYTES {
        return Err(format!("it is larger than {} MiB", MAX_BUNDLE_BYTES >> 20));
    }
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| format!("it is not PEM: {error}"))?;
    let mut roots = RootCertStore::empty();
    for (index, certificate) in certificates.iter().enumerate() {
        let added = roots.add(certificate.clone());
        added.map_err(|error| format!("its certificate {} cannot be used: {error}", index + 1))?;
    }
    if certificates.is_empty() { Err("it holds no certificate in PEM".to_owned()) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_read_or_says_why_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let signed = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let pem = signed.cert.pem();
        std::fs::write(&path, format!("# ours\n{pem}{pem}")).unwrap();
        assert_eq!(read_ca_bundle(&path).unwrap().len(), 2);
        for (text, reason) in [
            ("", "no certificate"),
            ("-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----\n", "not PEM"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read_ca_bundle(&path).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(read_ca_bundle(&dir.path().join("none")).is_err());
    }
}
