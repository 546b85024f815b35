//! [`RequestHeaders`]: headers of a request, as each call reads them. Names are parsed once for the process,
//! and values are checked as a whole.

use http::{HeaderMap, HeaderName, HeaderValue};
use vmcp_wire::headers::{self, Field, HeaderSource};

/// Headers that each message of a client may have. A name that is sought as text would be parsed first.
static MCP_HEADERS: [HeaderName; 4] = [
    HeaderName::from_static(headers::PROTOCOL_VERSION),
    HeaderName::from_static(headers::SESSION_ID),
    HeaderName::from_static(headers::METHOD),
    HeaderName::from_static(headers::NAME),
];

/// Request headers, as the protocol checks of `vmcp-wire` read them.
pub(crate) struct RequestHeaders<'a>(pub(crate) &'a HeaderMap);

impl HeaderSource for RequestHeaders<'_> {
    fn field(&self, name: &str) -> Field<'_> {
        let values = match MCP_HEADERS.iter().find(|known| known.as_str() == name) {
            Some(known) => self.0.get_all(known),
            None => self.0.get_all(name),
        };
        let mut values = values.iter();
        match (values.next(), values.next()) {
            (None, _) => Field::Absent,
            (Some(value), None) => visible_text(value).map_or(Field::Invalid, Field::One),
            _ => Field::Invalid,
        }
    }
}

/// True for a request that came through an HTTP proxy, whose connections many clients use.
pub(crate) fn came_through_proxy(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        matches!(
            name.as_str(),
            "forwarded"
                | "via"
                | "x-forwarded-for"
                | "x-forwarded-prefix"
                | "x-real-ip"
                | "x-envoy-external-address"
        )
    })
}

/// Returns a value of visible ASCII, spaces and tabs, as [`HeaderValue::to_str`] does, but several bytes at a
/// time: a session id has some 500.
fn visible_text(value: &HeaderValue) -> Option<&str> {
    let bytes = value.as_bytes();
    let hidden = |byte: u8| u8::from(!matches!(byte, b' '..=b'~' | b'\t'));
    // Without an early end, so that the compiler makes vectors of it.
    let has_hidden: u8 = bytes.iter().fold(0, |found, byte| found | hidden(*byte));
    if has_hidden == 0 { std::str::from_utf8(bytes).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for &(name, value) in lines {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_value_is_text_if_and_only_if_the_library_says_so() {
        for byte in 0..=u8::MAX {
            for length in [1, 16, 33] {
                let mut text = vec![b'a'; length];
                text[length / 2] = byte;
                let Ok(value) = HeaderValue::from_bytes(&text) else { continue };
                assert_eq!(visible_text(&value), value.to_str().ok(), "byte {byte} of {length}");
            }
        }
    }

    #[test]
    fn a_header_that_stands_twice_is_invalid_whatever_its_name() {
        for name in ["mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-region"] {
            let field = |values: &[&[u8]]| {
                let lines: Vec<_> = values.iter().map(|value| (name, *value)).collect();
                let headers = map(&lines);
                match RequestHeaders(&headers).field(name) {
                    Field::One(text) => format!("one {text}"),
                    other => format!("{other:?}"),
                }
            };
            assert_eq!(field(&[]), "Absent");
            assert_eq!(field(&[b"a b"]), "one a b");
            assert_eq!(field(&[b"a", b"a"]), "Invalid");
            assert_eq!(field(&["ä".as_bytes()]), "Invalid");
        }
    }

    #[test]
    fn each_header_of_a_proxy_shows_it() {
        for name in ["forwarded", "via", "x-forwarded-for", "x-forwarded-prefix", "x-real-ip"] {
            assert!(came_through_proxy(&map(&[("host", b"a"), (name, b"")])), "{name}");
        }
        assert!(came_through_proxy(&map(&[("x-envoy-external-address", b"::1")])));
        assert!(!came_through_proxy(&map(&[("host", b"a"), ("x-forwarded", b"b"), ("mcp-name", b"via")])));
    }
}
