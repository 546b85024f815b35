//! Verification of one access token: signature, issuer, audience, time, scopes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use vmcp_config::OidcIssuer;

use super::possession::Confirmation;
use super::token_type;
use crate::policy::exact_json::{self, Entries, Json, entry};

/// Algorithms of tokens that are accepted: asymmetric ones, so never `none` and never `HS256`.
pub(super) const ALGORITHMS: [Algorithm; 9] = [
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

/// A token that was refused. The text is for the client: it names the claim, never a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is not a JWT, or a required claim is not text.
    #[error("the token is no JWT with the claims iss, sub, aud and exp")]
    Malformed,
    /// The token has no algorithm that is accepted.
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    /// The issuer is not configured.
    #[error("the token's issuer is not accepted")]
    Issuer,
    /// No key of the issuer has made the signature.
    #[error("the token's signature is not valid")]
    Signature,
    /// `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// `nbf` has not come.
    #[error("the token is not valid yet")]
    NotYet,
    /// `aud` names another service.
    #[error("the token is for another audience")]
    Audience,
    /// The token is bound to its holder (`cnf`) in a way that cannot be verified here.
    #[error("the token is bound to a key (cnf) whose possession cannot be verified here")]
    Bound,
    /// The token is bound to a key, and was sent as a bearer token.
    #[error("the token is bound to a key; send it as `Authorization: DPoP` with a proof")]
    NoProof,
    /// The connection lacks the client certificate that the token is bound to.
    #[error("the token is bound to a client certificate that this connection has not shown")]
    NoCertificate,
    /// The token is not bound to a key, and must be.
    #[error("the token is not bound to a key of its holder (cnf); here it must be")]
    Unbound,
    /// The issuer says nothing about whose the token is.
    #[error("the token has no subject (sub)")]
    NoSubject,
    /// The issuer says that the token is not good, or not any more.
    #[error("the token's issuer does not accept it, or no longer")]
    Inactive,
    /// The header or the claims name a member twice: parsers differ in which of the two they take.
    #[error("a member of the token occurs twice")]
    Repeated,
    /// The header has critical extensions (`crit`); none is understood here.
    #[error("the token has critical extensions that are not understood")]
    Critical,
    /// The token is no access token by its `typ` or its claims: an ID token, a logout token or another.
    #[error("the token is no access token")]
    Type,
    /// A claim of `requiredClaims` is absent, or has no accepted value.
    #[error("the token lacks a claim, or a value of one, that is required here")]
    Condition,
}

/// The claims of a verified token.
#[derive(Debug, Clone)]
pub(crate) struct Claims {
    pub(crate) subject: String,
    /// Seconds since 1970 up to which the token is good, skew included.
    pub(crate) until: u64,
    /// Keys of the holder that the token is bound to.
    pub(crate) confirmation: Confirmation,
    pub(crate) all: Map<String, Value>,
}

/// Returns the header of a token with an accepted algorithm.
pub(crate) fn header(token: &str) -> Result<Header, TokenError> {
    // The library does not know the algorithm `none`: its header does not parse.
    let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Malformed)?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(TokenError::Algorithm);
    }
    token_type::check_header(&part(token, 0)?)?;
    Ok(header)
}

/// Returns the claim `iss` of a token that is not verified yet.
pub(crate) fn claimed_issuer(token: &str) -> Result<String, TokenError> {
    match entry(&part(token, 1)?, "iss") {
        Some(Json::Text(issuer)) => Ok(issuer.clone()),
        _ => Err(TokenError::Malformed),
    }
}

/// Returns the header (0) or the claims (1) of a token, as they were written.
pub(super) fn part(token: &str, position: usize) -> Result<Entries, TokenError> {
    let part = token.split('.').nth(position).ok_or(TokenError::Malformed)?;
    let part = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    let text = String::from_utf8(part).map_err(|_| TokenError::Malformed)?;
    let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
    exact_json::object(&text).ok_or(if is_json { TokenError::Repeated } else { TokenError::Malformed })
}

/// Verifies a token by the keys that may have signed it. [`TokenError::Signature`] if none has.
pub(crate) fn verify<'a>(
    token: &str,
    header: &Header,
    issuer: &OidcIssuer,
    keys: impl Iterator<Item = &'a DecodingKey>,
) -> Result<Claims, TokenError> {
    let mut validation = Validation::new(header.alg);
    validation.set_issuer(&[&issuer.issuer]);
    validation.set_audience(&[&issuer.audience]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    validation.validate_nbf = true;
    validation.leeway = issuer.clock_skew.as_secs();
    for key in keys {
        match decode::<Map<String, Value>>(token, key, &validation) {
            Ok(_) => return claims(part(token, 1)?, issuer),
            Err(error) => match refusal(&error) {
                TokenError::Signature => {}
                refusal => return Err(refusal),
            },
        }
    }
    Err(TokenError::Signature)
}

fn claims(claims: Entries, issuer: &OidcIssuer) -> Result<Claims, TokenError> {
    let Value::Object(claims) = Json::Object(claims).into_value() else { return Err(TokenError::Malformed) };
    let confirmation = Confirmation::read(&claims)?;
    let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
    let subject = subject.ok_or(TokenError::Malformed)?.to_owned();
    let expires = claims.get("exp").and_then(Value::as_f64).ok_or(TokenError::Malformed)?;
    let until = (expires as u64).saturating_add(issuer.clock_skew.as_secs());
    Ok(Claims { subject, until, confirmation, all: claims })
}

fn refusal(error: &Error) -> TokenError {
    match error.kind() {
        ErrorKind::InvalidSignature => TokenError::Signature,
        ErrorKind::ExpiredSignature => TokenError::Expired,
        ErrorKind::ImmatureSignature => TokenError::NotYet,
        ErrorKind::InvalidAudience => TokenError::Audience,
        ErrorKind::InvalidIssuer => TokenError::Issuer,
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => TokenError::Algorithm,
        _ => TokenError::Malformed,
    }
}
