//! Verification of one access token: signature, issuer, audience, time, scopes.

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{DecodingKey, Header, Validation, decode};
use serde_json::{Map, Value};
use vmcp_config::OidcIssuer;

use super::jwt_parts::{ALGORITHMS, part};
use super::possession::Confirmation;
use super::rejection::TokenError;
use super::token_type;
use crate::clock::now;
use crate::exact_json::{Entries, Json, entry};

/// Seconds by which the clock of an issuer may be ahead when it writes the time of issue, beyond `clockSkew`.
const MAX_AHEAD_SECS: u64 = 5 * 60;

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

/// Checks that the time of issue (RFC 7519, 4.1.6) is a number and has come. Orders of operators compare it.
pub(super) fn check_issued(claims: &Map<String, Value>, issuer: &OidcIssuer) -> Result<(), TokenError> {
    let latest = now().saturating_add(issuer.clock_skew.as_secs()).saturating_add(MAX_AHEAD_SECS);
    match claims.get("iat").map(Value::as_f64) {
        Some(None) => Err(TokenError::Malformed),
        Some(Some(at)) if at > latest as f64 => Err(TokenError::NotYet),
        None | Some(Some(_)) => Ok(()),
    }
}

fn claims(claims: Entries, issuer: &OidcIssuer) -> Result<Claims, TokenError> {
    let Value::Object(claims) = Json::Object(claims).into_value() else { return Err(TokenError::Malformed) };
    check_issued(&claims, issuer)?;
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
