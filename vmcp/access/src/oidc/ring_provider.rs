//! The cryptography of `jsonwebtoken`, by ring, which the rest of the process uses: verification with
//! asymmetric keys alone. A verifier of HMAC is missing on purpose: a public key can never serve as a shared
//! secret (key confusion).

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as ring_signature;
use ring_signature::{RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use signature::Verifier;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` use ring in this process.
pub(crate) fn install() {
    // A second call changes nothing.
    let _ = PROVIDER.install_default();
}

/// Returns the way to check signatures of an algorithm; `None` if its tokens are refused.
fn method(algorithm: Algorithm) -> Option<Method> {
    Some(match algorithm {
        Algorithm::RS256 => Method::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Method::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Method::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Method::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Method::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Method::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Method::Curve(&ring_signature::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Method::Curve(&ring_signature::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Method::Curve(&ring_signature::ED25519),
        _ => return None,
    })
}

#[derive(Clone, Copy)]
enum Method {
    Rsa(&'static RsaParameters),
    Curve(&'static dyn VerificationAlgorithm),
}

/// Checks signatures of one algorithm with one key.
struct RingVerifier {
    algorithm: Algorithm,
    method: Method,
    key: DecodingKey,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the library asks for it")]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let Some(method) = method(*algorithm).filter(|_| key.family() == algorithm.family()) else {
        return Err(ErrorKind::InvalidAlgorithm.into());
    };
    Ok(Box::new(RingVerifier { algorithm: *algorithm, method, key: key.clone() }))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the library asks for it")]
fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), signature::Error> {
        let valid = match (self.method, self.key.kind()) {
            (Method::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signed)
            }
            (Method::Curve(algorithm), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(algorithm, key).verify(message, signed)
            }
            _ => Err(ring::error::Unspecified),
        };
        valid.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
