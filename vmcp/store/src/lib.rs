//! The cache on disk: embeddings, schema hashes and saved definitions in one SQLite file, `embeddings.db`.
//!
//! Everything in the file can be made again from the backends and the embedding model. A file that cannot be
//! used is therefore moved aside, never repaired, and callers go on without the cache when it fails. All
//! calls block: run them in `spawn_blocking`. Times are milliseconds since the Unix epoch and come from the
//! caller.
//!
//! ```
//! use vmcp_store::{ContentKey, Store, ToolVector};
//!
//! let store = Store::in_memory()?;
//! let key = ContentKey::new(1, "model", "echo: returns its input");
//! let vector = ToolVector {
//!     key,
//!     backend: "everything",
//!     tool: "echo",
//!     description: "returns its input",
//!     model_id: "model",
//!     vector: &[0.6, 0.8],
//! };
//! store.put_vectors(&[vector], 1_700_000_000_000)?;
//! assert_eq!(store.vectors(&[key])?[&key], [0.6, 0.8]);
//!
//! // Another model, or another text: another key.
//! assert!(store.vectors(&[ContentKey::new(1, "other", "echo: returns its input")])?.is_empty());
//! # Ok::<(), vmcp_store::StoreError>(())
//! ```

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

/// Name of the file in the storage folder.
pub const FILE_NAME: &str = "embeddings.db";

/// One open database. Threads share it by reference; several processes may have the same file open.
pub struct Store {
    connection: Mutex<Connection>,
    path: Option<PathBuf>,
}

impl Store {
    /// Opens or creates `embeddings.db` in `dir`; a new folder gets mode 0700, the files always 0600. A
    /// damaged file, or one of a newer version of vmcp, is renamed to `embeddings.db.unusable` and replaced.
    ///
    /// After [`StoreError::Unwritable`] the caller may go on with [`Store::in_memory`].
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let connection = open::open(dir)?;
        Ok(Self { connection: Mutex::new(connection), path: Some(dir.join(FILE_NAME)) })
    }

    /// Opens a store that lives as long as the process: for `storage: none`, for tests, and for a folder that
    /// cannot be written.
    pub fn in_memory() -> Result<Self, StoreError> {
        let mut connection = Connection::open_in_memory()?;
        schema::migrate(&mut connection)?;
        Ok(Self { connection: Mutex::new(connection), path: None })
    }

    /// Returns the path of the database file; `None` in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Runs `work` outside of a transaction.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        // The lock is not poisoned by a panic, and no half-done transaction is left: rusqlite rolls back on
        // drop.
        let connection = self.connection.lock();
        Ok(work(&connection)?)
    }

    /// Runs `work` in one transaction. It takes the write lock at once (`BEGIN IMMEDIATE`), so that a second
    /// process waits for it; a read lock upgraded later would fail with `SQLITE_BUSY`.
    fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let mut connection = self.connection.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&transaction)?;
        transaction.commit()?;
        Ok(value)
    }
}
