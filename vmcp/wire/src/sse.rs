//! Server-sent events: an incremental [`Decoder`] that bounds its memory, and an encoder.
//!
//! Source: WHATWG HTML, 9.2.6 "Interpreting an event stream".

mod decoder;

use bytes::Bytes;

pub use decoder::{Decoder, EventFields, Part, SseError};

/// One event, whole.
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

/// Returns the events of a stream that has arrived in `pieces`, each of at most `limit` bytes.
///
/// ```
/// let events = vmcp_wire::sse::decode(["data: 1\n\nda", "ta: 2\n\n"], 1024)?;
/// assert_eq!(events.iter().map(|event| &*event.data).collect::<Vec<_>>(), ["1", "2"]);
/// # Ok::<(), vmcp_wire::sse::SseError>(())
/// ```
pub fn decode<P>(pieces: impl IntoIterator<Item = P>, limit: usize) -> Result<Vec<Event>, SseError>
where
    Bytes: From<P>,
{
    let (mut decoder, mut events, mut data) = (Decoder::new(limit), Vec::new(), Vec::new());
    for piece in pieces {
        let mut piece = Bytes::from(piece);
        while let Some(part) = decoder.next(&mut piece)? {
            match part {
                Part::Data(bytes) => data.extend_from_slice(&bytes),
                Part::End(EventFields { event, id }) => {
                    let data = String::from_utf8(std::mem::take(&mut data));
                    events.push(Event { event, data: data.map_err(|_| SseError::Encoding)?, id });
                }
            }
        }
    }
    Ok(events)
}

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
