//! [`EffectiveConfig`]: the configuration in force as YAML, for `--print-config` and reports: defaults filled
//! in, secrets masked, and references to the environment in place of their values; with the source of each
//! value.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::problems;
use crate::references;
use crate::sections::backend::known_secrets::KnownSecrets;
use crate::values::masked;
use crate::values::secret::MASK;

/// The configuration in force, as people read it. Compared by its values alone.
#[derive(Debug, Clone)]
pub(crate) struct EffectiveConfig {
    /// Values in the file's shape.
    value: Value,
    /// Their YAML, written for its first reader.
    yaml: OnceLock<String>,
    /// Sources of values other than defaults, by path, with the line of those of the file.
    sources: BTreeMap<String, (SettingSource, Option<u32>)>,
    /// Every secret of the file and of the values that it refers to.
    pub(crate) secrets: KnownSecrets,
}

impl PartialEq for EffectiveConfig {
    fn eq(&self, other: &EffectiveConfig) -> bool {
        self.value == other.value
    }
}

/// Source of a setting's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SettingSource {
    /// The value that vmcp has without a setting.
    Default,
    /// The configuration file.
    File,
    /// References in the configuration file, as it writes them, to a variable, a file or a stored secret.
    Reference(String),
    /// A variable of OpenTelemetry, which counts where the file is silent.
    Environment,
}

/// One setting in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EffectiveSetting {
    /// Path, such as `backends[0].url`.
    pub path: String,
    /// Value; `***` for a secret.
    pub value: Value,
    /// Source of the value.
    pub source: SettingSource,
    /// Line in the configuration file, from 1, of a value that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// The settings before they are validated: as the file has them, and with those of the environment.
pub(crate) struct WrittenSettings {
    /// Paths of values in the file, each with its line.
    file: Vec<(String, Option<u32>)>,
    /// All settings, with secrets in plain text.
    values: Value,
}

impl WrittenSettings {
    /// Notes the settings of the file, with their `lines` by path; [`WrittenSettings::completed`] adds the
    /// others.
    pub(crate) fn of_file(settings: &Value, lines: &HashMap<String, u32>) -> WrittenSettings {
        let mut file = Vec::new();
        leaves(settings, "", &mut |path, _| file.push((path.to_owned(), lines.get(path).copied())));
        WrittenSettings { file, values: Value::Null }
    }

    /// Adds the settings as they are read: those of the file, and those of the environment.
    pub(crate) fn completed(self, settings: &Value) -> WrittenSettings {
        WrittenSettings { values: settings.clone(), ..self }
    }
}

impl EffectiveConfig {
    /// Renders `raw`, the configuration as files write it; `references` has the text, as written, of values
    /// that came from elsewhere, by path, and `resolved` the secrets among these values.
    pub(crate) fn new(
        raw: &impl Serialize,
        written: &WrittenSettings,
        references: &BTreeMap<String, String>,
        resolved: impl IntoIterator<Item = String>,
    ) -> EffectiveConfig {
        // Cannot fail: the types hold nothing but strings, numbers, lists and maps with string keys.
        let mut value = serde_json::to_value(raw).unwrap_or_default();
        masked::mask(&mut value);
        let mut secrets: Vec<String> = resolved.into_iter().collect();
        masked::hidden(&value, &written.values, &mut secrets);
        leave_out_nulls(&mut value);
        if !references.is_empty() {
            restore(&mut value, "", references);
        }
        let mut sources = BTreeMap::new();
        leaves(&written.values, "", &mut |path, _| {
            sources.insert(path.to_owned(), (SettingSource::Environment, None));
        });
        for (path, line) in &written.file {
            let source = match references.get(path) {
                Some(text) => SettingSource::Reference(references::named(text)),
                None => SettingSource::File,
            };
            sources.insert(path.clone(), (source, *line));
        }
        let secrets = KnownSecrets::of_values(&secrets);
        EffectiveConfig { value, yaml: OnceLock::new(), sources, secrets }
    }

    /// Returns the YAML, in the file's shape.
    pub(crate) fn yaml(&self) -> &str {
        // Cannot fail, for the same reason.
        self.yaml.get_or_init(|| serde_saphyr::to_string(&self.value).unwrap_or_default())
    }

    /// Returns every setting with its source, in the order of the YAML.
    pub(crate) fn settings(&self) -> Vec<EffectiveSetting> {
        let mut settings = Vec::new();
        leaves(&self.value, "", &mut |path, value| {
            let (source, line) = self.sources.get(path).cloned().unwrap_or((SettingSource::Default, None));
            settings.push(EffectiveSetting { path: path.to_owned(), value: value.clone(), source, line });
        });
        settings
    }
}

/// Visits every value that has no parts, with its path. An empty map or list is one.
fn leaves(value: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, entry) in entries {
                leaves(entry, &problems::key(path, key), visit);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, entry) in items.iter().enumerate() {
                leaves(entry, &problems::item(path, index), visit);
            }
        }
        Value::Null => {}
        _ => visit(path, value),
    }
}

/// Removes the keys of all maps that have no value.
fn leave_out_nulls(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|_, entry| !entry.is_null());
            entries.values_mut().for_each(leave_out_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Puts the references of the file back in the place of their values.
fn restore(value: &mut Value, path: &str, references: &BTreeMap<String, String>) {
    match value {
        Value::Object(entries) => {
            for (key, entry) in entries {
                restore(entry, &problems::key(path, key), references);
            }
        }
        Value::Array(items) => {
            for (index, entry) in items.iter_mut().enumerate() {
                restore(entry, &problems::item(path, index), references);
            }
        }
        Value::String(text) => {
            // A secret stays masked, because the reference may hold a default: `${TOKEN:-t0ken}`.
            if let Some(written) = references.get(path)
                && text != MASK
            {
                text.clone_from(written);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_setting_of_the_file_has_its_line() {
        let text = "server:\n  listen: 127.0.0.1:4483\nbackends:\n  # a server\n\
                    \x20 - name: a\n    url: https://a.example/mcp\n";
        let loaded = crate::load(text, "vmcp.yaml", &|_| None).map_err(|problems| problems.to_string());
        let settings = loaded.unwrap().config.effective_settings();
        let line = |path: &str| {
            let setting = settings.iter().find(|setting| setting.path == path);
            setting.map(|setting| setting.line)
        };
        assert_eq!(line("server.listen"), Some(Some(2)));
        assert_eq!(line("backends[0].name"), Some(Some(5)));
        assert_eq!(line("backends[0].url"), Some(Some(6)));
        assert_eq!(line("server.adminListen"), Some(None), "a default");
    }
}
