//! Strategies for JSON texts as people and programs write them: odd space, escapes, any script, numbers that
//! no machine type holds.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// An object as the pieces of its text, so that a test can change one piece and know every other byte.
#[derive(Debug, Clone)]
pub(crate) struct ObjectText {
    pub(crate) entries: Vec<EntryText>,
    /// The space in an object without entries.
    pub(crate) hollow: String,
}

/// One entry: the space before the key, around the colon, and behind the value.
#[derive(Debug, Clone)]
pub(crate) struct EntryText {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) space: [String; 4],
}

impl EntryText {
    pub(crate) fn render(&self) -> String {
        let [before, after_key, before_value, after] = &self.space;
        let key = serde_json::Value::from(self.key.as_str());
        format!("{before}{key}{after_key}:{before_value}{}{after}", self.value)
    }
}

impl ObjectText {
    pub(crate) fn render(&self) -> String {
        let entries: Vec<String> = self.entries.iter().map(EntryText::render).collect();
        let hollow = if entries.is_empty() { self.hollow.as_str() } else { "" };
        format!("{{{hollow}{}}}", entries.join(","))
    }
}

pub(crate) fn space() -> impl Strategy<Value = String> {
    select(vec!["", "", "", " ", "\n", "\t", "\r\n  "]).prop_map(str::to_owned)
}

pub(crate) fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?",
        select(vec!["0", "-0", "1e400", "-1E-400", "123456789012345678901234567890", "0.10", "1.0"])
            .prop_map(str::to_owned),
    ]
}

/// A JSON string, with characters as they are and as escapes.
pub(crate) fn string() -> impl Strategy<Value = String> {
    let escape = select(vec![r"\n", r#"\""#, r"\\", r"\/", r"\u0041", r"\u00e9", r"\ud83d\ude00", r"\u0000"]);
    let part = prop_oneof![
        3 => any::<char>().prop_map(|c| serde_json::Value::from(c.to_string()).to_string().trim_matches('"').to_owned())
            .prop_filter("one character, unquoted", |text| !text.is_empty()),
        1 => escape.prop_map(str::to_owned),
        2 => select(vec!["{", "}", "[", "]", ",", ":", "text"]).prop_map(str::to_owned),
    ];
    vec(part, 0..8).prop_map(|parts| {
        let inner = parts.concat();
        // A lone backslash at a joint would escape the first character of the next part.
        let text = format!("\"{inner}\"");
        if serde_json::from_str::<String>(&text).is_ok() { text } else { "\"\"".to_owned() }
    })
}

pub(crate) fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,6}", "x-[a-z]{1,3}/[a-zA-Z]{1,4}", "\\PC{1,4}"]
}

pub(crate) fn value() -> BoxedStrategy<String> {
    let leaf =
        prop_oneof![string(), number(), select(vec!["true", "false", "null"]).prop_map(str::to_owned),];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let array = (vec((space(), inner.clone(), space()), 0..4), space()).prop_map(|(items, hollow)| {
            let items: Vec<String> = items.into_iter().map(|(a, item, b)| format!("{a}{item}{b}")).collect();
            if items.is_empty() { format!("[{hollow}]") } else { format!("[{}]", items.join(",")) }
        });
        let object = object_of(vec((key(), inner), 0..4)).prop_map(|object| object.render());
        prop_oneof![array, object]
    })
    .boxed()
}

/// An object with these entries, in any order, each key once.
pub(crate) fn object_of(
    entries: impl Strategy<Value = Vec<(String, String)>>,
) -> impl Strategy<Value = ObjectText> {
    let spaces = vec([space(), space(), space(), space()], 24);
    (entries.prop_shuffle(), spaces, space()).prop_map(|(entries, spaces, hollow)| {
        let mut seen = std::collections::HashSet::new();
        let entries = entries
            .into_iter()
            .filter(|(key, _)| seen.insert(key.clone()))
            .zip(spaces)
            .map(|((key, value), space)| EntryText { key, value, space })
            .collect();
        ObjectText { entries, hollow }
    })
}

pub(crate) fn object() -> impl Strategy<Value = ObjectText> {
    object_of(vec((key(), value()), 0..6))
}
