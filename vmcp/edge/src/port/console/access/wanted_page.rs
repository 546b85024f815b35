//! The page that a person asked for before they signed in, to which they go on afterwards. Its address comes
//! from a form, a link or a cookie, and so from anyone: it leads to a page of this console and nowhere else.

/// Most bytes of an address: a third of the form to sign in, as the form escapes each byte. A cookie of an
/// attempt has it twice as long, below the 4 KiB that browsers keep.
const MAX_BYTES: usize = 1_000;

/// Returns true for the address of a page behind [`ROOT`](vmcp_console::links::ROOT), with its query: one
/// word of lowercase letters, and characters that fit a form and a header. A browser makes other paths out
/// of dots, of `%2e`, of `\` and of `//`.
pub(super) fn is_page(address: &str) -> bool {
    let path = address.split('?').next().unwrap_or_default();
    (1..=MAX_BYTES).contains(&address.len())
        && path.bytes().all(|byte| byte.is_ascii_lowercase())
        && address.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_of_the_console_is_gone_on_to() {
        for page in
            ["tools", "tool?server=a&tool=%2e%2e%2Fb//c:\\#d", "?done=x", "calls?who=https://evil.example"]
        {
            assert!(is_page(page), "{page}");
        }
        let long = format!("calls?who={}", "x".repeat(MAX_BYTES));
        for other in [
            "",
            "/evil.example",
            "//evil.example",
            "\\evil.example",
            "../admin/status",
            "%2e%2e/admin/status",
            ".",
            "javascript:alert(1)",
            "oidc/start",
            "tools#x",
            "tools?a b",
            "tools?\r\nset-cookie: a=b",
            "tööls",
            &long,
        ] {
            assert!(!is_page(other), "{other}");
        }
    }
}
