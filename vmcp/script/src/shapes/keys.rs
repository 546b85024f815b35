//! Keys that are names, told from keys that are data: identifiers of records, addresses, tokens.

/// Longest key that counts as a name, in bytes.
const MAX_BYTES: usize = 40;
/// Most digits of a name: `sha256` has three, a number of a record has more.
const MAX_DIGITS: usize = 3;
/// Longest name of hexadecimal digits alone; a longer one is a hash or an id.
const MAX_HEX: usize = 7;
/// Beginnings of tokens.
const TOKENS: [&str; 9] = ["ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "xox", "eyJ", "AKIA"];
/// Fewest letters of a word in the mean, for keys of many words: tokens change case every second letter.
const MEAN_LETTERS: usize = 3;

/// True if a key looks like the name of a field: letters, few digits, `_`, `-`, perhaps `@` or `$` before
/// them.
pub(super) fn is_name(key: &str) -> bool {
    let rest = key.strip_prefix(['@', '$']).unwrap_or(key);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let begins = rest.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    key.len() <= MAX_BYTES
        && begins
        && rest.bytes().all(is_word)
        && rest.bytes().filter(u8::is_ascii_digit).count() <= MAX_DIGITS
        && !(rest.len() > MAX_HEX && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
        && !TOKENS.iter().any(|token| rest.starts_with(token))
        && has_words(rest)
}

/// True unless the case of the letters changes as in a random text.
fn has_words(name: &str) -> bool {
    let letters = name.bytes().filter(u8::is_ascii_alphabetic).count();
    let mut words = 1;
    let mut before = b'A';
    for byte in name.bytes() {
        let begins = before.is_ascii_lowercase() && byte.is_ascii_uppercase();
        words += usize::from(begins);
        before = byte;
    }
    words < 4 || letters >= words * MEAN_LETTERS
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_of_fields_are_names() {
        for key in [
            "id",
            "html_url",
            "createdAt",
            "next-page",
            "@type",
            "$ref",
            "sha256",
            "_links",
            "nodeIDs",
            "x",
            "numberOfOpenIssuesPerRepository",
            "Owner",
            "isAdminOfTeam",
        ] {
            assert!(is_name(key), "{key}");
        }
    }

    #[test]
    fn keys_that_are_data_are_no_names() {
        for key in [
            "",
            "1",
            "12",
            "user12345",
            "alice@example.com",
            "example.com",
            "a b",
            "/etc/passwd",
            "Grüße",
            "deadbeef",
            "550e8400-e29b-41d4-a716-446655440000",
            "ghp_abcdefgh",
            "sk-live-abc",
            "2026-01-01",
            "xJkQpLmZaBcD",
            "https://x",
            &"x".repeat(41),
            "a\nb",
            "\u{202e}x",
            "AKIAIOSFODNN",
        ] {
            assert!(!is_name(key), "{key}");
        }
    }
}
