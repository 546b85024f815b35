//! Server-sent events: an incremental [`Decoder`] that bounds its memory, and an encoder.
//!
//! Source: WHATWG HTML, 9.2.6 "Interpreting an event stream".

mod decoder;

pub use decoder::{Decoder, SseError};

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The type; `None` means `message`.
    pub event: Option<String>,
    /// The data, its lines joined by line feeds.
    pub data: String,
    /// The id to resume from, if this event sets one; an empty id unsets it.
    pub id: Option<String>,
}

/// A comment without text: keeps an idle connection from being closed.
pub const KEEP_ALIVE: &[u8] = b":\n\n";

/// Encodes one event. `event` and `id` are cut at the first line break, which they cannot hold.
///
/// ```
/// let bytes = vmcp_wire::sse::encode(None, Some("7"), "two\nlines");
/// assert_eq!(bytes, b"id: 7\ndata: two\ndata: lines\n\n");
/// ```
#[must_use]
pub fn encode(event: Option<&str>, id: Option<&str>, data: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + 64);
    for (field, value) in [("event", event), ("id", id)] {
        if let Some(value) = value {
            push_line(&mut out, field, value.split(['\n', '\r', '\0']).next().unwrap_or_default());
        }
    }
    let mut rest = data;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest.as_bytes()) {
        let (line, behind) = rest.split_at(at);
        push_line(&mut out, "data", line);
        rest = behind.strip_prefix("\r\n").or_else(|| behind.get(1..)).unwrap_or_default();
    }
    push_line(&mut out, "data", rest);
    out.push(b'\n');
    out
}

fn push_line(out: &mut Vec<u8>, field: &str, value: &str) {
    for part in [field, ": ", value, "\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

#[cfg(test)]
mod tests;
