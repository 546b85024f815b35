//! [`without_secrets`]: removes secrets from any text by their shape, for texts that leave the machine.
//!
//! Better too much than too little: a hash of 64 hex digits may go too. Secrets without a shape are known by
//! [`KnownSecrets`](crate::KnownSecrets), which is asked first.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::references::secret_signs::{is_secret_name, looks_secret};
use crate::values::secret::MASK;

/// Patterns of secrets; the group `keep` of a pattern stays.
///
/// Sources: RFC 7468 (PEM), RFC 7617 and 6750 (`Basic`, `Bearer`), RFC 7515 (JWT), RFC 3986 (user
/// information), RFC 6265 (cookies); vendors document the prefixes for secret scanning.
const PATTERNS: [&str; 10] = [
    // A private key, also as one line of JSON or cut off.
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
    r"(?i)(?P<keep>\b(?:bearer|basic|negotiate)\s+)[A-Za-z0-9+/=_.~:-]{8,}",
    // JSON Web Tokens, whole or without their signature.
    r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){0,2}",
    // The password of a URL; of `scheme://token@host`, the token.
    r#"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:)[^\s@"'<>]+@"#,
    r"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*://)[A-Za-z0-9_%.~-]{12,}@",
    // The query of a URL: any parameter may be a key.
    r#"(?P<keep>https?://[^\s?"'<>]*\?)[^\s"'<>]+"#,
    // Cookies.
    r"(?i)(?P<keep>\b(?:set-)?cookie:\s*)[^\r\n]+",
    // Well-known prefixes.
    concat!(
        r"\b(?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-|xox[abeoprs]-|xapp-|sk-|[spr]k_live_",
        r"|[spr]k_test_|whsec_|hf_|npm_|lin_api_|tvly-|pplx-|gsk_|r8_|shpat_|shpss_|dckr_[po]at_|sbp_|pypi-|dop_v1_",
        r"|pat-|ctx7sk-|figd_|ntn_|secret_|fc-|ATATT|ATCTT|AGE-SECRET-KEY-|hvs\.|hvb\.|EAA|SG\.|ya29\.|1//0|PMAK-",
        r"|NRAK-|glsa_|dapi|AC[0-9a-f]{30,}|SK[0-9a-f]{30,})[A-Za-z0-9_.=/+-]{8,}",
    ),
    r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}\b|\bAIza[A-Za-z0-9_-]{20,}",
    // Webhooks whose address is the secret.
    r"(?P<keep>https://(?:hooks\.slack\.com|discord(?:app)?\.com/api|[a-z0-9.-]*webhook\.office\.com)/)\S+",
];

/// A name with a word of secrets, a separator and a value: `password=x`, `"api_key": "x"`, `X-Api-Key: x`.
const NAMED: &str = concat!(
    r"(?P<name>[A-Za-z0-9_.-]{0,40}(?i:token|secret|passw|key|credential|auth|cookie|passphrase|pass|pwd|pat)",
    r"[A-Za-z0-9_.-]{0,40})",
    r#"(?P<between>\\?["']?[ \t]*[=:][ \t]*\\?["']?)(?P<value>[^\s"'\\,;&}\])]+)"#,
);

/// An option and its value: `--token x`, `["--api-key", "x"]`.
const OPTION: &str = concat!(
    r#"(?P<name>--[A-Za-z][A-Za-z0-9_-]{0,63})(?P<between>\\?["']?,?\s+\\?["']?)"#,
    r#"(?P<value>[^\s"'\\,;&}\])-][^\s"'\\,;&}\])]*)"#,
);

/// Schemes of `Authorization`, before the secret itself.
const SCHEMES: [&str; 5] = ["bearer", "basic", "negotiate", "digest", "token"];

/// Words that may be random.
const WORD: &str = r"[A-Za-z0-9+/_-]{24,}={0,2}";

/// Names of digests and ids, which look random and are public.
const NAMES_OF_DIGESTS: [&str; 5] = ["hash", "digest", "sha256", "trace", "version"];
/// Bytes before a random word in which such a name is looked for.
const NAME_REACH: usize = 24;

static SHAPES: LazyLock<Vec<Regex>> =
    LazyLock::new(|| PATTERNS.iter().filter_map(|it| Regex::new(it).ok()).collect());
static NAMED_VALUES: LazyLock<Vec<Regex>> =
    LazyLock::new(|| [NAMED, OPTION].iter().filter_map(|it| Regex::new(it).ok()).collect());
static WORDS: LazyLock<Vec<Regex>> = LazyLock::new(|| Regex::new(WORD).into_iter().collect());

/// Returns a text in which everything that has the shape of a secret, or stands behind the name of one, is
/// `***`.
///
/// # Examples
///
/// ```
/// let line = "login at https://bob:hunter2@db.example failed, password=hunter2 retry=3";
/// let masked = "login at https://bob:***@db.example failed, password=*** retry=3";
/// assert_eq!(vmcp_config::without_secrets(line), masked);
/// ```
pub fn without_secrets(text: &str) -> String {
    let mut text = Cow::Borrowed(text);
    for pattern in &*SHAPES {
        let masked = pattern.replace_all(&text, |found: &Captures<'_>| {
            let at = if found.get(0).is_some_and(|all| all.as_str().ends_with('@')) { "@" } else { "" };
            let keep = found.name("keep").map_or("", |keep| keep.as_str());
            format!("{keep}{MASK}{at}")
        });
        text = Cow::Owned(masked.into_owned());
    }
    for pattern in &*NAMED_VALUES {
        let masked = pattern.replace_all(&text, |found: &Captures<'_>| {
            let part = |name| found.name(name).map_or("", |part| part.as_str());
            let (name, value) = (part("name"), part("value"));
            let shown = if is_secret_setting(name, value) { MASK } else { value };
            format!("{name}{}{shown}", part("between"))
        });
        text = Cow::Owned(masked.into_owned());
    }
    for pattern in &*WORDS {
        let masked = pattern.replace_all(&text, |found: &Captures<'_>| {
            let Some(word) = found.get(0) else { return String::new() };
            let before = text.get(..word.start()).unwrap_or_default();
            let reach = before.len().saturating_sub(NAME_REACH);
            let before =
                before.get(before.ceil_char_boundary(reach)..).unwrap_or_default().to_ascii_lowercase();
            let is_digest = NAMES_OF_DIGESTS.iter().any(|name| before.contains(name));
            let is_secret = looks_secret(word.as_str()) && !is_digest;
            if is_secret { MASK.to_owned() } else { word.as_str().to_owned() }
        });
        text = Cow::Owned(masked.into_owned());
    }
    text.into_owned()
}

/// Returns true for a value behind the name of a secret, except for a path, a URL, a word of the
/// configuration, and a number behind a name that may be a count.
pub fn is_secret_setting(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_count = value.len() < 16 && value.parse::<f64>().is_ok();
    let is_password = lower.contains("pass") || lower.contains("secret") || lower.contains("pwd");
    let is_word = matches!(value, "true" | "false" | "null" | "None" | "Some" | MASK)
        || SCHEMES.iter().any(|scheme| scheme.eq_ignore_ascii_case(value));
    let is_place = value.starts_with(['/', '.', '~', '`', '$', '{', '[', '(', '<']) || value.contains("://");
    is_secret_name(name.trim_start_matches('-')) && !is_word && !is_place && (is_password || !is_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!((SHAPES.len(), NAMED_VALUES.len(), WORDS.len()), (PATTERNS.len(), 2, 1));
    }

    #[test]
    fn secrets_are_known_by_their_shape() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----";
        for (text, masked) in [
            ("Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer ***"),
            ("said Basic dXNlcjpwYXNz here", "said Basic *** here"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln.", "jwt ***."),
            ("postgres://app:p4ss/word@db:5432/x", "postgres://app:***@db:5432/x"),
            ("https://x-token-abcdefghij@git.example/r", "https://***@git.example/r"),
            (key, "***"),
            (r"pem -----BEGIN EC PRIVATE KEY-----\nMIIEow", "pem ***"),
            ("ghp_0123456789abcdefghij0123456789abcdef", "***"),
            ("key AKIAIOSFODNN7EXAMPLE used", "key *** used"),
            ("xoxb-123456789012-abcdefghij", "***"),
            ("POST https://hooks.slack.com/services/T0/B0/xyz ok", "POST https://hooks.slack.com/*** ok"),
            ("Set-Cookie: sid=1; Path=/", "Set-Cookie: ***"),
            (r#"{"api_key":"short1","n":1}"#, r#"{"api_key":"***","n":1}"#),
            (r#"{\"password\": \"x1\"}"#, r#"{\"password\": \"***\"}"#),
            ("run --token abc --verbose", "run --token *** --verbose"),
            (r#"args ["--api-key", "abc"]"#, r#"args ["--api-key", "***"]"#),
            ("GET /x?access_token=abc&page=2", "GET /x?access_token=***&page=2"),
            ("tokenUrl=https://a.example/x?code=abc&d=e f", "tokenUrl=https://a.example/x?*** f"),
            ("pin_password=1234", "pin_password=***"),
            ("found a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4 in", "found *** in"),
        ] {
            let got = without_secrets(text);
            let expected = masked;
            assert_eq!(got.trim_end_matches('.'), expected.trim_end_matches('.'), "{text}");
        }
    }

    #[test]
    fn plain_words_stay() {
        let hash = "a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4";
        for text in [
            "baselineTokens: 81234",
            "tokenEndpoint: https://issuer.example/token",
            "certificate key file key=/etc/vmcp/tls.key",
            "backend github is up transport=stdio tools=12",
            "incomingAuth:\n  type: oidc",
            "at https://user@host.example/mcp",
            "github_create_pull_request_review_comment",
            "2026-11-27T08:00:00.123Z INFO vmcp",
            &format!("\"hash\": \"{hash}\""),
            &format!("trace_id={hash}"),
        ] {
            assert_eq!(without_secrets(text), text);
        }
    }
}
