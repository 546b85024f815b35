//! [`Decoder`]: turns the bytes of an event stream, in the pieces in which they arrive, into events.

use super::Event;

/// The reason why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One event, or one line outside an event, has too many bytes.
    #[error("an event has more than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The stream is not UTF-8.
    #[error("the event stream is not UTF-8")]
    Encoding,
}

/// Turns bytes into events. The memory is bounded: at most one unfinished event, and no more bytes of it than
/// the limit.
///
/// ```
/// use vmcp_wire::sse::Decoder;
///
/// let mut decoder = Decoder::new(1024);
/// assert!(decoder.push(b"event: message\nda")?.is_empty(), "no event is complete yet");
/// let events = decoder.push(b"ta: {}\n\n")?;
/// assert_eq!(events.first().map(|event| event.data.as_str()), Some("{}"));
/// # Ok::<(), vmcp_wire::sse::SseError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The first bytes of a line whose end has not arrived.
    line: Vec<u8>,
    /// True if the last byte was a CR: a line feed that follows belongs to it.
    after_cr: bool,
    /// True until the first line ends: only that one may begin with a byte order mark.
    at_start: bool,
    event: Event,
    has_data: bool,
    part: LinePart,
    retry: Option<u64>,
}

/// Part of the current line that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePart {
    Whole,
    /// The end of data whose beginning was taken.
    RestOfData,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Decoder {
    /// Creates a decoder for events of at most `limit` bytes; a larger one ends the stream with
    /// [`SseError::TooLarge`].
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            event: Event::default(),
            has_data: false,
            part: LinePart::Whole,
            retry: None,
        }
    }

    /// Takes bytes from the front of `input` up to the end of the next event; `None` if they are used up
    /// first. After an error the stream must not be read any more.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event>, SseError> {
        while !input.is_empty() {
            if std::mem::take(&mut self.after_cr)
                && let Some(rest) = input.strip_prefix(b"\n")
            {
                *input = rest;
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', input) else {
                self.reserve(input.len())?;
                self.line.extend_from_slice(input);
                *input = &[];
                break;
            };
            let (line, rest) = input.split_at(end);
            self.after_cr = rest.first() == Some(&b'\r');
            *input = rest.get(1..).unwrap_or_default();
            self.reserve(line.len())?;
            let event = if self.line.is_empty() {
                self.end_of_line(line)?
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.end_of_line(&whole)?
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Takes all of `input` and returns its events; for callers that may hold the events of one piece at
    /// once.
    pub fn push(&mut self, mut input: &[u8]) -> Result<Vec<Event>, SseError> {
        let mut events = Vec::new();
        while let Some(event) = self.next(&mut input)? {
            events.push(event);
        }
        Ok(events)
    }

    /// Takes the data that has arrived of an unfinished event, if it has at least `least` bytes, so that a
    /// large event need not be held as a whole. [`Decoder::next`] returns the event with the data that
    /// follows. The limit does not count what was taken. Never empty: `None` asks for more input.
    pub fn take_data(&mut self, least: usize) -> Result<Option<String>, SseError> {
        // The byte behind the colon belongs to the field's name if it is a space.
        let value_at = match self.line.get(..6) {
            _ if self.part == LinePart::RestOfData => Some(0),
            Some(start) if start.starts_with(b"data:") => Some(if start.ends_with(b" ") { 6 } else { 5 }),
            _ => None,
        };
        let arrived = value_at.map_or(0, |at| self.line.len() - at);
        if self.event.data.len() + arrived < least.max(1) {
            return Ok(None);
        }
        let mut taken = std::mem::take(&mut self.event.data);
        if let Some(value) = value_at.and_then(|at| self.line.get(at..)) {
            let (text, rest) = whole_characters(value)?;
            if self.part == LinePart::Whole && self.has_data {
                taken.push('\n');
            }
            taken.push_str(text);
            self.line = rest.to_vec();
            self.part = LinePart::RestOfData;
            (self.has_data, self.at_start) = (true, false);
        }
        Ok(Some(taken).filter(|data| !data.is_empty()))
    }

    /// Returns the pause before a reconnect, in milliseconds, that the server asked for last.
    #[must_use]
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Refuses `more` bytes of the current line if the event would become too large.
    fn reserve(&self, more: usize) -> Result<(), SseError> {
        let held = self.line.len() + self.event.data.len();
        if held.saturating_add(more) > self.limit {
            Err(SseError::TooLarge { limit: self.limit })
        } else {
            Ok(())
        }
    }

    fn end_of_line(&mut self, line: &[u8]) -> Result<Option<Event>, SseError> {
        if std::mem::replace(&mut self.part, LinePart::Whole) == LinePart::RestOfData {
            let rest = simdutf8::basic::from_utf8(line).map_err(|_| SseError::Encoding)?;
            self.event.data.push_str(rest);
            return Ok(None);
        }
        let line = if std::mem::take(&mut self.at_start) {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let line = simdutf8::basic::from_utf8(line).map_err(|_| SseError::Encoding)?;
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "event" => self.event.event = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok().or(self.retry);
            }
            // Comments (an empty field name) and fields that the standard does not define.
            _ => {}
        }
        Ok(None)
    }

    /// Ends an event. Without data there is no event, but its id counts for the next one.
    fn dispatch(&mut self) -> Option<Event> {
        let Event { event, data, id } = std::mem::take(&mut self.event);
        if std::mem::take(&mut self.has_data) {
            return Some(Event { event, data, id });
        }
        self.event.id = id;
        None
    }
}

/// Splits off the bytes of a last character whose end has not arrived.
fn whole_characters(bytes: &[u8]) -> Result<(&str, &[u8]), SseError> {
    let whole = match simdutf8::compat::from_utf8(bytes) {
        Ok(text) => return Ok((text, &[])),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return Err(SseError::Encoding),
    };
    let (text, rest) = bytes.split_at(whole);
    let text = simdutf8::basic::from_utf8(text).map_err(|_| SseError::Encoding)?;
    Ok((text, rest))
}
