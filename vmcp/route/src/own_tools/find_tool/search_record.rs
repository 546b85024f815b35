//! Tells the query log of a client's search, whichever own tool it came by.

use std::sync::Arc;

use crate::caller::{CallContext, ContextKey};
use vmcp_engine::telemetry::query_log::ClientSearch;

/// Records a search with its description and keywords, and the tools that it found, best first, each by its
/// backend and its own name there. `key` is that of the caller's context or session.
pub(in crate::own_tools) fn record(
    context: CallContext<'_>,
    key: Option<ContextKey>,
    [description, keywords]: [&str; 2],
    found: impl Iterator<Item = (Arc<str>, Arc<str>)>,
) {
    let principal = context.caller.principal.key();
    context
        .engine
        .query_log()
        .searched(&ClientSearch { principal, context: key, description, keywords }, found);
}
