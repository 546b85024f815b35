//! Definitions of tools, prompts and resources with their fixed answers. They are data files; code answers
//! the rest.

use std::collections::HashMap;

use rmcp::model::{JsonObject, Prompt, Resource, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A definition with its fixed answer.
#[derive(Deserialize)]
pub(crate) struct Entry<D> {
    /// Definition as it is listed.
    pub definition: D,
    /// Content of a tool, messages of a prompt or contents of a resource; `None` where code answers.
    pub answer: Option<Value>,
}

/// Definitions that are always there, in the order of the files.
pub(crate) struct Catalog {
    /// Tools.
    pub tools: Vec<Entry<Tool>>,
    /// Prompts. In the texts of an answer, `{name}` stands for the argument of that name.
    pub prompts: Vec<Entry<Prompt>>,
    /// Resources.
    pub resources: Vec<Entry<Resource>>,
}

impl Catalog {
    /// Reads the built-in files.
    pub(crate) fn load() -> serde_json::Result<Self> {
        Ok(Self {
            tools: serde_json::from_str(include_str!("../data/tools.json"))?,
            prompts: serde_json::from_str(include_str!("../data/prompts.json"))?,
            resources: serde_json::from_str(include_str!("../data/resources.json"))?,
        })
    }
}

/// Returns `answer` with each `{name}` replaced by the text of that argument.
pub(crate) fn fill<A: DeserializeOwned>(
    answer: &Value,
    arguments: &HashMap<&str, String>,
) -> serde_json::Result<A> {
    serde_json::from_value(replace(answer, arguments))
}

/// Returns the arguments that are texts.
pub(crate) fn texts(arguments: Option<&JsonObject>) -> HashMap<&str, String> {
    let texts = arguments.into_iter().flatten();
    texts.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?.to_owned()))).collect()
}

fn replace(value: &Value, arguments: &HashMap<&str, String>) -> Value {
    match value {
        Value::String(text) => {
            let fill =
                |text: String, (name, value): (&&str, &String)| text.replace(&format!("{{{name}}}"), value);
            arguments.iter().fold(text.clone(), fill).into()
        }
        Value::Array(items) => items.iter().map(|item| replace(item, arguments)).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| (key.clone(), replace(value, arguments))).collect()
        }
        other => other.clone(),
    }
}
