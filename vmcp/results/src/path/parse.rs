//! Parses JSON paths.

use super::{Segment, Selector};

/// Longest path, in characters.
pub const MAX_PATH_CHARS: usize = 1_000;
/// Segments of a path.
const MAX_SEGMENTS: usize = 32;
/// Selectors in one pair of brackets.
const MAX_SELECTORS: usize = 16;

/// Errors in a path. The text is for the model that wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path is too long.
    #[error(
        "path is too long: the limit is {MAX_PATH_CHARS} characters, {MAX_SEGMENTS} segments, {MAX_SELECTORS} selectors"
    )]
    TooLong,
    /// A filter, which this reader does not have.
    #[error(
        "path has a filter (`?`); use a name, an index, a slice or `*`, and process_large_dataset to filter"
    )]
    Filter,
    /// More than one `..`.
    #[error("path has `..` twice; it may stand once")]
    Descends,
    /// Something else than a path.
    #[error("path cannot be read at character {at}: expected {expected}")]
    Syntax {
        /// Position, from 1.
        at: usize,
        /// The accepted text.
        expected: &'static str,
    },
}

/// Characters of a path, with the place that is read.
struct Text {
    characters: Vec<char>,
    at: usize,
}

impl Text {
    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn takes(&mut self, wanted: char) -> bool {
        let takes = self.peek() == Some(wanted);
        self.at += usize::from(takes);
        takes
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(character) = self.peek().filter(|character| accepts(*character)) {
            taken.push(character);
            self.at += 1;
        }
        taken
    }

    fn expected(&self, expected: &'static str) -> PathError {
        if self.peek() == Some('?') {
            return PathError::Filter;
        }
        PathError::Syntax { at: self.at + 1, expected }
    }
}

/// Parses a path.
pub(super) fn parse(path: &str) -> Result<Vec<Segment>, PathError> {
    let characters: Vec<char> = path.trim().chars().collect();
    if characters.len() > MAX_PATH_CHARS {
        return Err(PathError::TooLong);
    }
    let mut text = Text { characters, at: 0 };
    let mut segments: Vec<Segment> = Vec::new();
    if !text.takes('$') && text.peek().is_some_and(is_name) {
        segments.push(Segment { descends: false, selectors: vec![name(&mut text)?] });
    }
    while text.peek().is_some() {
        let segment = segment(&mut text)?;
        if segment.descends && segments.iter().any(|segment| segment.descends) {
            return Err(PathError::Descends);
        }
        segments.push(segment);
        if segments.len() > MAX_SEGMENTS {
            return Err(PathError::TooLong);
        }
    }
    Ok(segments)
}

fn segment(text: &mut Text) -> Result<Segment, PathError> {
    let dotted = text.takes('.');
    let descends = dotted && text.takes('.');
    let selectors = if text.takes('[') {
        if dotted && !descends {
            return Err(text.expected("a name or `*` behind the dot"));
        }
        brackets(text)?
    } else if dotted {
        if text.takes('*') { vec![Selector::Wildcard] } else { vec![name(text)?] }
    } else {
        return Err(text.expected("`.` or `[`"));
    };
    Ok(Segment { descends, selectors })
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-') || !character.is_ascii()
}

fn name(text: &mut Text) -> Result<Selector, PathError> {
    let name = text.take_while(is_name);
    if name.is_empty() { Err(text.expected("a name or `*`")) } else { Ok(Selector::Name(name)) }
}

/// Reads selectors up to the closing bracket.
fn brackets(text: &mut Text) -> Result<Vec<Selector>, PathError> {
    let mut selectors = Vec::new();
    loop {
        text.skip_blanks();
        selectors.push(selector(text)?);
        if selectors.len() > MAX_SELECTORS {
            return Err(PathError::TooLong);
        }
        text.skip_blanks();
        if text.takes(']') {
            return Ok(selectors);
        }
        if !text.takes(',') {
            return Err(text.expected("`,` or `]`"));
        }
    }
}

fn selector(text: &mut Text) -> Result<Selector, PathError> {
    match text.peek() {
        Some('*') => {
            text.at += 1;
            Ok(Selector::Wildcard)
        }
        Some(quote @ ('\'' | '"')) => {
            text.at += 1;
            quoted(text, quote)
        }
        _ => index_or_slice(text),
    }
}

/// Returns a name as a selector in brackets has it: the reverse of [`quoted`].
pub(crate) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Reads a quoted name, with the escapes of JSON. A backslash before another character stands for that one.
fn quoted(text: &mut Text, quote: char) -> Result<Selector, PathError> {
    let mut name = String::new();
    while let Some(character) = text.peek() {
        text.at += 1;
        match character {
            '\\' => name
                .push(escaped(text).ok_or_else(|| text.expected("an escape, such as `\\n` or `\\u00e9`"))?),
            character if character == quote => return Ok(Selector::Name(name)),
            character => name.push(character),
        }
    }
    Err(text.expected("the closing quote"))
}

/// Returns the character of an escape.
fn escaped(text: &mut Text) -> Option<char> {
    let character = text.peek()?;
    text.at += 1;
    match character {
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'u' => code_point(text),
        other => Some(other),
    }
}

/// Reads four hexadecimal digits, or a pair of surrogates.
fn code_point(text: &mut Text) -> Option<char> {
    let first = four_digits(text)?;
    let Some(high) = first.checked_sub(0xd800).filter(|high| *high < 0x400) else {
        return char::from_u32(first);
    };
    if !(text.takes('\\') && text.takes('u')) {
        return None;
    }
    let low = four_digits(text)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    char::from_u32(0x1_0000 + (high << 10) + low)
}

fn four_digits(text: &mut Text) -> Option<u32> {
    let mut number = 0;
    for _ in 0..4 {
        number = number * 16 + text.peek()?.to_digit(16)?;
        text.at += 1;
    }
    Some(number)
}

fn index_or_slice(text: &mut Text) -> Result<Selector, PathError> {
    const EXPECTED: &str = "a quoted name, a number, a slice such as `0:10`, or `*`";
    let start = number(text, EXPECTED)?;
    text.skip_blanks();
    if !text.takes(':') {
        return start.map(Selector::Index).ok_or_else(|| text.expected(EXPECTED));
    }
    let end = number(text, EXPECTED)?;
    text.skip_blanks();
    let step = if text.takes(':') { number(text, EXPECTED)? } else { None };
    Ok(Selector::Slice { start, end, step: step.unwrap_or(1) })
}

fn number(text: &mut Text, expected: &'static str) -> Result<Option<i64>, PathError> {
    text.skip_blanks();
    let at = text.at;
    let sign = if text.takes('-') { "-" } else { "" };
    let digits = text.take_while(|character| character.is_ascii_digit());
    if digits.is_empty() && sign.is_empty() {
        return Ok(None);
    }
    let number = format!("{sign}{digits}").parse();
    number.map(Some).map_err(|_| PathError::Syntax { at: at + 1, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_name_their_place() {
        for (path, message) in [
            ("$.", "character 3: expected a name"),
            ("$a", "character 2: expected `.` or `[`"),
            ("$[1", "character 4: expected `,` or `]`"),
            ("$['a", "the closing quote"),
            (r"$['\u12']", "an escape"),
            (r"$['\ud83d']", "an escape"),
            ("$[x]", "character 3: expected a quoted name"),
            ("$[99999999999999999999]", "character 3: expected a quoted name"),
            ("$[-]", "character 3: expected a quoted name"),
            ("$.[0]", "behind the dot"),
            ("$[?@.a>1]", "process_large_dataset to filter"),
            ("$..a..b", "`..` twice"),
        ] {
            let error = parse(path).unwrap_err().to_string();
            assert!(error.contains(message), "{path}: {error}");
        }
        assert_eq!(parse(&".a".repeat(33)), Err(PathError::TooLong));
        assert_eq!(parse(&format!("$[{}0]", "0,".repeat(16))), Err(PathError::TooLong));
        assert_eq!(parse(&"a".repeat(1001)), Err(PathError::TooLong));
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        let mut random = fastrand::Rng::with_seed(7);
        let alphabet: Vec<char> = "$.[]*'\"\\:,-?0199aé \u{0}@".chars().collect();
        for _ in 0..100_000 {
            let length = random.usize(..12);
            let text: String = (0..length).filter_map(|_| random.choice(&alphabet)).collect();
            let _ = parse(&text);
        }
    }
}
