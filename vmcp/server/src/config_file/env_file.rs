//! `.env` files: `NAME=value` lines beside the configuration file.

mod parser;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use vmcp_config::Secret;

pub(crate) use self::parser::{EnvFile, parse};
use super::secret_store::private;
use super::source::FileContent;

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
fn decode(bytes: &[u8]) -> String {
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

/// Variables to be added to a `.env` file, checked before anything is written.
#[derive(Debug)]
pub struct Addition {
    path: PathBuf,
    text: String,
    /// Names of variables that the file has with another value, which stays.
    pub differ: Vec<String>,
}

impl Addition {
    /// Checks that the variables can be added to the file at `path`, and would be read back as they are.
    pub fn prepare(path: &Path, variables: &BTreeMap<String, Secret>) -> io::Result<Addition> {
        let before = read(path).map_err(io::Error::other)?.unwrap_or_default();
        if is_utf16(path)? {
            return Err(io::Error::other("it is UTF-16; save it as UTF-8 first"));
        }
        let present: BTreeMap<_, _> = parse(&before).variables.into_iter().collect();
        let mut differ = Vec::new();
        let mut text = String::new();
        if !before.is_empty() && !before.ends_with('\n') {
            text.push('\n');
        }
        for (name, value) in variables {
            match present.get(name) {
                None => text.push_str(&entry(name, value.expose())),
                Some(old) if old != value.expose() => differ.push(name.clone()),
                Some(_) => {}
            }
        }
        if (before.len() + text.len()) as u64 > MAX_BYTES {
            return Err(io::Error::other(format!("it would be larger than {} MiB", MAX_BYTES >> 20)));
        }
        let after: BTreeMap<_, _> = parse(&format!("{before}{text}")).variables.into_iter().collect();
        let lost = variables.iter().find(|(name, value)| {
            !present.contains_key(*name) && after.get(*name).map(String::as_str) != Some(value.expose())
        });
        if let Some((name, _)) = lost {
            let reason = format!("{name} cannot be added: close the open quotes in the file first");
            return Err(io::Error::other(reason));
        }
        // A file that cannot be written is noticed now; a missing file is not created yet.
        if path.exists() {
            OpenOptions::new().append(true).open(path)?;
        }
        Ok(Addition { path: path.to_owned(), text, differ })
    }

    /// Writes the variables; a new file is readable by its owner only.
    pub fn write(&self) -> io::Result<()> {
        let mut file = private(OpenOptions::new().append(true).create(true)).open(&self.path)?;
        file.write_all(self.text.as_bytes())?;
        file.sync_all()
    }
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
            if let Ok(addition) = Addition::prepare(&path, &variables(&[("ADDED_BY_TEST", &value)])) {
                addition.write().unwrap();
                let read = parse(&read(&path).unwrap().unwrap()).variables;
                prop_assert!(read.contains(&("ADDED_BY_TEST".to_owned(), value)));
            }
        }
    }

    #[test]
    fn variables_are_added_once_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        std::fs::write(&path, "A=own\nodd line\nX=it's # fine").unwrap();
        for _ in 0..2 {
            let addition = Addition::prepare(&path, &variables(&[("A", "other"), ("B", "b c")])).unwrap();
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
            let prepared = Addition::prepare(&path, &variables(&[("B", "#")]));
            if let Ok(addition) = prepared {
                addition.write().unwrap();
                let after = parse(&read(&path).unwrap().unwrap()).variables;
                assert!(after.contains(&("B".to_owned(), "#".to_owned())), "{before:?}");
            } else {
                assert_eq!(std::fs::read(&path).unwrap(), before);
            }
        }
        std::fs::write(&path, utf16).unwrap();
        Addition::prepare(&path, &variables(&[("B", "b")])).unwrap_err();
        assert!(Addition::prepare(dir.path(), &variables(&[("B", "b")])).is_err());
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
