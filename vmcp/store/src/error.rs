//! Why the store could not answer.

use std::io;
use std::path::PathBuf;

/// Why the store could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or the file cannot be created or written. Nothing is cached across restarts until that changes.
    #[error(
        "cannot write the cache in {}: {reason}; set optimizer.storage.dir to a folder this user may write, or mount one there",
        dir.display()
    )]
    Unwritable {
        /// The storage folder.
        dir: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The file turned out to be damaged while in use; the next start replaces it.
    #[error("the cache is damaged and will be made anew at the next start: {0}")]
    Damaged(rusqlite::Error),
    /// Another process kept the file locked for longer than the busy timeout.
    #[error("the cache is locked by another process")]
    Busy,
    /// Anything else SQLite reports (disk full, I/O).
    #[error("the cache failed: {0}")]
    Sqlite(rusqlite::Error),
}

impl StoreError {
    /// A short stable name: metric label and condition reason.
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
