//! [`StoreError`]: a database that could not be opened, read or written.

use std::io;
use std::path::PathBuf;

/// A database that could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or the file cannot be created or written. Nothing outlives the process until that is
    /// repaired.
    #[error(
        "cannot write the database in {}: {reason}; set optimizer.storage.dir to a folder this user may write, or mount one there",
        dir.display()
    )]
    Unwritable {
        /// The storage folder, `optimizer.storage.dir`.
        dir: PathBuf,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// The file was found damaged while in use; the next start replaces it.
    #[error("the database is damaged and will be made anew at the next start: {0}")]
    Damaged(rusqlite::Error),
    /// Another process held the lock for longer than the busy timeout of 5 seconds.
    #[error("the database is locked by another process")]
    Busy,
    /// Any other error of SQLite: disk full, I/O.
    #[error("the database failed: {0}")]
    Sqlite(rusqlite::Error),
}

impl StoreError {
    /// Returns a short stable name, used as metric label and as condition reason.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Unwritable { .. } => "unwritable",
            Self::Damaged(_) => "damaged",
            Self::Busy => "busy",
            Self::Sqlite(_) => "sqlite",
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseCorrupt, DatabaseLocked, NotADatabase};
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Self::Damaged(error),
            Some(DatabaseBusy | DatabaseLocked) => Self::Busy,
            _ => Self::Sqlite(error),
        }
    }
}
