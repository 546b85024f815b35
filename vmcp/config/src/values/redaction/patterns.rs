//! Patterns of secrets, as regular expressions.

/// Secrets with a shape; the group `keep` of a pattern stays.
///
/// Sources: RFC 7468 (PEM), RFC 7617 and 6750 (`Basic`, `Bearer`), RFC 7616 (`Digest`), RFC 7515 (JWT), RFC
/// 3986 (user information), RFC 6265 (cookies); vendors document the prefixes for secret scanning.
pub(super) const SHAPES: [&str; 19] = [
    // A private key, also as one line of JSON or cut off.
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    r"(?s)PuTTY-User-Key-File-[0-9].*?(?:Private-MAC: ?[0-9a-f]+|\z)",
    // `Authorization` with one word, with parameters, and as a list of JSON.
    concat!(
        r#"(?i)(?P<keep>\bauthorization\\?["']?[ \t]*[:=][ \t]*\[?\\?["']?"#,
        r"(?:bearer|basic|token|api-?key|dpop|negotiate|ntlm)[ \t]+)",
        r#"[^\s"'\\,;$][^\s"'\\,;]*"#,
    ),
    concat!(
        r#"(?i)(?P<keep>\bauthorization\\?["']?[ \t]*[:=][ \t]*\[?\\?["']?"#,
        r"(?:digest|aws4-hmac-sha256|signature|hawk|oauth|sharedaccesssignature)[ \t]+)[^\r\n]+",
    ),
    r#"(?i)(?P<keep>\b(?:authorization|cookie|[a-z-]*api-key)\\?["']\s*:\s*\[\s*\\?["'])[^"'\\]+"#,
    r"(?i)(?P<keep>\b(?:bearer|basic|negotiate|dpop)(?:\s|%20|\+)+)[A-Za-z0-9+/=_.~:%-]{8,}",
    r"(?i)(?P<keep>\b(?:bearer|dpop)[ \t]+)[A-Za-z+/=_.~-]*[0-9][A-Za-z0-9+/=_.~-]*",
    // JSON Web Tokens, whole or without their signature.
    r"\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+){0,2}",
    // The password of a URL; a user as long as a token is one; of `scheme://token@host`, the token.
    r#"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*://)[A-Za-z0-9_%.~-]{12,}:[^\s/@"'<>]*@"#,
    r#"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:)[^\s@"'<>]+@"#,
    r"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*://)[A-Za-z0-9_%.~-]{12,}@",
    r"(?P<keep>\bjdbc:oracle:[a-z]+:[^\s/:@]+/)[^\s@]+@",
    // The query of a URL: any parameter may be a key.
    r#"(?P<keep>\b(?:https?|wss?)://[^\s?"'<>]*\?)[^\s"'<>]+"#,
    // Cookies.
    r"(?i)(?P<keep>\b(?:set-)?cookie:\s*)[^\r\n]+",
    // The user of curl and wget.
    r#"(?P<keep>(?:^|\s)(?:-u|--user|--proxy-user)[= ]?\\?["']?[^\s:"'\\/]+:)[^\s"'\\]+"#,
    // Well-known prefixes.
    concat!(
        r"\b(?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-|xox[abcdeoprs]-|xapp-|sk-|[spr]k_live_",
        r"|[spr]k_test_|whsec_|hf_|npm_|lin_api_|tvly-|pplx-|gsk_|r8_|shpat_|shpss_|dckr_[po]at_|sbp_|pypi-|dop_v1_",
        r"|pat-|ctx7sk-|figd_|ntn_|secret_|fc-|ATATT|ATCTT|AGE-SECRET-KEY-|hvs\.|hvb\.|EAA|SG\.|ya29\.|1//0|PMAK-",
        r"|NRAK-|glsa_|dapi|AC[0-9a-f]{30,}|SK[0-9a-f]{30,})[A-Za-z0-9_.=/+-]{8,}",
    ),
    r"\b(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}\b|\bAIza[A-Za-z0-9_-]{20,}",
    // Bots of Telegram.
    r"\b(?:bot)?[0-9]{6,12}:[A-Za-z0-9_-]{30,}",
    // Webhooks whose address is the secret.
    r"(?P<keep>https://(?:hooks\.slack\.com|discord(?:app)?\.com/api|[a-z0-9.-]*webhook\.office\.com)/)\S+",
];

/// Part of a pattern: a name with a word of secrets.
macro_rules! name {
    () => {
        concat!(
            r"(?P<name>[A-Za-z0-9_.-]{0,40}(?i:token|secret|passw|key|credential|auth|cookie|passphrase|pass|pwd|pat",
            r"|sig|hmac|assertion|verifier|otp|pin|session|bearer)[A-Za-z0-9_.-]{0,40})",
        )
    };
}

/// Part of a pattern: the end of a name in quotes, and a sign of assignment, also in the escapes of a URL.
macro_rules! sign {
    () => {
        r#"\\?["']?[ \t]*(?:[=:]>?|%3[aAdD])(?:[ \t]|%20|\+)*"#
    };
}

/// A name, the text between, and a value that is a secret if the name is one of secrets. The groups `before`
/// and `after` stay.
pub(super) const NAMED_VALUES: [&str; 8] = [
    // A variable as an entry of a list: `{"name": "TOKEN", "value": "x"}`.
    concat!(
        r#"(?i)(?P<before>\b(?:name|key)\\?["']?[ \t]*[=:][ \t]*\\?["']?)(?P<name>[A-Za-z0-9_.-]{1,80})"#,
        r#"(?P<between>\\?["']?,?(?:\s|\\[nrt])*\\?["']?value\\?["']?[ \t]*[=:][ \t]*\\?["']?)(?P<value>[^\s"'\\,;&}\])]+)"#,
    ),
    // In quotes, blanks and all.
    concat!(name!(), r"(?P<between>", sign!(), r#"")(?P<value>(?:[^"\\\r\n]|\\.)+)"#),
    concat!(name!(), r"(?P<between>", sign!(), r"')(?P<value>[^'\r\n]+)"),
    concat!(name!(), r"(?P<between>", sign!(), r#"\\")(?P<value>[^"\\\r\n]+(?:\\[^"][^"\\\r\n]*)*)"#),
    // Passwords have any sign: `password=a,b`.
    concat!(
        r"(?P<name>[A-Za-z0-9_.-]{0,40}(?i:passw|passphrase|pwd|secret)[A-Za-z0-9_.-]{0,40})",
        r"(?P<between>",
        sign!(),
        r#"\\?["']?)(?P<value>[^\s"'`\\}]+)"#,
    ),
    // `X-Api-Key: x`, `"api_key": "x"`.
    concat!(name!(), r"(?P<between>", sign!(), r#"\\?["']?)(?P<value>[^\s"'\\,;&}\])]+)"#),
    // An option and its value: `--token x`, `["--api-key", "x"]`.
    concat!(
        r#"(?P<name>--[A-Za-z][A-Za-z0-9_-]{0,63})(?P<between>\\?["']?,?\s+\\?["']?)"#,
        r#"(?P<value>-?[^\s"'\\,;&}\])-][^\s"'\\,;&}\])]*)"#,
    ),
    // XML.
    concat!(name!(), r"(?P<between>>\s*)(?P<value>[^<\s][^<]*)(?P<after></)"),
];

/// Words of people about a secret, and a word behind them, which is one if it has letters and digits.
pub(super) const PROSE: &str = concat!(
    r"(?i)(?P<keep>\b(?:password|passwd|passphrase|passcode|token|(?:api|access|license)[ _-]?key)",
    r#"(?: (?:is|was|(?:for|of) [^\s:=]{1,40}))?:?[ \t]+\\?["'`]?)(?P<value>[^\s"'\\`,;]{6,})"#,
);

/// Colors of a terminal, as they are and as JSON writes them.
pub(super) const COLORS: &str = r"(?:\x1b|\\u001b|\\x1b)\[[0-9;]*m";

/// Words that may be random.
pub(super) const WORD: &str = r"[A-Za-z0-9+/_-]{24,}={0,2}";
