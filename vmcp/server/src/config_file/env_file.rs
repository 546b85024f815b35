//! `.env` files: `NAME=value` lines beside the configuration file.

mod parser;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use vmcp_config::Secret;

pub(crate) use self::parser::{EnvFile, parse};
use super::file_content::FileContent;
use super::secret_store::{private, write_private};

/// Name of the file beside `vmcp.yaml`.
pub const NAME: &str = ".env";

/// Largest `.env` file, 1 MiB; none of the variables of a larger one is set.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a `.env` file; `None` if it does not exist. UTF-16 of Windows is decoded; bytes that are not text
/// become replacement characters, by which [`parse`] knows the lines.
pub(crate) fn read(path: &Path) -> FileContent {
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(metadata) if !metadata.is_file() => return Err("it is not a regular file".to_owned()),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let opened = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
        Ok(_) if bytes.len() as u64 > MAX_BYTES => Err(format!("it is larger than {} MiB", MAX_BYTES >> 20)),
        Ok(_) => Ok(Some(decode(&bytes))),
    }
}

/// Decodes UTF-8, or the UTF-16 that PowerShell writes, with its byte order mark.
pub(crate) fn decode(bytes: &[u8]) -> String {
    let units = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.as_chunks().0.iter().map(|pair| unit(*pair)).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => units(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => units(rest, u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// True for a file of UTF-16, to which no UTF-8 can be appended.
fn is_utf16(path: &Path) -> io::Result<bool> {
    let mut mark = [0; 2];
    match File::open(path).and_then(|mut file| file.read_exact(&mut mark)) {
        Ok(()) => Ok(matches!(mark, [0xff, 0xfe] | [0xfe, 0xff])),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Treatment of a variable that a `.env` file has with another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherValue {
    /// The file's value stays.
    Stays,
    /// The new value takes its place.
    Replaced,
}

/// Variables to be added to a `.env` file, checked before anything is written.
#[derive(Debug)]
pub struct Addition {
    path: PathBuf,
    /// Lines to append.
    text: String,
    /// The file's other lines, if some have to leave it.
    kept: Option<String>,
    /// Names of variables that the file has with another value.
    pub differ: Vec<String>,
}

impl Addition {
    /// Checks that the variables can be added to the file at `path`, and would be read back as they are, as
    /// would all others.
    pub fn prepare(
        path: &Path,
        variables: &BTreeMap<String, Secret>,
        other_value: OtherValue,
    ) -> io::Result<Addition> {
        let before = read(path).map_err(io::Error::other)?.unwrap_or_default();
        if is_utf16(path)? {
            return Err(io::Error::other("it is UTF-16; save it as UTF-8 first"));
        }
        let present: BTreeMap<_, _> = parse(&before).variables.into_iter().collect();
        let differs =
            |(name, value): &(&String, &Secret)| present.get(*name).is_some_and(|old| old != value.expose());
        let differ: Vec<String> = variables.iter().filter(differs).map(|(name, _)| name.clone()).collect();
        let replaces = other_value == OtherValue::Replaced && !differ.is_empty();
        let kept = replaces.then(|| removed(&before, &differ)).transpose()?;
        let base = kept.as_ref().unwrap_or(&before);
        let mut text = String::new();
        if !base.is_empty() && !base.ends_with('\n') {
            text.push('\n');
        }
        let is_written = |name: &String| !present.contains_key(name) || (replaces && differ.contains(name));
        for (name, value) in variables.iter().filter(|(name, _)| is_written(name)) {
            text.push_str(&entry(name, value.expose()));
        }
        if (base.len() + text.len()) as u64 > MAX_BYTES {
            return Err(io::Error::other(format!("it would be larger than {} MiB", MAX_BYTES >> 20)));
        }
        let after: BTreeMap<_, _> = parse(&format!("{base}{text}")).variables.into_iter().collect();
        let wanted = variables.iter().map(|(name, value)| (name, value.expose()));
        let wanted = wanted.filter(|(name, _)| is_written(name));
        let stays = |name: &&String| !variables.contains_key(*name) || !is_written(name);
        let others =
            present.iter().filter(|(name, _)| stays(name)).map(|(name, value)| (name, value.as_str()));
        let lost =
            wanted.chain(others).find(|(name, value)| after.get(*name).map(String::as_str) != Some(*value));
        if let Some((name, _)) = lost {
            let reason = format!("{name} cannot be added: close the open quotes in the file first");
            return Err(io::Error::other(reason));
        }
        // A file that cannot be written is noticed now; a missing file is not created yet.
        if path.exists() {
            OpenOptions::new().append(true).open(path)?;
        }
        Ok(Addition { path: path.to_owned(), text, kept, differ })
    }

    /// Writes the variables; a new file is readable by its owner only.
    pub fn write(&self) -> io::Result<()> {
        if let Some(kept) = &self.kept {
            // A link stays a link: the file behind it is replaced.
            return write_private(&self.path.canonicalize()?, &format!("{kept}{}", self.text));
        }
        let mut file = private(OpenOptions::new().append(true).create(true)).open(&self.path)?;
        let length = file.metadata()?.len();
        let written = file.write_all(self.text.as_bytes()).and_then(|()| file.sync_all());
        if written.is_err() {
            // A full disk leaves a part of the lines.
            let _ = file.set_len(length);
        }
        written
    }
}

/// Refuses to write a text back whose file has bytes that are not UTF-8: the text has lost them.
fn refuse_lost_bytes(text: &str) -> io::Result<()> {
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(io::Error::other("it has bytes that are not UTF-8; edit it by hand"));
    }
    Ok(())
}

/// Returns the text of a `.env` file without the lines of these variables, which [`parse`] reads alike.
fn without(text: &str, variables: &[String]) -> String {
    let is_of = |line: &&str| {
        let Some((assigned, _)) = line.split_once('=') else { return false };
        let assigned = assigned.trim();
        let name = match assigned.strip_prefix("export") {
            Some(name) if name.starts_with([' ', '\t']) => name.trim_start(),
            _ => assigned,
        };
        variables.iter().any(|variable| variable == name)
    };
    // The byte order mark of a Windows editor stays.
    let (mark, lines) = text.strip_prefix('\u{feff}').map_or(("", text), |lines| ("\u{feff}", lines));
    std::iter::once(mark).chain(lines.split_inclusive('\n').filter(|line| !is_of(line))).collect()
}

/// Returns a text without these variables, all others being the same. Fails over a value of several lines,
/// and over bytes that are not UTF-8.
fn removed(before: &str, names: &[String]) -> io::Result<String> {
    refuse_lost_bytes(before)?;
    let kept = without(before, names);
    let mut expected: BTreeMap<_, _> = parse(before).variables.into_iter().collect();
    expected.retain(|name, _| !names.contains(name));
    let after: BTreeMap<_, _> = parse(&kept).variables.into_iter().collect();
    if after != expected {
        return Err(io::Error::other("a value of several lines is to be removed; edit the file by hand"));
    }
    Ok(kept)
}

/// Removes variables from the file at `path`. The error leaves the file as it was: a value of several lines
/// cannot be removed, and a file with bytes that are not UTF-8 stays.
pub(crate) fn remove_variables(path: &Path, names: &[String]) -> io::Result<()> {
    let before = read(path).map_err(io::Error::other)?.unwrap_or_default();
    if is_utf16(path)? {
        return Err(io::Error::other("it is UTF-16; save it as UTF-8 first"));
    }
    write_private(&path.canonicalize()?, &removed(&before, names)?)
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
            '\r' => quoted.push_str("\\r"),
            '\\' | '"' | '$' => quoted.extend(['\\', c]),
            other => quoted.push(other),
        }
    }
    format!("{name}=\"{quoted}\"\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variables(of: &[(&str, &str)]) -> BTreeMap<String, Secret> {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
    }

    #[test]
    fn every_value_comes_back() {
        for value in
            ["x", "", "a b", "p$w\"\\'#`", "${HOME}", "two\nlines", "é\t", "x\r\n", "\\n", "a # b", "'"]
        {
            let expected = vec![("A".to_owned(), value.to_owned())];
            assert_eq!(parse(&entry("A", value)).variables, expected, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_value_comes_back_behind_any_line(line in "[^\u{fffd}\0]*", value in "[^\u{fffd}\0]*") {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(NAME);
            std::fs::write(&path, &line).unwrap();
            if let Ok(addition) = Addition::prepare(&path, &variables(&[("ADDED_BY_TEST", &value)]), OtherValue::Stays) {
                addition.write().unwrap();
                let read = parse(&read(&path).unwrap().unwrap()).variables;
                prop_assert!(read.contains(&("ADDED_BY_TEST".to_owned(), value)));
            }
        }
    }

    #[test]
    fn a_value_is_replaced_where_that_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        std::fs::write(&path, "# mine\nA=old\nexport B = old\nC=c\nA=older").unwrap();
        let wanted = variables(&[("A", "new"), ("B", "new")]);
        let addition = Addition::prepare(&path, &wanted, OtherValue::Replaced).unwrap();
        assert_eq!(addition.differ, ["A", "B"]);
        addition.write().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\nC=c\nA=new\nB=new\n");
        remove_variables(&path, &["A".to_owned()]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# mine\nC=c\nB=new\n");
    }

    #[test]
    fn a_value_of_several_lines_is_never_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let text = "A=\"one\nB=two\"\nC=c\n";
        std::fs::write(&path, text).unwrap();
        let replaced = Addition::prepare(&path, &variables(&[("A", "new")]), OtherValue::Replaced);
        assert!(replaced.is_err() && remove_variables(&path, &["A".to_owned()]).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_never_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let bytes = b"A=old\nB=caf\xe9\n";
        std::fs::write(&path, bytes).unwrap();
        let replaced = Addition::prepare(&path, &variables(&[("A", "new")]), OtherValue::Replaced);
        assert!(replaced.is_err() && remove_variables(&path, &["A".to_owned()]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let added = Addition::prepare(&path, &variables(&[("C", "c")]), OtherValue::Replaced).unwrap();
        added.write().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"A=old\nB=caf\xe9\nC=c\n");
    }

    #[test]
    fn lines_are_removed_as_they_are_read() {
        let text = "\u{feff}A=a\nexport\tB=b\nexport  A = c\nexportA=d\n\u{feff}A=e\n";
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(without(text, &names(&["A", "B"])), "\u{feff}exportA=d\n\u{feff}A=e\n");
        assert_eq!(without("B=b\n", &names(&["A"])), "B=b\n");
    }

    #[test]
    fn variables_are_added_once_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        std::fs::write(&path, "A=own\nodd line\nX=it's # fine").unwrap();
        for _ in 0..2 {
            let wanted = variables(&[("A", "other"), ("B", "b c")]);
            let addition = Addition::prepare(&path, &wanted, OtherValue::Stays).unwrap();
            assert_eq!(addition.differ, ["A"]);
            addition.write().unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "A=own\nodd line\nX=it's # fine\nB=\"b c\"\n");
    }

    #[test]
    fn nothing_is_written_to_a_file_that_would_not_give_it_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let utf16 = b"\xff\xfeA\0=\0b\0\n\0";
        // The quotation marks of the new line would end the open value.
        let open = b"A=\"one\nB2=\"";
        for before in [&utf16[..], &open[..]] {
            std::fs::write(&path, before).unwrap();
            let prepared = Addition::prepare(&path, &variables(&[("B", "#")]), OtherValue::Stays);
            if let Ok(addition) = prepared {
                addition.write().unwrap();
                let after = parse(&read(&path).unwrap().unwrap()).variables;
                assert!(after.contains(&("B".to_owned(), "#".to_owned())), "{before:?}");
            } else {
                assert_eq!(std::fs::read(&path).unwrap(), before);
            }
        }
        std::fs::write(&path, utf16).unwrap();
        Addition::prepare(&path, &variables(&[("B", "b")]), OtherValue::Stays).unwrap_err();
        assert!(Addition::prepare(dir.path(), &variables(&[("B", "b")]), OtherValue::Stays).is_err());
    }

    #[test]
    fn files_of_windows_and_odd_bytes_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let utf16: Vec<u8> = "\u{feff}A=é\r\nB=b\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        std::fs::write(&path, utf16).unwrap();
        let file = parse(&read(&path).unwrap().unwrap());
        assert_eq!(file.variables, [("A", "é"), ("B", "b")].map(|(n, v)| (n.to_owned(), v.to_owned())));
        std::fs::write(&path, b"A=\xe9\nB=b\n").unwrap();
        let file = parse(&read(&path).unwrap().unwrap());
        assert_eq!(file.variables, [("B".to_owned(), "b".to_owned())]);
        assert_eq!(file.unreadable[0].line, 1);
    }
}
