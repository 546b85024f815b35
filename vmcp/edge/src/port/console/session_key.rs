//! [`SessionKey`]: the key of this process that signs cookies and the tokens of forms.
//!
//! A cookie never holds the admin token: every server on this host name gets it, whatever its port. It holds
//! the time of its end and an HMAC-SHA256 over that time and the token's SHA-256. So it ends with the
//! process, after [`SESSION_SECONDS`], or once its token leaves the configuration, without a table of
//! sessions.

use ring::hmac;
use sha2::{Digest as _, Sha256};
use vmcp_config::Secret;
use vmcp_engine::random::random;

/// Seconds after which a person signs in again: 12 hours.
pub(super) const SESSION_SECONDS: u64 = 12 * 60 * 60;

/// The key.
pub(super) struct SessionKey(hmac::Key);

impl SessionKey {
    /// Makes a random key.
    pub(super) fn new() -> SessionKey {
        SessionKey(hmac::Key::new(hmac::HMAC_SHA256, &random::<32>()))
    }

    /// Returns the cookie of a person who typed `token`, good until `end`, in seconds since the Unix epoch.
    pub(super) fn session(&self, token: &[u8], end: u64) -> String {
        format!("{end}.{}", hex::encode(hmac::sign(&self.0, &session_message(token, end))))
    }

    /// Returns the token of `tokens` that a cookie was made for; `None` if it has ended, or was made for
    /// none of them. Tags are compared in constant time.
    pub(super) fn token_of<'a>(&self, cookie: &str, tokens: &'a [Secret], now: u64) -> Option<&'a Secret> {
        let (end, tag) = cookie.split_once('.')?;
        let end = end.parse().ok().filter(|end| *end > now)?;
        let tag = hex::decode(tag).ok()?;
        let is_of = |token: &&Secret| {
            hmac::verify(&self.0, &session_message(token.expose().as_bytes(), end), &tag).is_ok()
        };
        tokens.iter().find(is_of)
    }

    /// Returns the token of a session's forms (CSRF). `session` is empty where no one signs in.
    pub(super) fn form_token(&self, session: &str) -> String {
        hex::encode(hmac::sign(&self.0, &form_message(session)))
    }

    /// Returns true if a form has the token of its session.
    pub(super) fn is_form_token(&self, session: &str, given: &str) -> bool {
        hex::decode(given).is_ok_and(|tag| hmac::verify(&self.0, &form_message(session), &tag).is_ok())
    }
}

fn session_message(token: &[u8], end: u64) -> Vec<u8> {
    [&b"session"[..], &end.to_be_bytes(), &Sha256::digest(token)[..]].concat()
}

fn form_message(session: &str) -> Vec<u8> {
    [&b"form"[..], session.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_its_token_until_its_end() {
        let key = SessionKey::new();
        let tokens = ["first token".into(), "second token".into()];
        let cookie = key.session(b"second token", 1_000);
        assert_eq!(key.token_of(&cookie, &tokens, 999).map(Secret::expose), Some("second token"));
        assert_eq!(key.token_of(&cookie, &tokens, 1_000), None, "it has ended");
        assert_eq!(key.token_of(&cookie, &tokens[..1], 999), None, "its token is gone");
        assert_eq!(SessionKey::new().token_of(&cookie, &tokens, 999), None, "another process");
        let longer = cookie.replacen("1000", "9999", 1);
        assert_eq!(key.token_of(&longer, &tokens, 999), None, "its end is signed");
        assert!(!cookie.contains("second"));
    }

    #[test]
    fn a_form_belongs_to_its_session_and_is_no_cookie() {
        let key = SessionKey::new();
        let token = key.form_token("one");
        assert!(key.is_form_token("one", &token));
        assert!(
            !key.is_form_token("two", &token)
                && !key.is_form_token("one", "")
                && !key.is_form_token("", &token)
        );
    }
}
