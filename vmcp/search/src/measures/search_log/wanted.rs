//! [`Wanted`]: searches that led to no tool that they found, grouped by likeness.
//!
//! Leader clustering by words: the most frequent set of stems founds a group, and a search joins the group
//! with the highest Jaccard index of its stems, if that is [`MIN_LIKENESS`] or more.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::{LoggedSearch, LoggedTool, SearchOutcome};
use crate::text::analysis::terms;

/// Jaccard index from which two searches count as alike: `{create, jira, ticket}` and `{open, jira, ticket}`
/// do.
const MIN_LIKENESS: f64 = 0.5;
/// Searches that are grouped, the first ones: a bound on the time.
const MAX_SEARCHES: usize = 5000;
/// Terms of one search that are compared.
const MAX_TERMS: usize = 32;
/// Other wordings that a group shows.
const MAX_WORDINGS: usize = 3;
/// Tools called instead that a group shows.
const MAX_TOOLS: usize = 3;

/// A group of searches that led nowhere. Scripts rely on the names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// The most frequent wording.
    pub query: String,
    /// Other wordings.
    pub wordings: Vec<String>,
    /// Searches.
    pub searches: usize,
    /// Identities that searched; clients without one count as one.
    pub clients: usize,
    /// Searches that found no tool.
    pub no_result: usize,
    /// Searches that found tools, and after which none was called.
    pub nothing_called: usize,
    /// Searches after which another tool was called.
    pub other_tool: usize,
    /// Tools that were called instead, the most frequent first.
    pub called_instead: Vec<LoggedTool>,
    /// Time of the last search, in milliseconds since the Unix epoch.
    pub last_at: i64,
}

/// Searches with the same set of stems.
type Alike<'a> = Vec<&'a LoggedSearch>;

/// Returns the searches that led to no tool that they found, the most frequent group first.
pub fn wanted(searches: &[LoggedSearch]) -> Vec<Wanted> {
    let led_nowhere = searches.iter().filter(|search| search.outcome() != SearchOutcome::FoundAndCalled);
    let mut equal: BTreeMap<BTreeSet<String>, Alike<'_>> = BTreeMap::new();
    for search in led_nowhere.take(MAX_SEARCHES) {
        equal.entry(stems(search)).or_default().push(search);
    }
    let mut sets: Vec<_> = equal.into_iter().collect();
    sets.sort_by_key(|(_, alike)| std::cmp::Reverse(alike.len()));
    let mut groups: Vec<(BTreeSet<String>, Alike<'_>)> = Vec::new();
    // Groups by the terms of their leaders: only groups that share a term are compared.
    let mut by_term: HashMap<String, Vec<usize>> = HashMap::new();
    for (stems, alike) in sets {
        let near = nearest(&stems, &groups, &by_term);
        if let Some((_, joined)) = near.and_then(|at| groups.get_mut(at)) {
            joined.extend(alike);
        } else {
            for stem in &stems {
                by_term.entry(stem.clone()).or_default().push(groups.len());
            }
            groups.push((stems, alike));
        }
    }
    let mut wanted: Vec<_> = groups.iter().map(|(_, alike)| summary(alike)).collect();
    wanted.sort_by(|one, other| (other.searches, &one.query).cmp(&(one.searches, &other.query)));
    wanted
}

/// Returns the stems of a search; its text, if it has none.
fn stems(search: &LoggedSearch) -> BTreeSet<String> {
    let text = search.text();
    let stems: BTreeSet<_> = terms(&text).take(MAX_TERMS).collect();
    if stems.is_empty() { BTreeSet::from([text.to_lowercase()]) } else { stems }
}

/// Returns the group whose leader is most alike; `None` if none is alike enough.
fn nearest(
    stems: &BTreeSet<String>,
    groups: &[(BTreeSet<String>, Alike<'_>)],
    by_term: &HashMap<String, Vec<usize>>,
) -> Option<usize> {
    let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
    for at in stems.iter().filter_map(|stem| by_term.get(stem)).flatten() {
        *shared.entry(*at).or_default() += 1;
    }
    let likeness = |(at, shared): (usize, usize)| {
        let leader = groups.get(at).map_or(0, |(leader, _)| leader.len());
        (at, shared as f64 / (stems.len() + leader).saturating_sub(shared).max(1) as f64)
    };
    let alike = shared.into_iter().map(likeness).filter(|(_, likeness)| *likeness >= MIN_LIKENESS);
    // Of equally near groups, the first: it is the most frequent.
    alike.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
}

fn summary(alike: &[&LoggedSearch]) -> Wanted {
    let ended = |outcome| alike.iter().filter(|search| search.outcome() == outcome).count();
    let clients: BTreeSet<_> = alike.iter().map(|search| search.client.as_deref()).collect();
    let mut wordings = by_frequency(alike.iter().map(|search| search.text())).into_iter();
    let called = alike.iter().flat_map(|search| &search.calls).map(|call| call.tool.clone());
    Wanted {
        query: wordings.next().unwrap_or_default(),
        wordings: wordings.take(MAX_WORDINGS).collect(),
        searches: alike.len(),
        clients: clients.len(),
        no_result: ended(SearchOutcome::NoResult),
        nothing_called: ended(SearchOutcome::NothingCalled),
        other_tool: ended(SearchOutcome::OtherTool),
        called_instead: by_frequency(called).into_iter().take(MAX_TOOLS).collect(),
        last_at: alike.iter().map(|search| search.at).max().unwrap_or_default(),
    }
}

/// Returns the different values, the most frequent first.
fn by_frequency<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_insert(0_usize) += 1;
    }
    let mut counted: Vec<_> = counts.into_iter().collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted.into_iter().map(|(value, _)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{search, tool};
    use super::*;

    #[test]
    fn searches_that_led_nowhere_are_grouped_by_their_words() {
        let searches = [
            search("create a jira ticket", &["a"], &[]),
            search("open jira tickets", &["a"], &["c"]),
            search("creating a Jira ticket", &[], &[]),
            search("weather in Paris", &["a"], &[]),
            search("send a mail", &["a"], &["a"]),
            search("票を作成する", &["a"], &[]),
            search("票を作成", &["a"], &[]),
            search("???", &[], &[]),
        ];
        let groups = wanted(&searches);
        let counts: Vec<_> = groups.iter().map(|group| (group.query.as_str(), group.searches)).collect();
        assert_eq!(
            counts,
            [("create a jira ticket", 3), ("票を作成", 2), ("???", 1), ("weather in Paris", 1)],
            "{groups:?}"
        );
        let first = &groups[0];
        assert_eq!((first.no_result, first.nothing_called, first.other_tool), (1, 1, 1));
        assert_eq!(first.called_instead, [tool("c")]);
        assert_eq!(first.wordings.len(), 2);
    }
}
