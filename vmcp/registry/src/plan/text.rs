//! [`Text`]: one value of a backend, with its secrets apart.

/// A piece of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text that the entry fixes.
    Fixed(String),
    /// Value of an input.
    Value(String),
    /// Value of a secret input.
    Secret {
        /// Name of the input.
        label: String,
        /// The secret.
        value: String,
    },
    /// Reference that the person gave, such as `${secret:TOKEN}`.
    Reference(String),
}

/// One word, variable, header or URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(pub Vec<Part>);

impl Text {
    pub(super) fn fixed(text: impl Into<String>) -> Text {
        Text(vec![Part::Fixed(text.into())])
    }

    /// Returns the value as the backend gets it; references stay as they are.
    pub fn plain(&self) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Fixed(text) | Part::Value(text) | Part::Reference(text) => text.as_str(),
            Part::Secret { value, .. } => value.as_str(),
        });
        parts.collect()
    }

    /// Returns the value as `vmcp.yaml` holds it: `variable` names the environment variable of a secret, and
    /// each `$` of an entry or of a value stays a dollar sign.
    pub fn in_config(&self, variable: &dyn Fn(&str) -> String) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Fixed(text) | Part::Value(text) => text.replace('$', "$$"),
            Part::Secret { label, .. } => format!("${{{}}}", variable(label)),
            Part::Reference(reference) => reference.clone(),
        });
        parts.collect()
    }

    /// True if a part is a secret, or a reference to a value that may be one.
    pub(super) fn may_be_secret(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Secret { .. } | Part::Reference(_)))
    }

    pub(super) fn secrets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|part| match part {
            Part::Secret { label, value } => Some((label.as_str(), value.as_str())),
            _ => None,
        })
    }
}
