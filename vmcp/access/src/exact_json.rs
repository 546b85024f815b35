//! [`Json`]: JSON as it was written, for policies and tokens. A policy must not judge another value than the
//! backend reads: numbers keep their digits, because a float rounds them, and a repeated key is refused,
//! because parsers differ in which of two equal keys they take.

mod number;

use serde_json::value::RawValue;

pub(crate) use number::Number;

/// Deepest nesting that is read; deeper arguments are denied.
const MAX_DEPTH: usize = 127;

/// A JSON value whose numbers keep their digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Flag(bool),
    Number(Number),
    Text(String),
    List(Vec<Json>),
    Object(Entries),
}

/// Entries of an object, in their order; each key is there once.
pub(crate) type Entries = Vec<(String, Json)>;

/// Returns the entry of a key.
pub(crate) fn entry<'a>(object: &'a Entries, key: &str) -> Option<&'a Json> {
    object.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

/// Parses an object; `None` unless the text is an object in which no key repeats, at any depth.
pub(crate) fn object(text: &str) -> Option<Entries> {
    match value(text)? {
        Json::Object(entries) => Some(entries),
        _ => None,
    }
}

/// Parses a value.
pub(crate) fn value(text: &str) -> Option<Json> {
    // Checks the grammar, so that the parser below only has to find its way.
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    Parser { rest: raw.get() }.value(0)
}

/// Reads JSON whose grammar has been checked.
struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip_space();
        match self.rest.as_bytes().first()? {
            b'{' => self.object(depth).map(Json::Object),
            b'[' => self.list(depth).map(Json::List),
            b'"' => self.text().map(Json::Text),
            b't' => self.word("true", Json::Flag(true)),
            b'f' => self.word("false", Json::Flag(false)),
            b'n' => self.word("null", Json::Null),
            _ => {
                let end = self.rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(self.rest.len());
                let (number, rest) = self.rest.split_at(end);
                self.rest = rest;
                Some(Json::Number(Number::new(number)))
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Entries> {
        let mut entries = Entries::new();
        let mut keys = std::collections::HashSet::new();
        self.take('{')?;
        while !self.has('}') {
            if !entries.is_empty() {
                self.take(',')?;
            }
            self.skip_space();
            let key = self.text()?;
            self.take(':')?;
            let value = self.value(depth + 1)?;
            if !keys.insert(key.clone()) {
                return None;
            }
            entries.push((key, value));
        }
        Some(entries)
    }

    fn list(&mut self, depth: usize) -> Option<Vec<Json>> {
        let mut items = Vec::new();
        self.take('[')?;
        while !self.has(']') {
            if !items.is_empty() {
                self.take(',')?;
            }
            items.push(self.value(depth + 1)?);
        }
        Some(items)
    }

    fn text(&mut self) -> Option<String> {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find_map(|(at, char)| match char {
            '"' if !escaped => Some(at + 1),
            _ => {
                escaped = char == '\\' && !escaped;
                None
            }
        })?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        // Half a surrogate pair is grammatical, and no text.
        serde_json::from_str(text).ok()
    }

    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(value)
    }

    fn take(&mut self, token: char) -> Option<()> {
        self.skip_space();
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    /// Takes the token if it comes next.
    fn has(&mut self, token: char) -> bool {
        self.take(token).is_some()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }
}

impl Json {
    /// Converts to a value of the JSON library. A number that its types would round becomes null, which
    /// policies cannot read.
    pub(crate) fn into_value(self) -> serde_json::Value {
        match self {
            Json::Null => serde_json::Value::Null,
            Json::Flag(flag) => flag.into(),
            Json::Number(number) => number.into_value(),
            Json::Text(text) => text.into(),
            Json::List(items) => items.into_iter().map(Json::into_value).collect(),
            Json::Object(entries) => {
                entries.into_iter().map(|(name, entry)| (name, entry.into_value())).collect()
            }
        }
    }
}

/// Converts a parsed value; a float is written by its shortest digits.
impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Json {
        match value {
            serde_json::Value::Null => Json::Null,
            serde_json::Value::Bool(flag) => Json::Flag(*flag),
            serde_json::Value::Number(number) => Json::Number(Number::new(&number.to_string())),
            serde_json::Value::String(text) => Json::Text(text.clone()),
            serde_json::Value::Array(items) => Json::List(items.iter().map(Json::from).collect()),
            serde_json::Value::Object(object) => {
                Json::Object(object.iter().map(|(name, value)| (name.clone(), Json::from(value))).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let text = r#" {"a":[1,{"b":null,"c":1.5}],"d" : "e\"\\","f":true,"g":-1e2,"":[],"h":{}} "#;
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(super::value(text), Some(Json::from(&value)));
        assert_eq!(object(&format!("{}{}", r#"{"a":"#.repeat(200), "}".repeat(200))), None, "too deep");
    }

    #[test]
    fn a_key_that_occurs_twice_is_refused_at_any_depth() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"x":[{"a":1,"\u0061":2}]}"#,
            "[]",
            "{",
            "1",
            r#"{"a":"\ud800"}"#,
            r#"{"a":1}{"a":2}"#,
        ] {
            assert_eq!(object(text), None, "{text}");
        }
    }
}
