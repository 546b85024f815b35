//! Parser of YAML text into a tree of nodes that know their line. Bounds on size, depth and aliases stop
//! alias bombs and deep nesting.

mod legacy_keys;

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer, de};
use serde_json::{Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

pub(crate) use self::legacy_keys::translate as translate_legacy_keys;
use crate::problems::Report;

/// Most bytes in one file, 4 MiB; a larger one is a mistake.
pub const MAX_BYTES: usize = 4 << 20;
/// Most levels of nesting; no setting is deeper than ten.
const MAX_DEPTH: usize = 32;
/// Most values that aliases may add to the written values (against alias bombs).
const MAX_ALIASED: usize = 100_000;

/// One value of the document.
#[derive(Debug)]
pub(crate) struct Node {
    /// Line, from 1.
    pub line: u32,
    pub content: Content,
    /// Place of the value in the text, in bytes, if known.
    span: Option<Range<usize>>,
}

impl Node {
    /// Returns a boolean or a number as it is written in `text`: `0x1F`, which is read as 31.
    pub(crate) fn written<'a>(&self, text: &'a str) -> Option<&'a str> {
        let written = text.get(self.span.clone()?)?.trim();
        (!written.is_empty() && !written.contains(char::is_whitespace)).then_some(written)
    }
}

/// Content of a node. Keys keep their order and may repeat, so that a repeated one can be reported.
#[derive(Debug)]
pub(crate) enum Content {
    Null,
    /// A boolean or a number.
    Scalar(Value),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, u32, Node)>),
}

/// Parses one YAML document; an empty one is an empty map. `None`: the report has the reason.
pub(crate) fn parse(text: &str, report: &mut Report) -> Option<Node> {
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes", text.len());
        report.problem("", message, format!("keep it below {MAX_BYTES}"));
        return None;
    }
    match serde_saphyr::from_str_with_options::<Node>(text, options()) {
        Ok(node) => Some(node),
        Err(error) => {
            if let Some(line) = error.location().and_then(|location| u32::try_from(location.line()).ok()) {
                report.lines.insert(String::new(), line);
            }
            let message = error.without_snippet().render();
            let first_line = message.lines().next().unwrap_or_default();
            let remedy = if first_line.contains("budget") || first_line.contains("limit") {
                format!("keep to one document, {MAX_DEPTH} levels of nesting and few aliases")
            } else if first_line.contains("character: `@'") {
                "put what begins with `@` in quotes, such as \"@scope/package\"".to_owned()
            } else if first_line.starts_with("tabs ") || first_line.contains(" tab ") {
                "replace tabs by spaces from this line on".to_owned()
            } else {
                "check indentation, brackets and quotes around this line".to_owned()
            };
            report.problem("", format!("not readable as YAML: {first_line}"), remedy);
            None
        }
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        // `y`, `no` and `on` are strings, as in YAML 1.2.
        strict_booleans: true,
        // Repeated keys are reported by path, all at once.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_ALIASED },
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, max_documents: 1 },
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        let line = u32::try_from(spanned.referenced.line()).unwrap_or(u32::MAX);
        // Of an alias, the value that it stands for.
        let span = spanned.defined.span();
        let begin = span.byte_offset().and_then(|offset| usize::try_from(offset).ok());
        let bytes = span.byte_len().and_then(|bytes| usize::try_from(bytes).ok());
        let span = begin.zip(bytes).and_then(|(begin, bytes)| Some(begin..begin.checked_add(bytes)?));
        Ok(Self { line, content: spanned.value, span })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> de::Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }
    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }
    // Integers beyond 64 bits become floats; the checker then reports that a whole number is required.
    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Content, E> {
        self.visit_f64(value as f64)
    }
    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Content, E> {
        self.visit_f64(value as f64)
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Content, E> {
        match Number::from_f64(value) {
            Some(number) => Ok(Content::Scalar(number.into())),
            None => Err(E::custom("a number must be finite")),
        }
    }
    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Text(value.to_owned()))
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Content::List(list))
    }
    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let line = u32::try_from(key.referenced.line()).unwrap_or(u32::MAX);
            map.push((key.value, line, entries.next_value()?));
        }
        Ok(Content::Map(map))
    }
}
