//! Spellings of URIs and paths: a policy judges the normal form, because a backend resolves dot segments,
//! percent encodings, backslashes and doubled slashes (path traversal). A text whose resolved forms differ
//! from each other has no normal form, and is refused.

/// Largest number of times that percent encodings are decoded: encodings of encodings.
const MAX_DECODINGS: usize = 8;

/// A text that could be read as two different paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ambiguous;

/// Spellings of one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spellings {
    /// The spelling that policies judge.
    pub(super) normal: String,
    /// Further spellings, which a `forbid` may name: as the client wrote it, and fully decoded.
    pub(super) others: Vec<String>,
}

impl Spellings {
    /// Returns the spellings of a text that may be a path or a URI; `None` if it has one only.
    pub(super) fn of(text: &str) -> Result<Option<Spellings>, Ambiguous> {
        if !text.contains(['/', '\\', '%']) {
            return Ok(None);
        }
        let (decoded, settled) = decoded(text);
        let flat = in_parts(&decoded, collapsed);
        let has_dots = segments(&decoded).any(|segment| dots(segment) > 0);
        let folded = lower_authority(&flat);
        let mut spellings = if has_dots {
            let plain = in_parts(text, resolved);
            let flat_first = in_parts(&in_parts(text, collapsed), resolved);
            let full = in_parts(&flat, resolved);
            // Servers differ above a root: they answer with the root itself, an error, or the parent of a
            // folder.
            let leaves = parts(&plain).1.starts_with("/..");
            if !settled || leaves || plain != flat_first || plain != full {
                return Err(Ambiguous);
            }
            let folded = lower_authority(&plain);
            Spellings { normal: plain, others: vec![text.to_owned(), folded] }
        } else {
            Spellings { normal: text.to_owned(), others: vec![flat, folded] }
        };
        spellings.others.retain(|other| *other != spellings.normal);
        spellings.others.dedup();
        Ok((!spellings.others.is_empty()).then_some(spellings))
    }

    /// Returns the spellings of a URI, which holds no control characters and does not leave its root.
    pub(super) fn of_uri(uri: &str) -> Result<Option<Spellings>, Ambiguous> {
        let (decoded, settled) = decoded(uri);
        let spellings = Spellings::of(uri)?;
        let normal = spellings.as_ref().map_or(uri, |spellings| &spellings.normal);
        let leaves = segments(normal).any(|segment| dots(segment) > 0);
        let odd =
            !settled || decoded.chars().any(|char| char.is_control() || char == char::REPLACEMENT_CHARACTER);
        if leaves || odd { Err(Ambiguous) } else { Ok(spellings) }
    }
}

/// Decodes percent encodings until none is left, and writes backslashes as slashes. False if there are more
/// levels of encoding than [`MAX_DECODINGS`].
fn decoded(text: &str) -> (String, bool) {
    let mut text = text.to_owned();
    for _ in 0..MAX_DECODINGS {
        if !text.contains('%') {
            break;
        }
        let next = decoded_once(&text);
        if next == text {
            break;
        }
        text = next;
    }
    let settled = !text.contains('%') || decoded_once(&text) == text;
    let mut text = text.replace('\\', "/");
    if text.contains("://") {
        // Parsers of URLs drop these (WHATWG).
        text.retain(|char| !matches!(char, '\t' | '\n' | '\r'));
    }
    (text, settled)
}

fn decoded_once(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).filter(|_| byte == b'%');
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        out.push(hex.unwrap_or(byte));
        at += if hex.is_some() { 3 } else { 1 };
    }
    shortest(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Replaces overlong encodings of ASCII (two bytes, `C0 AE` for a dot), which lax decoders accept.
fn shortest(bytes: &mut Vec<u8>) {
    if !bytes.iter().any(|byte| matches!(byte, 0xC0 | 0xC1)) {
        return;
    }
    let (old, mut at) = (std::mem::take(bytes), 0);
    while let Some(&byte) = old.get(at) {
        match old.get(at + 1) {
            Some(&next) if matches!(byte, 0xC0 | 0xC1) && (0x80..0xC0).contains(&next) => {
                bytes.push(((byte & 1) << 6) | (next & 0x3F));
                at += 2;
            }
            _ => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
}

/// Splits a URI behind its authority; a path has none. The query and the fragment are no path.
fn parts(text: &str) -> (&str, &str, &str) {
    let scheme = text.find("://").filter(|&at| at > 0 && text.get(..at).is_some_and(is_scheme));
    let start = match scheme {
        Some(at) => {
            text.get(at + 3..).and_then(|rest| rest.find('/')).map_or(text.len(), |slash| at + 3 + slash)
        }
        None => 0,
    };
    let end = match scheme {
        Some(_) => {
            text.get(start..).and_then(|rest| rest.find(['?', '#'])).map_or(text.len(), |end| start + end)
        }
        None => text.len(),
    };
    let (head, rest) = text.split_at(start);
    let (path, tail) = rest.split_at(end - start);
    (head, path, tail)
}

fn is_scheme(text: &str) -> bool {
    text.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '+' | '-' | '.'))
}

/// Changes the path of a text and leaves scheme, authority, query and fragment.
fn in_parts(text: &str, change: impl Fn(&str) -> String) -> String {
    let (head, path, tail) = parts(text);
    format!("{head}{}{tail}", change(path))
}

/// Yields the segments of a text, those of its query too: a backend may take a part of a query for a path.
fn segments(text: &str) -> impl Iterator<Item = &str> {
    text.split(['/', '?', '#', '&', '='])
}

/// Number of dots of a dot segment, else 0. Servers drop parameters of a segment: `..;a`.
fn dots(segment: &str) -> usize {
    match segment.split(';').next() {
        Some(".") => 1,
        Some("..") => 2,
        _ => 0,
    }
}

/// Writes one slash for several; those behind a colon begin a URI within the path.
fn collapsed(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for char in path.chars() {
        let repeats = char == '/' && out.ends_with('/') && !out.ends_with(":/");
        if !repeats {
            out.push(char);
        }
    }
    out
}

/// Removes dot segments (RFC 3986, 5.2.4). Segments that lead out of a path stay at its beginning.
fn resolved(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match dots(segment) {
            2 => {
                match kept.last() {
                    Some(&before) if before != ".." => _ = kept.pop(),
                    _ => kept.push(".."),
                }
                if last && kept.last().is_some_and(|kept| *kept != "..") {
                    kept.push("");
                }
            }
            1 if last => kept.push(""),
            1 => {}
            _ => kept.push(segment),
        }
    }
    format!("{}{}", if absolute { "/" } else { "" }, kept.join("/"))
}

/// Writes scheme and authority in lower case, and a file's local host as none.
fn lower_authority(text: &str) -> String {
    let text = match text.get(..6) {
        // RFC 8089: a file's URI may have no authority.
        Some(start) if start.eq_ignore_ascii_case("file:/") && text.get(6..7) != Some("/") => {
            &format!("file:///{}", text.get(6..).unwrap_or_default())
        }
        _ => text,
    };
    let (head, path, tail) = parts(text);
    let head = head.to_ascii_lowercase();
    let head = if head == "file://localhost" { "file://" } else { &head };
    format!("{head}{path}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> String {
        Spellings::of(text).unwrap().map_or_else(|| text.to_owned(), |spellings| spellings.normal)
    }

    #[test]
    fn dot_segments_are_resolved() {
        for (text, expected) in [
            ("/srv/../etc/passwd", "/etc/passwd"),
            ("/srv/./a/.", "/srv/a/"),
            ("file:///pub/../priv/secret.txt", "file:///priv/secret.txt"),
            ("https://a/b/c/../../d?x=1", "https://a/d?x=1"),
            ("../up", "../up"),
            ("a/../../b", "../b"),
            ("plain text, and no path", "plain text, and no path"),
            ("see ../docs", "see ../docs"),
            ("50%", "50%"),
            ("web://cache/https://example.com/x", "web://cache/https://example.com/x"),
        ] {
            assert_eq!(normal(text), expected, "{text}");
        }
    }

    #[test]
    fn what_two_servers_would_resolve_differently_is_refused() {
        for text in [
            "file:///pub/%2e%2e/priv/x",
            "file:///pub/..%2fpriv/x",
            "file:///pub/..\\priv\\x",
            "file:///pub//x/../../priv/x",
            "file:///pub/%252e%252e/priv/x",
            "file:///pub/%c0%ae%c0%ae/priv/x",
            "file:///pub/..;a=b/%2e%2e/priv",
            "/srv/..%5c..%5cetc",
        ] {
            assert_eq!(Spellings::of(text), Err(Ambiguous), "{text}");
        }
        for uri in ["file:///../x", "file:///pub/a%00.txt", "file:///a\u{7}", "file:///%ff"] {
            assert_eq!(Spellings::of_uri(uri), Err(Ambiguous), "{uri}");
        }
        assert_eq!(Spellings::of_uri("file:///a%20b/%C3%A4{x}").map(|it| it.is_some()), Ok(true));
    }

    #[test]
    fn a_forbid_may_name_the_decoded_form() {
        for (text, other) in [
            ("file:///priv%61te/x", "file:///private/x"),
            ("file:////private//x", "file:///private/x"),
            ("FILE:///private/x", "file:///private/x"),
            ("file://localhost/private/x", "file:///private/x"),
            ("file:/private/x", "file:///private/x"),
            ("//etc/passwd", "/etc/passwd"),
            ("\\srv\\x", "/srv/x"),
        ] {
            let spellings = Spellings::of(text).unwrap().unwrap();
            assert!(spellings.others.iter().any(|it| it == other), "{text}: {spellings:?}");
            assert_eq!(spellings.normal, text);
        }
    }
}
