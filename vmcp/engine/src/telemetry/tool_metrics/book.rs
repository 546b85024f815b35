//! [`MetricsBook`]: the aggregates of all tools in memory. Immutable and swapped whole, so that searches read
//! it without a lock.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use vmcp_store::ToolMetrics;

use super::Filter;

/// The book in force.
pub(super) type SharedBook = Arc<ArcSwap<MetricsBook>>;

/// The tools of one backend, by their own names.
type Tools = HashMap<Box<str>, Arc<ToolMetrics>>;

/// The aggregates of all tools, by backend and tool. A clone shares them.
#[derive(Debug, Clone, Default)]
pub struct MetricsBook(HashMap<Box<str>, Arc<Tools>>);

impl MetricsBook {
    /// Returns the aggregates of a tool, by its own name at its backend; `None` before its first call.
    pub fn get(&self, backend: &str, tool: &str) -> Option<&Arc<ToolMetrics>> {
        self.0.get(backend)?.get(tool)
    }

    /// All aggregates, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ToolMetrics>> {
        self.0.values().flat_map(|tools| tools.values())
    }

    /// Replaces the aggregates of one tool.
    pub(super) fn put(&mut self, metrics: ToolMetrics) {
        let tools = self.0.entry(metrics.backend.as_str().into()).or_default();
        Arc::make_mut(tools).insert(metrics.tool.as_str().into(), Arc::new(metrics));
    }

    /// Forgets the tools that `filter` means; returns their number.
    pub(super) fn forget(&mut self, filter: &Filter) -> usize {
        let before = self.all().count();
        for (backend, tools) in &mut self.0 {
            if filter.backend.as_deref().is_some_and(|wanted| wanted != &**backend) {
                continue;
            }
            match &filter.tool {
                Some(tool) => _ = Arc::make_mut(tools).remove(tool.as_str()),
                None => *tools = Arc::default(),
            }
        }
        before - self.all().count()
    }
}

impl Extend<ToolMetrics> for MetricsBook {
    fn extend<I: IntoIterator<Item = ToolMetrics>>(&mut self, all: I) {
        for metrics in all {
            self.put(metrics);
        }
    }
}

impl FromIterator<ToolMetrics> for MetricsBook {
    fn from_iter<I: IntoIterator<Item = ToolMetrics>>(all: I) -> MetricsBook {
        let mut book = MetricsBook::default();
        book.extend(all);
        book
    }
}
