//! [`Fields`]: lenient reading of one JSON object. A field of another type counts as absent and leaves a
//! [`Finding`].

use std::cell::RefCell;
use std::fmt;

use serde_json::{Map, Value};

/// Most bytes of one text that is taken over, 4 KiB; a longer one counts as absent.
pub(crate) const MAX_TEXT_BYTES: usize = 4096;
/// Most entries of one list or map; the entries beyond are left out.
pub(crate) const MAX_ITEMS: usize = 128;

/// A field that cannot be used, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Path of the field, such as `packages[0].version`.
    pub path: String,
    /// The reason, and the limit if it is one.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// One object of a document, and the findings of the whole document.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
    findings: &'a RefCell<Vec<Finding>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(object: &'a Map<String, Value>, findings: &'a RefCell<Vec<Finding>>) -> Self {
        Self { object, findings }
    }

    /// Returns a field by its name in camelCase. Older schemas spell it in snake_case.
    fn get(self, key: &str) -> Option<&'a Value> {
        self.object.get(key).or_else(|| self.object.get(&snake_case(key))).filter(|value| !value.is_null())
    }

    pub(crate) fn note(self, path: &str, message: impl Into<String>) {
        self.findings.borrow_mut().push(Finding { path: path.to_owned(), message: message.into() });
    }

    /// Returns a text of at most [`MAX_TEXT_BYTES`] without control characters.
    pub(crate) fn text(self, at: &str, key: &str) -> Option<String> {
        let value = self.get(key)?;
        let path = join(at, key);
        // Publishers write numbers and booleans where a text is meant, such as the default of a port.
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => {
                self.note(&path, "not a text");
                return None;
            }
        };
        if text.len() > MAX_TEXT_BYTES {
            self.note(&path, format!("{} bytes; at most {MAX_TEXT_BYTES} are read", text.len()));
            return None;
        }
        if text.chars().any(char::is_control) {
            self.note(&path, "a control character in a value");
            return None;
        }
        Some(text)
    }

    /// Returns words for people, cleaned and cut: a long or oddly spaced text passes.
    pub(crate) fn words(self, at: &str, key: &str) -> Option<String> {
        let Value::String(text) = self.get(key)? else {
            self.note(&join(at, key), "not a text");
            return None;
        };
        Some(vmcp_config::sanitize::text(text)).filter(|text| !text.is_empty())
    }

    /// True if a field is there.
    pub(crate) fn has(self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn flag(self, at: &str, key: &str) -> bool {
        match self.get(key) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.note(&join(at, key), "not true or false");
                false
            }
        }
    }

    /// Returns the objects of a list, each with its path.
    pub(crate) fn objects(self, at: &str, key: &str) -> Vec<(String, Fields<'a>)> {
        let path = join(at, key);
        let mut objects = Vec::new();
        for (index, item) in self.items(&path, key).iter().enumerate() {
            let path = format!("{path}[{index}]");
            match item {
                Value::Object(object) => objects.push((path, Fields { object, ..self })),
                _ => self.note(&path, "not an object"),
            }
        }
        objects
    }

    /// Returns the texts of a list.
    pub(crate) fn texts(self, at: &str, key: &str) -> Vec<String> {
        let path = join(at, key);
        let mut texts = Vec::new();
        for (index, item) in self.items(&path, key).iter().enumerate() {
            match item {
                Value::String(text) if text.len() <= MAX_TEXT_BYTES => texts.push(text.clone()),
                _ => {
                    let reason = format!("not a text of at most {MAX_TEXT_BYTES} bytes");
                    self.note(&format!("{path}[{index}]"), reason);
                }
            }
        }
        texts
    }

    /// Returns the objects of a map, by key, each with its path.
    pub(crate) fn map(self, at: &str, key: &str) -> Vec<(&'a str, String, Fields<'a>)> {
        let Some(map) = self.object(at, key) else { return Vec::new() };
        let path = join(at, key);
        self.check_count(&path, map.object.len());
        let mut objects = Vec::new();
        for (name, value) in map.object.iter().take(MAX_ITEMS) {
            let path = join(&path, name);
            match value {
                Value::Object(object) => objects.push((name.as_str(), path, Fields { object, ..self })),
                _ => self.note(&path, "not an object"),
            }
        }
        objects
    }

    pub(crate) fn object(self, at: &str, key: &str) -> Option<Fields<'a>> {
        let Value::Object(object) = self.get(key)? else {
            self.note(&join(at, key), "not an object");
            return None;
        };
        Some(Fields { object, ..self })
    }

    fn items(self, path: &str, key: &str) -> &'a [Value] {
        match self.get(key) {
            None => &[],
            Some(Value::Array(items)) => {
                self.check_count(path, items.len());
                items.get(..items.len().min(MAX_ITEMS)).unwrap_or_default()
            }
            Some(_) => {
                self.note(path, "not a list");
                &[]
            }
        }
    }

    fn check_count(self, path: &str, count: usize) {
        if count > MAX_ITEMS {
            self.note(path, format!("{count} entries; at most {MAX_ITEMS} are read"));
        }
    }
}

fn join(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}
