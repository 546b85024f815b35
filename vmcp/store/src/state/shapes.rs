//! Observed shapes of tools' results.

use rusqlite::{Row, params};

use super::StateStore;
use crate::error::StoreError;

/// The shape of a tool's results, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredShape {
    /// The backend's name.
    pub backend: String,
    /// Hash of the tool's definition, in hexadecimal digits.
    pub hash: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Results that were observed.
    pub calls: u64,
    /// The shape, as JSON of its owner.
    pub shape: String,
    /// Time of the last observation.
    pub last_at: i64,
}

impl StateStore {
    /// Adds shapes, or replaces those of the same definitions.
    pub fn put_shapes(&self, shapes: &[StoredShape]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut put = transaction.prepare_cached(
                "INSERT INTO observed_shapes (server_name, hash, tool_name, calls, shape, last_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (server_name, hash) DO UPDATE SET
                   calls = excluded.calls, shape = excluded.shape, last_at = excluded.last_at",
            )?;
            for stored in shapes {
                let StoredShape { backend, hash, tool, calls, shape, last_at } = stored;
                let calls = i64::try_from(*calls).unwrap_or(i64::MAX);
                put.execute(params![backend, hash, tool, calls, shape, last_at])?;
            }
            Ok(())
        })
    }

    /// Deletes shapes by backend and hash.
    pub fn delete_shapes(&self, keys: &[(String, String)]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut delete = transaction
                .prepare_cached("DELETE FROM observed_shapes WHERE server_name = ?1 AND hash = ?2")?;
            for (backend, hash) in keys {
                delete.execute([backend, hash])?;
            }
            Ok(())
        })
    }

    /// Returns all shapes.
    pub fn all_shapes(&self) -> Result<Vec<StoredShape>, StoreError> {
        self.read(|connection| {
            let mut all = connection.prepare(
                "SELECT server_name, hash, tool_name, calls, shape, last_at FROM observed_shapes
                 ORDER BY server_name, hash",
            )?;
            all.query_map([], stored_shape)?.collect()
        })
    }
}

fn stored_shape(row: &Row<'_>) -> rusqlite::Result<StoredShape> {
    let calls: i64 = row.get(3)?;
    Ok(StoredShape {
        backend: row.get(0)?,
        hash: row.get(1)?,
        tool: row.get(2)?,
        calls: u64::try_from(calls).unwrap_or_default(),
        shape: row.get(4)?,
        last_at: row.get(5)?,
    })
}
