//! Kinds of tokens: an access token is let in, other tokens of the same issuer and audience are not (RFC
//! 8725, 3.11 and 3.12; RFC 9068).

use serde_json::{Map, Value};

use super::rejection::TokenError;
use crate::exact_json::{Entries, entry};

/// Types of access tokens where the configuration names none; a token without a type is one too. Media types,
/// without their prefix `application/`.
const ACCESS_TOKENS: [&str; 2] = ["at+jwt", "jwt"];
/// Types of tokens that prove no access, whatever the configuration names.
const NEVER: [&str; 9] = [
    "logout+jwt",
    "secevent+jwt",
    "dpop+jwt",
    "kb+jwt",
    "id_token+jwt",
    "token-introspection+jwt",
    "oauth-authz-req+jwt",
    "client-authentication+jwt",
    "entity-statement+jwt",
];
/// Values of Keycloak's claim `typ` of tokens that are no access tokens.
const NEVER_CLAIMED: [&str; 4] = ["id", "refresh", "offline", "logout"];
/// Values of `token_type` and `token_use` in answers about tokens that are no access tokens.
const NEVER_ANSWERED: [&str; 5] = ["refresh_token", "refresh", "id_token", "id", "n_a"];
/// Claims that only ID tokens have (OpenID Connect Core, 3.3.2.11).
const OF_ID_TOKENS: [&str; 3] = ["at_hash", "c_hash", "s_hash"];

/// Checks a header that has not been verified: an extension that the issuer calls critical must be
/// understood (RFC 7515, 4.1.11), and none is.
pub(super) fn check_header(header: &Entries) -> Result<(), TokenError> {
    if entry(header, "crit").is_some() { Err(TokenError::Critical) } else { Ok(()) }
}

/// Checks the type of a verified token. `accepted`: the configured types; empty: the usual ones, or none.
pub(super) fn check(
    typ: Option<&str>,
    claims: &Map<String, Value>,
    accepted: &[String],
) -> Result<(), TokenError> {
    let typ = typ.map(essence);
    let named = match &typ {
        Some(typ) if NEVER.contains(&typ.as_str()) => false,
        Some(typ) if accepted.is_empty() => ACCESS_TOKENS.contains(&typ.as_str()),
        Some(typ) => accepted.iter().any(|accepted| essence(accepted) == *typ),
        None => accepted.is_empty(),
    };
    // A type of its own tells an access token; `JWT`, or none, tells nothing.
    let is_sure = typ.as_deref().is_some_and(|typ| typ != "jwt");
    if named && !is_other(claims, is_sure) { Ok(()) } else { Err(TokenError::Type) }
}

/// Checks the kind of a token by an answer about it, which has no header: some issuers call refresh tokens
/// active too.
pub(super) fn check_answer(members: &Map<String, Value>) -> Result<(), TokenError> {
    let is_named = |name: &str| {
        let kind = members.get(name).and_then(Value::as_str).map(str::to_ascii_lowercase);
        kind.is_some_and(|kind| NEVER_ANSWERED.contains(&kind.as_str()))
    };
    let is_named = ["token_type", "token_use"].into_iter().any(is_named);
    if is_named || is_other(members, false) { Err(TokenError::Type) } else { Ok(()) }
}

/// True if the claims are those of another kind of token.
fn is_other(claims: &Map<String, Value>, is_sure: bool) -> bool {
    let has = |name: &str| claims.get(name).is_some_and(|claim| !claim.is_null());
    let claimed = claims.get("typ").and_then(Value::as_str);
    let claimed = claimed.is_some_and(|typ| NEVER_CLAIMED.contains(&typ.to_ascii_lowercase().as_str()));
    let authorizes = ["scope", "scp", "client_id"].into_iter().any(has);
    let id_token = OF_ID_TOKENS.into_iter().any(has) || (has("nonce") && !authorizes);
    // Security events and logout tokens (RFC 8417, OpenID Connect Back-Channel Logout).
    claimed || has("events") || (id_token && !is_sure)
}

/// Returns a media type in lower case, without the prefix that a header may leave out.
fn essence(typ: &str) -> String {
    let typ = typ.to_ascii_lowercase();
    typ.strip_prefix("application/").map(str::to_owned).unwrap_or(typ)
}
