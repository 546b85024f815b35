//! Rows of `state.db` about sequels: tools that clients called next after another tool, within a session.

use rusqlite::{Row, params};

use super::StateStore;
use crate::error::StoreError;

/// The tools that followed one tool, for one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSequels {
    /// Digest of the identity whose sessions count, in hexadecimal digits; empty for clients without one.
    pub owner: String,
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Sessions in which the tool succeeded.
    pub sessions: u64,
    /// The tools that followed, as JSON of their owner.
    pub next: String,
    /// Time of the last session, in milliseconds since the Unix epoch.
    pub last_at: i64,
}

impl StateStore {
    /// Adds rows, or replaces those of the same owner and tool.
    pub fn put_sequels(&self, all: &[StoredSequels]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut put = transaction.prepare_cached(
                "INSERT INTO tool_sequels (owner, server_name, tool_name, sessions, next, last_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (owner, server_name, tool_name) DO UPDATE SET
                   sessions = excluded.sessions, next = excluded.next, last_at = excluded.last_at",
            )?;
            for StoredSequels { owner, backend, tool, sessions, next, last_at } in all {
                let sessions = i64::try_from(*sessions).unwrap_or(i64::MAX);
                put.execute(params![owner, backend, tool, sessions, next, last_at])?;
            }
            Ok(())
        })
    }

    /// Deletes all rows but the `kept` latest changed ones.
    pub fn prune_sequels(&self, kept: usize) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.execute(
                "DELETE FROM tool_sequels WHERE rowid NOT IN
                   (SELECT rowid FROM tool_sequels ORDER BY last_at DESC, rowid LIMIT ?1)",
                [kept],
            )?;
            Ok(())
        })
    }

    /// Returns the rows that changed last, at most `limit`, the last one first.
    pub fn all_sequels(&self, limit: usize) -> Result<Vec<StoredSequels>, StoreError> {
        let sequels = |row: &Row<'_>| {
            let sessions: i64 = row.get(3)?;
            Ok(StoredSequels {
                owner: row.get(0)?,
                backend: row.get(1)?,
                tool: row.get(2)?,
                sessions: u64::try_from(sessions).unwrap_or_default(),
                next: row.get(4)?,
                last_at: row.get(5)?,
            })
        };
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT owner, server_name, tool_name, sessions, next, last_at FROM tool_sequels
                     ORDER BY last_at DESC, rowid LIMIT ?1",
                )?
                .query_map([limit], sequels)?
                .collect()
        })
    }
}
