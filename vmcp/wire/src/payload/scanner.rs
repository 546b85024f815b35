//! [`Scanner`]: an incremental JSON state machine. One pass over an answer, while it arrives, finds the keys
//! that a gateway must know, and checks that nothing can be mistaken for them: the objects that hold these
//! keys are JSON, and of all others the end is found ([`Skim`]). Its memory is the same whatever the answer's
//! size and nesting.

use vmcp_json::byte_rope::ByteRope;
use vmcp_json::string_bytes::plain_length;

use super::grammar::{Literal, Number};
use super::key_text::KeyText;
use super::scanned_keys::{Key, ScannedKeys, Span};
use super::skim::Skim;
use super::utf8::Utf8;
use crate::message::keys::RESULT_TYPE;
use crate::message::letter_case::first_misspelled;

/// Levels of objects whose keys matter: the envelope, the result in it, the metadata in that.
const LEVELS: usize = 3;
/// Depth of the result's own keys.
const RESULT_DEPTH: usize = 2;
/// Most bytes of a key that some parser takes for `resultType`: the long s has two.
const MAX_RESULT_TYPE_BYTES: usize = RESULT_TYPE.len() + 1;

/// The reason why the bytes are not an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// Not UTF-8.
    #[error("the answer is not UTF-8: invalid byte at offset {0}")]
    Encoding(usize),
    /// Not JSON, in the objects whose keys matter; elsewhere, a backslash or a control character that no JSON
    /// has there.
    #[error("the answer is not JSON: unexpected byte at offset {0}")]
    Syntax(usize),
    /// A repeated key: parsers disagree on which value counts.
    #[error("duplicate key `{}` in the answer", .0.name())]
    Duplicate(Key),
    /// The type of the result under a key in another letter case, which some clients take for that key.
    #[error("the answer writes the key `{RESULT_TYPE}` in another letter case")]
    LetterCase,
    /// More bytes than the offsets of keys can count: 4 GiB.
    #[error("the answer is larger than 4 GiB")]
    TooLarge,
    /// The bytes end in the middle of a value.
    #[error("the answer is cut off after {0} bytes")]
    Truncated(usize),
}

/// The token of an object that may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    /// Behind a comma.
    Key,
    /// Behind `{`.
    KeyOrEnd,
    Colon,
    /// A comma, or the end.
    After,
}

/// The state of the machine: the bytes that may come next.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Between tokens.
    Token(Expected),
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
    /// Within a container whose keys do not matter.
    Skimmed(Skim),
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
    /// Open objects whose keys matter.
    depth: usize,
    levels: [Level; LEVELS],
    key: KeyText,
    utf8: Utf8,
    found: ScannedKeys,
}

/// The current entry of an object whose keys matter.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    /// The key, if it is a known key.
    current: Option<Key>,
    key_start: u32,
    /// The end of the last entry; 0 without one.
    last_end: u32,
}

/// The place in the result that the scanner has reached, for edits that are made while an answer arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes read.
    pub(crate) offset: usize,
    /// The key of the result whose value is being read, if it is a known key.
    pub(crate) key: Option<Key>,
    /// The key of the metadata, inside of them.
    pub(crate) meta_key: Option<Key>,
    /// Begin of the bytes that belong to no value yet: a comma, space, a key. `None` inside of a value.
    pub(crate) between: Option<usize>,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            state: State::Token(Expected::Value),
            offset: 0,
            depth: 0,
            levels: [Level::default(); LEVELS],
            key: KeyText::default(),
            utf8: Utf8::default(),
            found: ScannedKeys::default(),
        }
    }
}

impl Scanner {
    /// Reads the next piece. After an error the scanner must not be used any more.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), ScanError> {
        if u32::try_from(self.offset + piece.len()).is_err() {
            return Err(ScanError::TooLarge);
        }
        self.utf8.check(piece).map_err(|at| ScanError::Encoding(self.offset + at))?;
        let mut at = 0;
        while let Some(byte) = piece.get(at) {
            match self.state {
                State::Skimmed(skim) => at = self.skim(skim, piece, at)?,
                State::Text { is_key } => at = self.text(piece, at, is_key)?,
                State::Token(_) => at = self.tokens(piece, at)?,
                State::Literal(literal) => at = self.literal(piece, at, literal)?,
                // A byte that ends a number belongs to the next token, so it is read again.
                _ => at += usize::from(self.step(*byte, self.offset + at)?),
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

    /// True once `so_far`, which this scanner has read, is known to be the answer to the request with `id`,
    /// and a result: an object that has begun, and is not known to be of another type than `complete`.
    #[must_use]
    pub fn has_begun_result(&self, id: &str, so_far: &ByteRope) -> bool {
        let is = |key, text: &str| {
            self.found.range(key).is_some_and(|range| so_far.has_at(range, text.as_bytes()))
        };
        self.progress().is_some()
            && is(Key::Version, "\"2.0\"")
            && is(Key::Id, id)
            && !self.found.has(Key::Method)
            && !self.found.has(Key::Error)
            && (!self.found.has(Key::ResultType) || is(Key::ResultType, "\"complete\""))
    }

    /// Returns the keys that were found so far; the end of a value that is being read is not known yet.
    pub(crate) fn found(&self) -> &ScannedKeys {
        &self.found
    }

    /// Returns the place in the result that was reached; `None` before and behind the result.
    pub(crate) fn progress(&self) -> Option<Progress> {
        let [envelope, result, meta] = &self.levels;
        if envelope.current != Some(Key::Result) || self.depth < 2 {
            return None;
        }
        let is_value = match self.state {
            State::Token(_) | State::Done => false,
            State::Text { is_key } | State::Escape { is_key } | State::Unicode { is_key, .. } => !is_key,
            State::Number(_) | State::Literal(_) | State::Skimmed(_) => true,
        };
        let (level, container) = if self.depth > 2 { (meta, Key::Meta) } else { (result, Key::Result) };
        let begin = self.found.range(container).map_or(0, |range| range.start + 1);
        let last_end = if level.last_end == 0 { begin } else { level.last_end as usize };
        Some(Progress {
            offset: self.offset,
            key: result.current.filter(|_| is_value || self.depth > 2),
            meta_key: meta.current.filter(|_| is_value && self.depth > 2),
            between: (!is_value).then_some(last_end),
        })
    }

    /// Skims a container from `at` on; returns the offset behind it, or the end.
    fn skim(&mut self, mut skim: Skim, piece: &[u8], at: usize) -> Result<usize, ScanError> {
        match skim.read(piece.get(at..).unwrap_or_default()) {
            Ok(None) => {
                self.state = State::Skimmed(skim);
                Ok(piece.len())
            }
            Ok(Some(length)) => {
                self.end_of_value(self.offset + at + length);
                Ok(at + length)
            }
            Err(wrong) => Err(ScanError::Syntax(self.offset + at + wrong)),
        }
    }

    /// Takes tokens from `at` on, up to a token that only its following bytes decide.
    fn tokens(&mut self, piece: &[u8], mut at: usize) -> Result<usize, ScanError> {
        while let (State::Token(expected), Some(byte)) = (self.state, piece.get(at)) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                self.token(expected, *byte, self.offset + at)?;
            }
            at += 1;
            match self.state {
                State::Text { is_key } => at = self.text(piece, at, is_key)?,
                State::Literal(literal) => at = self.literal(piece, at, literal)?,
                _ => {}
            }
        }
        Ok(at)
    }

    /// Skips the text of a string from `start` on, up to a quote, an escape or the end of the piece.
    fn text(&mut self, piece: &[u8], start: usize, is_key: bool) -> Result<usize, ScanError> {
        let rest = piece.get(start..).unwrap_or_default();
        let length = plain_length(rest);
        let part = rest.get(..length).unwrap_or_default();
        let end = start + length;
        match rest.get(length) {
            None => {
                if is_key {
                    self.key.push(part);
                }
                return Ok(end);
            }
            Some(b'"') if is_key => {
                self.end_of_key(part)?;
                self.state = State::Token(Expected::Colon);
            }
            Some(b'"') => self.end_of_value(self.offset + end + 1),
            Some(b'\\') => {
                if is_key {
                    self.key.push(part);
                    self.key.push(b"\\");
                }
                self.state = State::Escape { is_key };
            }
            Some(_) => return Err(ScanError::Syntax(self.offset + end)),
        }
        Ok(end + 1)
    }

    /// Takes the bytes of a literal from `at` on.
    fn literal(&mut self, piece: &[u8], mut at: usize, mut literal: Literal) -> Result<usize, ScanError> {
        while let Some(byte) = piece.get(at) {
            literal = literal.next(*byte).ok_or(ScanError::Syntax(self.offset + at))?;
            at += 1;
            if literal.is_complete() {
                self.end_of_value(self.offset + at);
                return Ok(at);
            }
        }
        self.state = State::Literal(literal);
        Ok(at)
    }

    /// Takes one byte at offset `at` outside the text of strings and literals. Returns true if the byte was
    /// consumed.
    fn step(&mut self, byte: u8, at: usize) -> Result<bool, ScanError> {
        let unexpected = ScanError::Syntax(at);
        match self.state {
            State::Text { .. } | State::Literal(_) | State::Skimmed(_) => return Ok(false),
            State::Escape { is_key } => {
                self.state = match byte {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => State::Text { is_key },
                    b'u' => State::Unicode { is_key, left: 4 },
                    _ => return Err(unexpected),
                };
                self.escaped_key(is_key, byte);
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
                self.escaped_key(is_key, byte);
            }
            State::Number(number) => match number.next(byte) {
                Some(number) => self.state = State::Number(number),
                None if number.may_end() => {
                    self.end_of_value(at);
                    return Ok(false);
                }
                None => return Err(unexpected),
            },
            _ if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') => {}
            State::Token(expected) => self.token(expected, byte, at)?,
            State::Done => return Err(unexpected),
        }
        Ok(true)
    }

    /// Takes the first byte of a token.
    fn token(&mut self, expected: Expected, byte: u8, at: usize) -> Result<(), ScanError> {
        match (expected, byte) {
            (Expected::Value, _) => self.begin_value(byte, at)?,
            (Expected::Key | Expected::KeyOrEnd, b'"') => self.begin_key(at),
            (Expected::Colon, b':') => self.state = State::Token(Expected::Value),
            (Expected::After, b',') => self.state = State::Token(Expected::Key),
            (Expected::After | Expected::KeyOrEnd, b'}') => self.close(at),
            _ => return Err(ScanError::Syntax(at)),
        }
        Ok(())
    }

    fn begin_value(&mut self, byte: u8, at: usize) -> Result<(), ScanError> {
        // The envelope is an object; a batch (an array) is refused.
        if self.depth == 0 && byte != b'{' {
            return Err(ScanError::Syntax(at));
        }
        self.state = match byte {
            b'"' => State::Text { is_key: false },
            b'{' | b'[' => self.container(byte == b'{'),
            _ => match (Number::begin(byte), Literal::begin(byte)) {
                (Some(number), _) => State::Number(number),
                (None, Some(literal)) => State::Literal(literal),
                (None, None) => return Err(ScanError::Syntax(at)),
            },
        };
        if let Some(&mut Level { current: Some(key), key_start, last_end }) = self.level() {
            let separator = if last_end == 0 { key_start } else { last_end };
            let start = offset(at);
            let span = Span { separator, key: key_start, start, end: start, next: 0, first: byte };
            self.found.begin(key, span);
        }
        if let State::Token(_) = self.state {
            self.enter();
        }
        Ok(())
    }

    /// Returns the state within an object or array that begins.
    fn container(&self, is_object: bool) -> State {
        let matters = match (self.depth, self.levels) {
            (0, _) => true,
            (1, [Level { current, .. }, ..]) => current == Some(Key::Result),
            (2, [_, Level { current, .. }, _]) => current == Some(Key::Meta),
            _ => false,
        };
        if is_object && matters { State::Token(Expected::KeyOrEnd) } else { State::Skimmed(Skim::begin()) }
    }

    /// Enters an object whose keys matter.
    fn enter(&mut self) {
        if let Some(level) = self.levels.get_mut(self.depth) {
            *level = Level::default();
        }
        self.depth += 1;
    }

    fn close(&mut self, at: usize) {
        self.depth = self.depth.saturating_sub(1);
        self.end_of_value(at + 1);
    }

    /// Ends a value in front of offset `end`.
    fn end_of_value(&mut self, end: usize) {
        let depth = self.depth;
        if depth == 0 {
            self.state = State::Done;
            return;
        }
        self.state = State::Token(Expected::After);
        let end = offset(end);
        if let Some(level) = self.level() {
            level.last_end = end;
            let current = level.current;
            self.found.note_end(depth, end);
            if let Some(key) = current {
                self.found.end(key, end);
            }
        }
    }

    fn begin_key(&mut self, at: usize) {
        self.state = State::Text { is_key: true };
        if let Some(level) = self.level() {
            level.key_start = offset(at);
            if let Some(previous) = level.current.take() {
                self.found.note_next(previous, offset(at));
            }
            self.key.clear();
        }
    }

    /// Keeps a byte of an escape in a key that may matter.
    fn escaped_key(&mut self, is_key: bool, byte: u8) {
        if is_key {
            self.key.push(&[byte]);
        }
    }

    fn end_of_key(&mut self, last: &[u8]) -> Result<(), ScanError> {
        let depth = self.depth;
        let (current, is_misspelled) = {
            let name = self.key.end(last);
            let current = name.as_deref().and_then(|name| Key::at(depth, name));
            let is_other = depth == RESULT_DEPTH && current.is_none();
            (current, is_other && name.as_deref().is_some_and(misspells_result_type))
        };
        match current {
            Some(key) if self.found.has(key) => return Err(ScanError::Duplicate(key)),
            Some(_) => {}
            None if is_misspelled => return Err(ScanError::LetterCase),
            None => self.found.note_other(depth),
        }
        if let Some(level) = self.level() {
            level.current = current;
        }
        Ok(())
    }

    /// Returns the innermost open object, if its keys matter.
    fn level(&mut self) -> Option<&mut Level> {
        self.levels.get_mut(self.depth.checked_sub(1)?)
    }
}

/// True for a key that differs from `resultType` in letter case only: a client in Go or .NET would take the
/// result for a question, whose words no gateway has looked at.
fn misspells_result_type(name: &[u8]) -> bool {
    // The length tells most keys apart, without a call.
    (RESULT_TYPE.len()..=MAX_RESULT_TYPE_BYTES).contains(&name.len())
        && std::str::from_utf8(name).is_ok_and(|name| first_misspelled([name], &[RESULT_TYPE]).is_some())
}

/// Returns an offset as it is kept; [`Scanner::push`] has refused greater ones.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
