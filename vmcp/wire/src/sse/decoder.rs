//! From bytes, in whatever pieces they arrive, to events.

use super::Event;

/// A stream that cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One event, or one line outside an event, has too many bytes.
    #[error("an event has more than {limit} bytes")]
    TooLarge {
        /// The most bytes allowed.
        limit: usize,
    },
    /// Not text.
    #[error("the event stream is not UTF-8")]
    Encoding,
}

/// Turns bytes into events. It never holds more than one unfinished event, and that within a limit.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// The line feed of a CR LF pair is still to come.
    after_cr: bool,
    /// Nothing has been read yet, so that a byte order mark may follow.
    at_start: bool,
    event: Event,
    has_data: bool,
    retry: Option<u64>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Decoder {
    /// A decoder for events of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            event: Event::default(),
            has_data: false,
            retry: None,
        }
    }

    /// Takes bytes from the front of `input` up to the end of the next event; `None` when they are used up first. After
    /// an error the stream must be given up.
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

    /// Takes all of `input`. Convenient where the events of one piece may all be held at once.
    pub fn push(&mut self, mut input: &[u8]) -> Result<Vec<Event>, SseError> {
        let mut events = Vec::new();
        while let Some(event) = self.next(&mut input)? {
            events.push(event);
        }
        Ok(events)
    }

    /// How long to wait before reconnecting, in milliseconds, as the server last said.
    #[must_use]
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Refuses `more` bytes of the current line when the event would become too large.
    fn reserve(&self, more: usize) -> Result<(), SseError> {
        let held = self.line.len() + self.event.data.len();
        if held.saturating_add(more) > self.limit {
            Err(SseError::TooLarge { limit: self.limit })
        } else {
            Ok(())
        }
    }

    fn end_of_line(&mut self, line: &[u8]) -> Result<Option<Event>, SseError> {
        let line = if std::mem::take(&mut self.at_start) {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let line = std::str::from_utf8(line).map_err(|_| SseError::Encoding)?;
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
            // Comments (an empty field) and fields that nobody has defined.
            _ => {}
        }
        Ok(None)
    }

    /// Ends an event. One without data is none, but its id counts for the next.
    fn dispatch(&mut self) -> Option<Event> {
        let Event { event, data, id } = std::mem::take(&mut self.event);
        if std::mem::take(&mut self.has_data) {
            return Some(Event { event, data, id });
        }
        self.event.id = id;
        None
    }
}
