//! Answers of a client to questions, by the keys of the questions.

use std::collections::BTreeMap;

use serde_json::Value;

/// Answers of a client, by the keys of the questions.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct ClientAnswers(BTreeMap<String, Value>);

impl ClientAnswers {
    /// Returns the answers that are objects; `None` unless every one of `keys` has such an answer.
    pub(crate) fn complete<'a>(
        given: Option<&BTreeMap<String, Value>>,
        keys: impl Iterator<Item = &'a String>,
    ) -> Option<Self> {
        let answer =
            |key: &String| Some((key.clone(), given?.get(key).filter(|value| value.is_object())?.clone()));
        keys.map(answer).collect::<Option<_>>().map(Self)
    }

    /// Adds an answer.
    pub(crate) fn insert(&mut self, key: String, answer: Value) {
        self.0.insert(key, answer);
    }

    /// Returns what the user did with a form: `accept`, `decline` or `cancel`.
    pub(crate) fn action(&self, key: &str) -> &str {
        self.at(key, "/action").and_then(Value::as_str).unwrap_or("none")
    }

    /// Returns the fields of a form as the user filled them in.
    pub(crate) fn content(&self, key: &str) -> &Value {
        self.at(key, "/content").unwrap_or(&Value::Null)
    }

    /// Returns one text field of a form; empty if it has none.
    pub(crate) fn text(&self, key: &str, field: &str) -> &str {
        self.content(key).get(field).and_then(Value::as_str).unwrap_or("nobody")
    }

    /// Returns the text that the client's model wrote.
    pub(crate) fn said(&self, key: &str) -> &str {
        self.at(key, "/content/text").and_then(Value::as_str).unwrap_or("nothing")
    }

    /// Returns the URIs of the client's roots.
    pub(crate) fn roots(&self, key: &str) -> Vec<&str> {
        let roots = self.at(key, "/roots").and_then(Value::as_array);
        roots.into_iter().flatten().filter_map(|root| root.get("uri")?.as_str()).collect()
    }

    fn at(&self, key: &str, pointer: &str) -> Option<&Value> {
        self.0.get(key)?.pointer(pointer)
    }
}
