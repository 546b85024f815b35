//! Secrets stored by `vmcp secret`: one JSON object in a file that only its owner can read (mode 0600), with
//! the values, or with the names of those in the keyring.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use vmcp_engine::folders;

/// Place of a stored secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StoredSecret {
    /// In the file itself.
    InFile(String),
    /// In the keyring.
    InKeyring {
        /// Time of storing, in milliseconds since 1970: the file changes with the value, so that running
        /// servers notice.
        keyring: u64,
    },
}

/// Stored secrets, by name.
pub type StoredSecrets = BTreeMap<String, StoredSecret>;

/// Returns the path of the store: `$XDG_CONFIG_HOME/vmcp/secrets.json`, or `~/.config/vmcp/secrets.json`;
/// `None` without a home directory.
pub fn path() -> Option<PathBuf> {
    Some(folders::config_dir()?.join("secrets.json"))
}

/// Parses the text of the store; an empty text holds no secrets.
pub(crate) fn parse(text: &str) -> Result<StoredSecrets, String> {
    if text.trim().is_empty() {
        return Ok(StoredSecrets::new());
    }
    // The parser's own words would quote what it found.
    serde_json::from_str(text).map_err(|_| "not a JSON object of strings".to_owned())
}

/// Reads the store at `path`; none is an empty one.
pub fn read(path: &Path) -> Result<StoredSecrets, String> {
    let text = super::file_content::read_file(path)?;
    parse(&text.unwrap_or_default())
}

/// Replaces the store at `path` by a rename, so that a reader never sees half of it.
pub fn write(path: &Path, secrets: &StoredSecrets) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    write_private(path, &serde_json::to_string_pretty(secrets)?)
}

/// Replaces a file by a file that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    // A name for each process: two that write at once must not take each other's file.
    let next = path.with_extension(format!("{}.new", std::process::id()));
    // A file left behind by a killed process may have another mode.
    let _ = std::fs::remove_file(&next);
    let file = private(OpenOptions::new().write(true).create_new(true)).open(&next)?;
    let written = write_synced(file, text).and_then(|()| std::fs::rename(&next, path));
    if written.is_err() {
        // A full disk leaves a part of the file.
        let _ = std::fs::remove_file(&next);
    }
    written
}

fn write_synced(mut file: File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// As [`write_private`], for a file of a person: a link stays a link, and a file that may not be written is
/// refused, although its folder would allow a new one in its place.
pub(crate) fn replace_private(path: &Path, text: &str) -> io::Result<()> {
    if is_read_only(path) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
    }
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    write_private(&target, text)
}

/// True for a file whose mode allows writing to no account.
pub(crate) fn is_read_only(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.permissions().readonly())
}

/// Lets a new file be read by its owner only.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Creates a folder, and those above it, for its owner alone. An existing folder keeps its mode.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_store_is_readable_by_its_owner_only_and_comes_back() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmcp/secrets.json");
        assert_eq!(read(&path), Ok(StoredSecrets::new()));
        for value in ["one", "two"] {
            let secrets = StoredSecrets::from([
                ("TOKEN".to_owned(), StoredSecret::InFile(value.to_owned())),
                ("OTHER".to_owned(), StoredSecret::InKeyring { keyring: 1 }),
            ]);
            write(&path, &secrets).unwrap();
            assert_eq!(read(&path), Ok(secrets));
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_read_only_file_and_a_failed_write_leave_everything_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp.json");
        std::fs::write(&path, "before").unwrap();
        let mut permissions = path.metadata().unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&path, permissions).unwrap();
        assert_eq!(replace_private(&path, "after").unwrap_err().to_string(), "the file is read-only");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        // A folder cannot be replaced by a file.
        let folder = dir.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        assert!(write_private(&folder, "text").is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no part is left");
    }

    #[test]
    fn a_damaged_store_is_refused_without_a_word_of_it() {
        assert_eq!(parse("{\"A\": hunter2}"), Err("not a JSON object of strings".to_owned()));
    }
}
