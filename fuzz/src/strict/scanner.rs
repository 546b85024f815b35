//! The strict scanner: a JSON state machine that looks at every byte, as an oracle for
//! [`vmcp_wire::payload::Scanner`], which skims most of them. Containers that hold no key which matters are
//! skimmed here too, for their strings and brackets alone.

use super::grammar::{Literal, Number};

/// Levels of objects whose keys matter: the envelope, the result in it, the metadata in that.
const LEVELS: usize = 3;

/// The known keys of each level.
const KEYS: [(usize, &str); 14] = [
    (1, "jsonrpc"),
    (1, "id"),
    (1, "method"),
    (1, "result"),
    (1, "error"),
    (2, "resultType"),
    (2, "isError"),
    (2, "requestState"),
    (2, "ttlMs"),
    (2, "cacheScope"),
    (2, "structuredContent"),
    (2, "_meta"),
    (3, "io.modelcontextprotocol/serverInfo"),
    (3, "io.modelcontextprotocol/subscriptionId"),
];

/// A key of [`KEYS`], by its index.
type Key = usize;

/// No answer, a repeated key, or a `resultType` in another letter case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// The state of the machine: the bytes that may come next.
#[derive(Debug, Clone, Copy)]
enum State {
    Value,
    /// Behind the comma of an object.
    Key,
    /// Behind `{`.
    KeyOrEnd,
    Colon,
    /// A comma, or the end of the open list or object.
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
    /// Within a container whose keys do not matter: open ones, this one included.
    Skimmed {
        open: usize,
        in_text: bool,
        in_escape: bool,
    },
    /// Nothing but space: the envelope is closed.
    Done,
}

/// Reads an answer, a byte at a time.
#[derive(Debug)]
struct Scanner {
    state: State,
    depth: usize,
    /// The current key of each of the first levels, if it is a known key.
    current: [Option<Key>; LEVELS],
    /// The beginning of the key that is being read, if it may be a known key.
    key: Option<Vec<u8>>,
    found: [Option<(usize, usize)>; KEYS.len()],
}

impl Default for Scanner {
    fn default() -> Self {
        Self { state: State::Value, depth: 0, current: [None; LEVELS], key: None, found: [None; KEYS.len()] }
    }
}

/// The known keys of an answer, and the places of their values.
pub fn scan(bytes: &[u8]) -> Result<Vec<(&'static str, std::ops::Range<usize>)>, Refused> {
    std::str::from_utf8(bytes).map_err(|_| Refused)?;
    let mut scanner = Scanner::default();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if let State::Text { is_key } = scanner.state {
            scanner.text(*byte, at, is_key)?;
            at += 1;
        } else {
            // A byte that ends a number belongs to the next token, so it is read again.
            at += usize::from(scanner.step(*byte, at)?);
        }
    }
    if !matches!(scanner.state, State::Done) {
        return Err(Refused);
    }
    let found = KEYS.iter().zip(scanner.found);
    Ok(found.filter_map(|((_, name), place)| place.map(|(start, end)| (*name, start..end))).collect())
}

impl Scanner {
    fn text(&mut self, byte: u8, at: usize, is_key: bool) -> Result<(), Refused> {
        match byte {
            b'"' if is_key => {
                self.end_of_key()?;
                self.state = State::Colon;
            }
            b'"' => self.end_of_value(at + 1),
            b'\\' => {
                self.keep(byte);
                self.state = State::Escape { is_key };
            }
            0..0x20 => return Err(Refused),
            _ => self.keep(byte),
        }
        Ok(())
    }

    fn keep(&mut self, byte: u8) {
        if let Some(key) = &mut self.key {
            key.push(byte);
        }
    }

    /// Takes one byte at offset `at` outside the text of strings. Returns true if the byte was consumed.
    fn step(&mut self, byte: u8, at: usize) -> Result<bool, Refused> {
        let unexpected = Refused;
        match self.state {
            State::Text { .. } => return Err(Refused),
            State::Escape { is_key } => {
                self.keep(byte);
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
                self.keep(byte);
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
            State::Skimmed { open, in_text, in_escape } => match skimmed(byte, open, in_text, in_escape)? {
                State::Skimmed { open: 0, .. } => self.end_of_value(at + 1),
                state => self.state = state,
            },
            _ if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') => {}
            State::Value => self.begin_value(byte, at)?,
            State::KeyOrEnd if byte == b'}' => self.close(at),
            State::Key | State::KeyOrEnd if byte == b'"' => self.begin_key(),
            State::Colon if byte == b':' => self.state = State::Value,
            State::After if byte == b',' => self.state = State::Key,
            State::After if byte == b'}' => self.close(at),
            _ => return Err(unexpected),
        }
        Ok(true)
    }

    fn begin_value(&mut self, byte: u8, at: usize) -> Result<(), Refused> {
        // The envelope is an object; a batch (an array) is refused.
        if self.depth == 0 && byte != b'{' {
            return Err(Refused);
        }
        if let Some(key) = self.current_key() {
            self.found[key] = Some((at, at));
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
                (None, None) => return Err(Refused),
            },
        };
        Ok(())
    }

    fn open(&mut self, is_object: bool) {
        if !is_object || !self.keys_matter_in(self.depth + 1) {
            self.state = State::Skimmed { open: 1, in_text: false, in_escape: false };
            return;
        }
        if let Some(current) = self.current.get_mut(self.depth) {
            *current = None;
        }
        self.depth += 1;
        self.state = State::KeyOrEnd;
    }

    /// True if an object at this level, below the current keys of those above, is one whose keys matter.
    fn keys_matter_in(&self, level: usize) -> bool {
        match level {
            1 => true,
            2 => self.current[0].is_some_and(|key| KEYS[key].1 == "result"),
            3 => self.current[1].is_some_and(|key| KEYS[key].1 == "_meta"),
            _ => false,
        }
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
            self.found[key] = self.found[key].map(|(start, _)| (start, end));
        }
    }

    fn begin_key(&mut self) {
        let matters = self.keys_matter_in(self.depth);
        self.key = matters.then(Vec::new);
        self.state = State::Text { is_key: true };
    }

    fn end_of_key(&mut self) -> Result<(), Refused> {
        let Some(written) = self.key.take() else {
            if self.depth <= LEVELS && self.depth > 0 {
                self.current[self.depth - 1] = None;
            }
            return Ok(());
        };
        let quoted = [b"\"".as_slice(), &written, b"\""].concat();
        let name = serde_json::from_slice::<String>(&quoted).ok();
        let key = KEYS.iter().position(|(level, key)| *level == self.depth && Some(*key) == name.as_deref());
        self.current[self.depth - 1] = key;
        // Some clients take a key in another letter case for the type of the result.
        let is_misspelled = self.depth == 2
            && key.is_none()
            && name.is_some_and(|name| vmcp_wire::letter_case::folded(&name) == "resulttype");
        if is_misspelled || key.is_some_and(|key| self.found[key].is_some()) {
            return Err(Refused);
        }
        Ok(())
    }

    /// Returns the key whose value begins or ends here, if it is a known key.
    fn current_key(&self) -> Option<Key> {
        *self.current.get(self.depth.checked_sub(1)?)?
    }
}

/// Takes a byte of a skimmed value.
fn skimmed(byte: u8, open: usize, in_text: bool, in_escape: bool) -> Result<State, Refused> {
    let state = |open, in_text, in_escape| Ok(State::Skimmed { open, in_text, in_escape });
    match byte {
        0..0x20 if in_text || !matches!(byte, b'\n' | b'\r' | b'\t') => Err(Refused),
        _ if in_escape => state(open, in_text, false),
        b'\\' if !in_text => Err(Refused),
        b'\\' => state(open, in_text, true),
        b'"' => state(open, !in_text, false),
        _ if in_text => state(open, in_text, false),
        b'{' | b'[' => state(open + 1, in_text, false),
        b'}' | b']' => state(open - 1, in_text, false),
        _ => state(open, in_text, false),
    }
}
