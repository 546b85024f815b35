//! Tables of the database and their migrations, counted by SQLite's `user_version`.

use rusqlite::{Connection, TransactionBehavior};

use crate::StoreError;

/// Step `n` takes a file from `user_version` n to n + 1. Steps are only ever appended: files of each version
/// exist.
const MIGRATIONS: [&str; 1] = [
    // In `tool_embeddings`, `description_hash` is the content key: it covers the embedded text, the version
    // of the text's format, and the model.
    "CREATE TABLE tool_embeddings (
       id INTEGER PRIMARY KEY,
       backend_id TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       tool_description TEXT NOT NULL,
       description_hash BLOB NOT NULL,
       embedding BLOB NOT NULL,
       dimensions INTEGER NOT NULL,
       model_id TEXT NOT NULL,
       created_at INTEGER NOT NULL,
       updated_at INTEGER NOT NULL,
       UNIQUE (backend_id, tool_name)
     );
     CREATE INDEX idx_tool_embeddings_backend ON tool_embeddings (backend_id);
     CREATE INDEX idx_tool_embeddings_hash ON tool_embeddings (description_hash);
     CREATE TABLE tool_schema_hashes (
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       schema_hash TEXT NOT NULL,
       last_checked_at INTEGER NOT NULL,
       UNIQUE (server_name, tool_name)
     );
     CREATE TABLE tool_changes (
       id INTEGER PRIMARY KEY,
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       kind TEXT NOT NULL,
       old_hash TEXT,
       new_hash TEXT,
       changed_at INTEGER NOT NULL
     );
     CREATE INDEX idx_tool_changes_tool ON tool_changes (server_name, tool_name);
     CREATE TABLE tool_schemas (
       server_name TEXT PRIMARY KEY,
       fingerprint TEXT NOT NULL,
       definitions TEXT NOT NULL,
       saved_at INTEGER NOT NULL
     );",
];

/// Brings the tables up to date in one transaction. Returns false and changes nothing if the file is of a
/// newer version.
pub(crate) fn migrate(connection: &mut Connection) -> Result<bool, StoreError> {
    rusqlite::vtab::array::load_module(connection)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let Some(steps) = usize::try_from(version).ok().and_then(|version| MIGRATIONS.get(version..)) else {
        return Ok(false);
    };
    for step in steps {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len())?;
    transaction.commit()?;
    Ok(true)
}

/// Checks that the tables are those of this version: a file of another program may have its number.
pub(crate) fn check(connection: &Connection) -> rusqlite::Result<()> {
    for columns in [
        "backend_id, tool_name, tool_description, description_hash, embedding, dimensions, model_id, created_at,
         updated_at FROM tool_embeddings",
        "server_name, tool_name, schema_hash, last_checked_at FROM tool_schema_hashes",
        "server_name, tool_name, kind, old_hash, new_hash, changed_at FROM tool_changes",
        "server_name, fingerprint, definitions, saved_at FROM tool_schemas",
    ] {
        connection.prepare(&format!("SELECT {columns}"))?;
    }
    Ok(())
}
