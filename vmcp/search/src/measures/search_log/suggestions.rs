//! [`Suggestion`]: advice to an operator, so that searches find a tool.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::judgment;
use super::missing_words::{MissingWord, missing_words};
use super::tool_uses::{ToolUses, tool_uses};
use super::{LoggedSearch, LoggedTool};
use crate::document::Document;

/// Searches that found a tool badly and led to its call, from which its words are looked at.
const MIN_BADLY_FOUND: usize = 2;
/// Calls after searches from which a tool may be worth its place in every list.
const MIN_PIN_CALLS: usize = 10;
/// Share of the searches with a call from which a tool may be worth its place in every list.
const MIN_PIN_SHARE: f64 = 0.2;
/// Searches that found a tool among the first three and led to no call of it, from which it is in the way.
const MIN_IN_THE_WAY: usize = 20;

/// A suggestion for one tool. Scripts rely on the names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestion {
    /// The tool.
    #[serde(flatten)]
    pub tool: LoggedTool,
    /// Searches that are the reason.
    pub searches: usize,
    /// The suggestion.
    #[serde(flatten)]
    pub advice: Advice,
}

/// Advice for a tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "advice", rename_all = "snake_case")]
pub enum Advice {
    /// Its definition lacks words that people use: override its description or its name.
    Describe {
        /// The words, the most frequent first.
        words: Vec<MissingWord>,
    },
    /// Many searches lead to it: pin it, so that its client needs no search.
    Pin {
        /// Share of the searches with a call after which it was called.
        share: f64,
    },
    /// It is often found and never called: its description promises too much, or it can be filtered.
    Narrow,
}

/// Returns suggestions, the ones with the most searches first. `document` returns the definition of a tool
/// that is there; `is_pinned` is true for a tool that every list shows, `is_called` for a tool that clients
/// called without a search.
pub fn suggestions(
    searches: &[LoggedSearch],
    document: impl Fn(&LoggedTool) -> Option<Document>,
    is_pinned: impl Fn(&LoggedTool) -> bool,
    is_called: impl Fn(&LoggedTool) -> bool,
) -> Vec<Suggestion> {
    let with_call = searches.iter().filter(|search| judgment(search).is_some()).count();
    let uses: BTreeMap<_, _> = tool_uses(searches);
    let mut all = Vec::new();
    for (tool, uses) in uses {
        let suggestion = |searches, advice| Suggestion { tool: tool.clone(), searches, advice };
        let Some(document) = document(tool) else { continue };
        all.extend(
            words(&document, &uses)
                .map(|words| suggestion(uses.badly_found.len(), Advice::Describe { words })),
        );
        let share = uses.called as f64 / with_call.max(1) as f64;
        if uses.called >= MIN_PIN_CALLS && share >= MIN_PIN_SHARE && !is_pinned(tool) {
            all.push(suggestion(uses.called, Advice::Pin { share }));
        }
        if uses.called == 0 && uses.found_well >= MIN_IN_THE_WAY && !is_called(tool) {
            all.push(suggestion(uses.found_well, Advice::Narrow));
        }
    }
    all.sort_by_key(|suggestion| Reverse(suggestion.searches));
    all
}

/// Returns the words that a definition lacks, by the searches that found it badly; `None` if it lacks none.
fn words(document: &Document, uses: &ToolUses<'_>) -> Option<Vec<MissingWord>> {
    if uses.badly_found.len() < MIN_BADLY_FOUND {
        return None;
    }
    let texts: Vec<_> = uses.badly_found.iter().map(|search| search.text()).collect();
    let words = missing_words(document, texts.iter().map(String::as_str));
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{search, tool};
    use super::*;

    #[test]
    fn a_tool_gets_words_a_pin_or_a_narrower_description() {
        let mut searches = vec![
            search("open a ticket", &["x", "y", "z", "create_issue"], &["create_issue"]),
            search("a ticket for the team", &["x"], &["create_issue"]),
        ];
        searches.extend((0..20).map(|_| search("read it", &["read", "x"], &["read"])));
        let document = |tool: &LoggedTool| {
            let name = tool.tool.clone();
            (name != "gone").then(|| Document { name, ..Document::default() })
        };
        let all = suggestions(&searches, document, |_| false, |_| false);
        let of = |name: &str| {
            all.iter().filter(|one| one.tool == tool(name)).map(|one| &one.advice).collect::<Vec<_>>()
        };
        let words = vec![MissingWord { word: "ticket".to_owned(), searches: 2 }];
        assert_eq!(of("create_issue"), [&Advice::Describe { words }]);
        let [Advice::Pin { share }] = of("read")[..] else { panic!("{all:?}") };
        assert!((share - 20.0 / 22.0).abs() < 1e-9);
        assert_eq!(of("x"), [&Advice::Narrow]);
        assert!(of("y").is_empty());
        let pinned = suggestions(&searches, document, |_| true, |_| false);
        assert!(!pinned.iter().any(|one| matches!(one.advice, Advice::Pin { .. })), "{pinned:?}");
        assert_eq!(pinned.len() + 1, all.len(), "the other advice stays");
        assert!(suggestions(&searches, |_| None, |_| false, |_| false).is_empty(), "a tool is gone");
        let called = suggestions(&searches, document, |_| false, |called| *called == tool("x"));
        assert!(!called.iter().any(|one| one.advice == Advice::Narrow), "clients call it by its name");
        assert_eq!(called.len() + 1, all.len(), "the other advice stays");
    }
}
