//! [`ServerWords`]: the beginning of the bytes that a server sent in place of an answer, for a person who has
//! to find the cause. Printable, in short, markup removed, secrets masked.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName};
use url::form_urlencoded;
use vmcp_config::{KnownSecrets, MASK, sanitize};
use vmcp_json::text;

/// Most characters that are shown; the rest is left out.
const MAX_CHARACTERS: usize = 200;
/// Bytes that are looked at.
pub(in crate::transport) const MAX_READ_BYTES: usize = 8 * 1024;
/// Fewest bytes of a header's value that is masked: a shorter one would mask parts of ordinary words.
const MIN_SECRET_BYTES: usize = 6;
/// Elements without text for a person.
const SILENT_ELEMENTS: [&str; 4] = ["script", "style", "svg", "template"];
/// Named characters of HTML that error pages use.
const ENTITIES: [(&str, &str); 7] = [
    ("&amp;", "&"),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&apos;", "'"),
    ("&nbsp;", " "),
    ("&mdash;", "–"),
];

/// The beginning of the bytes that a server sent. May be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerWords(Arc<str>);

impl ServerWords {
    /// Returns the beginning of `bytes` without the secrets.
    pub(crate) fn new(bytes: &[u8], secrets: &Secrets) -> Self {
        let window = bytes.get(..MAX_READ_BYTES).unwrap_or(bytes);
        let plain = plain(&String::from_utf8_lossy(window));
        // Masked before the text is cut, and after its markup was read: both could hide parts of a secret.
        let mut masked = secrets.mask(&plain);
        if window.len() < bytes.len() {
            secrets.cut_begun(&mut masked);
        }
        let mut shown: String = masked.chars().take(MAX_CHARACTERS).collect();
        if shown.len() < masked.len() {
            shown.push('…');
        }
        Self(shown.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Written behind another text, after a colon; nothing without words.
impl fmt::Display for ServerWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

/// Secrets that a server knows from vmcp, and might repeat: the configured ones, and the headers that were
/// sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    configured: Arc<KnownSecrets>,
    sent: Vec<String>,
}

impl Secrets {
    pub(crate) fn new(configured: Arc<KnownSecrets>) -> Self {
        Self { configured, sent: Vec::new() }
    }

    /// Adds the values of headers, as they are sent and as servers read them: behind a scheme, decoded, and
    /// escaped for JSON or a URL.
    pub(crate) fn add_headers(&mut self, headers: &HeaderMap) {
        for (name, value) in headers {
            let Ok(value) = value.to_str() else { continue };
            if is_harmless(name) {
                continue;
            }
            let token = value.rsplit_once(' ').map_or(value, |(_, token)| token);
            self.add(token);
            self.add(value);
            for cookie in value.split(';').filter_map(|cookie| Some(cookie.split_once('=')?.1)) {
                self.add(cookie.trim());
            }
            let basic = STANDARD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            if let Some((_, password)) = basic.as_deref().and_then(|basic| basic.split_once(':')) {
                self.add(password);
            }
        }
        // The longest first: one secret may contain another.
        self.sent.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        self.sent.dedup();
    }

    fn add(&mut self, secret: &str) {
        if secret.len() < MIN_SECRET_BYTES {
            return;
        }
        let in_json = text::quoted(secret);
        let in_url: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        for form in [secret, in_json.trim_matches('"'), &*in_url, &secret.replace('/', "\\/")] {
            if !self.sent.iter().any(|known| known == form) {
                self.sent.push(form.to_owned());
            }
        }
    }

    /// Returns the text with each secret masked.
    fn mask(&self, text: &str) -> String {
        let mut masked = self.configured.mask(text).into_owned();
        for secret in &self.sent {
            masked = masked.replace(secret, MASK);
        }
        masked
    }

    /// Removes a secret of which the text holds only the beginning, at its end.
    fn cut_begun(&self, text: &mut String) {
        let begun = self.sent.iter().filter_map(|secret| {
            let cuts = secret.char_indices().map(|(at, _)| at).rev();
            cuts.filter(|at| *at > 0).find(|at| secret.get(..*at).is_some_and(|part| text.ends_with(part)))
        });
        if let Some(length) = begun.max() {
            text.truncate(text.len() - length);
        }
    }
}

/// True for headers whose values say nothing secret.
fn is_harmless(name: &HeaderName) -> bool {
    let plain = ["accept", "user-agent", "host", "accept-encoding", "accept-language"];
    name.as_str().starts_with("content-")
        || plain.contains(&name.as_str())
        || (name.as_str().starts_with("mcp-") && name != "mcp-session-id")
}

/// Returns text in one line: that of a page without its markup, everything else as it came.
fn plain(text: &str) -> String {
    let begin = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    sanitize::text(&if begin.starts_with('<') { without_markup(begin) } else { without_escapes(begin) })
}

/// Returns the text of an HTML or XML document.
fn without_markup(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((text, behind)) = rest.split_once('<') {
        out.push_str(text);
        out.push(' ');
        if let Some(comment) = behind.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
            continue;
        }
        let (tag, behind) = behind.split_once('>').unwrap_or((behind, ""));
        let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let silent = SILENT_ELEMENTS.iter().find(|silent| name.eq_ignore_ascii_case(silent));
        rest = match silent.filter(|_| !tag.ends_with('/')) {
            Some(silent) => end_of_element(behind, silent),
            None => behind,
        };
    }
    out.push_str(rest);
    for (entity, character) in ENTITIES {
        out = out.replace(entity, character);
    }
    numeric_entities(&out)
}

/// Returns the text behind the end of an element.
fn end_of_element<'a>(text: &'a str, name: &str) -> &'a str {
    let end = format!("</{name}");
    // ASCII letters alone change: places stay the same.
    let at = text.to_ascii_lowercase().find(&end);
    let behind = at.and_then(|at| text.get(at..)).unwrap_or_default();
    behind.split_once('>').map_or("", |(_, behind)| behind)
}

fn numeric_entities(text: &str) -> String {
    let mut parts = text.split("&#");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.split_once(';').and_then(|(number, behind)| {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            Some((char::from_u32(code.ok()?)?, behind))
        });
        if let Some((character, behind)) = number {
            out.push(character);
            out.push_str(behind);
        } else {
            out.push_str("&#");
            out.push_str(part);
        }
    }
    out
}

/// Removes the escape sequences of terminals (ECMA-48): colors, cursor movements, titles.
pub(crate) fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\u{1b}') {
        out.push_str(before);
        rest = match escape.chars().next() {
            // Control sequence: parameters, then one final character.
            Some('[') => {
                let is_final = |c: char| ('\u{40}'..='\u{7e}').contains(&c);
                escape.get(1..).and_then(|body| body.split_once(is_final)).map_or("", |(_, behind)| behind)
            }
            // Command to the operating system, such as a window's title: up to BEL or ESC \.
            Some(']' | 'P' | '^' | '_') => {
                let end = escape.find(['\u{7}', '\u{1b}']);
                let behind = end.and_then(|at| escape.get(at + 1..)).unwrap_or_default();
                behind.strip_prefix('\\').unwrap_or(behind)
            }
            Some('(' | ')' | '#' | '%') => escape.get(2..).unwrap_or_default(),
            Some(c) => escape.get(c.len_utf8()..).unwrap_or_default(),
            None => "",
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;

    use super::*;

    fn words(text: &str) -> String {
        ServerWords::new(text.as_bytes(), &Secrets::default()).as_str().to_owned()
    }

    fn secrets(headers: &[(HeaderName, &str)]) -> Secrets {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        let mut secrets = Secrets::default();
        secrets.add_headers(&headers.collect());
        secrets
    }

    #[test]
    fn a_page_is_read_without_its_markup() {
        let page = "\u{feff}<!DOCTYPE html><html><head><title>502 Bad&nbsp;Gateway</title><style>p{color:red}\
                    </style><script>if (a<b) alert('x')</script></head><!-- hidden --><body><p>Quota &lt;100&gt; \
                    isn&#39;t&#x20;left</p></body></html>";
        assert_eq!(words(page), "502 Bad Gateway Quota <100> isn't left");
        assert_eq!(words("<Error><Code>Denied</Code><Message>no</Message></Error>"), "Denied no");
        assert_eq!(words("1 < 2 & 3"), "1 < 2 & 3", "no page");
    }

    #[test]
    fn words_are_one_short_printable_line() {
        assert_eq!(words(" {\n  \"detail\": \"no\"\n}\n"), r#"{ "detail": "no" }"#);
        assert_eq!(
            words("\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}and\u{202e} \u{1b}(Bplain\0"),
            "red and plain"
        );
        assert_eq!(words(&"é".repeat(500)).chars().count(), MAX_CHARACTERS + 1);
        assert_eq!(words("\u{fffd}\u{1b}"), "\u{fffd}");
        assert_eq!(words(""), "");
    }

    #[test]
    fn credentials_that_a_server_repeats_are_masked_in_each_form() {
        let basic = format!("Basic {}", STANDARD.encode("ann:pa/ss+word"));
        let secrets = secrets(&[
            (AUTHORIZATION, &basic),
            (HeaderName::from_static("x-key"), "k3y/with+signs"),
            (HeaderName::from_static("cookie"), "session=abcdef123; b=2"),
            (HeaderName::from_static("accept"), "application/json"),
        ]);
        for echo in [
            "key k3y/with+signs",
            r"key k3y\/with+signs",
            "key k3y%2Fwith%2Bsigns",
            "<p>key k3y/with&#43;signs</p>",
            "pa/ss+word",
            "abcdef123",
            &basic,
        ] {
            let shown = ServerWords::new(echo.as_bytes(), &secrets).as_str().to_owned();
            let leaks = ["k3y", "pa/ss", "abcdef", basic.get(6..).unwrap_or_default()];
            assert!(shown.contains(MASK) && !leaks.iter().any(|leak| shown.contains(leak)), "{shown}");
        }
        let plain = ServerWords::new(b"wants application/json", &secrets);
        assert_eq!(plain.as_str(), "wants application/json");
    }

    #[test]
    fn a_secret_that_the_window_cuts_is_removed() {
        let secrets = secrets(&[(AUTHORIZATION, "Bearer s3cr3t-t0ken-value")]);
        let blanks = " ".repeat(MAX_READ_BYTES - 14);
        let shown = ServerWords::new(format!("no{blanks}{}", "s3cr3t-t0ken-value").as_bytes(), &secrets);
        assert_eq!(shown.as_str(), "no ");
    }
}
