//! Spellings of URIs and paths: a policy judges the normal form, because a backend resolves dot segments,
//! percent encodings, backslashes and doubled slashes (path traversal). A text whose resolved forms differ
//! from each other has no normal form, and is refused. A URL has one more spelling: its host as browsers read
//! it (WHATWG), without user, default port and final dot.

use url::Url;

/// Largest number of times that percent encodings are decoded: encodings of encodings.
const MAX_DECODINGS: usize = 8;

/// Compatibility forms of dots and slashes, which servers turn into these when they normalize text (NFKC).
const COMPATIBLE: [(char, &str); 5] =
    [('\u{ff0e}', "."), ('\u{ff0f}', "/"), ('\u{ff3c}', "/"), ('\u{2024}', "."), ('\u{2025}', "..")];
/// Schemes of URLs that browsers read leniently: one slash or none, backslashes, spaces around them.
const WEB_SCHEMES: [&str; 6] = ["http", "https", "ws", "wss", "ftp", "file"];
/// Beginnings of paths that lead Windows around its own rules, with slashes for backslashes.
const DEVICE_PATHS: [&str; 3] = ["//?/", "//./", "/??/"];

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
        // C ends a text there: the file is another than the text names.
        if text.contains('\0') {
            return Err(Ambiguous);
        }
        let is_compatible = |char: char| COMPATIBLE.iter().any(|(other, _)| *other == char);
        if !text.contains(['/', '\\', '%', ':']) && !text.contains(is_compatible) {
            return Ok(None);
        }
        let (decoded, settled) = decoded(text);
        let is_path = decoded.contains('/');
        let is_device = DEVICE_PATHS.iter().any(|device| decoded.starts_with(device));
        let is_uri = !parts(&decoded).0.is_empty();
        // Only a URI has a query: `cd ../.. && make` names no segment with a space behind its dots.
        let is_odd =
            if is_uri { segments(&decoded).any(has_odd_dots) } else { decoded.split('/').any(has_odd_dots) };
        if is_path && (is_device || is_odd || decoded.contains('\0')) {
            return Err(Ambiguous);
        }
        let flat = in_parts(&decoded, collapsed);
        let bare = without_user(text);
        let bare_web = bare.as_deref().and_then(web_address);
        let web = [web_address(text), web_address(&flat), bare, bare_web];
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
        spellings.others.extend(web.into_iter().flatten());
        let mut known = vec![spellings.normal.clone()];
        spellings.others.retain(|other| {
            let is_new = !known.contains(other);
            if is_new {
                known.push(other.clone());
            }
            is_new
        });
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
    for (compatible, plain) in COMPATIBLE {
        if text.contains(compatible) {
            text = text.replace(compatible, plain);
        }
    }
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

/// Replaces overlong encodings of ASCII (such as `C0 AE` or `E0 80 AE` for a dot), which lax decoders accept.
fn shortest(bytes: &mut Vec<u8>) {
    if !bytes.iter().any(|byte| matches!(byte, 0xC0 | 0xC1 | 0xE0 | 0xF0)) {
        return;
    }
    let (old, mut at) = (std::mem::take(bytes), 0);
    while let Some(rest) = old.get(at..).filter(|rest| !rest.is_empty()) {
        // The last two bytes of the encoding hold seven bits of ASCII.
        let overlong = match *rest {
            [first @ (0xC0 | 0xC1), next @ 0x80..0xC0, ..] => Some((first, next, 2)),
            [0xE0, first @ (0x80 | 0x81), next @ 0x80..0xC0, ..] => Some((first, next, 3)),
            [0xF0, 0x80, first @ (0x80 | 0x81), next @ 0x80..0xC0, ..] => Some((first, next, 4)),
            _ => None,
        };
        let (byte, length) = match overlong {
            Some((first, next, length)) => (((first & 1) << 6) | (next & 0x3F), length),
            None => (rest.first().copied().unwrap_or_default(), 1),
        };
        bytes.push(byte);
        at += length;
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

/// True for a dot segment behind which Windows drops spaces, and lax servers control characters.
fn has_odd_dots(segment: &str) -> bool {
    let segment = segment.split(';').next().unwrap_or_default();
    let bare = segment.trim_end_matches(|char: char| char.is_whitespace() || char.is_control());
    bare != segment && dots(bare) > 0
}

/// Returns a URL with its host as browsers read it, decoded; `None` for another text, and for a URL whose
/// host is written so.
fn web_address(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|url| WEB_SCHEMES.contains(&url.scheme()))?;
    let host = url.host_str().unwrap_or_default();
    let host = host.strip_suffix('.').unwrap_or(host);
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let head = format!("{}://{host}{port}", url.scheme());
    if parts(text).0 == head {
        return None;
    }
    let (path, _) = decoded(url.path());
    let tail = |mark: char, part: Option<&str>| part.map(|part| format!("{mark}{part}")).unwrap_or_default();
    Some(format!("{head}{path}{}{}", tail('?', url.query()), tail('#', url.fragment())))
}

/// Returns a URL without a user that has a backslash: RFC 3986 reads the host behind the user, browsers read
/// it before the backslash.
fn without_user(text: &str) -> Option<String> {
    let (head, path, tail) = parts(text);
    let (scheme, authority) = head.split_once("://")?;
    let (user, host) = authority.rsplit_once('@')?;
    let is_split = user.contains('\\') && !authority.contains(['?', '#']);
    is_split.then(|| format!("{scheme}://{host}{path}{tail}"))
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
            ("cd ../.. && curl https://a.example/x", "cd ../.. && curl https://a.example/x"),
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
            "/srv/%e0%80%ae%e0%80%ae/x",
            "/srv/%f0%80%80%ae%f0%80%80%ae/x",
            "/srv/.. /x",
            "/srv/..%20/x",
            "/srv/..\t/x",
            "https://in.example/x?path=/srv/a&to=.. &x=y",
            "C:\\srv\\..%20\\x",
            "/srv/secret\0.txt",
            "secret\0.txt",
            "/srv/secret%00.txt",
            "\\\\?\\C:\\x",
            "//./C:/x",
            "\\??\\C:\\x",
            "/srv/\u{ff0e}\u{ff0e}/x",
            "\u{2025}\u{ff0f}x",
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
            ("\u{ff0f}srv\u{ff0f}x", "/srv/x"),
            ("https:///in.example/x", "https://in.example/x"),
            ("https:/in.example/x", "https://in.example/x"),
            ("https:in.example", "https://in.example/"),
            ("https:\\\\in.example\\x", "https://in.example/x"),
            (" https://in.example/x", "https://in.example/x"),
            ("ht\ttps://in.example/x", "https://in.example/x"),
            ("https://in.example./x", "https://in.example/x"),
            ("https://in.example:443/x", "https://in.example/x"),
            ("https://a:b@in.example/x", "https://in.example/x"),
            ("https://out.example@in.example/x", "https://in.example/x"),
            ("https://out.example\\@in.example/x", "https://in.example/x"),
            ("https://out.example\\@IN.example./x", "https://in.example/x"),
            ("https://in.example\\@out.example/x", "https://in.example/@out.example/x"),
            ("https://in%2eexample/x", "https://in.example/x"),
            ("https://IN.example/%78?a#b", "https://in.example/x?a#b"),
            ("https://\u{24d8}n.example/x", "https://in.example/x"),
            ("http://0x7f.1/x", "http://127.0.0.1/x"),
            ("http://2130706433/x", "http://127.0.0.1/x"),
            ("file:private/x", "file:///private/x"),
        ] {
            let spellings = Spellings::of(text).unwrap().unwrap();
            assert!(spellings.others.iter().any(|it| it == other), "{text}: {spellings:?}");
            assert_eq!(spellings.normal, text);
        }
        for text in ["https://in.example", "https://in.example:8443/x?y=1", "note: this", "12:30", "a:b"] {
            assert_eq!(Spellings::of(text), Ok(None), "{text}");
        }
    }
}
