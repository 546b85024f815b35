//! Reports of tool metrics, as `/admin/tool-metrics`, `vmcp metrics` and `optim.get_tool_metrics` show them.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use vmcp_model::catalog::Catalog;
use vmcp_store::{ToolMetrics, failing_tools, top_tools};

use super::Filter;
use super::book::MetricsBook;

/// Tools that `sort` returns if the request names no limit.
const DEFAULT_LIMIT: usize = 10;
/// Calls below which `sort: top` leaves a tool out.
const DEFAULT_MIN_CALLS: u64 = 5;
/// Success rate below which `sort: failing` shows a tool.
const DEFAULT_THRESHOLD: f64 = 0.5;

/// Selection and order of tools.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricsQuery {
    /// Only the tools of this backend.
    pub server: Option<String>,
    /// Only the tool with this name, its backend's own.
    pub tool: Option<String>,
    /// Order by reliability; by name without it.
    pub sort: Option<MetricsOrder>,
    /// Most tools, with `sort`; 10 without it.
    pub limit: Option<usize>,
    /// Fewest calls of a tool, with `sort: top`; 5 without it.
    pub min_calls: Option<u64>,
    /// Success rate below which a tool is failing, with `sort: failing`; 0.5 without it.
    pub threshold: Option<f64>,
    /// The replicas whose figures are meant; all without it.
    pub scope: Option<MetricsScope>,
}

/// Replicas of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricsScope {
    /// All of them, summed.
    All,
    /// The replica that answers.
    Own,
}

/// Order of tools by reliability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricsOrder {
    /// The most reliable first.
    Top,
    /// Tools that fail too often, the worst first.
    Failing,
}

impl MetricsQuery {
    /// The tools that are meant, whatever the order.
    pub fn filter(&self) -> Filter {
        Filter { backend: self.server.clone(), tool: self.tool.clone() }
    }
}

/// The figures of several tools.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MetricsReport {
    /// The tools, in the order that was asked for.
    pub tools: Vec<ToolReport>,
    /// Replicas whose figures are summed, this one included, if `server.peers` names any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<usize>,
    /// Addresses and names of `server.peers` that gave no figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreachable: Vec<String>,
}

/// The figures of one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReport {
    /// The backend's name.
    pub server: String,
    /// The tool's own name at its backend.
    pub tool: String,
    /// Calls.
    pub call_count: u64,
    /// Calls that succeeded.
    pub success_count: u64,
    /// Calls that failed.
    pub failure_count: u64,
    /// Share of calls that succeeded, to two decimals.
    pub success_rate: f64,
    /// Success rate of about the last 50 calls, to two decimals.
    pub recent_success_rate: f64,
    /// Mean latency in milliseconds.
    pub avg_latency_ms: f64,
    /// Mean latency of about the last 50 calls, in milliseconds.
    pub recent_latency_ms: f64,
    /// Time of the last call.
    pub last_called_at: String,
    /// Time of the last success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<String>,
    /// Text of the last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Time of the last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<String>,
    /// True if no backend offers the tool any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

/// Makes the report of the tools that `query` selects and `sees` admits. With a catalog, tools that are not
/// in it are marked as removed.
pub fn report(
    book: &MetricsBook,
    catalog: Option<&Catalog>,
    query: &MetricsQuery,
    sees: impl Fn(&ToolMetrics) -> bool,
) -> MetricsReport {
    let filter = query.filter();
    let wanted = |metrics: &&ToolMetrics| filter.admits(metrics) && sees(metrics);
    let selected = book.all().map(AsRef::as_ref).filter(wanted);
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let tools = match query.sort {
        Some(MetricsOrder::Top) => top_tools(selected, limit, query.min_calls.unwrap_or(DEFAULT_MIN_CALLS)),
        Some(MetricsOrder::Failing) => {
            let mut failing = failing_tools(selected, query.threshold.unwrap_or(DEFAULT_THRESHOLD));
            failing.truncate(limit);
            failing
        }
        None => {
            let mut tools: Vec<_> = selected.collect();
            tools.sort_by(|one, other| (&one.backend, &one.tool).cmp(&(&other.backend, &other.tool)));
            tools
        }
    };
    let tools = tools.into_iter().map(|tool| tool_report(tool, catalog)).collect();
    MetricsReport { tools, ..MetricsReport::default() }
}

fn tool_report(metrics: &ToolMetrics, catalog: Option<&Catalog>) -> ToolReport {
    ToolReport {
        server: metrics.backend.clone(),
        tool: metrics.tool.clone(),
        call_count: metrics.call_count,
        success_count: metrics.success_count,
        failure_count: metrics.failure_count,
        success_rate: rounded(metrics.success_rate(), 2),
        recent_success_rate: rounded(metrics.recent_success_rate, 2),
        avg_latency_ms: rounded(metrics.avg_latency_ms, 1),
        recent_latency_ms: rounded(metrics.recent_latency_ms, 1),
        last_called_at: time(metrics.last_called_at),
        last_success_at: metrics.last_success_at.map(time),
        last_error: metrics.last_error.clone(),
        last_error_at: metrics.last_error_at.map(time),
        removed: catalog.is_some_and(|catalog| catalog.tool_of(&metrics.backend, &metrics.tool).is_empty()),
    }
}

/// Rounds to a number of decimals.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}

/// Writes milliseconds since the Unix epoch as RFC 3339.
pub(super) fn time(milliseconds: i64) -> String {
    let since = Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default());
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool with this many calls, all of them successful but `failures`.
    fn tool(name: &str, calls: u64, failures: u64) -> ToolMetrics {
        let counts = (calls, calls - failures, failures);
        let (call_count, success_count, failure_count) = counts;
        ToolMetrics { call_count, success_count, failure_count, ..ToolMetrics::new("s", name, 0) }
    }

    fn names(book: &MetricsBook, sort: MetricsOrder) -> Vec<String> {
        let query = MetricsQuery { sort: Some(sort), ..MetricsQuery::default() };
        report(book, None, &query, |_| true).tools.into_iter().map(|tool| tool.tool).collect()
    }

    #[test]
    fn an_order_shows_ten_tools_and_top_ones_have_five_calls() {
        let mut book = MetricsBook::default();
        for (name, calls, failures) in
            [("a", 10, 1), ("b", 20, 0), ("c", 2, 0), ("half", 4, 2), ("bad", 4, 3)]
        {
            book.put(tool(name, calls, failures));
        }
        assert_eq!(names(&book, MetricsOrder::Top), ["b", "a"], "the others were hardly called");
        assert_eq!(names(&book, MetricsOrder::Failing), ["bad"], "below one half");
        for number in 0..20 {
            book.put(tool(&format!("more{number}"), 5, 0));
        }
        assert_eq!(names(&book, MetricsOrder::Top).len(), 10);
    }
}
