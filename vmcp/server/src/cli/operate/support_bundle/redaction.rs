//! [`Redactor`]: removes secrets from the files of a bundle, by their values and by their shape.

use std::path::Path;

use serde_json::Value;
use vmcp_config::{Config, KnownSecrets, MASK, is_secret_setting, without_secrets};

/// Knows the secrets of the configuration and of the environment.
pub(super) struct Redactor {
    known: Vec<KnownSecrets>,
}

impl Redactor {
    /// Collects the secrets of a configuration, if it could be read, and of the environment of this process.
    pub(super) fn new(config: Option<&Config>) -> Redactor {
        let of_environment = KnownSecrets::of_values(&KnownSecrets::of_environment());
        let of_backends = config
            .into_iter()
            .flat_map(|config| &config.backends)
            .map(|backend| backend.known_secrets.clone());
        let of_config = config.map(|config| config.known_secrets().clone());
        Redactor { known: of_config.into_iter().chain(of_backends).chain([of_environment]).collect() }
    }

    /// Returns the text of a file without secrets. JSON stays JSON.
    pub(super) fn redact(&self, name: &str, text: &str) -> String {
        if Path::new(name).extension().is_some_and(|extension| extension == "json")
            && let Ok(mut document) = serde_json::from_str(text)
        {
            self.redact_json(&mut document);
            // Values of JSON always serialize.
            return serde_json::to_string_pretty(&document).unwrap_or_default();
        }
        self.redact_text(text)
    }

    fn redact_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for known in &self.known {
            text = known.mask(&text).into_owned();
        }
        without_secrets(&text)
    }

    /// Redacts the values of a setting that has several, such as a header.
    fn redact_items(&self, name: &str, items: &mut [Value]) {
        for item in items {
            match item {
                Value::String(text) if is_secret_setting(name, text) => MASK.clone_into(text),
                item => self.redact_json(item),
            }
        }
    }

    fn redact_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(entries) => {
                // A variable as an entry of a list: `{"name": "TOKEN", "value": "x"}`.
                let named = ["name", "key"].iter().find_map(|key| entries.get(*key)?.as_str());
                let named = named.map(str::to_owned);
                for (key, entry) in entries {
                    let name = named.as_deref().filter(|_| key == "value").unwrap_or(key);
                    match entry {
                        Value::String(text) if is_secret_setting(name, text) => MASK.clone_into(text),
                        Value::Array(items) => self.redact_items(name, items),
                        entry => self.redact_json(entry),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_lose_secrets_by_their_keys_and_stay_documents() {
        let redactor = Redactor { known: Vec::new() };
        let document = json!({
            "headers": {"Authorization": ["zebra7"], "Accept": ["text/plain"]},
            "env": [{"name": "API_TOKEN", "value": "zebra7"}, {"name": "HOME", "value": "/root"}],
            "inner": {"password": "two zebra7", "text": "{\"client_secret\":\"zebra7\"}"},
            "tokens": 7,
        });
        let redacted = redactor.redact("status.json", &document.to_string());
        let redacted: Value = serde_json::from_str(&redacted).unwrap();
        let expected = json!({
            "headers": {"Authorization": ["***"], "Accept": ["text/plain"]},
            "env": [{"name": "API_TOKEN", "value": "***"}, {"name": "HOME", "value": "/root"}],
            "inner": {"password": "***", "text": "{\"client_secret\":\"***\"}"},
            "tokens": 7,
        });
        assert_eq!(redacted, expected);
    }
}
