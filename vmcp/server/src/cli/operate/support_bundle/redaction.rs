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

    fn redact_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(entries) => {
                for (key, entry) in entries {
                    match entry {
                        Value::String(text) if is_secret_setting(key, text) => MASK.clone_into(text),
                        entry => self.redact_json(entry),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
