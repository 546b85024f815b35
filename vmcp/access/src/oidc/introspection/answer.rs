//! Answers of an introspection endpoint (RFC 7662, 2.2).

use std::time::Duration;

use serde_json::{Map, Value};
use vmcp_config::OidcIssuer;

use crate::clock::now;
use crate::exact_json::{self, Json};
use crate::oidc::possession::Confirmation;
use crate::oidc::rejection::TokenError;
use crate::oidc::token_type;
use crate::oidc::verify::{self, Claims};

/// Bytes of an answer: as many as a token may have, because its claims are kept.
const MAX_BYTES: usize = 32 << 10;

/// Reason to refuse a token after its issuer was asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerError {
    /// The token is not good.
    Refused(TokenError),
    /// The answer says nothing about the token.
    Unusable(&'static str),
}

impl From<TokenError> for AnswerError {
    fn from(error: TokenError) -> Self {
        Self::Refused(error)
    }
}

/// Returns the claims of a token that is active, of this issuer, for this server, and an access token.
/// [`Claims::until`] is the time up to which the answer counts: `cache_ttl` from now, or the token's end.
pub(super) fn read(document: &[u8], issuer: &OidcIssuer, cache_ttl: Duration) -> Result<Claims, AnswerError> {
    if document.len() > MAX_BYTES {
        return Err(AnswerError::Unusable("it has more than 32 KiB"));
    }
    let entries = std::str::from_utf8(document).ok().and_then(exact_json::object);
    let members = entries.map(|mut entries| {
        // A null counts as absent. A number that its type would round becomes null next, and does not.
        entries.retain(|(_, value)| *value != Json::Null);
        Json::Object(entries).into_value()
    });
    let Some(Value::Object(mut members)) = members else {
        return Err(AnswerError::Unusable("it is no JSON object, or names a member twice"));
    };
    match members.shift_remove("active") {
        Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => return Err(TokenError::Inactive.into()),
        _ => return Err(AnswerError::Unusable("`active` is not true or false")),
    }
    if members.get("iss").is_some_and(|found| found.as_str() != Some(&issuer.issuer)) {
        return Err(TokenError::Issuer.into());
    }
    if !is_for(&members, &issuer.audience) {
        return Err(TokenError::Audience.into());
    }
    token_type::check_answer(&members)?;
    let now = now();
    let skew = issuer.clock_skew.as_secs();
    let expires = seconds(&members, "exp", "`exp` is no number")?.map(|at| at.saturating_add(skew));
    if expires.is_some_and(|expires| expires <= now) {
        return Err(TokenError::Expired.into());
    }
    let begins = seconds(&members, "nbf", "`nbf` is no number")?;
    if begins.is_some_and(|begins| begins > now.saturating_add(skew)) {
        return Err(TokenError::NotYet.into());
    }
    verify::check_issued(&members, issuer)?;
    let subject = members.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
    let subject = subject.ok_or(TokenError::NoSubject)?.to_owned();
    let confirmation = Confirmation::read(&members)?;
    let until = now.saturating_add(cache_ttl.as_secs()).min(expires.unwrap_or(u64::MAX));
    Ok(Claims { subject, until, confirmation, all: members })
}

/// Returns true if `aud` names the audience. Without `aud`, a token for any service would do.
fn is_for(members: &Map<String, Value>, audience: &str) -> bool {
    match members.get("aud") {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(several)) => several.iter().any(|one| one == audience),
        _ => false,
    }
}

fn seconds(
    members: &Map<String, Value>,
    name: &str,
    wrong: &'static str,
) -> Result<Option<u64>, AnswerError> {
    let Some(value) = members.get(name) else { return Ok(None) };
    value.as_f64().map(|seconds| Some(seconds as u64)).ok_or(AnswerError::Unusable(wrong))
}
