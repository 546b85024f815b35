//! Layouts of the databases: tables and their migrations, counted by SQLite's `user_version`.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;

/// Names and tables of one database.
pub(crate) struct Layout {
    /// Name of the file in the storage folder.
    pub(crate) file_name: &'static str,
    /// Name of the file that is locked while a process opens the database.
    pub(crate) lock_name: &'static str,
    /// Step `n` takes a file from `user_version` n to n + 1. Steps are only ever appended: files of each
    /// version exist.
    migrations: &'static [&'static str],
    /// Makes the tables of a new file at once. The migrations make some of them several times, which is most
    /// of the time that a new file takes.
    current: &'static str,
    /// Columns of each table as of the last step, as `columns FROM table`.
    tables: &'static [&'static str],
}

/// The cache, which can be made again from the backends and the embedding model.
pub(crate) const CACHE: Layout = Layout {
    file_name: "embeddings.db",
    lock_name: "embeddings.lock",
    current: include_str!("schema/cache.sql"),
    migrations: &[
        // In `tool_embeddings`, `description_hash` is the content key: it covers the embedded text, the
        // version of the text's format, and the model.
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
        // Prompts, resources and templates beside tools; `definition` says which.
        "ALTER TABLE tool_schema_hashes RENAME TO tool_schema_hashes_before;
     CREATE TABLE tool_schema_hashes (
       server_name TEXT NOT NULL,
       definition TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       schema_hash TEXT NOT NULL,
       last_checked_at INTEGER NOT NULL,
       UNIQUE (server_name, definition, tool_name)
     );
     INSERT INTO tool_schema_hashes
       SELECT server_name, 'tool', tool_name, schema_hash, last_checked_at FROM tool_schema_hashes_before;
     DROP TABLE tool_schema_hashes_before;
     ALTER TABLE tool_changes ADD COLUMN definition TEXT NOT NULL DEFAULT 'tool';
     CREATE INDEX idx_tool_changes_definition ON tool_changes (definition, id);",
        // A row for each tool and model, so that two processes with different models keep both; and the
        // canaries, which tell models of one name apart.
        "ALTER TABLE tool_embeddings RENAME TO tool_embeddings_before;
     DROP INDEX IF EXISTS idx_tool_embeddings_backend;
     DROP INDEX IF EXISTS idx_tool_embeddings_hash;
     CREATE TABLE tool_embeddings (
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
       UNIQUE (backend_id, tool_name, model_id)
     );
     INSERT INTO tool_embeddings SELECT * FROM tool_embeddings_before;
     DROP TABLE tool_embeddings_before;
     CREATE INDEX idx_tool_embeddings_backend ON tool_embeddings (backend_id);
     CREATE INDEX idx_tool_embeddings_hash ON tool_embeddings (description_hash);
     CREATE TABLE embedding_canaries (
       model_id TEXT NOT NULL,
       revision TEXT NOT NULL,
       vector BLOB NOT NULL,
       dimensions INTEGER NOT NULL,
       UNIQUE (model_id, revision)
     );",
    ],
    tables: &[
        "backend_id, tool_name, tool_description, description_hash, embedding, dimensions, model_id, created_at,
     updated_at FROM tool_embeddings",
        "server_name, definition, tool_name, schema_hash, last_checked_at FROM tool_schema_hashes",
        "server_name, definition, tool_name, kind, old_hash, new_hash, changed_at FROM tool_changes",
        "server_name, fingerprint, definitions, saved_at FROM tool_schemas",
        "model_id, revision, vector, dimensions FROM embedding_canaries",
    ],
};

/// The state, which nothing can make again.
pub(crate) const STATE: Layout = Layout {
    file_name: "state.db",
    lock_name: "state.lock",
    current: include_str!("schema/state.sql"),
    migrations: &[
        "CREATE TABLE tool_metrics (
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       call_count INTEGER NOT NULL,
       success_count INTEGER NOT NULL,
       failure_count INTEGER NOT NULL,
       avg_latency_ms REAL NOT NULL,
       recent_latency_ms REAL NOT NULL,
       recent_success_rate REAL NOT NULL,
       last_called_at INTEGER NOT NULL,
       last_success_at INTEGER,
       last_error TEXT,
       last_error_at INTEGER,
       created_at INTEGER NOT NULL,
       updated_at INTEGER NOT NULL
     );
     CREATE UNIQUE INDEX idx_tool_metrics_tool ON tool_metrics (server_name, tool_name);
     CREATE INDEX idx_tool_metrics_last_called ON tool_metrics (last_called_at);
     CREATE TABLE tool_calls (
       id INTEGER PRIMARY KEY,
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       called_at INTEGER NOT NULL,
       outcome TEXT NOT NULL,
       latency_ms REAL NOT NULL
     );
     CREATE INDEX idx_tool_calls_called ON tool_calls (called_at);
     CREATE TABLE tool_metrics_daily (
       day INTEGER NOT NULL,
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       call_count INTEGER NOT NULL,
       success_count INTEGER NOT NULL,
       failure_count INTEGER NOT NULL,
       avg_latency_ms REAL NOT NULL,
       UNIQUE (server_name, tool_name, day)
     );",
        "CREATE TABLE tool_baselines (
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       hash TEXT NOT NULL,
       definition TEXT NOT NULL,
       trusted_at INTEGER NOT NULL,
       UNIQUE (server_name, tool_name)
     );
     CREATE TABLE tool_drift (
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       before_definition TEXT NOT NULL,
       after_definition TEXT NOT NULL,
       after_hash TEXT NOT NULL,
       changed_at INTEGER NOT NULL,
       state TEXT NOT NULL,
       UNIQUE (server_name, tool_name)
     );",
        "CREATE TABLE dynamic_entries (
       id TEXT PRIMARY KEY,
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       model_id TEXT NOT NULL,
       vector BLOB NOT NULL,
       query TEXT,
       confidence REAL NOT NULL,
       created_at INTEGER NOT NULL,
       last_used_at INTEGER NOT NULL
     );",
        // Pairs from before say nothing of the search; they count as they did.
        "ALTER TABLE dynamic_entries ADD COLUMN corrects INTEGER NOT NULL DEFAULT 1;",
        // Runs of composite tools. `process` holds the lease until `lease_until`; `state` is sealed.
        "CREATE TABLE runs (
       id TEXT PRIMARY KEY,
       owner BLOB NOT NULL,
       request BLOB NOT NULL,
       process BLOB NOT NULL,
       lease_until INTEGER NOT NULL,
       expires_at INTEGER NOT NULL,
       state TEXT NOT NULL
     );
     CREATE INDEX idx_runs_request ON runs (owner, request);
     CREATE INDEX idx_runs_expires ON runs (expires_at);
     CREATE TABLE used_answers (
       digest BLOB PRIMARY KEY,
       expires_at INTEGER NOT NULL
     );
     CREATE INDEX idx_used_answers_expires ON used_answers (expires_at);",
        "CREATE TABLE observed_shapes (
       server_name TEXT NOT NULL,
       hash TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       calls INTEGER NOT NULL,
       shape TEXT NOT NULL,
       last_at INTEGER NOT NULL,
       UNIQUE (server_name, hash)
      );",
        // Sessions of coding agents, which hooks report. `owner` is the digest of a principal; `machine_id`
        // of `session_store` stands for machines of clients that name none.
        "CREATE TABLE sessions (
       id TEXT PRIMARY KEY,
       owner BLOB NOT NULL,
       external_id TEXT NOT NULL,
       machine_id TEXT NOT NULL,
       source TEXT NOT NULL,
       project_id TEXT NOT NULL,
       title TEXT,
       status TEXT NOT NULL,
       parent_session_id TEXT,
       summary TEXT,
       cwd TEXT,
       created_at INTEGER NOT NULL,
       updated_at INTEGER NOT NULL,
       UNIQUE (owner, machine_id, source, external_id)
     );
     CREATE INDEX idx_sessions_owner ON sessions (owner, updated_at);
     CREATE INDEX idx_sessions_updated ON sessions (updated_at);
     CREATE TABLE session_events (
       id INTEGER PRIMARY KEY,
       session_id TEXT NOT NULL,
       type TEXT NOT NULL,
       detail TEXT,
       at INTEGER NOT NULL
     );
     CREATE INDEX idx_session_events ON session_events (session_id, id);
     CREATE TABLE session_store (
       only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
       machine_id TEXT NOT NULL
     );",
        // Time of an operator's approval; 0: trusted on first use.
        "ALTER TABLE tool_baselines ADD COLUMN approved_at INTEGER NOT NULL DEFAULT 0;
     UPDATE tool_baselines SET approved_at = trusted_at WHERE EXISTS (
       SELECT 1 FROM tool_drift WHERE tool_drift.server_name = tool_baselines.server_name
         AND tool_drift.tool_name = tool_baselines.tool_name AND tool_drift.state = 'approved'
         AND tool_drift.after_hash = tool_baselines.hash);",
        // The log of searches. `rank` is absent for a tool that the search did not find. The index finds the
        // owner of a client's session; a file that was set back to an earlier version has it already.
        "CREATE TABLE searches (
       id INTEGER PRIMARY KEY,
       searched_at INTEGER NOT NULL,
       owner TEXT,
       query TEXT NOT NULL,
       keywords TEXT NOT NULL,
       found TEXT NOT NULL
     );
     CREATE INDEX idx_searches_searched ON searches (searched_at);
     CREATE TABLE search_calls (
       id INTEGER PRIMARY KEY,
       search_id INTEGER NOT NULL,
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       rank INTEGER
     );
     CREATE INDEX idx_search_calls_search ON search_calls (search_id);
     CREATE TABLE unsearched_calls (
       day INTEGER NOT NULL,
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       calls INTEGER NOT NULL,
       UNIQUE (server_name, tool_name, day)
     );
     CREATE TABLE tool_sequels (
       owner TEXT NOT NULL,
       server_name TEXT NOT NULL,
       tool_name TEXT NOT NULL,
       sessions INTEGER NOT NULL,
       next TEXT NOT NULL,
       last_at INTEGER NOT NULL,
       UNIQUE (owner, server_name, tool_name)
     );
     CREATE INDEX idx_tool_sequels_last ON tool_sequels (last_at);
     CREATE INDEX IF NOT EXISTS idx_sessions_external ON sessions (external_id);",
        // Sums of searches. A file that was set back to an earlier version has the table already.
        "CREATE TABLE IF NOT EXISTS search_days (
       day INTEGER PRIMARY KEY,
       searches INTEGER NOT NULL,
       without_result INTEGER NOT NULL,
       without_call INTEGER NOT NULL,
       tokens_saved INTEGER NOT NULL
     );",
    ],
    tables: &[
        "server_name, tool_name, call_count, success_count, failure_count, avg_latency_ms, recent_latency_ms,
         recent_success_rate, last_called_at, last_success_at, last_error, last_error_at, created_at, updated_at
         FROM tool_metrics",
        "server_name, tool_name, called_at, outcome, latency_ms FROM tool_calls",
        "day, server_name, tool_name, call_count, success_count, failure_count, avg_latency_ms
         FROM tool_metrics_daily",
        "server_name, tool_name, hash, definition, trusted_at, approved_at FROM tool_baselines",
        "server_name, tool_name, before_definition, after_definition, after_hash, changed_at, state
         FROM tool_drift",
        "id, server_name, tool_name, model_id, vector, query, confidence, created_at, last_used_at,
         corrects FROM dynamic_entries",
        "id, owner, request, process, lease_until, expires_at, state FROM runs",
        "digest, expires_at FROM used_answers",
        "server_name, hash, tool_name, calls, shape, last_at FROM observed_shapes",
        "id, owner, external_id, machine_id, source, project_id, title, status, parent_session_id, summary, cwd,
         created_at, updated_at FROM sessions",
        "id, session_id, type, detail, at FROM session_events",
        "only_row, machine_id FROM session_store",
        "id, searched_at, owner, query, keywords, found FROM searches",
        "id, search_id, server_name, tool_name, rank FROM search_calls",
        "day, server_name, tool_name, calls FROM unsearched_calls",
        "owner, server_name, tool_name, sessions, next, last_at FROM tool_sequels",
        "day, searches, without_result, without_call, tokens_saved FROM search_days",
    ],
};

impl Layout {
    /// Brings the tables up to date in one transaction. Returns false and changes nothing if the file is of a
    /// newer version. A file of this version is only read: the first write after a clean end makes a new
    /// write-ahead log and syncs it, which a start need not wait for.
    pub(crate) fn migrate(&self, connection: &mut Connection) -> Result<bool, StoreError> {
        rusqlite::vtab::array::load_module(connection)?;
        if steps_done(connection)? == Some(self.migrations.len()) {
            return Ok(true);
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Read again: another process may have been faster.
        let done = steps_done(&transaction)?;
        let steps = match done {
            Some(0) => Some(std::slice::from_ref(&self.current)),
            _ => done.and_then(|done| self.migrations.get(done..)),
        };
        let Some(steps) = steps else { return Ok(false) };
        for step in steps {
            transaction.execute_batch(step)?;
        }
        transaction.pragma_update(None, "user_version", self.migrations.len())?;
        transaction.commit()?;
        Ok(true)
    }

    /// Checks that the tables are those of this version: a file of another program may have its number.
    pub(crate) fn check(&self, connection: &Connection) -> rusqlite::Result<()> {
        for columns in self.tables {
            connection.prepare(&format!("SELECT {columns}"))?;
        }
        Ok(())
    }
}

/// Returns the number of migrations that a file has behind it; `None` for a number of another program.
fn steps_done(connection: &Connection) -> rusqlite::Result<Option<usize>> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(usize::try_from(version).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the tables and indexes as SQLite keeps them, without spaces.
    fn entries(connection: &Connection) -> Vec<(String, String)> {
        let select = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
        let mut statement = connection.prepare(select).unwrap();
        let rows = statement.query_map([], |row| {
            let text: String = row.get(1)?;
            Ok((row.get(0)?, text.split_whitespace().collect()))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_new_file_has_the_tables_that_the_migrations_make() {
        for layout in [&CACHE, &STATE] {
            let mut new = Connection::open_in_memory().unwrap();
            assert!(layout.migrate(&mut new).unwrap());
            let mut old = Connection::open_in_memory().unwrap();
            old.execute_batch(layout.migrations[0]).unwrap();
            old.pragma_update(None, "user_version", 1).unwrap();
            assert!(layout.migrate(&mut old).unwrap());
            assert_eq!(entries(&new), entries(&old), "{}", layout.file_name);
            assert_eq!(steps_done(&new).unwrap(), Some(layout.migrations.len()));
        }
    }
}
