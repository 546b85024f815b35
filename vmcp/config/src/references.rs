//! References in strings: `${NAME}`, `${file:/path}`, `${secret:NAME}`, each with an optional `:-default`,
//! and `$$` for a dollar sign.

pub mod secret_signs;

use self::secret_signs::{is_secret_name, looks_secret};

/// Returns the value of an environment variable, or `None` if it is not set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the content of the file at an absolute path; `None` if there is no such file, an error text if it
/// cannot be read.
pub type Files<'a> = &'a dyn Fn(&str) -> Result<Option<String>, String>;

/// Most bytes in a file that a string refers to, 64 KiB; a larger one is a mistake.
pub const MAX_FILE_BYTES: usize = 64 << 10;

/// Returns a stored secret by its name; `None` without one, an error text if the store cannot be read.
pub type StoredSecrets<'a> = &'a dyn Fn(&str) -> Result<Option<String>, String>;

/// Prefix of a reference to a file.
const FILE: &str = "file:";
/// Prefix of a reference to a stored secret.
const SECRET: &str = "secret:";

/// Sources that references are looked up in.
#[derive(Clone, Copy)]
pub struct ReferenceSources<'a> {
    /// Environment variables.
    pub variables: Environment<'a>,
    /// Environment variables that are settings by themselves, without a reference: those of OpenTelemetry.
    pub settings: Environment<'a>,
    /// Files by their absolute path.
    pub files: Files<'a>,
    /// Secrets that `vmcp secret set` stored.
    pub secrets: StoredSecrets<'a>,
}

/// Mistake in a reference.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReferenceError {
    #[error("the environment variable `{0}` is not set")]
    Unset(String),
    #[error("there is no file `{0}`")]
    Missing(String),
    #[error("there is no secret `{0}`")]
    NoSecret(String),
    #[error("the stored secrets cannot be read: {0}")]
    Secrets(String),
    #[error("the file `{path}` cannot be read: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("the file `{path}` is larger than {} KiB", MAX_FILE_BYTES >> 10)]
    TooLarge { path: String },
    #[error("`{0}` is not an absolute path")]
    Relative(String),
    #[error("`${{` without a closing `}}`")]
    Unclosed,
    #[error("`${{{0}}}` is not a reference to an environment variable, a file or a secret")]
    Malformed(String),
}

impl ReferenceError {
    /// Returns true if the reference is well-formed and only its value is absent: that disables a backend
    /// instead of refusing the file.
    pub(crate) fn is_absent_value(&self) -> bool {
        matches!(
            self,
            Self::Unset(_)
                | Self::Missing(_)
                | Self::NoSecret(_)
                | Self::Secrets(_)
                | Self::Unreadable { .. }
        )
    }

    /// Returns the remedy.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::Unset(name) => {
                format!(
                    "set it, also in a file `.env` beside this one, give a default by `${{{name}:-…}}`, or write `$${{{name}}}` to keep the text"
                )
            }
            Self::Missing(path) => {
                format!("create it, mount the secret that has it, or give a default by `${{file:{path}:-…}}`")
            }
            Self::NoSecret(name) => format!("store it: `vmcp secret set {name}`"),
            Self::Secrets(_) => "unlock the keyring, or mend that file; `vmcp secret set` stores it anew".to_owned(),
            Self::Unreadable { .. } => "make it a text file that vmcp may read".to_owned(),
            Self::TooLarge { .. } => "keep one value in a file".to_owned(),
            Self::Relative(_) => "write the whole path: `${file:/etc/vmcp/secrets/token}`".to_owned(),
            Self::Unclosed => "close it, or write `$${` to keep the text".to_owned(),
            Self::Malformed(_) => {
                "write `${NAME}`, `${NAME:-default}`, `${file:/path}` or `${secret:NAME}`, or `$${` to keep the text"
                    .to_owned()
            }
        }
    }
}

/// Returns true if a text refers to a file.
pub(crate) fn refers_to_file(text: &str) -> bool {
    text.contains("${file:")
}

/// Returns true if a text refers to a stored secret.
pub(crate) fn refers_to_secret(text: &str) -> bool {
    text.contains("${secret:")
}

/// Returns a text that is one reference and nothing else, without its default, which may be a secret.
pub(crate) fn alone(text: &str) -> Option<String> {
    let reference = text.strip_prefix("${")?.strip_suffix('}').filter(|inner| !inner.contains('}'))?;
    let (source, _) = reference.split_once(":-").unwrap_or((reference, ""));
    Some(format!("${{{source}}}"))
}

/// Returns the references in a text as they are written, without their defaults, which may be secrets.
pub(crate) fn named(text: &str) -> String {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('$') {
        rest = after.strip_prefix('$').unwrap_or(after);
        let reference = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        if let Some((reference, after)) = reference {
            let source = reference.split_once(":-").map_or(reference, |(source, _)| source);
            names.push(format!("`${{{source}}}`"));
            rest = after;
        }
    }
    names.join(" and ")
}

/// Replaces the references in `text`; `None` if it has none. A variable or file that is unset, missing or
/// empty takes the default. Values are not scanned again: a reference inside of a value stays as it is.
/// Values that are secrets are added to `secrets`.
pub(crate) fn substitute(
    text: &str,
    sources: ReferenceSources<'_>,
    secrets: &mut Vec<String>,
) -> Result<Option<String>, ReferenceError> {
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
            let (reference, after) = after.split_once('}').ok_or(ReferenceError::Unclosed)?;
            let value = resolve(reference, sources)?;
            out.push_str(&value);
            if is_secret(reference, &value) {
                secrets.push(value);
            }
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    Ok(Some(out))
}

/// True for a stored secret, for the content of a file, and for a variable whose name or look shows it to be
/// a secret.
fn is_secret(reference: &str, value: &str) -> bool {
    let name = reference.split_once(":-").map_or(reference, |(name, _)| name);
    name.starts_with(FILE) || name.starts_with(SECRET) || is_secret_name(name) || looks_secret(value)
}

fn resolve(reference: &str, sources: ReferenceSources<'_>) -> Result<String, ReferenceError> {
    let (source, default) = match reference.split_once(":-") {
        Some((source, default)) => (source, Some(default)),
        None => (reference, None),
    };
    let (value, missing) = if let Some(path) = source.strip_prefix(FILE) {
        (content(path, sources.files)?, ReferenceError::Missing(path.to_owned()))
    } else if let Some(name) = source.strip_prefix(SECRET).filter(|name| is_variable_name(name)) {
        let value = (sources.secrets)(name).map_err(ReferenceError::Secrets)?;
        (value, ReferenceError::NoSecret(name.to_owned()))
    } else if is_variable_name(source) {
        ((sources.variables)(source), ReferenceError::Unset(source.to_owned()))
    } else {
        return Err(ReferenceError::Malformed(reference.to_owned()));
    };
    match (value, default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(missing),
    }
}

/// Returns the content of a file without the line breaks at its end, which editors and `echo` add.
fn content(path: &str, files: Files<'_>) -> Result<Option<String>, ReferenceError> {
    if !path.starts_with('/') {
        return Err(ReferenceError::Relative(path.to_owned()));
    }
    let unreadable = |reason| ReferenceError::Unreadable { path: path.to_owned(), reason };
    let Some(mut content) = files(path).map_err(unreadable)? else { return Ok(None) };
    if content.len() > MAX_FILE_BYTES {
        return Err(ReferenceError::TooLarge { path: path.to_owned() });
    }
    content.truncate(content.trim_end_matches(['\r', '\n']).len());
    Ok(Some(content))
}

/// Returns true if `name` can be the name of an environment variable.
pub fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(text: &str) -> Result<Option<String>, ReferenceError> {
        let variables = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${A}".to_owned()),
            _ => None,
        };
        let files = |path: &str| match path {
            "/run/token" => Ok(Some("t0ken\r\n\n".to_owned())),
            "/run/empty" => Ok(Some("\n".to_owned())),
            "/run/nested" => Ok(Some("${A}".to_owned())),
            "/run/large" => Ok(Some("x".repeat(MAX_FILE_BYTES + 1))),
            "/run/closed" => Err("permission denied".to_owned()),
            _ => Ok(None),
        };
        let secrets = |name: &str| Ok((name == "TOKEN").then(|| "s3cret".to_owned()));
        let sources =
            ReferenceSources { variables: &variables, settings: &|_| None, files: &files, secrets: &secrets };
        substitute(text, sources, &mut Vec::new())
    }

    #[test]
    fn a_reference_alone_is_a_name_and_what_stands_around_it_is_not_shown() {
        for (text, expected) in [
            ("${file:/run/key}", Some("${file:/run/key}")),
            ("${A:-hunter2}", Some("${A}")),
            ("hunter2${A}", None),
            ("${A}hunter2", None),
            ("${A}hunter2${B}", None),
            ("hunter2", None),
        ] {
            assert_eq!(alone(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn references_are_named_without_defaults() {
        for (text, expected) in [
            ("Bearer ${TOK}", "`${TOK}`"),
            ("$${NO} ${A:-hunter2}:${file:/run/key}$", "`${A}` and `${file:/run/key}`"),
            ("$$", ""),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
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
            ("Bearer ${file:/run/token}", "Bearer t0ken"),
            ("${file:/run/none:-x:-y}", "x:-y"),
            ("${file:/run/empty:-x}${file:/run/empty}", "x"),
            ("${file:/run/nested}", "${A}"),
            ("$${file:/run/token}", "${file:/run/token}"),
            ("Bearer ${secret:TOKEN}", "Bearer s3cret"),
            ("${secret:OTHER:-none}", "none"),
        ] {
            assert_eq!(run(text), Ok(Some(expected.to_owned())), "{text}");
        }
        assert_eq!(run("plain $HOME"), Ok(None));
    }

    #[test]
    fn mistakes_name_the_variable_or_the_file() {
        assert_eq!(run("${B}"), Err(ReferenceError::Unset("B".to_owned())));
        assert_eq!(run("${A"), Err(ReferenceError::Unclosed));
        assert_eq!(run("${A-x}"), Err(ReferenceError::Malformed("A-x".to_owned())));
        assert_eq!(run("${}"), Err(ReferenceError::Malformed(String::new())));
        assert_eq!(run("${secret:OTHER}"), Err(ReferenceError::NoSecret("OTHER".to_owned())));
        assert_eq!(run("${secret:a b}"), Err(ReferenceError::Malformed("secret:a b".to_owned())));
        assert_eq!(run("${file:/run/none}"), Err(ReferenceError::Missing("/run/none".to_owned())));
        assert_eq!(run("${file:token:-x}"), Err(ReferenceError::Relative("token".to_owned())));
        assert_eq!(
            run("${file:/run/large:-x}"),
            Err(ReferenceError::TooLarge { path: "/run/large".to_owned() })
        );
        let error = run("${file:/run/closed:-x}").unwrap_err();
        assert_eq!(error.to_string(), "the file `/run/closed` cannot be read: permission denied");
    }

    proptest! {
        #[test]
        fn what_is_escaped_comes_back(text in ".*") {
            let escaped = text.replace('$', "$$");
            prop_assert_eq!(run(&escaped).unwrap().unwrap_or_else(|| text.clone()), text);
        }
    }
}
