//! [`Scanner`]: an incremental JSON state machine. One pass over an answer, while it arrives, checks that it
//! is JSON and finds the keys that a gateway must know. Its memory is a bit for each level of nesting,
//! whatever the answer's size.

use vmcp_json::string_bytes::plain_length;

use super::grammar::{Literal, Number};
use super::scanned_keys::{Key, ScannedKeys, Span};
use super::utf8::Utf8;

/// Levels of objects whose keys matter: the envelope, the result in it, the metadata in that.
const LEVELS: usize = 3;
/// Bytes of a key that are kept; every key that matters is shorter.
const MAX_KEY_BYTES: usize = 48;

/// The reason why the bytes are no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// Not UTF-8.
    #[error("the answer is not UTF-8: invalid byte at offset {0}")]
    Encoding(usize),
    /// Not JSON.
    #[error("the answer is not JSON: unexpected byte at offset {0}")]
    Syntax(usize),
    /// A repeated key: parsers disagree on which value counts.
    #[error("duplicate key `{}` in the answer", .0.name())]
    Duplicate(Key),
    /// The bytes end in the middle of a value.
    #[error("the answer is cut off after {0} bytes")]
    Truncated(usize),
}

/// The state of the machine: the bytes that may come next.
#[derive(Debug, Clone, Copy)]
enum State {
    Value,
    /// Behind `[`.
    ValueOrEnd,
    /// Behind the comma of an object.
    Key,
    /// Behind `{`.
    KeyOrEnd,
    Colon,
    /// A comma, or the end of what is open.
    After,
    Text {
        is_key: bool,
    },
    Escape {
        is_key: bool,
    },
    Unicode {
        is_key: bool,
        left: u8,
    },
    Number(Number),
    Literal(Literal),
    /// Nothing but space: the envelope is closed.
    Done,
}

/// Reads an answer in the pieces in which it arrives and keeps none of them.
///
/// ```
/// use vmcp_wire::payload::{Key, Scanner};
///
/// let mut scanner = Scanner::default();
/// scanner.push(br#"{"jsonrpc":"2.0","id":1,"res"#)?;
/// scanner.push(br#"ult":{"isError":true}}"#)?;
/// let keys = scanner.finish()?;
/// assert!(keys.is_true(Key::IsError));
/// assert_eq!(keys.range(Key::Result), Some(33..49));
/// # Ok::<(), vmcp_wire::payload::ScanError>(())
/// ```
#[derive(Debug)]
pub struct Scanner {
    state: State,
    /// Bytes read before the current piece.
    offset: usize,
    depth: usize,
    /// One bit for each open container, set for objects. The nesting of an answer is not limited here.
    objects: Vec<u64>,
    /// The current key of each of the first levels, if it is one that matters.
    current: [Option<Key>; LEVELS],
    /// The beginning of the key that is being read, if it may be one that matters.
    key: Option<KeyText>,
    utf8: Utf8,
    found: ScannedKeys,
}

#[derive(Debug, Clone, Copy)]
struct KeyText {
    bytes: [u8; MAX_KEY_BYTES],
    length: usize,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            state: State::Value,
            offset: 0,
            depth: 0,
            objects: Vec::new(),
            current: [None; LEVELS],
            key: None,
            utf8: Utf8::default(),
            found: ScannedKeys::default(),
        }
    }
}

impl Scanner {
    /// Reads the next piece. After an error the scanner must not be used any more.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), ScanError> {
        self.utf8.check(piece).map_err(|at| ScanError::Encoding(self.offset + at))?;
        let mut at = 0;
        while let Some(byte) = piece.get(at) {
            if let State::Text { is_key } = self.state {
                at = self.text(piece, at, is_key)?;
            } else {
                // A byte that ends a number belongs to what follows, so it is looked at again.
                at += usize::from(self.step(*byte, self.offset + at)?);
            }
        }
        self.offset += piece.len();
        Ok(())
    }

    /// Ends the answer and returns the keys that were found.
    pub fn finish(self) -> Result<ScannedKeys, ScanError> {
        match self.state {
            State::Done if self.utf8.is_complete() => Ok(self.found),
            _ => Err(ScanError::Truncated(self.offset)),
        }
    }

    /// Skips the text of a string from `start` on, up to a quote, an escape or the end of the piece.
    fn text(&mut self, piece: &[u8], start: usize, is_key: bool) -> Result<usize, ScanError> {
        let mut start = start;
        let mut rest = piece.get(start..).unwrap_or_default();
        let mut length = plain_length(rest);
        // Fast path: line ends and quotes are frequent in long texts, and mostly whole in one piece.
        while !is_key
            && let Some([b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..]) =
                rest.get(length..)
        {
            start += length + 2;
            rest = piece.get(start..).unwrap_or_default();
            length = plain_length(rest);
        }
        if is_key && let Some(key) = &mut self.key {
            self.key = key.with(rest.get(..length).unwrap_or_default());
        }
        let end = start + length;
        match rest.get(length) {
            None => return Ok(end),
            Some(b'"') if is_key => {
                self.end_of_key()?;
                self.state = State::Colon;
            }
            Some(b'"') => self.end_of_value(self.offset + end + 1),
            Some(b'\\') => {
                // No key that matters needs an escape.
                self.key = None;
                self.state = State::Escape { is_key };
            }
            Some(_) => return Err(ScanError::Syntax(self.offset + end)),
        }
        Ok(end + 1)
    }

    /// Takes one byte at offset `at` outside the text of strings. Returns true if the byte was consumed.
    fn step(&mut self, byte: u8, at: usize) -> Result<bool, ScanError> {
        let unexpected = ScanError::Syntax(at);
        match self.state {
            State::Escape { is_key } => {
                self.state = match byte {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => State::Text { is_key },
                    b'u' => State::Unicode { is_key, left: 4 },
                    _ => return Err(unexpected),
                };
            }
            State::Unicode { is_key, left } => {
                if !byte.is_ascii_hexdigit() {
                    return Err(unexpected);
                }
                self.state = if left == 1 {
                    State::Text { is_key }
                } else {
                    State::Unicode { is_key, left: left - 1 }
                };
            }
            State::Number(number) => match number.next(byte) {
                Some(number) => self.state = State::Number(number),
                None if number.may_end() => {
                    self.end_of_value(at);
                    return Ok(false);
                }
                None => return Err(unexpected),
            },
            State::Literal(literal) => match literal.next(byte) {
                Some(literal) if literal.is_complete() => self.end_of_value(at + 1),
                Some(literal) => self.state = State::Literal(literal),
                None => return Err(unexpected),
            },
            _ if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') => {}
            State::ValueOrEnd if byte == b']' => self.close(at),
            State::Value | State::ValueOrEnd => self.begin_value(byte, at)?,
            State::KeyOrEnd if byte == b'}' => self.close(at),
            State::Key | State::KeyOrEnd if byte == b'"' => self.begin_key(),
            State::Colon if byte == b':' => self.state = State::Value,
            State::After if byte == b',' => {
                self.state = if self.in_object() { State::Key } else { State::Value };
            }
            State::After if byte == (if self.in_object() { b'}' } else { b']' }) => self.close(at),
            _ => return Err(unexpected),
        }
        Ok(true)
    }

    fn begin_value(&mut self, byte: u8, at: usize) -> Result<(), ScanError> {
        // The envelope is an object; a batch (an array) is refused.
        if self.depth == 0 && byte != b'{' {
            return Err(ScanError::Syntax(at));
        }
        if let Some(key) = self.current_key() {
            self.found.begin(key, Span { start: at, end: at, first: byte });
        }
        self.state = match byte {
            b'"' => State::Text { is_key: false },
            b'{' | b'[' => {
                self.open(byte == b'{');
                return Ok(());
            }
            _ => match (Number::begin(byte), Literal::begin(byte)) {
                (Some(number), _) => State::Number(number),
                (None, Some(literal)) => State::Literal(literal),
                (None, None) => return Err(ScanError::Syntax(at)),
            },
        };
        Ok(())
    }

    fn open(&mut self, is_object: bool) {
        let bit = 1 << (self.depth % 64);
        match self.objects.get_mut(self.depth / 64) {
            Some(word) => *word = if is_object { *word | bit } else { *word & !bit },
            None => self.objects.push(u64::from(is_object)),
        }
        if let Some(current) = self.current.get_mut(self.depth) {
            *current = None;
        }
        self.depth += 1;
        self.state = if is_object { State::KeyOrEnd } else { State::ValueOrEnd };
    }

    fn close(&mut self, at: usize) {
        self.depth -= 1;
        self.end_of_value(at + 1);
    }

    /// Ends a value in front of offset `end`.
    fn end_of_value(&mut self, end: usize) {
        if self.depth == 0 {
            self.state = State::Done;
            return;
        }
        self.state = State::After;
        if let Some(key) = self.current_key() {
            self.found.end(key, end);
        }
    }

    fn begin_key(&mut self) {
        let matters = match self.depth {
            1 => true,
            2 => self.current.first() == Some(&Some(Key::Result)),
            3 => self.current.get(1) == Some(&Some(Key::Meta)),
            _ => false,
        };
        self.key = matters.then_some(KeyText { bytes: [0; MAX_KEY_BYTES], length: 0 });
        if matters {
            self.found.note_entry(self.depth);
        }
        self.state = State::Text { is_key: true };
    }

    fn end_of_key(&mut self) -> Result<(), ScanError> {
        if let Some(current) = self.depth.checked_sub(1).and_then(|level| self.current.get_mut(level)) {
            let key = self.key.take();
            *current = key.and_then(|key| Key::at(self.depth, key.bytes.get(..key.length)?));
            if let Some(key) = *current
                && self.found.has(key)
            {
                return Err(ScanError::Duplicate(key));
            }
        }
        Ok(())
    }

    /// Returns the key whose value begins or ends here, if it is one that matters.
    fn current_key(&self) -> Option<Key> {
        *self.current.get(self.depth.checked_sub(1)?)?
    }

    fn in_object(&self) -> bool {
        let Some(level) = self.depth.checked_sub(1) else { return false };
        self.objects.get(level / 64).is_some_and(|word| word & (1 << (level % 64)) != 0)
    }
}

impl KeyText {
    /// Appends to the key; `None` once it is too long to matter.
    fn with(mut self, more: &[u8]) -> Option<Self> {
        let end = self.length + more.len();
        self.bytes.get_mut(self.length..end)?.copy_from_slice(more);
        self.length = end;
        Some(self)
    }
}
