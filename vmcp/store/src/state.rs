//! [`StateStore`]: metrics and trusted definitions of tools in `state.db`. [`tool_metrics`] has the
//! aggregates of each tool, which every call updates; [`call_log`] the single calls of the last days and the
//! sums of each day; [`reliability`] the order of tools by success; [`drift`] the definitions that are
//! trusted, and their changes; [`runs`] the runs of composite tools that another process can continue;
//! [`searches`] the log of searches; [`sequels`] the tools that follow a tool within a session; [`sessions`]
//! the sessions of coding agents; [`shapes`] the observed shapes of results; [`usage`] the sums of days over
//! all tools, and of searches.

pub(crate) mod call_log;
pub(crate) mod drift;
pub(crate) mod learned;
pub(crate) mod reliability;
pub(crate) mod runs;
pub(crate) mod searches;
pub(crate) mod sequels;
pub(crate) mod sessions;
pub(crate) mod shapes;
pub(crate) mod tool_metrics;
pub(crate) mod usage;

use std::path::Path;

use rusqlite::{Connection, Transaction};

use crate::database::Database;
use crate::error::StoreError;
use crate::schema;

/// The open state. Threads share it by reference; several processes may have the same file open.
///
/// ```
/// use vmcp_store::{CallFact, StateStore};
///
/// let state = StateStore::in_memory()?;
/// let call = |succeeded| CallFact {
///     at: 1_700_000_000_000,
///     succeeded,
///     latency_ms: 20.0,
///     outcome: "ok",
///     error: None,
/// };
/// let metrics = state.record_calls(&[("jira", "get_issue", &[call(true), call(false)])])?;
/// assert_eq!((metrics[0].call_count, metrics[0].success_count), (2, 1));
/// assert_eq!(metrics[0].success_rate(), 0.5);
/// # Ok::<(), vmcp_store::StoreError>(())
/// ```
pub struct StateStore(Database);

impl StateStore {
    /// Opens or creates `state.db` in `dir`; a new folder gets mode 0700, the files always 0600. A damaged
    /// file, or one of a newer version of vmcp, is renamed to `state.db.unusable` and replaced.
    ///
    /// After [`StoreError::Unwritable`] the caller may go on with [`StateStore::in_memory`].
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Database::open(dir, &schema::STATE).map(Self)
    }

    /// Opens a store that lives as long as the process.
    pub fn in_memory() -> Result<Self, StoreError> {
        Database::in_memory(&schema::STATE).map(Self)
    }

    /// Opens `state.db` in a folder for a thread that writes to it; without one, or if the folder cannot be
    /// used, a database in memory. Logs `warning` for a folder that cannot be used, and `failure` if no
    /// database can be opened.
    pub fn open_or_in_memory(dir: Option<&Path>, warning: &str, failure: &str) -> Option<Self> {
        let file = dir.map(Self::open).transpose().unwrap_or_else(|error| {
            tracing::warn!(%error, "{warning}");
            None
        });
        let opened = file.map_or_else(Self::in_memory, Ok);
        opened.inspect_err(|error| tracing::error!(%error, "{failure}")).ok()
    }

    /// Returns the path of the database file; `None` in memory.
    pub fn path(&self) -> Option<&Path> {
        self.0.path()
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.0.read(work)
    }

    fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.0.write(work)
    }
}
