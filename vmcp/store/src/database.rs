//! [`Database`]: one open SQLite file, with its transactions.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::StoreError;
use crate::open;
use crate::schema::Layout;

/// One open database. Threads share it by reference; several processes may have the same file open.
pub(crate) struct Database {
    connection: Mutex<Connection>,
    path: Option<PathBuf>,
}

impl Database {
    /// Opens or creates the file of `layout` in `dir`.
    pub(crate) fn open(dir: &Path, layout: &Layout) -> Result<Self, StoreError> {
        let connection = open::open(dir, layout)?;
        Ok(Self { connection: Mutex::new(connection), path: Some(dir.join(layout.file_name)) })
    }

    /// Opens a database that lives as long as the process.
    pub(crate) fn in_memory(layout: &Layout) -> Result<Self, StoreError> {
        let mut connection = Connection::open_in_memory()?;
        layout.migrate(&mut connection)?;
        Ok(Self { connection: Mutex::new(connection), path: None })
    }

    /// Returns the path of the file; `None` in memory.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Runs `work` outside of a transaction.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // The lock is not poisoned by a panic, and no half-done transaction is left: rusqlite rolls back on
        // drop.
        let connection = self.connection.lock();
        Ok(work(&connection)?)
    }

    /// Runs `work` in one transaction. It takes the write lock at once (`BEGIN IMMEDIATE`), so that a second
    /// process waits for it; a read lock upgraded later would fail with `SQLITE_BUSY`.
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut connection = self.connection.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = work(&transaction)?;
        transaction.commit()?;
        Ok(value)
    }
}
