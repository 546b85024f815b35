//! Signs of a secret: the name of its setting, a known prefix, the look of a random key, a password in a URL.

/// Words in the name of a setting whose value is a secret.
const SECRET_WORDS: [&str; 11] = [
    "token",
    "secret",
    "password",
    "passwd",
    "apikey",
    "credential",
    "auth",
    "cookie",
    "privatekey",
    "accesskey",
    "passphrase",
];
/// Prefixes of well-known tokens: OpenAI and Anthropic, GitHub, GitLab, Slack, AWS, JWT, Hugging Face,
/// Google, Firecrawl, Notion, Figma, Stripe, npm, Linear, Tavily, Perplexity, Groq, Replicate, Atlassian,
/// SendGrid, Shopify, Docker, Supabase.
const SECRET_PREFIXES: [&str; 43] = [
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxs-",
    "xapp-",
    "AKIA",
    "ASIA",
    "eyJ",
    "hf_",
    "AIza",
    "ya29.",
    "fc-",
    "ntn_",
    "secret_",
    "figd_",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "whsec_",
    "npm_",
    "lin_api_",
    "tvly-",
    "pplx-",
    "gsk_",
    "r8_",
    "ATATT",
    "SG.",
    "shpat_",
    "dckr_pat_",
    "sbp_",
    "pypi-",
    "dop_v1_",
    "pat-",
    "ctx7sk-",
];
/// Fewest characters of a value with a known prefix.
const MIN_TOKEN_CHARACTERS: usize = 12;
/// Fewest characters of a value that is a secret by its look alone.
const MIN_RANDOM_CHARACTERS: usize = 24;

/// Returns true if a setting of this name holds a secret.
pub fn is_secret_name(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let joined = lower.replace(['-', '_', '.'], "");
    SECRET_WORDS.iter().any(|word| joined.contains(word))
        || lower.split(['-', '_', '.']).any(|word| matches!(word, "key" | "pat" | "pass" | "pwd"))
}

/// Returns true for a known prefix, for 24 and more letters and digits in one piece, with at least four
/// digits and a letter, and for a connection string with a password (`Server=x;Password=y`).
pub fn looks_secret(value: &str) -> bool {
    has_token_prefix(value)
        || (value.len() >= MIN_RANDOM_CHARACTERS
            && value.chars().all(|c| c.is_ascii_alphanumeric() || "_-+=".contains(c))
            && value.chars().filter(char::is_ascii_digit).count() >= 4
            && value.chars().any(|c| c.is_ascii_alphabetic()))
        || value.split([';', ' ']).count() > 1
            && value
                .split([';', ' '])
                .filter_map(|part| part.split_once('='))
                .any(|(name, value)| is_secret_name(name.trim()) && !value.is_empty())
}

/// Returns true for a value that begins like a well-known token and has no blank.
pub fn has_token_prefix(value: &str) -> bool {
    value.len() >= MIN_TOKEN_CHARACTERS
        && !value.contains(char::is_whitespace)
        && SECRET_PREFIXES.iter().any(|prefix| value.starts_with(prefix))
}

/// Splits a URL with a password, `scheme://user:password@host`, around the password.
pub fn password_of_url(value: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = value.split_once("://")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if scheme.is_empty() || !scheme.chars().all(plain) {
        return None;
    }
    // A password may hold `/`; only in a web URL is an `@` beyond the first `/` part of the path.
    let end = if scheme.starts_with("http") { rest.find(['/', '?', '#']) } else { rest.find('?') };
    let authority = rest.get(..end.unwrap_or(rest.len()))?;
    let (user_info, _) = authority.rsplit_once('@')?;
    let (user, password) = user_info.split_once(':')?;
    if password.is_empty() {
        return None;
    }
    let begin = scheme.len() + "://".len() + user.len() + 1;
    Some((value.get(..begin)?, password, value.get(begin + password.len()..)?))
}

/// Returns true for the left side of `--token=x` and of `TOKEN=x`.
pub fn is_option(name: &str) -> bool {
    name.starts_with('-')
        || (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_are_found_and_paths_are_not() {
        for (value, password) in [
            ("postgresql://bob:hunter2@db.example/x", Some("hunter2")),
            ("mongodb+srv://u:p/w@x@cluster0/test?retry=true", Some("p/w@x")),
            ("redis://:pw@localhost:6379", Some("pw")),
            ("https://u:pw@example.com/a", Some("pw")),
            ("https://example.com:8080/@scope/pkg", None),
            ("postgresql://bob@db/x", None),
            ("see http://x", None),
        ] {
            assert_eq!(password_of_url(value).map(|parts| parts.1), password, "{value}");
        }
    }

    #[test]
    fn tokens_are_known_by_their_look() {
        for value in [
            "hf_abcdefghijklmn",
            "fc-0123456789ab",
            "AIzaSyA0123456789",
            "0a1b2c3d4e5f6g7h8i9j0k1l",
            "Server=x;Password=y",
        ] {
            assert!(looks_secret(value), "{value}");
        }
        for value in ["@modelcontextprotocol/server-filesystem", "pat-a", "a=b c=d", "sk-what is this about"]
        {
            assert!(!looks_secret(value), "{value}");
        }
    }
}
