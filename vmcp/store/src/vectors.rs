//! Vectors of tools, by the content they were made from.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::types::Value;
use rusqlite::{Transaction, named_params, params};
use sha2::{Digest, Sha256};

use crate::error::StoreError;
use crate::hashes::DefinitionKind;
use crate::store::Store;

/// Models whose vectors are kept for one tool; a further one removes the row that was updated first.
const MAX_MODELS: usize = 4;

/// The key of a vector: SHA-256 over text version, model id and text, each with its length before it, so that
/// no two different triples give the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentKey([u8; 32]);

impl ContentKey {
    /// Computes the key of `text`. `text_version` numbers the way texts are made of definitions; `model_id`
    /// is the embedder's.
    pub fn new(text_version: u32, model_id: &str, text: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(text_version.to_le_bytes());
        for part in [model_id, text] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

/// A vector to store, with the tool it belongs to.
#[derive(Debug, Clone)]
pub struct ToolVector<'a> {
    /// Key of the embedded text.
    pub key: ContentKey,
    /// The backend's name.
    pub backend: &'a str,
    /// The tool's own name at its backend.
    pub tool: &'a str,
    /// The description in the tool's definition.
    pub description: &'a str,
    /// The model that made the vector, for readers of the file; `key` already covers it.
    pub model_id: &'a str,
    /// The vector, as the embedder returned it.
    pub vector: &'a [f32],
}

impl Store {
    /// Returns the known vectors among `keys`. A blob whose length differs from the dimensions its row names
    /// counts as absent: it is embedded again.
    pub fn vectors(&self, keys: &[ContentKey]) -> Result<HashMap<ContentKey, Vec<f32>>, StoreError> {
        let wanted = array(keys.iter().map(|key| Value::Blob(key.0.to_vec())));
        self.read(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT description_hash, embedding, dimensions FROM tool_embeddings
                 WHERE description_hash IN rarray(?1)",
            )?;
            let mut rows = select.query([wanted])?;
            let mut found = HashMap::with_capacity(keys.len());
            while let Some(row) = rows.next()? {
                if let Some(vector) = decode(row.get_ref(1)?.as_blob()?, row.get(2)?) {
                    found.insert(ContentKey(row.get(0)?), vector);
                }
            }
            Ok(found)
        })
    }

    /// Stores vectors, all or none. A tool has one row for each model, so its vector of an earlier text is
    /// replaced, and processes with different models share the file. A tool keeps its 4
    /// newest rows.
    pub fn put_vectors(&self, vectors: &[ToolVector<'_>], now: i64) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut upsert = transaction.prepare_cached(
                "INSERT INTO tool_embeddings (backend_id, tool_name, tool_description, description_hash, embedding,
                                              dimensions, model_id, created_at, updated_at)
                 VALUES (:backend, :tool, :description, :key, :embedding, :dimensions, :model, :now, :now)
                 ON CONFLICT (backend_id, tool_name, model_id) DO UPDATE SET
                   tool_description = excluded.tool_description, description_hash = excluded.description_hash,
                   embedding = excluded.embedding, dimensions = excluded.dimensions,
                   updated_at = excluded.updated_at",
            )?;
            let mut forget = transaction.prepare_cached(
                "DELETE FROM tool_embeddings WHERE backend_id = ?1 AND tool_name = ?2 AND id NOT IN
                   (SELECT id FROM tool_embeddings WHERE backend_id = ?1 AND tool_name = ?2
                    ORDER BY updated_at DESC, id DESC LIMIT ?3)",
            )?;
            for ToolVector { key, backend, tool, description, model_id, vector } in vectors {
                upsert.execute(named_params! {
                    ":backend": backend, ":tool": tool, ":description": description, ":key": key.0,
                    ":embedding": encode(vector), ":dimensions": vector.len(), ":model": model_id, ":now": now,
                })?;
                forget.execute(params![backend, tool, MAX_MODELS])?;
            }
            Ok(())
        })
    }

    /// Deletes the hashes of the definitions of `backend` that are not among `definitions`, and the vectors
    /// of such tools. Returns the number of deleted vectors.
    pub fn retain_definitions(
        &self,
        backend: &str,
        definitions: &[(DefinitionKind, &str)],
    ) -> Result<usize, StoreError> {
        let named = |kind| {
            let of_kind = definitions.iter().filter(|(other, _)| *other == kind);
            texts(&of_kind.map(|(_, name)| *name).collect::<Vec<_>>())
        };
        self.write(|transaction| {
            for kind in DefinitionKind::ALL {
                transaction.execute(
                    "DELETE FROM tool_schema_hashes
                     WHERE server_name = ?1 AND definition = ?2 AND tool_name NOT IN rarray(?3)",
                    params![backend, kind.as_str(), named(kind)],
                )?;
            }
            transaction.execute(
                "DELETE FROM tool_embeddings WHERE backend_id = ?1 AND tool_name NOT IN rarray(?2)",
                params![backend, named(DefinitionKind::Tool)],
            )
        })
    }

    /// Deletes everything about these backends except the record of changes. Returns the number of deleted
    /// vectors.
    pub fn forget_backends(&self, backends: &[&str]) -> Result<usize, StoreError> {
        let backends = texts(backends);
        self.write(|transaction| delete_backends(transaction, &backends))
    }

    /// Deletes everything, except the record of changes, about backends that are not among `backends` and
    /// that no process has listed or embedded since `unused_since`: another process may share the file and
    /// have other backends. Returns the number of deleted vectors.
    pub fn retain_backends(&self, backends: &[&str], unused_since: i64) -> Result<usize, StoreError> {
        let backends = texts(backends);
        self.write(|transaction| {
            let unused = transaction
                .prepare_cached(
                    "SELECT name FROM (SELECT server_name AS name, saved_at AS used_at FROM tool_schemas
                                       UNION ALL SELECT server_name, last_checked_at FROM tool_schema_hashes
                                       UNION ALL SELECT backend_id, updated_at FROM tool_embeddings)
                     WHERE name NOT IN rarray(?1) GROUP BY name HAVING max(used_at) < ?2",
                )?
                .query_map(params![backends, unused_since], |row| row.get::<_, Value>(0))?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            delete_backends(transaction, &Rc::new(unused))
        })
    }
}

fn delete_backends(transaction: &Transaction<'_>, backends: &Rc<Vec<Value>>) -> rusqlite::Result<usize> {
    for table in ["tool_schema_hashes", "tool_schemas"] {
        transaction.execute(&format!("DELETE FROM {table} WHERE server_name IN rarray(?1)"), [backends])?;
    }
    transaction.execute("DELETE FROM tool_embeddings WHERE backend_id IN rarray(?1)", [backends])
}

/// Makes a parameter for `rarray` of texts.
fn texts(texts: &[&str]) -> Rc<Vec<Value>> {
    array(texts.iter().map(|text| Value::from((*text).to_owned())))
}

/// Makes a parameter for `rarray`, which takes any number of values where SQLite's own parameters are
/// limited.
fn array(values: impl Iterator<Item = Value>) -> Rc<Vec<Value>> {
    Rc::new(values.collect())
}

/// Encodes a vector as little-endian `f32`s.
pub(crate) fn encode(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Decodes a vector; `None` if the blob has not exactly `dimensions` elements.
pub(crate) fn decode(blob: &[u8], dimensions: usize) -> Option<Vec<f32>> {
    let (elements, rest) = blob.as_chunks::<4>();
    let complete = rest.is_empty() && !elements.is_empty() && elements.len() == dimensions;
    complete.then(|| elements.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
