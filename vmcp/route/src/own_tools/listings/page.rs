//! Pages of list_tools: a catalog of some hundred tools would fill a model's context with one answer.

use serde::Serialize;

use crate::own_tools::arguments::input::InputError;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use vmcp_engine::optim::definitions::{LISTED_TOOLS, MAX_LISTED_TOOLS};

/// The part of a list that a caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    /// Tools to leave out.
    offset: usize,
    /// Most tools to return.
    limit: usize,
}

/// Number of all tools, and the way to those behind the last one of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Rest {
    total_tools: usize,
    /// Value of `offset` for the next page.
    next_offset: usize,
}

impl Page {
    /// Reads `offset` and `limit`.
    pub(super) fn read(arguments: &OwnArguments<'_>) -> Result<Page, InputError> {
        let offset = arguments.read("offset", "a whole number from 0")?.unwrap_or(0);
        let limit = arguments.count("limit", MAX_LISTED_TOOLS)?.unwrap_or(LISTED_TOOLS);
        Ok(Page { offset, limit })
    }

    /// Returns the tools of one server that are on the page.
    pub(super) fn of_tools<T>(self, tools: &[T]) -> (&[T], Option<Rest>) {
        let begin = self.offset.min(tools.len());
        let end = begin.saturating_add(self.limit).min(tools.len());
        (tools.get(begin..end).unwrap_or_default(), rest(end, tools.len()))
    }

    /// Returns the servers with tools on the page; one without any tool is on the first page, or on the one
    /// before its successor.
    pub(super) fn of_servers<'a, 't, T>(
        self,
        servers: &'t [(&'a str, Vec<T>)],
    ) -> (Vec<(&'a str, &'t [T])>, Option<Rest>) {
        let total = servers.iter().map(|(_, tools)| tools.len()).sum();
        let end = self.offset.saturating_add(self.limit).min(total);
        let mut first = 0;
        let mut shown = Vec::new();
        for (name, tools) in servers {
            let (begin, behind) = (first, first + tools.len());
            first = behind;
            let from = self.offset.clamp(begin, behind) - begin;
            let to = end.clamp(begin, behind) - begin;
            let is_empty_here = tools.is_empty() && begin >= self.offset && (begin < end || end == total);
            if from < to || is_empty_here {
                shown.push((*name, tools.get(from..to).unwrap_or_default()));
            }
        }
        (shown, rest(end, total))
    }
}

fn rest(end: usize, total: usize) -> Option<Rest> {
    (end < total).then_some(Rest { total_tools: total, next_offset: end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lead_to_every_tool_once() {
        let servers = [("a", vec![1, 2, 3]), ("none", Vec::new()), ("b", vec![4, 5]), ("c", vec![6])];
        for limit in 1..=7 {
            let (mut offset, mut seen, mut names) = (0, Vec::new(), Vec::new());
            loop {
                let (shown, rest) = Page { offset, limit }.of_servers(&servers);
                names.extend(shown.iter().map(|(name, _)| *name));
                seen.extend(shown.iter().flat_map(|(_, tools)| tools.iter().copied()));
                let Some(rest) = rest else { break };
                assert_eq!((rest.total_tools, rest.next_offset), (6, offset + limit));
                offset = rest.next_offset;
            }
            names.dedup();
            assert_eq!((seen, names), (vec![1, 2, 3, 4, 5, 6], vec!["a", "none", "b", "c"]), "{limit}");
        }
    }

    #[test]
    fn a_page_behind_the_end_is_empty() {
        let tools = [1, 2, 3];
        let page = |offset, limit| Page { offset, limit }.of_tools(&tools);
        assert_eq!(page(2, 9), (&[3][..], None));
        assert_eq!(page(7, 9), (&[][..], None));
        assert_eq!(page(0, 2), (&[1, 2][..], Some(Rest { total_tools: 3, next_offset: 2 })));
        assert!(Page { offset: usize::MAX, limit: 5 }.of_servers(&[("a", vec![1])]).0.is_empty());
    }
}
