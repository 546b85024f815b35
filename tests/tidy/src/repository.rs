//! The files under version control, as text.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why the repository cannot be read.
#[derive(Debug)]
pub enum RepositoryError {
    /// `git` could not be run, or a file could not be read.
    Io(io::Error),
    /// `git ls-files` failed; the text is its message.
    Git(String),
}

impl From<io::Error> for RepositoryError {
    fn from(error: io::Error) -> RepositoryError {
        RepositoryError::Io(error)
    }
}

/// A file under version control.
#[derive(Debug)]
pub struct SourceFile {
    /// Path relative to the root, with `/` between its parts.
    pub path: String,
    /// Its content; empty for a file that is not UTF-8.
    pub text: String,
}

impl SourceFile {
    /// True if the file's name ends in one of `endings`.
    pub fn ends_in(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.path.ends_with(ending))
    }
}

/// A checkout of this repository.
#[derive(Debug)]
pub struct Repository {
    /// Folder of the checkout.
    pub root: PathBuf,
    /// Files under version control and new ones that git does not ignore.
    pub files: Vec<SourceFile>,
}

impl Repository {
    /// Reads the checkout at `root`.
    pub fn open(root: &Path) -> Result<Repository, RepositoryError> {
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()?;
        if !listed.status.success() {
            return Err(RepositoryError::Git(String::from_utf8_lossy(&listed.stderr).into_owned()));
        }
        let mut files = Vec::new();
        for path in String::from_utf8_lossy(&listed.stdout).lines() {
            let file = root.join(path);
            if file.is_file() {
                let text = String::from_utf8(std::fs::read(file)?).unwrap_or_default();
                files.push(SourceFile { path: path.to_owned(), text });
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(Repository { root: root.to_owned(), files })
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.ends_in(&[".rs"]))
    }
}
