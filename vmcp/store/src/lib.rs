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
mod store;
mod vectors;

pub use canaries::StoredCanary;
pub use definitions::SavedDefinitions;
pub use error::StoreError;
pub use hashes::{ChangeKind, DefinitionKind, DefinitionName, RecordedChange, StoredHash};
pub use state::StateStore;
pub use state::call_log::{CallFact, CallHistory, CallLog, DayMetrics};
pub use state::drift::{Baseline, DriftState, ListedTool, ToolDrift, Trust, TrustRule, TrustedHash};
pub use state::learned::StoredPair;
pub use state::reliability::{failing_tools, top_tools};
pub use state::runs::{HOLDER_PROCESS_BYTES, KeptRun, MAX_RUNS_OF_OWNER, RunClaim, RunLease, RunName};
pub use state::searches::{SearchBatch, SearchCall, SearchLogBounds, StoredSearch, UnsearchedCalls};
pub use state::sequels::StoredSequels;
pub use state::sessions::{MAX_EVENTS_OF_SESSION, MAX_SESSIONS, SessionLimits, SessionQuery};
pub use state::shapes::StoredShape;
pub use state::tool_metrics::ToolMetrics;
pub use state::usage::{DayCalls, SearchDay, ToolCalls};
pub use store::Store;
pub use vectors::{ContentKey, ToolVector};

/// Name of the cache's file in the storage folder.
pub const FILE_NAME: &str = schema::CACHE.file_name;
/// Name of the state's file in the storage folder.
pub const STATE_FILE_NAME: &str = schema::STATE.file_name;
