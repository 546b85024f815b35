//! The last listing of each backend, saved so that a restart serves complete lists before any backend has
//! answered.

use rusqlite::{OptionalExtension, params};

use crate::error::StoreError;
use crate::store::Store;

/// The saved listing of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedDefinitions {
    /// The listing as JSON (`Discovered::to_json`).
    pub json: String,
    /// Time of saving.
    pub saved_at: i64,
}

impl Store {
    /// Returns the listing of `backend` that was saved under the same `fingerprint` of its configuration;
    /// another URL or command under the same name is another backend.
    pub fn definitions(
        &self,
        backend: &str,
        fingerprint: &str,
    ) -> Result<Option<SavedDefinitions>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT definitions, saved_at FROM tool_schemas WHERE server_name = ?1 AND fingerprint = ?2",
                )?
                .query_row([backend, fingerprint], |row| {
                    Ok(SavedDefinitions { json: row.get(0)?, saved_at: row.get(1)? })
                })
                .optional()
        })
    }

    /// Returns true if a listing of `backend` was saved, whatever its configuration was then.
    pub fn has_definitions(&self, backend: &str) -> Result<bool, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM tool_schemas WHERE server_name = ?1)")?
                .query_row([backend], |row| row.get(0))
        })
    }

    /// Saves the listing of `backend` in place of the one before.
    pub fn save_definitions(
        &self,
        backend: &str,
        fingerprint: &str,
        json: &str,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO tool_schemas (server_name, fingerprint, definitions, saved_at)
                     VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![backend, fingerprint, json, now])?;
            Ok(())
        })
    }
}
