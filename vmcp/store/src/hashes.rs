//! Hashes of definitions as last seen, and the bounded record of their changes.

use std::collections::HashMap;

use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};

use crate::error::StoreError;
use crate::store::Store;

/// The kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DefinitionKind {
    /// A tool, named by its name.
    Tool,
    /// A prompt, named by its name.
    Prompt,
    /// A resource, named by its URI.
    Resource,
    /// A resource template, named by its URI template.
    ResourceTemplate,
}

impl DefinitionKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Resource, Self::ResourceTemplate];

    /// Returns the name that is stored and shown: `tool`, `prompt`, `resource`, `resource template`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::ResourceTemplate => "resource template",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A definition among those of one backend: its kind, and its name, URI or template there.
pub type DefinitionName = (DefinitionKind, String);

/// The stored hash of one definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredHash {
    /// The definition.
    pub definition: DefinitionName,
    /// SHA-256 of the relevant parts of the definition, in hex.
    pub hash: String,
    /// Time of the last listing that offered this; moves even when nothing changed.
    pub last_checked_at: i64,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The definition is new.
    Added,
    /// The definition differs from before.
    Updated,
    /// The definition is gone.
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

/// A recorded change of one definition, with the hashes before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedChange {
    /// The backend's name.
    pub backend: String,
    /// The definition.
    pub definition: DefinitionName,
    /// The kind of change.
    pub kind: ChangeKind,
    /// Hash before; `None` for an added definition.
    pub before: Option<String>,
    /// Hash after; `None` for a removed definition.
    pub after: Option<String>,
    /// Time at which the change was noticed.
    pub at: i64,
}

/// Changes that the record keeps of each kind of definition; older ones are deleted. Each kind has a share of
/// its own, so that a list of resources that comes and goes does not push out the changes of tools.
const MAX_RECORDED_CHANGES: usize = 10_000;

impl Store {
    /// Returns the hash of one tool; `None` if it was never seen.
    pub fn schema_hash(&self, backend: &str, tool: &str) -> Result<Option<StoredHash>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT definition, tool_name, schema_hash, last_checked_at FROM tool_schema_hashes
                     WHERE server_name = ?1 AND definition = ?2 AND tool_name = ?3",
                )?
                .query_row([backend, DefinitionKind::Tool.as_str(), tool], stored_hash)
                .optional()
        })
    }

    /// Returns the hashes of all definitions of a backend, ordered by kind and name.
    pub fn schema_hashes(&self, backend: &str) -> Result<Vec<StoredHash>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT definition, tool_name, schema_hash, last_checked_at FROM tool_schema_hashes
                     WHERE server_name = ?1 ORDER BY definition, tool_name",
                )?
                .query_map([backend], stored_hash)?
                .collect()
        })
    }

    /// Stores hashes of definitions as just seen, all or none: kind, name and hash.
    pub fn set_schema_hashes<'a>(
        &self,
        backend: &str,
        hashes: impl IntoIterator<Item = (DefinitionKind, &'a str, &'a str)>,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut upsert = transaction.prepare_cached(
                "INSERT INTO tool_schema_hashes
                   (server_name, definition, tool_name, schema_hash, last_checked_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (server_name, definition, tool_name) DO UPDATE SET
                   schema_hash = excluded.schema_hash, last_checked_at = excluded.last_checked_at",
            )?;
            for (kind, name, hash) in hashes {
                upsert.execute(params![backend, kind.as_str(), name, hash, now])?;
            }
            Ok(())
        })
    }

    /// Appends to the record of changes, which keeps the newest 10,000 of each kind of definition.
    pub fn record_changes(&self, changes: &[RecordedChange]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO tool_changes
                   (server_name, definition, tool_name, kind, old_hash, new_hash, changed_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            for RecordedChange { backend, definition: (of, name), kind, before, after, at } in changes {
                insert.execute(params![backend, of.as_str(), name, kind.as_str(), before, after, at])?;
            }
            for kind in DefinitionKind::ALL {
                transaction.execute(
                    "DELETE FROM tool_changes WHERE definition = ?1 AND id <=
                       (SELECT id FROM tool_changes WHERE definition = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                    params![kind.as_str(), MAX_RECORDED_CHANGES],
                )?;
            }
            Ok(())
        })
    }

    /// Returns the last hash of each removed definition of a backend that is recorded.
    pub fn removed_hashes(&self, backend: &str) -> Result<HashMap<DefinitionName, String>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT definition, tool_name, old_hash FROM tool_changes
                     WHERE server_name = ?1 AND kind = ?2 AND old_hash IS NOT NULL ORDER BY id",
                )?
                .query_map([backend, ChangeKind::Removed.as_str()], |row| {
                    Ok((definition_name(row, 0)?, row.get(2)?))
                })?
                .collect()
        })
    }

    /// Returns the newest changes of all backends, newest first, at most `limit`.
    pub fn changes(&self, limit: usize) -> Result<Vec<RecordedChange>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT server_name, definition, tool_name, kind, old_hash, new_hash, changed_at
                     FROM tool_changes ORDER BY id DESC LIMIT ?1",
                )?
                .query_map([limit], recorded_change)?
                .collect()
        })
    }
}

fn stored_hash(row: &Row<'_>) -> rusqlite::Result<StoredHash> {
    Ok(StoredHash { definition: definition_name(row, 0)?, hash: row.get(2)?, last_checked_at: row.get(3)? })
}

fn recorded_change(row: &Row<'_>) -> rusqlite::Result<RecordedChange> {
    let kind: String = row.get(3)?;
    let kind = ChangeKind::parse(&kind)
        .ok_or_else(|| rusqlite::Error::InvalidColumnType(3, kind.clone(), Type::Text))?;
    let (before, after, at) = (row.get(4)?, row.get(5)?, row.get(6)?);
    Ok(RecordedChange { backend: row.get(0)?, definition: definition_name(row, 1)?, kind, before, after, at })
}

/// Reads the kind in column `at` and the name in the one behind it.
fn definition_name(row: &Row<'_>, at: usize) -> rusqlite::Result<DefinitionName> {
    let kind: String = row.get(at)?;
    let parsed = DefinitionKind::parse(&kind);
    let kind = parsed.ok_or_else(|| rusqlite::Error::InvalidColumnType(at, kind.clone(), Type::Text))?;
    Ok((kind, row.get(at + 1)?))
}
