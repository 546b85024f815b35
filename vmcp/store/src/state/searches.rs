//! The log of searches, with the calls that followed each; and the calls of tools that no search came before,
//! summed by day.

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::StateStore;
use crate::error::StoreError;

/// Milliseconds of a day (UTC).
const DAY: i64 = 24 * 60 * 60 * 1000;
/// Calls that are kept of one search; further ones are left out.
const MAX_CALLS_OF_SEARCH: usize = 16;

/// One search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSearch {
    /// Identity: a random number.
    pub id: i64,
    /// Time of the search, in milliseconds since the Unix epoch.
    pub at: i64,
    /// Digest of the identity that searched, in hexadecimal digits; `None` of a client without one.
    pub owner: Option<String>,
    /// Description of the task, in the client's words.
    pub query: String,
    /// Keywords; empty without any.
    pub keywords: String,
    /// Tools found, best first, as JSON of the log's owner.
    pub found: String,
}

/// One call that followed a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchCall {
    /// Identity of the search.
    pub search: i64,
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Rank of the tool in the search, from 1; `None`: the search did not find it.
    pub rank: Option<usize>,
}

/// Calls of a tool that no search of its client came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsearchedCalls {
    /// Begin of the day (UTC), in milliseconds since the Unix epoch.
    pub day: i64,
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Number of calls.
    pub calls: u64,
}

/// Rows that one commit adds.
#[derive(Debug, Default)]
pub struct SearchBatch {
    /// Searches.
    pub searches: Vec<StoredSearch>,
    /// Calls that followed searches, of this batch or of earlier ones.
    pub calls: Vec<SearchCall>,
    /// Calls that followed no search. `day` may be any time of the day.
    pub unsearched: Vec<UnsearchedCalls>,
}

/// Bounds on the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchLogBounds {
    /// Most searches; of more, the oldest are deleted.
    pub max_searches: u32,
    /// Time before which searches and calls are deleted, in milliseconds since the Unix epoch.
    pub kept_since: i64,
}

impl StateStore {
    /// Adds searches and calls.
    pub fn log_searches(&self, batch: &SearchBatch) -> Result<(), StoreError> {
        self.write(|transaction| {
            add_searches(transaction, &batch.searches)?;
            add_calls(transaction, &batch.calls)?;
            let mut count = transaction.prepare_cached(
                "INSERT INTO unsearched_calls (day, server_name, tool_name, calls) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (server_name, tool_name, day) DO UPDATE SET calls = calls + excluded.calls",
            )?;
            for UnsearchedCalls { day, backend, tool, calls } in &batch.unsearched {
                let calls = i64::try_from(*calls).unwrap_or(i64::MAX);
                count.execute(params![day - day.rem_euclid(DAY), backend, tool, calls])?;
            }
            Ok(())
        })
    }

    /// Deletes searches beyond the bounds, with their calls. Returns the number of deleted searches.
    pub fn prune_searches(&self, bounds: SearchLogBounds) -> Result<usize, StoreError> {
        let SearchLogBounds { max_searches, kept_since } = bounds;
        self.write(|transaction| {
            let last = "SELECT searched_at FROM searches ORDER BY searched_at DESC, id LIMIT 1 OFFSET ?1";
            let overflow: Option<i64> =
                transaction.query_row(last, [max_searches], |row| row.get(0)).optional()?;
            let old = transaction.execute("DELETE FROM searches WHERE searched_at < ?1", [kept_since])?;
            let beyond = match overflow {
                Some(at) => transaction.execute("DELETE FROM searches WHERE searched_at <= ?1", [at])?,
                None => 0,
            };
            if old + beyond > 0 {
                transaction.execute(
                    "DELETE FROM search_calls WHERE search_id NOT IN (SELECT id FROM searches)",
                    [],
                )?;
            }
            transaction.execute("DELETE FROM unsearched_calls WHERE day < ?1", [kept_since - DAY])?;
            Ok(old + beyond)
        })
    }

    /// Deletes the whole log, and overwrites its texts in the file. Returns the number of deleted searches.
    pub fn delete_searches(&self) -> Result<usize, StoreError> {
        self.read(|connection| connection.pragma_update(None, "secure_delete", true))?;
        let deleted = self.write(|transaction| {
            transaction.execute("DELETE FROM search_calls", [])?;
            transaction.execute("DELETE FROM unsearched_calls", [])?;
            transaction.execute("DELETE FROM searches", [])
        })?;
        // The write-ahead log still has the texts. Another process that reads may keep it until its next
        // checkpoint, and the searches are deleted all the same. SQLite reports a blocked checkpoint in the
        // first column of its row, and not as an error.
        let is_blocked = self.read(|connection| {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0))
        });
        match is_blocked {
            Ok(false) => {}
            Ok(true) => tracing::warn!(
                "deleted searches stay in the write-ahead log for a while: another process uses state.db; \
                 delete the log again later"
            ),
            Err(error) => tracing::warn!(%error, "deleted searches stay in the write-ahead log for a while"),
        }
        Ok(deleted)
    }

    /// Returns the searches since a time, newest first, at most `limit`.
    pub fn logged_searches(&self, since: i64, limit: usize) -> Result<Vec<StoredSearch>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT id, searched_at, owner, query, keywords, found FROM searches
                     WHERE searched_at >= ?1 ORDER BY searched_at DESC, id LIMIT ?2",
                )?
                .query_map(params![since, limit], stored_search)?
                .collect()
        })
    }

    /// Returns the calls that followed searches since a time, in the order in which they came.
    pub fn search_calls(&self, since: i64) -> Result<Vec<SearchCall>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT search_id, server_name, tool_name, rank
                     FROM search_calls JOIN searches ON searches.id = search_id
                     WHERE searched_at >= ?1 ORDER BY search_calls.id",
                )?
                .query_map([since], search_call)?
                .collect()
        })
    }

    /// Returns the calls that followed no search, since the day of a time.
    pub fn unsearched_calls(&self, since: i64) -> Result<Vec<UnsearchedCalls>, StoreError> {
        let calls = |row: &Row<'_>| {
            let calls: i64 = row.get(3)?;
            Ok(UnsearchedCalls {
                day: row.get(0)?,
                backend: row.get(1)?,
                tool: row.get(2)?,
                calls: u64::try_from(calls).unwrap_or_default(),
            })
        };
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT day, server_name, tool_name, calls FROM unsearched_calls WHERE day > ?1
                     ORDER BY day, server_name, tool_name",
                )?
                .query_map([since.saturating_sub(DAY)], calls)?
                .collect()
        })
    }
}

fn add_searches(transaction: &Transaction<'_>, searches: &[StoredSearch]) -> rusqlite::Result<()> {
    let mut add = transaction.prepare_cached(
        "INSERT OR REPLACE INTO searches (id, searched_at, owner, query, keywords, found)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for StoredSearch { id, at, owner, query, keywords, found } in searches {
        add.execute(params![id, at, owner, query, keywords, found])?;
    }
    Ok(())
}

/// Adds calls to their searches. A search that is gone, or has its calls already, gets none.
fn add_calls(transaction: &Transaction<'_>, calls: &[SearchCall]) -> rusqlite::Result<()> {
    let mut add = transaction.prepare_cached(
        "INSERT INTO search_calls (search_id, server_name, tool_name, rank)
         SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM searches WHERE id = ?1)
         AND (SELECT count(*) FROM search_calls WHERE search_id = ?1) < ?5",
    )?;
    for SearchCall { search, backend, tool, rank } in calls {
        add.execute(params![search, backend, tool, rank, MAX_CALLS_OF_SEARCH])?;
    }
    Ok(())
}

fn stored_search(row: &Row<'_>) -> rusqlite::Result<StoredSearch> {
    Ok(StoredSearch {
        id: row.get(0)?,
        at: row.get(1)?,
        owner: row.get(2)?,
        query: row.get(3)?,
        keywords: row.get(4)?,
        found: row.get(5)?,
    })
}

fn search_call(row: &Row<'_>) -> rusqlite::Result<SearchCall> {
    Ok(SearchCall { search: row.get(0)?, backend: row.get(1)?, tool: row.get(2)?, rank: row.get(3)? })
}
