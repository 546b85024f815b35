//! [`Decoder`]: reads the bytes of an event stream, in the pieces in which they arrive; data are not copied.

use bytes::{Buf as _, Bytes};

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

/// A part of an event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes that follow in the data of the current event: a slice of the input, or the line feed between two
    /// lines. Never empty; may end within a character. Readers of the data check that they are UTF-8.
    Data(Bytes),
    /// The end of an event that has data, which may be empty.
    End(EventFields),
}

/// The fields of an event besides its data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFields {
    /// The type; `None` means `message`.
    pub event: Option<String>,
    /// The id to resume from, if this event sets one; an empty id unsets it.
    pub id: Option<String>,
}

/// Splits the bytes of a stream into [`Part`]s. Holds at most one line that is not data.
///
/// ```
/// use vmcp_wire::sse::{Decoder, Part};
///
/// let mut decoder = Decoder::new(1024);
/// let mut piece = "event: message\ndata: {\"a\":".into();
/// assert_eq!(decoder.next(&mut piece)?, Some(Part::Data("{\"a\":".into())));
/// assert_eq!(decoder.next(&mut piece)?, None, "the piece is used up");
/// let mut piece = "1}\n\n".into();
/// assert_eq!(decoder.next(&mut piece)?, Some(Part::Data("1}".into())));
/// assert!(matches!(decoder.next(&mut piece)?, Some(Part::End(_))));
/// # Ok::<(), vmcp_wire::sse::SseError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The first bytes of a line whose end has not arrived, unless they are known to be data.
    line: Vec<u8>,
    /// True within the value of a `data` field.
    in_data: bool,
    /// True if the last byte was a CR: a line feed that follows belongs to it.
    after_cr: bool,
    /// True until the first line is known: only that one may begin with a byte order mark.
    at_start: bool,
    fields: EventFields,
    /// Bytes of the current event's data until now; `None` before its first line of data.
    data_bytes: Option<usize>,
    retry: Option<u64>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const DATA: &[u8] = b"data:";

impl Decoder {
    /// Creates a decoder for events of at most `limit` bytes; a larger one ends the stream with
    /// [`SseError::TooLarge`].
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            in_data: false,
            after_cr: false,
            at_start: true,
            fields: EventFields::default(),
            data_bytes: None,
            retry: None,
        }
    }

    /// Takes bytes from the front of `input` up to the end of the next part; `None` if they are used up
    /// first. After an error the stream must not be read any more.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Part>, SseError> {
        self.next_within(input, usize::MAX)
    }

    /// As [`Decoder::next`], but also returns `None` once about `most` bytes have brought no part. The rest
    /// of `input` is left: a stream of comments or blank lines must not keep its reader for long.
    pub fn next_within(&mut self, input: &mut Bytes, most: usize) -> Result<Option<Part>, SseError> {
        let rest = input.len().saturating_sub(most);
        while let Some(first) = input.first().copied() {
            if input.len() <= rest {
                return Ok(None);
            }
            let part = if std::mem::take(&mut self.after_cr) && first == b'\n' {
                input.advance(1);
                None
            } else if self.in_data {
                self.rest_of_data(input)?
            } else if self.held_field() == Some(DATA) {
                input.advance(usize::from(first == b' '));
                self.begin_data(true)?
            } else {
                self.line(input)?
            };
            if part.is_some() {
                return Ok(part);
            }
        }
        Ok(None)
    }

    /// Returns the pause before a reconnect, in milliseconds, that the server asked for last.
    #[must_use]
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Returns the held bytes of the line behind a byte order mark; `None` while they may be a part of one.
    fn held_field(&self) -> Option<&[u8]> {
        match self.line.strip_prefix(BYTE_ORDER_MARK) {
            Some(behind) if self.at_start => Some(behind),
            _ if self.at_start && !self.line.is_empty() && BYTE_ORDER_MARK.starts_with(&self.line) => None,
            _ => Some(&self.line),
        }
    }

    /// Takes the value of a `data` field, up to the end of its line.
    fn rest_of_data(&mut self, input: &mut Bytes) -> Result<Option<Part>, SseError> {
        let end = memchr::memchr2(b'\n', b'\r', input);
        let value = input.split_to(end.unwrap_or(input.len()));
        if end.is_some() {
            self.end_line(input);
            self.in_data = false;
        }
        self.data(value)
    }

    /// Begins a line of data, whose value follows or is empty.
    fn begin_data(&mut self, value_follows: bool) -> Result<Option<Part>, SseError> {
        self.line.clear();
        self.at_start = false;
        self.in_data = value_follows;
        let separator = if self.data_bytes.is_some() { "\n" } else { "" };
        self.data(Bytes::from(separator))
    }

    fn data(&mut self, bytes: Bytes) -> Result<Option<Part>, SseError> {
        self.data_bytes = Some(self.data_bytes.unwrap_or_default().saturating_add(bytes.len()));
        self.check_limit()?;
        Ok((!bytes.is_empty()).then_some(Part::Data(bytes)))
    }

    /// Takes bytes of a line that is not known to be data: one by one while it may still be, then up to its
    /// end.
    fn line(&mut self, input: &mut Bytes) -> Result<Option<Part>, SseError> {
        let may_be_data = self.held_field().is_none_or(|field| DATA.starts_with(field));
        let end = match input.first() {
            Some(b'\n' | b'\r') => Some(0),
            Some(_) if may_be_data => None,
            _ => memchr::memchr2(b'\n', b'\r', input),
        };
        let length = end.unwrap_or(if may_be_data { 1 } else { input.len() });
        self.line.extend_from_slice(&input.split_to(length));
        self.check_limit()?;
        if end.is_none() {
            return Ok(None);
        }
        self.end_line(input);
        let line = std::mem::take(&mut self.line);
        let bytes = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| self.at_start).unwrap_or(&line);
        self.at_start = false;
        let part = self.field(bytes);
        // Kept for the next line.
        self.line = line;
        self.line.clear();
        part
    }

    /// Takes the end of a line.
    fn end_line(&mut self, input: &mut Bytes) {
        self.after_cr = input.first() == Some(&b'\r');
        input.advance(1.min(input.len()));
    }

    /// Takes a whole line that has no `data:`.
    fn field(&mut self, line: &[u8]) -> Result<Option<Part>, SseError> {
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let line = simdutf8::basic::from_utf8(line).map_err(|_| SseError::Encoding)?;
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => return self.begin_data(false),
            "event" => self.fields.event = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "id" if !value.contains('\0') => self.fields.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok().or(self.retry);
            }
            // Comments (an empty field name) and fields that the standard does not define.
            _ => {}
        }
        Ok(None)
    }

    /// Ends an event. An event without data is dropped, but its id counts for the next one.
    fn dispatch(&mut self) -> Option<Part> {
        let fields = std::mem::take(&mut self.fields);
        if self.data_bytes.take().is_some() {
            return Some(Part::End(fields));
        }
        self.fields.id = fields.id;
        None
    }

    fn check_limit(&self) -> Result<(), SseError> {
        let data_bytes = self.data_bytes.unwrap_or_default();
        if self.line.len().saturating_add(data_bytes) > self.limit {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        Ok(())
    }
}
