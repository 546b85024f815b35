//! [`SessionKeys`]: the keys that sign cookies and the tokens of forms.
//!
//! A cookie never holds the admin token: every server on this host name gets it, whatever its port. It holds
//! the time of its end, a random id, and an HMAC-SHA256 over both and the token's SHA-256. So it ends after
//! [`SESSION_SECONDS`], or once its token leaves the configuration, without a table of sessions. The id keeps
//! two sign-ins of one second apart: signing out ends one session by [`name_of`] its cookie.
//!
//! Keys are derived from `server.sessionKeys`, so that all replicas accept a cookie and a restart ends none.
//! Where none is configured, the random key of the process signs: its cookies end with it.

use ring::hmac;
use sha2::{Digest as _, Sha256};
use vmcp_access::auth_server::{ConsoleRole, SignInAttempt};
use vmcp_config::{ConsoleSignIn, Secret};
use vmcp_engine::random::random;

/// Seconds after which a person signs in again: 12 hours.
pub(super) const SESSION_SECONDS: u64 = 12 * 60 * 60;

/// Seconds that a person has to sign in at a provider: 10 minutes.
pub(super) const ATTEMPT_SECONDS: u64 = 10 * 60;

/// A person who signed in at a provider, as a cookie holds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CookiePerson {
    /// Subject at the provider.
    pub(super) subject: String,
    pub(super) role: ConsoleRole,
}

/// Keys of the configuration in force: the first one signs, all of them verify.
pub(super) struct SessionKeys {
    first: hmac::Key,
    others: Vec<hmac::Key>,
}

impl SessionKeys {
    /// Derives the keys of `secrets`. The key of the process, derived from `own`, comes last: the first
    /// configured secret ends no session.
    pub(super) fn new(secrets: &[Secret], own: &[u8; 32]) -> SessionKeys {
        let mut keys = secrets.iter().map(|secret| derived(secret.expose().as_bytes()));
        match keys.next() {
            Some(first) => SessionKeys { first, others: keys.chain([derived(own)]).collect() },
            None => SessionKeys { first: derived(own), others: Vec::new() },
        }
    }

    fn sign(&self, message: &[u8]) -> String {
        hex::encode(hmac::sign(&self.first, message))
    }

    /// Returns the key that made a tag, given in hexadecimal digits. Tags are compared in constant time.
    fn key_of(&self, message: &[u8], tag: &str) -> Option<&hmac::Key> {
        let tag = hex::decode(tag).ok()?;
        let mut keys = std::iter::once(&self.first).chain(&self.others);
        keys.find(|key| hmac::verify(key, message, &tag).is_ok())
    }

    /// Returns the cookie of a person who typed `token`, good until `end`, in seconds since the Unix epoch.
    pub(super) fn session(&self, token: &[u8], end: u64) -> String {
        let id = session_id();
        let tag = self.sign(&session_message(token, end, &id));
        format!("{end}.{id}.{tag}")
    }

    /// Returns the token of `tokens` that a cookie was made for; `None` if it has ended, or was made for
    /// none of them.
    pub(super) fn token_of<'a>(&self, cookie: &str, tokens: &'a [Secret], now: u64) -> Option<&'a Secret> {
        let (end, rest) = cookie.split_once('.')?;
        let (id, tag) = rest.split_once('.')?;
        let end = end.parse().ok().filter(|end| *end > now)?;
        let is_of = |token: &&Secret| {
            let message = session_message(token.expose().as_bytes(), end, id);
            self.key_of(&message, tag).is_some()
        };
        tokens.iter().find(is_of)
    }

    /// Returns the cookie of a person who signed in by the provider of `config`, good until `end`.
    pub(super) fn person_session(&self, person: &CookiePerson, config: &ConsoleSignIn, end: u64) -> String {
        let CookiePerson { subject, role } = person;
        let id = session_id();
        let tag = self.sign(&person_message(person, config, end, &id));
        format!("{end}.{}.{}.{id}.{tag}", role_word(*role), hex::encode(subject))
    }

    /// Returns the person of a cookie; `None` if it has ended, has another key, or was made under other
    /// settings of the sign-in.
    pub(super) fn person_of(&self, cookie: &str, config: &ConsoleSignIn, now: u64) -> Option<CookiePerson> {
        let mut parts = cookie.split('.');
        let end = parts.next()?.parse().ok().filter(|end| *end > now)?;
        let role = match parts.next()? {
            "operator" => ConsoleRole::Operator,
            "viewer" => ConsoleRole::Viewer,
            _ => return None,
        };
        let subject = String::from_utf8(hex::decode(parts.next()?).ok()?).ok()?;
        let id = parts.next()?;
        let (tag, None) = (parts.next()?, parts.next()) else { return None };
        let person = CookiePerson { subject, role };
        self.key_of(&person_message(&person, config, end, id), tag)?;
        Some(person)
    }

    /// Begins an attempt to sign in at a provider, by a person who goes on to the page `next`. Returns the
    /// cookie that ties it to the browser, and the texts of the attempt. The cookie reveals none of these
    /// texts: they are derived from it by the key.
    pub(super) fn attempt(&self, end: u64, next: &str) -> (String, SignInAttempt) {
        let (id, next) = (hex::encode(random::<16>()), hex::encode(next));
        let tag = self.sign(&attempt_message(&id, &next, end));
        (format!("{end}.{id}.{next}.{tag}"), texts_of_attempt(&self.first, &id))
    }

    /// Returns the attempt of a cookie and the page to go on to; `None` if it has ended or has another key.
    pub(super) fn attempt_of(&self, cookie: &str, now: u64) -> Option<(SignInAttempt, String)> {
        let mut parts = cookie.split('.');
        let end = parts.next()?.parse().ok().filter(|end| *end > now)?;
        let (id, next) = (parts.next()?, parts.next()?);
        let (tag, None) = (parts.next()?, parts.next()) else { return None };
        // The key that signed: another one may come first by now.
        let key = self.key_of(&attempt_message(id, next, end), tag)?;
        let next = String::from_utf8(hex::decode(next).ok()?).ok()?;
        Some((texts_of_attempt(key, id), next))
    }

    /// Returns the token of a session's forms (CSRF). `session` is empty where no one signs in.
    pub(super) fn form_token(&self, session: &str) -> String {
        self.sign(&form_message(session))
    }

    /// Returns true if a form has the token of its session.
    pub(super) fn is_form_token(&self, session: &str, given: &str) -> bool {
        self.key_of(&form_message(session), given).is_some()
    }
}

/// Derives a key from a secret. The label keeps it apart from the keys that seal.
fn derived(secret: &[u8]) -> hmac::Key {
    let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), b"vmcp console session v1");
    hmac::Key::new(hmac::HMAC_SHA256, key.as_ref())
}

fn texts_of_attempt(key: &hmac::Key, id: &str) -> SignInAttempt {
    let text =
        |name: &[u8]| hex::encode(hmac::sign(key, &[&b"text "[..], name, b" ", id.as_bytes()].concat()));
    SignInAttempt { state: text(b"state"), nonce: text(b"nonce"), verifier: text(b"verifier") }
}

/// Returns the name of a session for the list of ended ones: the id of its cookie. The id is signed as it is
/// written, where another spelling of the end (`+1`) or of a tag (`AB`) would pass as the same cookie.
pub(super) fn name_of(cookie: &str) -> &str {
    cookie.rsplit('.').nth(1).unwrap_or_default()
}

/// Returns a random id for a session.
fn session_id() -> String {
    hex::encode(random::<16>())
}

fn session_message(token: &[u8], end: u64, id: &str) -> Vec<u8> {
    [&b"session"[..], &end.to_be_bytes(), &Sha256::digest(token)[..], id.as_bytes()].concat()
}

/// Returns the message of a person's cookie. Other settings of the sign-in make another message: a person
/// whom they no longer admit is out with the reload.
fn person_message(person: &CookiePerson, config: &ConsoleSignIn, end: u64, id: &str) -> Vec<u8> {
    // `Debug` shows no secret, and everything that decides about a role.
    let settings = Sha256::digest(format!("{config:?}"));
    let (role, subject) = (role_word(person.role).as_bytes(), person.subject.as_bytes());
    [&b"person"[..], &end.to_be_bytes(), &settings[..], id.as_bytes(), b" ", role, b" ", subject].concat()
}

fn role_word(role: ConsoleRole) -> &'static str {
    match role {
        ConsoleRole::Operator => "operator",
        ConsoleRole::Viewer => "viewer",
    }
}

fn attempt_message(id: &str, next: &str, end: u64) -> Vec<u8> {
    [&b"attempt"[..], &end.to_be_bytes(), id.as_bytes(), b" ", next.as_bytes()].concat()
}

fn form_message(session: &str) -> Vec<u8> {
    [&b"form"[..], session.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of a process without a configured one.
    fn of_process() -> SessionKeys {
        SessionKeys::new(&[], &random())
    }

    #[test]
    fn replicas_with_one_secret_accept_each_others_cookies_and_a_new_secret_ends_none() {
        let (old, new): (Secret, Secret) = ("an old secret".into(), "a new secret".into());
        let keys = |secrets: &[&Secret]| {
            let secrets: Vec<Secret> = secrets.iter().map(|secret| (*secret).clone()).collect();
            SessionKeys::new(&secrets, &random())
        };
        let (one, rotated) = (keys(&[&old]), keys(&[&new, &old]));
        let tokens = ["a token".into()];
        let cookie = one.session(b"a token", 1_000);
        let (attempt_cookie, attempt) = one.attempt(1_000, "tools?q=x");
        for other in [&keys(&[&old]), &rotated] {
            assert!(other.token_of(&cookie, &tokens, 999).is_some());
            assert!(other.is_form_token(&cookie, &one.form_token(&cookie)));
            let begun = Some((attempt.clone(), "tools?q=x".to_owned()));
            assert_eq!(other.attempt_of(&attempt_cookie, 999), begun);
        }
        let of_new = rotated.session(b"a token", 1_000);
        assert!(one.token_of(&of_new, &tokens, 999).is_none(), "signed with the new one");
        assert!(keys(&[&new]).token_of(&cookie, &tokens, 999).is_none(), "the old one is gone");
        let own = random();
        let before = SessionKeys::new(&[], &own).session(b"a token", 1_000);
        assert!(SessionKeys::new(&[old], &own).token_of(&before, &tokens, 999).is_some());
    }

    #[test]
    fn a_cookie_is_good_for_its_token_until_its_end() {
        let key = of_process();
        let tokens = ["first token".into(), "second token".into()];
        let cookie = key.session(b"second token", 1_000);
        assert_eq!(key.token_of(&cookie, &tokens, 999).map(Secret::expose), Some("second token"));
        assert_eq!(key.token_of(&cookie, &tokens, 1_000), None, "it has ended");
        assert_eq!(key.token_of(&cookie, &tokens[..1], 999), None, "its token is gone");
        assert_eq!(of_process().token_of(&cookie, &tokens, 999), None, "another process");
        let longer = cookie.replacen("1000", "9999", 1);
        assert_eq!(key.token_of(&longer, &tokens, 999), None, "its end is signed");
        assert!(!cookie.contains("second"));
        let same_second = key.session(b"second token", 1_000);
        assert_ne!(name_of(&same_second), name_of(&cookie), "each sign-in is a session of its own");
        let (start, tag) = cookie.rsplit_once('.').unwrap();
        for disguised in
            [format!("+{cookie}"), format!("0{cookie}"), format!("{start}.{}", tag.to_uppercase())]
        {
            assert!(key.token_of(&disguised, &tokens, 999).is_some(), "{disguised}");
            assert_eq!(name_of(&disguised), name_of(&cookie), "signing out ends it too");
        }
        let other_id = cookie.replacen(name_of(&cookie), name_of(&same_second), 1);
        assert_eq!(key.token_of(&other_id, &tokens, 999), None, "its id is signed");
    }

    fn sign_in(operators: &str) -> ConsoleSignIn {
        let text = format!(
            "server: {{ console: oidc, adminTokens: [a token of enough characters], \
             consoleSignIn: {{ issuerUrl: https://login.example.com, clientId: x, redirectUri: \
             \"https://vmcp.example.com/console/oidc/callback\", operators: [{operators}] }} }}"
        );
        let config = vmcp_engine::testing::config(&text);
        ConsoleSignIn::clone(config.server.console_sign_in.as_ref().unwrap())
    }

    #[test]
    fn the_cookie_of_a_person_is_good_until_its_end_under_the_settings_that_admitted_them() {
        let (key, config) = (of_process(), sign_in("platform"));
        let person = CookiePerson { subject: "ann.b@example.com".to_owned(), role: ConsoleRole::Viewer };
        let cookie = key.person_session(&person, &config, 1_000);
        assert_eq!(key.person_of(&cookie, &config, 999), Some(person));
        assert_eq!(name_of(&cookie).len(), 32, "{cookie}");
        assert_eq!(key.person_of(&cookie, &config, 1_000), None, "it has ended");
        assert_eq!(key.person_of(&cookie, &sign_in("others"), 999), None, "other settings");
        assert_eq!(of_process().person_of(&cookie, &config, 999), None, "another process");
        for forged in
            [cookie.replace("viewer", "operator"), cookie.replacen("1000", "9999", 1), format!("{cookie}.00")]
        {
            assert_eq!(key.person_of(&forged, &config, 999), None, "{forged}");
        }
        assert!(key.token_of(&cookie, &["a token of enough characters".into()], 999).is_none());
    }

    #[test]
    fn an_attempt_belongs_to_its_browser_and_its_cookie_reveals_nothing() {
        let key = of_process();
        let (cookie, attempt) = key.attempt(1_000, "tools");
        assert_eq!(key.attempt_of(&cookie, 999), Some((attempt.clone(), "tools".to_owned())));
        assert_eq!(key.attempt_of(&cookie, 1_000), None, "it has ended");
        assert_eq!(of_process().attempt_of(&cookie, 999), None, "another process");
        assert_ne!(key.attempt(1_000, "tools").1, attempt, "each attempt has texts of its own");
        let SignInAttempt { state, nonce, verifier } = attempt;
        assert!(state != nonce && nonce != verifier && (43..=128).contains(&verifier.len()));
        assert!(!cookie.contains(&state) && !cookie.contains(&nonce) && !cookie.contains(&verifier));
        assert_eq!(key.attempt_of(&cookie.replacen("1000", "9999", 1), 999), None, "its end is signed");
        let elsewhere = cookie.replacen(&hex::encode("tools"), &hex::encode("calls"), 1);
        assert!(elsewhere != cookie && key.attempt_of(&elsewhere, 999).is_none(), "its page is signed");
        let (to_overview, _) = key.attempt(1_000, "");
        assert!(key.attempt_of(&to_overview, 999).is_some_and(|(_, next)| next.is_empty()));
    }

    #[test]
    fn a_form_belongs_to_its_session_and_is_no_cookie() {
        let key = of_process();
        let token = key.form_token("one");
        assert!(key.is_form_token("one", &token));
        assert!(
            !key.is_form_token("two", &token)
                && !key.is_form_token("one", "")
                && !key.is_form_token("", &token)
        );
    }
}
