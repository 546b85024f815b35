//! Reliability of the catalog's tools, as a search takes it into account.

use std::sync::Arc;

use vmcp_model::catalog::Catalog;
use vmcp_search::Reliability;
use vmcp_store::ToolMetrics;

use crate::telemetry::tool_metrics::MetricsBook;
use crate::telemetry::tool_metrics::ToolKey;

/// Returns the reliability of tools over the calls of all clients, by document number.
pub(in crate::engine) fn common_reliability(
    book: &MetricsBook,
    catalog: &Catalog,
) -> Arc<[(usize, Reliability)]> {
    let of_tool = |metrics: &Arc<ToolMetrics>| {
        let success_rate = metrics.recent_success_rate as f32;
        let reliability = Reliability { calls: metrics.call_count, success_rate };
        let tool: ToolKey = (metrics.backend.as_str().into(), metrics.tool.as_str().into());
        reliability.counts().then_some((tool, reliability))
    };
    reliability_of_documents(book.all().filter_map(of_tool), catalog)
}

/// Returns the reliability of tools that changes a ranking, by document number.
pub(in crate::engine) fn reliability_of_documents(
    tools: impl IntoIterator<Item = (ToolKey, Reliability)>,
    catalog: &Catalog,
) -> Arc<[(usize, Reliability)]> {
    let known = |((backend, name), reliability): (ToolKey, Reliability)| {
        let tool = catalog.tool_of(&backend, &name).into_iter();
        let tool = tool.filter(|_| reliability.counts()).find(|tool| tool.definition.name == *name)?;
        let document = catalog.tools.binary_search_by(|other| other.name.cmp(&tool.name)).ok()?;
        Some((document, reliability))
    };
    let mut known: Vec<_> = tools.into_iter().filter_map(known).collect();
    known.sort_unstable_by_key(|(document, _)| *document);
    known.into()
}
