//! Schema hashes of tools as last seen, and the bounded record of their changes.

use std::collections::HashMap;

use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};

use crate::{Store, StoreError};

/// The stored hash of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToolHash {
    /// The tool's own name at its backend.
    pub tool: String,
    /// SHA-256 of name, description and canonical schema, in hex.
    pub hash: String,
    /// Time of the last listing that offered this; moves even when nothing changed.
    pub last_checked_at: i64,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The tool is new.
    Added,
    /// The tool's definition differs from before.
    Updated,
    /// The tool is gone.
    Removed,
}

impl ChangeKind {
    /// Returns the name that is stored and shown: `added`, `updated`, `removed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Removed => "removed",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Added, Self::Updated, Self::Removed].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A recorded change of one tool's definition, with the hashes before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedChange {
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// The kind of change.
    pub kind: ChangeKind,
    /// Hash before; `None` for an added tool.
    pub before: Option<String>,
    /// Hash after; `None` for a removed tool.
    pub after: Option<String>,
    /// Time at which the change was noticed.
    pub at: i64,
}

/// Changes that the record keeps; older ones are deleted.
const MAX_RECORDED_CHANGES: usize = 10_000;

impl Store {
    /// Returns the hash of one tool; `None` if it was never seen.
    pub fn schema_hash(&self, backend: &str, tool: &str) -> Result<Option<StoredToolHash>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT tool_name, schema_hash, last_checked_at FROM tool_schema_hashes
                     WHERE server_name = ?1 AND tool_name = ?2",
                )?
                .query_row([backend, tool], stored_tool_hash)
                .optional()
        })
    }

    /// Returns the hashes of all tools of a backend, ordered by tool name.
    pub fn schema_hashes(&self, backend: &str) -> Result<Vec<StoredToolHash>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT tool_name, schema_hash, last_checked_at FROM tool_schema_hashes
                     WHERE server_name = ?1 ORDER BY tool_name",
                )?
                .query_map([backend], stored_tool_hash)?
                .collect()
        })
    }

    /// Stores hashes of tools as just seen, all or none, as pairs of tool name and hash.
    pub fn set_schema_hashes<'a>(
        &self,
        backend: &str,
        hashes: impl IntoIterator<Item = (&'a str, &'a str)>,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut upsert = transaction.prepare_cached(
                "INSERT INTO tool_schema_hashes (server_name, tool_name, schema_hash, last_checked_at)
                 VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (server_name, tool_name) DO UPDATE SET
                   schema_hash = excluded.schema_hash, last_checked_at = excluded.last_checked_at",
            )?;
            for (tool, hash) in hashes {
                upsert.execute(params![backend, tool, hash, now])?;
            }
            Ok(())
        })
    }

    /// Appends to the record of changes, which keeps the newest 10,000.
    pub fn record_changes(&self, changes: &[RecordedChange]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO tool_changes (server_name, tool_name, kind, old_hash, new_hash, changed_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            for RecordedChange { backend, tool, kind, before, after, at } in changes {
                insert.execute(params![backend, tool, kind.as_str(), before, after, at])?;
            }
            transaction.execute(
                "DELETE FROM tool_changes WHERE id <= (SELECT max(id) FROM tool_changes) - ?1",
                [MAX_RECORDED_CHANGES],
            )?;
            Ok(())
        })
    }

    /// Returns the last hash of each removed tool of a backend that is recorded, by tool.
    pub fn removed_hashes(&self, backend: &str) -> Result<HashMap<String, String>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT tool_name, old_hash FROM tool_changes
                     WHERE server_name = ?1 AND kind = ?2 AND old_hash IS NOT NULL ORDER BY id",
                )?
                .query_map([backend, ChangeKind::Removed.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
    }

    /// Returns the newest changes of all backends, newest first, at most `limit`.
    pub fn changes(&self, limit: usize) -> Result<Vec<RecordedChange>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT server_name, tool_name, kind, old_hash, new_hash, changed_at FROM tool_changes
                     ORDER BY id DESC LIMIT ?1",
                )?
                .query_map([limit.min(MAX_RECORDED_CHANGES)], recorded_change)?
                .collect()
        })
    }
}

fn stored_tool_hash(row: &Row<'_>) -> rusqlite::Result<StoredToolHash> {
    Ok(StoredToolHash { tool: row.get(0)?, hash: row.get(1)?, last_checked_at: row.get(2)? })
}

fn recorded_change(row: &Row<'_>) -> rusqlite::Result<RecordedChange> {
    let kind: String = row.get(2)?;
    let kind = ChangeKind::parse(&kind)
        .ok_or_else(|| rusqlite::Error::InvalidColumnType(2, kind.clone(), Type::Text))?;
    let (before, after, at) = (row.get(3)?, row.get(4)?, row.get(5)?);
    Ok(RecordedChange { backend: row.get(0)?, tool: row.get(1)?, kind, before, after, at })
}
