//! Two SQLite databases in one folder. [`Store`] is the cache, `embeddings.db`: embeddings, schema hashes and
//! saved definitions, which can all be made again from the backends and the embedding model. [`StateStore`]
//! is `state.db`: metrics and trusted definitions of tools, which nothing can make again.
//!
//! A file that cannot be used is moved aside, never repaired, and callers go on in memory when it fails. All
//! calls block: run them in `spawn_blocking`, or on a thread of their own. Times are milliseconds since the
//! Unix epoch and come from the caller.
//!
//! ```
//! use vmcp_store::{ContentKey, Store, ToolVector};
//!
//! let store = Store::in_memory()?;
//! let key = ContentKey::new(1, "model", "echo: returns its input");
//! let vector = ToolVector {
//!     key,
//!     backend: "everything",
//!     tool: "echo",
//!     description: "returns its input",
//!     model_id: "model",
//!     vector: &[0.6, 0.8],
//! };
//! store.put_vectors(&[vector], 1_700_000_000_000)?;
//! assert_eq!(store.vectors(&[key])?[&key], [0.6, 0.8]);
//!
//! // Another model, or another text: another key.
//! assert!(store.vectors(&[ContentKey::new(1, "other", "echo: returns its input")])?.is_empty());
//! # Ok::<(), vmcp_store::StoreError>(())
//! ```

mod canaries;
mod database;
mod definitions;
mod error;
mod hashes;
mod open;
mod schema;
mod state;
mod vectors;

use std::path::Path;

use rusqlite::{Connection, Transaction};

use database::Database;

pub use canaries::StoredCanary;
pub use definitions::SavedDefinitions;
pub use error::StoreError;
pub use hashes::{ChangeKind, DefinitionKind, DefinitionName, RecordedChange, StoredHash};
pub use state::StateStore;
pub use state::call_log::{CallLog, DayMetrics};
pub use state::drift::{DriftState, ListedTool, ToolDrift};
pub use state::learned::StoredPair;
pub use state::reliability::{failing_tools, top_tools};
pub use state::runs::{HOLDER_PROCESS_BYTES, KeptRun, MAX_RUNS_OF_OWNER, RunClaim, RunLease, RunName};
pub use state::tool_metrics::{CallFact, ToolMetrics};
pub use vectors::{ContentKey, ToolVector};

/// Name of the cache's file in the storage folder.
pub const FILE_NAME: &str = schema::CACHE.file_name;
/// Name of the state's file in the storage folder.
pub const STATE_FILE_NAME: &str = schema::STATE.file_name;

/// The open cache. Threads share it by reference; several processes may have the same file open.
pub struct Store(Database);

impl Store {
    /// Opens or creates `embeddings.db` in `dir`; a new folder gets mode 0700, the files always 0600. A
    /// damaged file, or one of a newer version of vmcp, is renamed to `embeddings.db.unusable` and replaced.
    ///
    /// After [`StoreError::Unwritable`] the caller may go on with [`Store::in_memory`].
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        Database::open(dir, &schema::CACHE).map(Self)
    }

    /// Opens a store that lives as long as the process: for `storage: none`, for tests, and for a folder that
    /// cannot be written.
    pub fn in_memory() -> Result<Self, StoreError> {
        Database::in_memory(&schema::CACHE).map(Self)
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
