//! Opening the file: permissions, settings, and what to do with one that cannot be used.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::{FILE_NAME, StoreError, schema};

/// How long a writer waits for another process to finish its transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// A file that could not be used is kept under this suffix, one at most, for whoever wants to know why.
const UNUSABLE_SUFFIX: &str = ".unusable";
/// What SQLite puts beside the file.
const COMPANION_SUFFIXES: [&str; 2] = ["-wal", "-shm"];

/// Opens the database in `dir`. Processes that start together do this one after another: else one could move aside
/// the file that another has just made.
pub(crate) fn open(dir: &Path) -> Result<Connection, StoreError> {
    let unwritable = |reason| StoreError::Unwritable { dir: dir.to_owned(), reason };
    create_private_dir(dir).map_err(unwritable)?;
    let lock = create_private_file(&dir.join("embeddings.lock")).map_err(unwritable)?;
    lock.lock().map_err(unwritable)?;

    let path = dir.join(FILE_NAME);
    let reason = match open_checked(&path) {
        Ok(connection) => return Ok(connection),
        Err(OpenFailure::Unusable(reason)) => reason,
        Err(OpenFailure::Failed(error)) => return Err(as_unwritable(error, dir)),
    };
    tracing::warn!(path = %path.display(), reason, "the cache cannot be used; it is moved aside and made anew");
    move_aside(&path).map_err(unwritable)?;
    open_checked(&path).map_err(|failure| match failure {
        OpenFailure::Failed(error) => as_unwritable(error, dir),
        OpenFailure::Unusable(reason) => unwritable(io::Error::other(reason)),
    })
}

/// Why a file was not opened.
enum OpenFailure {
    /// It is no database of ours; another one would do.
    Unusable(String),
    /// Another file would fare no better.
    Failed(StoreError),
}

impl From<StoreError> for OpenFailure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged(error) => Self::Unusable(error.to_string()),
            error => Self::Failed(error),
        }
    }
}

impl From<rusqlite::Error> for OpenFailure {
    fn from(error: rusqlite::Error) -> Self {
        StoreError::from(error).into()
    }
}

fn open_checked(path: &Path) -> Result<Connection, OpenFailure> {
    // Made before SQLite opens it, because SQLite gives its companions the mode of the file itself.
    create_private_file(path).map_err(|reason| {
        let dir = path.parent().unwrap_or(path).to_owned();
        OpenFailure::Failed(StoreError::Unwritable { dir, reason })
    })?;
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // After a power cut the last transactions may be gone, the file is not damaged: right for a cache.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "temp_store", "memory")?;
    let verdict: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
    if verdict != "ok" {
        return Err(OpenFailure::Unusable(verdict));
    }
    if !schema::migrate(&mut connection)? {
        return Err(OpenFailure::Unusable("written by a newer version of vmcp".to_owned()));
    }
    Ok(connection)
}

/// A read-only file system or file shows as an error of SQLite's; to the user it is the same as any unwritable folder.
fn as_unwritable(error: StoreError, dir: &Path) -> StoreError {
    let code = match &error {
        StoreError::Sqlite(error) => error.sqlite_error_code(),
        _ => None,
    };
    match (code, error) {
        (
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied),
            StoreError::Sqlite(error),
        ) => StoreError::Unwritable { dir: dir.to_owned(), reason: io::Error::other(error) },
        (_, error) => error,
    }
}

fn move_aside(path: &Path) -> io::Result<()> {
    for companion in COMPANION_SUFFIXES {
        match fs::remove_file(with_suffix(path, companion)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, with_suffix(path, UNUSABLE_SUFFIX))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A folder that exists keeps its mode: it may be a mount that is not ours to change.
fn create_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o077 != 0 {
        file.set_permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600))?;
    }
    Ok(file)
}
