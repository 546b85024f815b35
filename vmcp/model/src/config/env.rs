//! `${NAME}`, `${NAME:-default}` and `$$` in strings.

/// Gives the value of an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why a string could not be completed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvError {
    #[error("the environment variable `{0}` is not set")]
    Unset(String),
    #[error("`${{` without a closing `}}`")]
    Unclosed,
    #[error("`${{{0}}}` is not a reference to an environment variable")]
    Malformed(String),
}

impl EnvError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Unset(name) => {
                format!(
                    "set it, give a default by `${{{name}:-…}}`, or write `$${{{name}}}` to keep the text"
                )
            }
            Self::Unclosed => "close it, or write `$${` to keep the text".to_owned(),
            Self::Malformed(_) => {
                "write `${NAME}` or `${NAME:-default}`, or `$${` to keep the text".to_owned()
            }
        }
    }
}

/// Replaces the references in `text`; `None` when there is nothing to replace. An unset or empty variable takes the
/// default. A value is never looked into for further references.
pub(crate) fn substitute(text: &str, env: Environment<'_>) -> Result<Option<String>, EnvError> {
    if !text.contains("${") && !text.contains("$$") {
        return Ok(None);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(after) = after.strip_prefix('{') {
            let (reference, after) = after.split_once('}').ok_or(EnvError::Unclosed)?;
            out.push_str(&resolve(reference, env)?);
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    Ok(Some(out))
}

fn resolve(reference: &str, env: Environment<'_>) -> Result<String, EnvError> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    if !is_name(name) {
        return Err(EnvError::Malformed(reference.to_owned()));
    }
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(EnvError::Unset(name.to_owned())),
    }
}

/// Whether this can be the name of an environment variable.
pub(crate) fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(text: &str) -> Result<Option<String>, EnvError> {
        substitute(text, &|name| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${A}".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn references_defaults_and_escapes() {
        for (text, expected) in [
            ("Bearer ${A}", "Bearer 1"),
            ("${A}${A}", "11"),
            ("${B:-x y}", "x y"),
            ("${EMPTY:-x}", "x"),
            ("${EMPTY}", ""),
            ("${B:-}", ""),
            ("$${A} costs $5 and $$1", "${A} costs $5 and $1"),
            ("${NESTED}", "${A}"),
        ] {
            assert_eq!(run(text), Ok(Some(expected.to_owned())), "{text}");
        }
        assert_eq!(run("plain $HOME"), Ok(None));
    }

    #[test]
    fn mistakes_name_the_variable() {
        assert_eq!(run("${B}"), Err(EnvError::Unset("B".to_owned())));
        assert_eq!(run("${A"), Err(EnvError::Unclosed));
        assert_eq!(run("${A-x}"), Err(EnvError::Malformed("A-x".to_owned())));
        assert_eq!(run("${}"), Err(EnvError::Malformed(String::new())));
    }

    proptest! {
        #[test]
        fn what_is_escaped_comes_back(text in ".*") {
            let escaped = text.replace('$', "$$");
            prop_assert_eq!(run(&escaped).unwrap().unwrap_or_else(|| text.clone()), text);
        }
    }
}
