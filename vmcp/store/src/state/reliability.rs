//! Order of tools by reliability.

use super::tool_metrics::ToolMetrics;

/// Returns the most reliable tools first: by success rate, then by number of calls. Tools with fewer than
/// `min_calls` calls are left out.
pub fn top_tools<'a>(
    metrics: impl IntoIterator<Item = &'a ToolMetrics>,
    limit: usize,
    min_calls: u64,
) -> Vec<&'a ToolMetrics> {
    let mut tools: Vec<_> = metrics.into_iter().filter(|tool| tool.call_count >= min_calls.max(1)).collect();
    tools.sort_by(|one, other| {
        other.success_rate().total_cmp(&one.success_rate()).then(other.call_count.cmp(&one.call_count))
    });
    tools.truncate(limit);
    tools
}

/// Returns the tools whose success rate is below `threshold`, worst first. A tool without a call is not
/// failing.
pub fn failing_tools<'a>(
    metrics: impl IntoIterator<Item = &'a ToolMetrics>,
    threshold: f64,
) -> Vec<&'a ToolMetrics> {
    let fails = |tool: &&ToolMetrics| tool.call_count > 0 && tool.success_rate() < threshold;
    let mut tools: Vec<_> = metrics.into_iter().filter(fails).collect();
    tools.sort_by(|one, other| {
        one.success_rate().total_cmp(&other.success_rate()).then(other.call_count.cmp(&one.call_count))
    });
    tools
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, calls: u64, successes: u64) -> ToolMetrics {
        ToolMetrics { call_count: calls, success_count: successes, ..ToolMetrics::new("s", name, 0) }
    }

    #[test]
    fn the_most_reliable_come_first_and_failing_ones_are_below_the_threshold() {
        let tools = [tool("a", 10, 9), tool("b", 20, 20), tool("c", 2, 2), tool("d", 0, 0)];
        let names =
            |tools: Vec<&ToolMetrics>| tools.into_iter().map(|tool| tool.tool.clone()).collect::<Vec<_>>();
        assert_eq!(names(top_tools(&tools, 10, 5)), ["b", "a"]);
        assert_eq!(names(top_tools(&tools, 1, 5)), ["b"]);
        assert_eq!(names(failing_tools(&tools, 0.95)), ["a"]);
        assert_eq!(names(failing_tools(&tools, 0.9)), [""; 0], "strictly below");
    }
}
