//! The entry of `backends` for a draft.

use std::collections::BTreeMap;

use serde_saphyr::FlowSeq;
use vmcp_config::BackendEntry;

use super::{Draft, Target};

impl Draft {
    /// Returns the lines of one item of `backends`, without indentation; `variable` names the environment
    /// variable that holds the secret of an input.
    pub fn yaml(&self, name: &str, variable: &dyn Fn(&str) -> String) -> String {
        let all = |texts: &BTreeMap<String, super::Text>| {
            texts.iter().map(|(key, text)| (key.clone(), text.in_config(variable))).collect()
        };
        let named = BackendEntry { name: name.to_owned(), ..BackendEntry::default() };
        let entry = match &self.target {
            Target::Program { command, env } => BackendEntry {
                command: Some(FlowSeq(command.iter().map(|word| word.in_config(variable)).collect())),
                env: all(env),
                ..named
            },
            Target::Remote { url, is_sse, headers } => BackendEntry {
                url: Some(url.in_config(variable)),
                transport: is_sse.then_some("sse"),
                headers: all(headers),
                ..named
            },
        };
        // An item holds nothing but strings, lists and maps of strings, all of which YAML can write.
        serde_saphyr::to_string(&[entry]).unwrap_or_default()
    }
}
