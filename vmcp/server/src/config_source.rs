//! Reads a configuration file and the files that it refers to, and remembers what it read.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use vmcp_config::{Loaded, MAX_FILE_BYTES, Problems};

/// Gives the value of an environment variable.
pub type Variables = fn(&str) -> Option<String>;

/// What is in a file that the configuration refers to.
pub(crate) type Content = Result<Option<String>, String>;

/// Everything outside of the process that a configuration was made of. Two that are equal make the same configuration.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The text of the configuration file.
    pub text: String,
    /// The files that it refers to, by path.
    files: BTreeMap<String, Content>,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The file has mistakes.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// Reads and validates a file.
pub fn load(path: &Path, variables: Variables) -> Result<(Source, Loaded), LoadError> {
    let (source, loaded) = Source::read(path, variables)
        .map_err(|reason| LoadError::Unreadable { path: path.to_owned(), reason })?;
    Ok((source, loaded?))
}

impl Source {
    /// Reads a file and what it refers to; gives the configuration too, or what is wrong with it.
    pub fn read(path: &Path, variables: Variables) -> io::Result<(Source, Result<Loaded, Problems>)> {
        let text = std::fs::read_to_string(path)?;
        let files = RefCell::new(BTreeMap::new());
        let file = |path: &str| {
            let content = content(Path::new(path));
            files.borrow_mut().insert(path.to_owned(), content.clone());
            content
        };
        let loaded = vmcp_config::load_with_files(&text, &path.display().to_string(), &variables, &file);
        Ok((Source { text, files: files.into_inner() }, loaded))
    }

    /// The folders in which something happens when one of the files changes. One that does not exist is announced by the
    /// nearest that does.
    pub fn folders(&self, path: &Path) -> BTreeSet<PathBuf> {
        let files = self.files.keys().map(Path::new);
        files.chain([path]).map(folder).collect()
    }
}

fn folder(file: &Path) -> PathBuf {
    let mut folders = file.ancestors().skip(1).filter(|folder| folder.is_dir());
    folders.next().unwrap_or(Path::new(".")).to_owned()
}

/// Reads no more than a value may have, and waits for nobody: a pipe is no file.
pub(crate) fn content(path: &Path) -> Content {
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match path.metadata() {
        Err(error) if missing(&error) => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(metadata) if !metadata.is_file() => return Err("it is not a regular file".to_owned()),
        Ok(_) => {}
    }
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(Some(text)),
        // It was there a moment ago: a link has been swapped.
        Err(error) if missing(&error) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let error = load(Path::new("/nonexistent/vmcp.yaml"), |_| None).err().unwrap();
        assert!(error.to_string().contains("/nonexistent/vmcp.yaml"), "{error}");
    }

    #[test]
    fn only_regular_files_of_text_are_read_and_no_more_than_a_value_may_have() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            content(&path)
        };
        assert_eq!(file("token", b"abc\n"), Ok(Some("abc\n".to_owned())));
        assert_eq!(content(&dir.path().join("none")), Ok(None));
        assert_eq!(content(dir.path()), Err("it is not a regular file".to_owned()));
        assert!(file("binary", &[0xff]).unwrap_err().contains("UTF-8"));
        let large = file("large", &vec![b'x'; 1 << 20]).unwrap().unwrap();
        assert_eq!(large.len(), MAX_FILE_BYTES + 1, "which is refused");
    }

    #[test]
    fn a_folder_that_is_missing_is_announced_by_the_nearest_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmcp.yaml");
        let text = format!("telemetry: {{ serviceName: '${{file:{}/a/b/name}}' }}", dir.path().display());
        std::fs::write(&path, text).unwrap();
        let folders = |path: &Path| Source::read(path, |_| None).unwrap().0.folders(path);
        assert_eq!(folders(&path), BTreeSet::from([dir.path().to_owned()]));
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        assert_eq!(folders(&path), BTreeSet::from([dir.path().to_owned(), dir.path().join("a/b")]));
    }
}
