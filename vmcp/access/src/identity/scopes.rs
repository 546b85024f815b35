//! OAuth scopes of a client's token, and the scopes that a call needs beside them (step-up).

use serde_json::{Map, Value};
use vmcp_config::is_scope;

use super::Identity;

/// Claims that hold scopes: `scope` is a list in one text (RFC 8693), `scp` a text or an array (Entra ID,
/// Okta). Either may have either shape.
const CLAIMS: [&str; 2] = ["scope", "scp"];
/// Most bytes of the scopes that a client is told to ask for, which go into a header; beyond them the client
/// is told the needed ones alone.
const MAX_ASKED_BYTES: usize = 2048;

/// The scopes that a token lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeShortfall {
    /// Needed scopes that the token does not have.
    pub missing: Vec<String>,
    /// Scopes to ask for: the token's own, so that a new token can do what this one can, and the needed ones.
    pub ask_for: Vec<String>,
}

/// Returns the scopes of a client, each once. A client without a token has none.
pub fn granted(identity: &Identity) -> Vec<&str> {
    identity.as_known().map_or_else(Vec::new, |known| granted_by(known.claims()))
}

/// Returns the scopes of a token's claims, each once.
pub(crate) fn granted_by(claims: &Map<String, Value>) -> Vec<&str> {
    let mut granted: Vec<&str> = Vec::new();
    let claims = CLAIMS.iter().filter_map(|name| claims.get(*name));
    for scope in claims.flat_map(texts) {
        if !granted.contains(&scope) {
            granted.push(scope);
        }
    }
    granted
}

/// Returns the scopes of a claim; a claim of another shape has none.
fn texts(claim: &Value) -> Vec<&str> {
    match claim {
        Value::String(text) => text.split_ascii_whitespace().collect(),
        // A text with spaces in a list is one scope, which no rule can name.
        Value::Array(scopes) => scopes.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns what a client lacks of the needed scopes; `None` if it has all of them.
pub fn shortfall(identity: &Identity, needed: &[&str]) -> Option<ScopeShortfall> {
    if needed.is_empty() {
        return None;
    }
    let granted = granted(identity);
    let missing: Vec<_> = needed.iter().filter(|scope| !granted.contains(scope)).copied().collect();
    if missing.is_empty() {
        return None;
    }
    let owned = |scopes: &[&str]| scopes.iter().map(|scope| (*scope).to_owned()).collect();
    let mut ask_for: Vec<_> = granted.into_iter().filter(|scope| is_scope(scope)).collect();
    ask_for.extend(missing.iter().copied());
    if ask_for.iter().map(|scope| scope.len() + 1).sum::<usize>() > MAX_ASKED_BYTES {
        ask_for = needed.to_vec();
    }
    Some(ScopeShortfall { missing: owned(&missing), ask_for: owned(&ask_for) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn client(claims: Value) -> Identity {
        let Value::Object(claims) = claims else { unreachable!() };
        Identity::known("https://idp", "a", claims, None)
    }

    #[test]
    fn scopes_are_read_as_text_and_as_list() {
        for (claims, scopes) in [
            (json!({"scope": "read write"}), &["read", "write"][..]),
            (json!({"scope": ["read", "write"]}), &["read", "write"]),
            (json!({"scp": "read"}), &["read"]),
            (json!({"scp": ["read", 7, null, {"a": "write"}], "scope": "more"}), &["more", "read"]),
            (json!({"scope": "read read"}), &["read"]),
            (json!({"scope": ["read write"]}), &["read write"]),
            (json!({"scope": ""}), &[]),
            (json!({"scope": null}), &[]),
            (json!({"scope": 7}), &[]),
            (json!({"scope": {"read": true}}), &[]),
            (json!({"scopes": "read"}), &[]),
            (json!({}), &[]),
        ] {
            assert_eq!(granted(&client(claims.clone())), scopes, "{claims}");
        }
        assert!(granted(&Identity::Anonymous).is_empty());
    }

    #[test]
    fn a_client_is_told_to_ask_for_its_scopes_and_the_missing_ones() {
        let short = |claims: Value, needed: &[&str]| {
            shortfall(&client(claims), needed).map(|short| (short.missing.join(" "), short.ask_for.join(" ")))
        };
        let told = |missing: &str, ask_for: &str| Some((missing.to_owned(), ask_for.to_owned()));
        assert_eq!(short(json!({"scope": "read write"}), &["read", "write"]), None);
        assert_eq!(short(json!({}), &[]), None);
        assert_eq!(
            short(json!({"scope": "openid read"}), &["read", "write"]),
            told("write", "openid read write")
        );
        assert_eq!(short(json!({"scp": ["a\"b", "c d", "é"]}), &["write"]), told("write", "write"));
        assert_eq!(short(json!({"scope": "x".repeat(3000)}), &["a", "b"]), told("a b", "a b"));
        assert_eq!(short(json!({"scope": ["read write"]}), &["read"]), told("read", "read"), "one odd scope");
        // A prefix or another case is another scope.
        assert_eq!(short(json!({"scope": "reader Read"}), &["read"]), told("read", "reader Read read"));
    }
}
