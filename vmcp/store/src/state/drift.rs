//! Trusted definitions of tools, and the latest change of each: its definition before and after, and whether
//! an operator has to approve it.

use std::collections::HashMap;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

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

/// The trusted definition of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// Hash of the definition.
    pub hash: String,
    /// The definition, as JSON.
    pub definition: String,
    /// Time at which an operator approved it, in milliseconds; 0 for trust on first use.
    pub approved_at: i64,
}

/// The hash of a trusted definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedHash {
    /// The backend's name.
    pub backend: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Hash of the definition.
    pub hash: String,
    /// As [`Baseline::approved_at`].
    pub approved_at: i64,
}

/// The trusted definition of a tool that is listed, by a source besides the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The stored one; without any, the listed one (trust on first use).
    Stored,
    /// The listed one, approved at this time, or trusted on first use by another replica (0).
    Listed {
        /// As [`Baseline::approved_at`].
        approved_at: i64,
    },
    /// Neither of them: an unknown one.
    Unknown,
}

/// Returns the trust in a listed tool, of which the database has this definition.
pub type TrustRule<'a> = &'a dyn Fn(&ListedTool<'_>, Option<&Baseline>) -> Trust;

/// Stands for a trusted definition of which only the hash is known.
const UNKNOWN_DEFINITION: &str = "{}";

impl StateStore {
    /// Compares a listing with the trusted definitions of its backend. A tool seen for the first time is
    /// trusted (trust on first use), also after it was gone. A changed one is trusted at once, or with
    /// `quarantine` only when it is approved, here or according to `trust_of`. Returns the changes that were
    /// not known yet.
    pub fn observe_listing(
        &self,
        backend: &str,
        tools: &[ListedTool<'_>],
        quarantine: Option<TrustRule<'_>>,
        now: i64,
    ) -> Result<Vec<ToolDrift>, StoreError> {
        let trust_of = quarantine.unwrap_or(&|_, _| Trust::Stored);
        let quarantine = quarantine.is_some();
        self.write(|transaction| {
            let trusted = baselines(transaction, backend)?;
            let mut news = Vec::new();
            for listed in tools {
                let stored = trusted.get(listed.tool);
                let definition = match (trust_of(listed, stored), stored) {
                    (Trust::Listed { approved_at }, _) => {
                        let known = stored.map(|stored| (stored.hash.as_str(), stored.approved_at));
                        if known != Some((listed.hash.as_str(), approved_at)) {
                            trust(transaction, backend, listed, approved_at, now)?;
                        }
                        settle(transaction, backend, listed)?;
                        continue;
                    }
                    (Trust::Stored, None) => {
                        trust(transaction, backend, listed, 0, now)?;
                        continue;
                    }
                    (Trust::Stored, Some(stored)) if stored.hash == listed.hash => {
                        settle(transaction, backend, listed)?;
                        continue;
                    }
                    (Trust::Stored, Some(stored)) => stored.definition.as_str(),
                    (Trust::Unknown, _) => UNKNOWN_DEFINITION,
                };
                let known = find(transaction, backend, listed.tool)?;
                let is_known = known.is_some_and(|drift| {
                    drift.state == DriftState::Pending && drift.after_hash == listed.hash
                });
                let drift = ToolDrift {
                    backend: backend.to_owned(),
                    tool: listed.tool.to_owned(),
                    before: definition.to_owned(),
                    after: listed.definition.to_owned(),
                    after_hash: listed.hash.clone(),
                    at: now,
                    state: if quarantine { DriftState::Pending } else { DriftState::Accepted },
                };
                if !quarantine {
                    trust(transaction, backend, listed, 0, now)?;
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

    /// Returns the trusted definition of each tool of a backend.
    pub fn trusted_definitions(&self, backend: &str) -> Result<HashMap<String, Baseline>, StoreError> {
        self.read(|connection| baselines(connection, backend))
    }

    /// Returns the hash of the trusted definition of each tool.
    pub fn trusted_hashes(&self) -> Result<Vec<TrustedHash>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT server_name, tool_name, hash, approved_at FROM tool_baselines")?
                .query_map([], |row| {
                    Ok(TrustedHash {
                        backend: row.get(0)?,
                        tool: row.get(1)?,
                        hash: row.get(2)?,
                        approved_at: row.get(3)?,
                    })
                })?
                .collect()
        })
    }

    /// Trusts the pending change of a tool, as approved at the time `now`; false without a pending change, or
    /// if its hash is not the `expected` one.
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
            let approved =
                ListedTool { tool, hash: drift.after_hash.clone(), definition: drift.after.as_str() };
            trust(transaction, backend, &approved, now, now)?;
            put(transaction, &ToolDrift { state: DriftState::Approved, ..drift })?;
            Ok(true)
        })
    }
}

const COLUMNS: &str =
    "server_name, tool_name, before_definition, after_definition, after_hash, changed_at, state";

fn baselines(connection: &Connection, backend: &str) -> rusqlite::Result<HashMap<String, Baseline>> {
    connection
        .prepare_cached(
            "SELECT tool_name, hash, definition, approved_at FROM tool_baselines WHERE server_name = ?1",
        )?
        .query_map([backend], |row| {
            let (hash, definition, approved_at) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((row.get(0)?, Baseline { hash, definition, approved_at }))
        })?
        .collect()
}

fn trust(
    transaction: &Transaction<'_>,
    backend: &str,
    listed: &ListedTool<'_>,
    approved_at: i64,
    now: i64,
) -> rusqlite::Result<()> {
    let ListedTool { tool, hash, definition } = listed;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO tool_baselines
             (server_name, tool_name, hash, definition, trusted_at, approved_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![backend, tool, hash, definition, now, approved_at])?;
    Ok(())
}

/// Ends the pending change of a tool that lists its trusted definition: the change was approved elsewhere, or
/// the server returned to the trusted definition.
fn settle(transaction: &Transaction<'_>, backend: &str, listed: &ListedTool<'_>) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE tool_drift SET state = 'approved'
             WHERE server_name = ?1 AND tool_name = ?2 AND state = 'pending' AND after_hash = ?3",
        )?
        .execute(params![backend, listed.tool, listed.hash])?;
    transaction
        .prepare_cached(
            "DELETE FROM tool_drift WHERE server_name = ?1 AND tool_name = ?2 AND state = 'pending'",
        )?
        .execute([backend, listed.tool])?;
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
