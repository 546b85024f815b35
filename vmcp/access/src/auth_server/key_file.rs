//! The private key of a PEM file, or the reason why the file is unusable.

use x509_parser::pem::Pem;

/// Label of a private key in PKCS #8.
const PKCS8: &str = "PRIVATE KEY";

/// Reason why a text is not a usable private key. The message shows none of its bytes, and continues the name
/// of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyFault {
    /// The text lacks a PEM block with a key.
    #[error("is no private key in PEM")]
    NoKey,
    /// A certificate or a public key, which is often beside the file that was meant.
    #[error("is a certificate or a public key, not a private key")]
    Public,
    /// A key that a passphrase protects.
    #[error("is a private key with a passphrase")]
    Encrypted,
    /// A key in PKCS #1 (`RSA PRIVATE KEY`) or SEC 1 (`EC PRIVATE KEY`).
    #[error("is a private key in an older form (PKCS #1 or SEC 1), not in PKCS #8")]
    OlderForm,
    /// A key of another algorithm, curve or length.
    #[error("is neither a P-256 or P-384 key nor an RSA key of 2048 to 4096 bits")]
    Unsupported,
}

impl KeyFault {
    /// Returns the remedy.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            Self::NoKey => {
                "write the path of a key, `${file:/path/key.pem}`; `openssl genpkey -algorithm EC -pkeyopt \
                 ec_paramgen_curve:P-256 -out key.pem` makes one"
            }
            Self::Public => "name the file that has the private key of it",
            Self::Encrypted => "remove the passphrase: `openssl pkey -in OLD.pem -out key.pem`",
            Self::OlderForm => "convert it: `openssl pkey -in OLD.pem -out key.pem`",
            Self::Unsupported => {
                "make one: `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem`"
            }
        }
    }
}

/// Returns the first private key of a PEM text, in the DER of PKCS #8.
pub(super) fn pkcs8(text: &str) -> Result<Vec<u8>, KeyFault> {
    let blocks: Vec<Pem> = Pem::iter_from_buffer(text.as_bytes()).map_while(Result::ok).collect();
    let has = |wanted: &[&str]| blocks.iter().any(|block| wanted.contains(&block.label.as_str()));
    // `openssl rsa -aes256` encrypts in the older form, by headers inside of the block.
    let fault = if has(&["ENCRYPTED PRIVATE KEY"]) || text.contains("Proc-Type: 4,ENCRYPTED") {
        KeyFault::Encrypted
    } else if has(&["EC PRIVATE KEY", "RSA PRIVATE KEY"]) {
        KeyFault::OlderForm
    } else if has(&["CERTIFICATE", "PUBLIC KEY", "RSA PUBLIC KEY"]) {
        KeyFault::Public
    } else {
        KeyFault::NoKey
    };
    blocks.into_iter().find(|block| block.label == PKCS8).map(|block| block.contents).ok_or(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(label: &str) -> String {
        format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n")
    }

    #[test]
    fn a_file_without_a_key_of_use_says_why() {
        for (text, expected) in [
            (String::new(), KeyFault::NoKey),
            ("/etc/vmcp/key.pem".to_owned(), KeyFault::NoKey),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n".to_owned(), KeyFault::NoKey),
            (block("DH PARAMETERS"), KeyFault::NoKey),
            (block("CERTIFICATE"), KeyFault::Public),
            (block("PUBLIC KEY"), KeyFault::Public),
            (block("ENCRYPTED PRIVATE KEY"), KeyFault::Encrypted),
            (block("EC PARAMETERS") + &block("EC PRIVATE KEY"), KeyFault::OlderForm),
            (block("RSA PRIVATE KEY"), KeyFault::OlderForm),
        ] {
            assert_eq!(pkcs8(&text), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_key_is_found_behind_its_certificate() {
        assert_eq!(pkcs8(&(block("CERTIFICATE") + &block(PKCS8))), Ok(vec![0; 3]));
    }
}
