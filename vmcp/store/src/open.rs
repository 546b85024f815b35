//! Opens the database file: permissions, settings, a check for damage, and the replacement of a file that
//! cannot be used.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

use crate::error::StoreError;
use crate::schema::Layout;

/// Time that a writer waits for another process to finish its transaction; then [`StoreError::Busy`].
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a start waits for another process to open the database; then it goes on without the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which the lock is tried again.
const LOCK_POLL: Duration = Duration::from_millis(10);
/// Suffix of an unusable file, which is kept for inspection; a later one replaces it.
const UNUSABLE_SUFFIX: &str = ".unusable";
/// Suffixes of SQLite's files beside the database: write-ahead log and shared memory.
const COMPANION_SUFFIXES: [&str; 2] = ["-wal", "-shm"];

/// Opens the database in `dir`. Processes that start together open it one after another, under a file lock;
/// without it one could move aside the file that another just made.
pub(crate) fn open(dir: &Path, layout: &Layout) -> Result<Connection, StoreError> {
    let unwritable = |reason| StoreError::Unwritable { dir: dir.to_owned(), reason };
    create_private_dir(dir).map_err(unwritable)?;
    let lock = create_private_file(&dir.join(layout.lock_name)).map_err(unwritable)?;
    lock_within(&lock, LOCK_TIMEOUT).map_err(unwritable)?;

    let path = dir.join(layout.file_name);
    let reason = match open_checked(&path, layout) {
        Ok(connection) => return Ok(connection),
        Err(OpenFailure::Unusable(reason)) => reason,
        Err(OpenFailure::Failed(error)) => return Err(as_unwritable(error, dir)),
    };
    tracing::warn!(path = %path.display(), reason, "the database cannot be used; it is moved aside and a new one is created");
    move_aside(&path).map_err(unwritable)?;
    open_checked(&path, layout).map_err(|failure| match failure {
        OpenFailure::Failed(error) => as_unwritable(error, dir),
        OpenFailure::Unusable(reason) => unwritable(io::Error::other(reason)),
    })
}

/// Locks a file, or fails after `patience`: a start must not hang because another process does.
fn lock_within(file: &File, patience: Duration) -> io::Result<()> {
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if since.elapsed() < patience => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the store blocks: it runs on blocking threads"
                )]
                std::thread::sleep(LOCK_POLL);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A file that was not opened.
enum OpenFailure {
    /// The file is damaged or of another version; a new file in its place would work.
    Unusable(String),
    /// The file could not be reached; a new one would fare no better.
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

/// Tells a file of another program, which fails a migration, from an unreachable file.
fn of_migration(error: StoreError) -> OpenFailure {
    match &error {
        StoreError::Sqlite(reason) if reason.sqlite_error_code() == Some(ErrorCode::Unknown) => {
            OpenFailure::Unusable(error.to_string())
        }
        _ => error.into(),
    }
}

/// Opens one file, checks it for damage and brings its tables up to date.
fn open_checked(path: &Path, layout: &Layout) -> Result<Connection, OpenFailure> {
    let unwritable = |reason| {
        let dir = path.parent().unwrap_or(path).to_owned();
        OpenFailure::Failed(StoreError::Unwritable { dir, reason })
    };
    let is_empty = create_private_database(path).map_err(unwritable)?;
    let mut connection = Connection::open(path)?;
    // SQLite opens a file that it may not write for reading.
    if connection.is_readonly("main")? {
        return Err(unwritable(io::ErrorKind::PermissionDenied.into()));
    }
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // If a power cut takes the tables of a new file, the next start makes them again. A start must not wait
    // for the ten syncs of their creation, which take up to 10 ms each.
    connection.pragma_update(None, "synchronous", if is_empty { "off" } else { "normal" })?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "temp_store", "memory")?;
    // A damaged page is found now, while the file can still be replaced, and not in the middle of a request.
    let verdict: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
    if verdict != "ok" {
        return Err(OpenFailure::Unusable(verdict));
    }
    if !layout.migrate(&mut connection).map_err(of_migration)? {
        return Err(OpenFailure::Unusable("written by a newer version of vmcp".to_owned()));
    }
    // The tables of a new file were made just now.
    if !is_empty && let Err(error) = layout.check(&connection) {
        return Err(OpenFailure::Unusable(error.to_string()));
    }
    // A power cut may lose the last transactions but not the file: right for a cache and for counts, and much
    // cheaper.
    connection.pragma_update(None, "synchronous", "normal")?;
    Ok(connection)
}

/// Reports SQLite's errors about a read-only or unreachable file as [`StoreError::Unwritable`], which names
/// the remedy.
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

/// Renames an unusable file and deletes its companions, which a new database must not find.
fn move_aside(path: &Path) -> io::Result<()> {
    for companion in COMPANION_SUFFIXES {
        match fs::remove_file(with_suffix(path, companion)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, with_suffix(path, UNUSABLE_SUFFIX))
}

/// Appends `suffix` to the file name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Creates the folder with mode 0700. An existing folder keeps its mode: it may be a mount of another owner.
fn create_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Creates the file of a database, if it is missing, before SQLite opens it: SQLite gives its companion files
/// the mode of the database. Returns true for a file without content.
///
/// An existing file is never opened here. POSIX locks belong to the process and the file: to close any
/// descriptor of the file would drop the locks of all its connections. Another process would then take itself
/// for the last user and delete the write-ahead log.
fn create_private_database(path: &Path) -> io::Result<bool> {
    // A link to a missing file counts as missing.
    if !path.try_exists()? {
        create_private_file(path)?;
        return Ok(true);
    }
    restrict_mode(path)?;
    Ok(fs::metadata(path)?.len() == 0)
}

/// Opens or creates a file with mode 0600.
fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    restrict_mode(path)?;
    Ok(file)
}

/// Takes access from others if they have it. The target of a symbolic link keeps its mode: it may be
/// anything.
#[cfg(unix)]
fn restrict_mode(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_symlink() && metadata.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// Does nothing where files have no mode.
#[cfg(not(unix))]
fn restrict_mode(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{CACHE, STATE};
    use crate::{FILE_NAME, STATE_FILE_NAME};

    #[test]
    fn a_lock_that_is_held_ends_the_wait() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("embeddings.lock");
        let (held, other) = (create_private_file(&path).unwrap(), create_private_file(&path).unwrap());
        held.lock().unwrap();
        assert!(lock_within(&other, Duration::from_millis(30)).is_err());
        drop(held);
        lock_within(&other, Duration::from_secs(1)).unwrap();
    }

    #[test]
    fn tables_of_another_program_are_moved_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE other (a); PRAGMA user_version = 1").unwrap();
        drop(connection);
        open(dir.path(), &CACHE).unwrap();
        assert!(with_suffix(&path, UNUSABLE_SUFFIX).is_file());
    }

    /// Returns true if this process holds a POSIX lock on the file.
    #[cfg(target_os = "linux")]
    fn is_locked_by_this_process(path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let (process, inode) =
            (std::process::id().to_string(), format!(":{}", path.metadata().unwrap().ino()));
        let locks = fs::read_to_string("/proc/locks").unwrap();
        // `1: POSIX  ADVISORY  READ 4711 fe:00:1234 1073741826 1073742335`
        locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
            fields.get(4) == Some(&process.as_str())
                && fields.get(5).is_some_and(|file| file.ends_with(&inode))
        })
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_second_connection_keeps_the_locks_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(STATE_FILE_NAME);
        let first = open(dir.path(), &STATE).unwrap();
        assert!(is_locked_by_this_process(&path));
        let second = open(dir.path(), &STATE).unwrap();
        assert!(is_locked_by_this_process(&path));
        drop((first, second));
        assert!(!is_locked_by_this_process(&path));
    }

    #[test]
    fn a_file_of_this_version_is_opened_and_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let log = with_suffix(&dir.path().join(STATE_FILE_NAME), "-wal");
        let created = open(dir.path(), &STATE).unwrap();
        assert_ne!(log.metadata().unwrap().len(), 0);
        drop(created);
        let _opened = open(dir.path(), &STATE).unwrap();
        assert_eq!(log.metadata().unwrap().len(), 0);
    }

    #[test]
    fn a_new_file_is_synced_as_an_existing_one_from_then_on() {
        let dir = tempfile::tempdir().unwrap();
        for _ in ["new", "existing"] {
            let connection = open(dir.path(), &STATE).unwrap();
            let level: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
            assert_eq!(level, 1, "normal");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_missing_file_gets_a_private_one() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        symlink(&target, dir.path().join(FILE_NAME)).unwrap();
        open(dir.path(), &CACHE).unwrap();
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn the_target_of_a_link_keeps_its_mode() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        fs::write(&target, "").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o644)).unwrap();
        symlink(&target, dir.path().join(FILE_NAME)).unwrap();
        open(dir.path(), &CACHE).unwrap();
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    }
}
