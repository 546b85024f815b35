//! SQLite: the regenerable cache of embeddings, schema hashes and definitions (`embeddings.db`).
//!
//! Everything in it can be made again from the backends and the embedding model, so a file that cannot be used is moved
//! aside, never repaired, and callers go on without the cache when it fails. All calls block: wrap them in
//! `spawn_blocking`. Times are milliseconds since the Unix epoch and come from the caller.

mod definitions;
mod error;
mod hashes;
mod open;
mod schema;
mod vectors;

use parking_lot::Mutex;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior};

pub use definitions::SavedDefinitions;
pub use error::StoreError;
pub use hashes::{ChangeKind, RecordedChange, StoredToolHash};
pub use vectors::{ContentKey, ToolVector};

/// The file's name in the storage folder.
pub const FILE_NAME: &str = "embeddings.db";

/// One open database. Shared by reference between threads; several processes may have the same file open.
pub struct Store {
    connection: Mutex<Connection>,
    path: Option<PathBuf>,
}

impl Store {
    /// Opens or creates `embeddings.db` in `dir` (created with mode 0700; the files are 0600, R022-40). A damaged file, or
    /// one of a newer version of vmcp, is renamed to `embeddings.db.unusable` and replaced.
    ///
    /// On [`StoreError::Unwritable`] the caller may go on with [`Store::in_memory`].
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let connection = open::open(dir)?;
        Ok(Self { connection: Mutex::new(connection), path: Some(dir.join(FILE_NAME)) })
    }

    /// A store that ends with the process: `storage: none`, tests, and the way on when the folder cannot be written.
    pub fn in_memory() -> Result<Self, StoreError> {
        let mut connection = Connection::open_in_memory()?;
        schema::migrate(&mut connection)?;
        Ok(Self { connection: Mutex::new(connection), path: None })
    }

    /// The database file; `None` in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        // A panic elsewhere leaves no half-done transaction behind: rusqlite rolls back on drop.
        let connection = self.connection.lock();
        Ok(work(&connection)?)
    }

    /// `work` in one transaction that takes the write lock at once, so that two processes wait instead of failing.
    fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let mut connection = self.connection.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&transaction)?;
        transaction.commit()?;
        Ok(value)
    }
}
