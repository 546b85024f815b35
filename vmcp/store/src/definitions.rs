//! What backends offered when they were last listed (GMT-27), so that a start does not wait for them.

use rusqlite::{OptionalExtension, params};

use crate::{Store, StoreError};

/// A saved listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedDefinitions {
    /// `Discovered::to_json` of it.
    pub json: String,
    /// When it was saved.
    pub saved_at: i64,
}

impl Store {
    /// What `backend` offered, if it was saved under this `fingerprint` (of the backend's configuration: another URL or
    /// command under the same name is another backend).
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

    /// Saves what `backend` offers, in place of what it offered before.
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
