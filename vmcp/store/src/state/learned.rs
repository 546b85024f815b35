//! Learned pairs of a query and the tool that was used for it.

use std::fmt::Write as _;

use rusqlite::{Row, params};
use sha2::{Digest, Sha256};

use super::StateStore;
use crate::error::StoreError;

/// Beginning of the identity of a pair that has an owner.
const OWNED: &str = "learned@";

/// A learned pair, as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPair {
    /// Identity of query and tool.
    pub id: String,
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// The embedding model of the vector.
    pub model_id: String,
    /// Embedding of the query.
    pub vector: Vec<f32>,
    /// The query's text; `None` where texts are not stored.
    pub query: Option<String>,
    /// Confidence.
    pub confidence: f64,
    /// Time of the last use.
    pub last_used_at: i64,
    /// True if the pair changes searches.
    pub corrects: bool,
}

impl StoredPair {
    /// Returns the identity of a query and a tool: the SHA-256 of the query, without regard to letter case
    /// and blanks, and the tool. The query cannot be read from it. `owner` is the digest of the identity that
    /// used the tool, in hexadecimal digits; pairs of different owners are different pairs.
    pub fn id_of(owner: Option<&str>, query: &str, backend: &str, tool: &str) -> String {
        let words: Vec<_> = query.split_whitespace().map(str::to_lowercase).collect();
        let mut id = owner.map_or_else(|| String::from("learned:"), |owner| format!("{OWNED}{owner}:"));
        for byte in Sha256::digest(words.join(" ")) {
            // Writing to a string cannot fail.
            let _ = write!(id, "{byte:02x}");
        }
        format!("{id}:{backend}/{tool}")
    }

    /// Returns the owner that an identity of [`StoredPair::id_of`] names.
    pub fn owner_of(id: &str) -> Option<&str> {
        id.strip_prefix(OWNED)?.split_once(':').map(|(owner, _)| owner)
    }
}

impl StateStore {
    /// Adds pairs, or replaces those with the same ids.
    pub fn put_learned(&self, pairs: &[StoredPair]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut put = transaction.prepare_cached(
                "INSERT INTO dynamic_entries (id, server_name, tool_name, model_id, vector, query, confidence,
                                              created_at, last_used_at, corrects)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)
                 ON CONFLICT (id) DO UPDATE SET
                   model_id = excluded.model_id, vector = excluded.vector, query = excluded.query,
                   confidence = excluded.confidence, last_used_at = excluded.last_used_at,
                   corrects = excluded.corrects",
            )?;
            for pair in pairs {
                let StoredPair { id, backend, tool, model_id, query, confidence, .. } = pair;
                let StoredPair { last_used_at, corrects, .. } = pair;
                let vector: Vec<u8> = pair.vector.iter().flat_map(|value| value.to_le_bytes()).collect();
                put.execute(params![
                    id,
                    backend,
                    tool,
                    model_id,
                    vector,
                    query,
                    confidence,
                    last_used_at,
                    corrects
                ])?;
            }
            Ok(())
        })
    }

    /// Deletes pairs by their ids.
    pub fn delete_learned(&self, ids: &[String]) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM dynamic_entries WHERE id = ?1")?;
            for id in ids {
                delete.execute([id])?;
            }
            Ok(())
        })
    }

    /// Returns all pairs.
    pub fn all_learned(&self) -> Result<Vec<StoredPair>, StoreError> {
        self.read(|connection| {
            let mut all = connection.prepare(
                "SELECT id, server_name, tool_name, model_id, vector, query, confidence, last_used_at, corrects
                 FROM dynamic_entries ORDER BY id",
            )?;
            all.query_map([], stored_pair)?.collect()
        })
    }
}

fn stored_pair(row: &Row<'_>) -> rusqlite::Result<StoredPair> {
    let vector: Vec<u8> = row.get(4)?;
    let (values, _) = vector.as_chunks::<4>();
    Ok(StoredPair {
        id: row.get(0)?,
        backend: row.get(1)?,
        tool: row.get(2)?,
        model_id: row.get(3)?,
        vector: values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
        query: row.get(5)?,
        confidence: row.get(6)?,
        last_used_at: row.get(7)?,
        corrects: row.get(8)?,
    })
}
