//! The entry of `backends` for a draft.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_saphyr::FlowSeq;

use super::{Draft, Target};

#[derive(Serialize)]
struct BackendEntry<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<FlowSeq<Vec<String>>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
}

impl Draft {
    /// Returns the lines of one item of `backends`, without indentation; `variable` names the environment
    /// variable that holds the secret of an input.
    pub fn yaml(&self, name: &str, variable: &dyn Fn(&str) -> String) -> String {
        let all = |texts: &BTreeMap<String, super::Text>| {
            texts.iter().map(|(key, text)| (key.clone(), text.in_config(variable))).collect()
        };
        let nothing = BackendEntry {
            name,
            command: None,
            env: BTreeMap::new(),
            url: None,
            transport: None,
            headers: BTreeMap::new(),
        };
        let entry = match &self.target {
            Target::Program { command, env } => BackendEntry {
                command: Some(FlowSeq(command.iter().map(|word| word.in_config(variable)).collect())),
                env: all(env),
                ..nothing
            },
            Target::Remote { url, is_sse, headers } => BackendEntry {
                url: Some(url.in_config(variable)),
                transport: is_sse.then_some("sse"),
                headers: all(headers),
                ..nothing
            },
        };
        // An item holds nothing but strings, lists and maps of strings, all of which YAML can write.
        serde_saphyr::to_string(&[entry]).unwrap_or_default()
    }
}
