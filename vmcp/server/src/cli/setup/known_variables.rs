//! Variables that exist already, so that an imported secret does not get the value of another one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::config_edit;
use crate::cli::options::environment;
use crate::config_file::env_file;

/// Variables that a configuration refers to, and those of `.env` beside it.
pub(super) struct KnownVariables {
    /// Names to which the configuration refers.
    referred: BTreeSet<String>,
    /// Variables of `.env`, by name.
    in_file: BTreeMap<String, String>,
    environment: fn(&str) -> Option<String>,
}

impl KnownVariables {
    /// Reads the variables for the configuration `text` of the file at `path`.
    pub(super) fn of(path: &Path, text: &str) -> KnownVariables {
        // A file that cannot be read is reported where the variables are written to it.
        let file = env_file::read(&path.with_file_name(env_file::NAME)).ok().flatten().unwrap_or_default();
        KnownVariables {
            referred: config_edit::variables_of(text).into_iter().map(str::to_owned).collect(),
            in_file: env_file::parse(&file).variables.into_iter().collect(),
            environment,
        }
    }

    /// Returns true if the process sets the variable to another value, which wins over the file's, or if the
    /// configuration refers to it for another value. A value of `.env` alone may be replaced.
    pub(super) fn used_otherwise(&self, name: &str, value: &str) -> bool {
        let in_process = (self.environment)(name);
        if in_process.as_ref().is_some_and(|other| other != value) {
            return true;
        }
        let present = in_process.as_ref().or_else(|| self.in_file.get(name));
        self.referred.contains(name) && present.is_none_or(|other| other != value)
    }

    /// As [`Self::used_otherwise`], or true if `.env` has another value, which another server may need.
    pub(super) fn differs(&self, name: &str, value: &str) -> bool {
        self.used_otherwise(name, value) || self.in_file.get(name).is_some_and(|other| other != value)
    }

    /// As [`Self::used_otherwise`] for a variable named after the backend, whose secret is rotated; as
    /// [`Self::differs`] for any other, whose value in `.env` may belong to another program.
    pub(super) fn used_by_others(&self, backend: &str, name: &str, value: &str) -> bool {
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let mut prefix: String = backend.chars().map(upper).chain(['_']).collect();
        if prefix.starts_with(|c: char| c.is_ascii_digit()) {
            prefix.insert(0, '_');
        }
        if name.starts_with(&prefix) { self.used_otherwise(name, value) } else { self.differs(name, value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_by_another_value_of_the_process_or_of_a_reference() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let known = KnownVariables {
            referred: ["USED".to_owned(), "UNSET".to_owned()].into(),
            in_file: [pair("USED", "1"), pair("LEFT", "1")].into(),
            environment: |name| (name == "SHELL_SETS").then(|| "1".to_owned()),
        };
        for (name, value, used, differs) in [
            ("USED", "1", false, false),
            ("USED", "2", true, true),
            ("UNSET", "1", true, true),
            ("LEFT", "2", false, true),
            ("SHELL_SETS", "1", false, false),
            ("SHELL_SETS", "2", true, true),
            ("NEW", "1", false, false),
        ] {
            let found = (known.used_otherwise(name, value), known.differs(name, value));
            assert_eq!(found, (used, differs), "{name}={value}");
        }
    }

    #[test]
    fn a_backend_rotates_its_own_secret_alone() {
        let in_file =
            ["OPENAI_API_KEY", "GH_TOKEN", "_3D_TOKEN"].map(|name| (name.to_owned(), "old".to_owned()));
        let known =
            KnownVariables { referred: BTreeSet::new(), in_file: in_file.into(), environment: |_| None };
        for (backend, name, used) in [
            ("llm", "OPENAI_API_KEY", true),
            ("llm", "LLM_OPENAI_API_KEY", false),
            ("g", "GH_TOKEN", true),
            ("gh", "GH_TOKEN", false),
            ("3d", "_3D_TOKEN", false),
        ] {
            assert_eq!(known.used_by_others(backend, name, "new"), used, "{backend} {name}");
        }
    }
}
