//! [`Store`]: the cache, `embeddings.db`.

use std::path::Path;

use rusqlite::{Connection, Transaction};

use crate::database::Database;
use crate::error::StoreError;
use crate::schema;

/// The open cache. Threads share it by reference; several processes may have the same file open.
pub struct Store(Database);

impl Store {
    /// Opens or creates `embeddings.db` in `dir`; a new folder gets mode 0700, the files always 0600. A
    /// damaged file, or one of a newer version of vmcp, is renamed to `embeddings.db.unusable` and replaced.
    ///
    /// After [`StoreError::Unwritable`] the caller may go on with [`Store::in_memory`].
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Database::open(dir, &schema::CACHE).map(Self)
    }

    /// Opens a store that lives as long as the process: for `storage: none`, for tests, and for a folder that
    /// cannot be written.
    pub fn in_memory() -> Result<Self, StoreError> {
        Database::in_memory(&schema::CACHE).map(Self)
    }

    /// Returns the path of the database file; `None` in memory.
    pub fn path(&self) -> Option<&Path> {
        self.0.path()
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.0.read(work)
    }

    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.0.write(work)
    }
}
