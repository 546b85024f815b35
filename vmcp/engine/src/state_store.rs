//! Opening of `state.db` for the threads that write to it.

use std::path::Path;

use vmcp_store::StateStore;

/// Opens `state.db` in a folder; without one, or if the folder cannot be used, a database in memory. Logs
/// `warning` for a folder that cannot be used, and `failure` if no database can be opened.
pub(crate) fn open_or_in_memory(dir: Option<&Path>, warning: &str, failure: &str) -> Option<StateStore> {
    let file = dir.map(StateStore::open).transpose().unwrap_or_else(|error| {
        tracing::warn!(%error, "{warning}");
        None
    });
    let opened = file.map_or_else(StateStore::in_memory, Ok);
    opened.inspect_err(|error| tracing::error!(%error, "{failure}")).ok()
}
