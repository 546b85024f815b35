//! Trusted definitions of tools, and the latest change of each: its definition before and after, and whether
//! an operator has to approve it.

use std::collections::HashMap;

use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::StateStore;
use crate::error::StoreError;

/// A tool as a backend just listed it.
#[derive(Debug, Clone)]
pub struct ListedTool<'a> {
    /// The tool's own name at its backend.
    pub tool: &'a str,
    /// Hash of the parts of its definition that a model reads or relies on.
    pub hash: String,
    /// The definition, as JSON.
    pub definition: &'a str,
}

/// State of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftState {
    /// In force, without anybody's approval.
    Accepted,
    /// Quarantined until it is approved.
    Pending,
    /// In force, approved by an operator.
    Approved,
}

impl DriftState {
    /// Returns the name that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Pending => "pending",
            Self::Approved => "approved",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Accepted, Self::Pending, Self::Approved].into_iter().find(|state| state.as_str() == text)
    }
}

/// The latest change of a tool's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDrift {
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// The trusted definition before, as JSON.
    pub before: String,
    /// The definition after, as JSON.
    pub after: String,
    /// Hash after.
    pub after_hash: String,
    /// Time at which it was noticed.
    pub at: i64,
    /// State of the change.
    pub state: DriftState,
}

impl StateStore {
    /// Compares a listing with the trusted definitions of its backend. A tool seen for the first time is
    /// trusted (trust on first use), also after it was gone. A changed one is trusted at once, or with
    /// `quarantine` only when it is approved. Returns the changes that were not known yet.
    pub fn observe_listing(
        &self,
        backend: &str,
        tools: &[ListedTool<'_>],
        quarantine: bool,
        now: i64,
    ) -> Result<Vec<ToolDrift>, StoreError> {
        self.write(|transaction| {
            let trusted = baselines(transaction, backend)?;
            let mut news = Vec::new();
            for listed in tools {
                let Some((hash, definition)) = trusted.get(listed.tool) else {
                    trust(transaction, backend, listed.tool, &listed.hash, listed.definition, now)?;
                    continue;
                };
                if *hash == listed.hash {
                    // The server returned to the trusted definition.
                    transaction.execute(
                        "DELETE FROM tool_drift WHERE server_name = ?1 AND tool_name = ?2 AND state = 'pending'",
                        [backend, listed.tool],
                    )?;
                    continue;
                }
                let known = find(transaction, backend, listed.tool)?;
                let is_known = known.is_some_and(|drift| {
                    drift.state == DriftState::Pending && drift.after_hash == listed.hash
                });
                let drift = ToolDrift {
                    backend: backend.to_owned(),
                    tool: listed.tool.to_owned(),
                    before: definition.clone(),
                    after: listed.definition.to_owned(),
                    after_hash: listed.hash.clone(),
                    at: now,
                    state: if quarantine { DriftState::Pending } else { DriftState::Accepted },
                };
                if !quarantine {
                    trust(transaction, backend, listed.tool, &listed.hash, listed.definition, now)?;
                }
                if !quarantine || !is_known {
                    put(transaction, &drift)?;
                }
                if !is_known {
                    news.push(drift);
                }
            }
            Ok(news)
        })
    }

    /// Returns the latest change of each tool, newest first.
    pub fn tool_drifts(&self) -> Result<Vec<ToolDrift>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM tool_drift ORDER BY changed_at DESC, tool_name"
                ))?
                .query_map([], drift)?
                .collect()
        })
    }

    /// Trusts the pending change of a tool; false without a pending change, or if its hash is not the
    /// `expected` one.
    pub fn approve_drift(
        &self,
        backend: &str,
        tool: &str,
        expected: Option<&str>,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write(|transaction| {
            let pending = find(transaction, backend, tool)?
                .filter(|drift| drift.state == DriftState::Pending)
                .filter(|drift| expected.is_none_or(|hash| hash == drift.after_hash));
            let Some(drift) = pending else { return Ok(false) };
            trust(transaction, backend, tool, &drift.after_hash, &drift.after, now)?;
            put(transaction, &ToolDrift { state: DriftState::Approved, ..drift })?;
            Ok(true)
        })
    }
}

const COLUMNS: &str =
    "server_name, tool_name, before_definition, after_definition, after_hash, changed_at, state";

/// Trusted hash and definition of each tool of a backend.
fn baselines(
    transaction: &Transaction<'_>,
    backend: &str,
) -> rusqlite::Result<HashMap<String, (String, String)>> {
    transaction
        .prepare_cached("SELECT tool_name, hash, definition FROM tool_baselines WHERE server_name = ?1")?
        .query_map([backend], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?
        .collect()
}

fn trust(
    transaction: &Transaction<'_>,
    backend: &str,
    tool: &str,
    hash: &str,
    definition: &str,
    now: i64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO tool_baselines (server_name, tool_name, hash, definition, trusted_at)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![backend, tool, hash, definition, now])?;
    Ok(())
}

fn find(transaction: &Transaction<'_>, backend: &str, tool: &str) -> rusqlite::Result<Option<ToolDrift>> {
    transaction
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM tool_drift WHERE server_name = ?1 AND tool_name = ?2"
        ))?
        .query_row([backend, tool], drift)
        .optional()
}

fn put(transaction: &Transaction<'_>, drift: &ToolDrift) -> rusqlite::Result<()> {
    let ToolDrift { backend, tool, before, after, after_hash, at, state } = drift;
    transaction
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO tool_drift ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        ))?
        .execute(params![backend, tool, before, after, after_hash, at, state.as_str()])?;
    Ok(())
}

fn drift(row: &Row<'_>) -> rusqlite::Result<ToolDrift> {
    let state: String = row.get(6)?;
    let state = DriftState::parse(&state)
        .ok_or_else(|| rusqlite::Error::InvalidColumnType(6, state.clone(), Type::Text))?;
    Ok(ToolDrift {
        backend: row.get(0)?,
        tool: row.get(1)?,
        before: row.get(2)?,
        after: row.get(3)?,
        after_hash: row.get(4)?,
        at: row.get(5)?,
        state,
    })
}
