//! `.env` files: `NAME=value` lines beside the configuration file.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use vmcp_config::Secret;

use super::secret_store::private;
use super::source::read_file;

/// Name of the file beside `vmcp.yaml`.
pub const NAME: &str = ".env";

/// Parses the text of a `.env` file. The error names the entry by its number, never its content.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let readable = |(index, entry): (usize, dotenvy::Result<(String, String)>)| {
        entry.map_err(|_| format!("entry {} is not readable as NAME=value", index + 1))
    };
    dotenvy::from_read_iter(text.as_bytes()).enumerate().map(readable).collect()
}

/// Adds variables to the file at `path`, which only its owner can read if it is new. Variables that it has
/// already are left alone; returns those whose value differs.
pub fn add<'a>(path: &Path, variables: &'a BTreeMap<String, Secret>) -> io::Result<Vec<&'a str>> {
    let text = read_file(path).map_err(io::Error::other)?.unwrap_or_default();
    let present: BTreeMap<_, _> = parse(&text).map_err(io::Error::other)?.into_iter().collect();
    let mut differ = Vec::new();
    let mut added = String::new();
    if !text.is_empty() && !text.ends_with('\n') {
        added.push('\n');
    }
    for (name, value) in variables {
        match present.get(name) {
            None => added.push_str(&entry(name, value.expose())),
            Some(old) if old != value.expose() => differ.push(name.as_str()),
            Some(_) => {}
        }
    }
    let mut file = private(OpenOptions::new().append(true).create(true)).open(path)?;
    file.write_all(added.as_bytes())?;
    Ok(differ)
}

/// Returns the line for a variable, quoted where a parser would read it otherwise.
fn entry(name: &str, value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@+=,".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return format!("{name}={value}\n");
    }
    let mut quoted = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\\' | '"' | '$' => quoted.extend(['\\', c]),
            other => quoted.push(other),
        }
    }
    format!("{name}=\"{quoted}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_line_is_counted_and_not_shown() {
        let reason = parse("A=1\nhunter2 is no entry\n").unwrap_err();
        assert_eq!(reason, "entry 2 is not readable as NAME=value");
    }

    #[test]
    fn every_value_comes_back() {
        for value in ["x", "", "a b", "p$w\"\\'#`", "${HOME}", "two\nlines", "é\t"] {
            assert_eq!(parse(&entry("A", value)), Ok(vec![("A".to_owned(), value.to_owned())]), "{value:?}");
        }
    }

    #[test]
    fn variables_are_added_once_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        std::fs::write(&path, "A=own").unwrap();
        let variables: BTreeMap<String, Secret> =
            [("A", "other"), ("B", "b c")].map(|(name, value)| (name.to_owned(), value.into())).into();
        assert_eq!(add(&path, &variables).unwrap(), ["A"]);
        assert_eq!(add(&path, &variables).unwrap(), ["A"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "A=own\nB=\"b c\"\n");
    }
}
