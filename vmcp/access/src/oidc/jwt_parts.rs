//! Parts of a signed token (JWS), read before anything is verified; and the algorithms that may sign one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde::de::IgnoredAny;

use super::rejection::TokenError;
use crate::exact_json::{self, Entries};

/// Algorithms of tokens that are accepted: asymmetric ones, so never `none` and never `HS256`.
pub(in crate::oidc) const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Returns the header (0) or the claims (1) of a token, as they were written.
pub(in crate::oidc) fn part(token: &str, position: usize) -> Result<Entries, TokenError> {
    let part = token.split('.').nth(position).ok_or(TokenError::Malformed)?;
    let part = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    let text = String::from_utf8(part).map_err(|_| TokenError::Malformed)?;
    let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
    exact_json::object(&text).ok_or(if is_json { TokenError::Repeated } else { TokenError::Malformed })
}
