//! Proof of possession: tokens that are bound to a key of their holder (`cnf`, RFC 7800), by a proof for each
//! request (DPoP, RFC 9449) or by the client certificate of the connection (RFC 8705).

pub mod dpop_proof;
pub(crate) mod replays;
mod thumbprint;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use vmcp_config::TokenBinding;

use self::dpop_proof::ExpectedProof;
use self::replays::ProofReplays;
use crate::identity::credential::{Credential, Scheme};
use crate::oidc::rejection::{ProofError, Rejection, TokenError};

/// SHA-256 of the keys that a token is bound to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Confirmation {
    /// `jkt`: thumbprint (RFC 7638) of the key that signs proofs.
    key: Option<[u8; 32]>,
    /// `x5t#S256`: of the client certificate.
    certificate: Option<[u8; 32]>,
}

/// A verified token, as far as its binding is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundToken<'a> {
    pub(crate) confirmation: &'a Confirmation,
    /// SHA-256 of the token.
    pub(crate) digest: &'a [u8; 32],
    /// The binding that its issuer's configuration requires.
    pub(crate) required: TokenBinding,
}

impl Confirmation {
    /// Reads the claim `cnf`. A method that cannot be verified here refuses the token: it is for its holder
    /// only.
    pub(crate) fn read(claims: &Map<String, Value>) -> Result<Confirmation, TokenError> {
        let members = match claims.get("cnf") {
            None | Some(Value::Null) => return Ok(Confirmation::default()),
            Some(Value::Object(members)) if !members.is_empty() => members,
            Some(_) => return Err(TokenError::Bound),
        };
        let mut confirmation = Confirmation::default();
        for (method, value) in members {
            let digest = value.as_str().and_then(digest).ok_or(TokenError::Bound)?;
            match method.as_str() {
                "jkt" => confirmation.key = Some(digest),
                "x5t#S256" => confirmation.certificate = Some(digest),
                _ => return Err(TokenError::Bound),
            }
        }
        Ok(confirmation)
    }

    fn satisfies(&self, required: TokenBinding) -> bool {
        required == TokenBinding::None
            || (required.takes_dpop() && self.key.is_some())
            || (required.takes_certificate() && self.certificate.is_some())
    }
}

impl BoundToken<'_> {
    /// Checks that the sender of a request holds the keys of its token. `authorities` are those whose client
    /// certificates are accepted.
    pub(crate) fn check(
        &self,
        credential: &Credential<'_>,
        authorities: Option<&str>,
        replays: &ProofReplays,
    ) -> Result<(), Rejection> {
        let is_proved = credential.scheme == Scheme::Dpop;
        if !self.confirmation.satisfies(self.required) || (is_proved && self.confirmation.key.is_none()) {
            return Err(TokenError::Unbound.into());
        }
        if let Some(digest) = self.confirmation.certificate {
            let shown = credential.certificate.zip(authorities);
            if !shown.is_some_and(|(certificate, by)| certificate.is_good_and_has(&digest, by)) {
                return Err(TokenError::NoCertificate.into());
            }
        }
        let Some(key) = self.confirmation.key else { return Ok(()) };
        if !is_proved {
            return Err(TokenError::NoProof.into());
        }
        let Some(request) = &credential.request else { return Ok(()) };
        if request.urls.is_empty() {
            return Err(TokenError::Bound.into());
        }
        let proof = request.proof.ok_or(ProofError::Missing)?;
        let expected =
            ExpectedProof { method: request.method, urls: &request.urls, token: self.digest, key: &key };
        let id = dpop_proof::verify(proof, &expected)?;
        replays.admit(key, id, std::time::Instant::now())
    }
}

/// Returns a SHA-256 in base64url.
fn digest(text: &str) -> Option<[u8; 32]> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_binding_that_cannot_be_verified_refuses_the_token() {
        let read = |claims: Value| Confirmation::read(claims.as_object().unwrap());
        let digest = URL_SAFE_NO_PAD.encode([7; 32]);
        assert_eq!(read(json!({})), Ok(Confirmation::default()));
        assert_eq!(read(json!({"cnf": {"jkt": digest}})).unwrap().key, Some([7; 32]));
        assert_eq!(read(json!({"cnf": {"x5t#S256": digest}})).unwrap().certificate, Some([7; 32]));
        for cnf in [
            json!({}),
            json!("key"),
            json!([]),
            json!(false),
            json!({"kid": "1"}),
            json!({"jkt": "short"}),
            json!({"jkt": null}),
            json!({"jkt": digest, "kid": "1"}),
            json!({"jwk": {"kty": "EC"}}),
            json!({"x5t": digest}),
        ] {
            assert_eq!(read(json!({"cnf": cnf})), Err(TokenError::Bound), "{cnf}");
        }
    }
}
