//! [`Windows`]: the last searches of each client, and the matching of calls with them. Times come from the
//! caller.
//!
//! A call belongs to the latest search of its client within [`WINDOW_MS`] that found the tool, and to earlier
//! searches that found it and have no call yet: the client worded its search again. A call of a tool that
//! none of them found belongs to the latest search, if that has no call yet.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use lru::LruCache;

use super::Client;
use crate::telemetry::tool_metrics::ToolKey;

/// Time after a search within which a call counts as its consequence, in milliseconds: ten minutes.
pub(super) const WINDOW_MS: i64 = 10 * 60 * 1000;
/// Clients whose searches are remembered, at most 7 KiB each; one more evicts the least recently active.
const MAX_CLIENTS: NonZeroUsize = NonZeroUsize::new(2048).unwrap();
/// Searches of one client; one more closes the oldest.
const MAX_OPEN: usize = 4;

/// A search that may still get a call.
#[derive(Debug)]
pub(super) struct OpenSearch {
    /// Its identity in the log; `None`: it is not logged.
    pub(super) id: Option<i64>,
    /// Time of the search.
    pub(super) at: i64,
    /// Tools found, best first.
    pub(super) found: Vec<ToolKey>,
    /// True once a call followed.
    pub(super) called: bool,
}

/// A call as the consequence of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Consequence {
    /// Identity of the search in the log; `None`: it is not logged.
    pub(super) search: Option<i64>,
    /// Rank of the tool, from 1; `None`: the search did not find it.
    pub(super) rank: Option<usize>,
}

/// The open searches of all clients.
#[derive(Debug)]
pub(super) struct Windows(LruCache<Client, VecDeque<OpenSearch>>);

impl Default for Windows {
    fn default() -> Self {
        Windows(LruCache::sparse(MAX_CLIENTS))
    }
}

impl OpenSearch {
    /// True if the search ended without a call, though it found tools.
    fn led_nowhere(&self) -> bool {
        !self.called && !self.found.is_empty()
    }
}

impl Windows {
    /// Opens a search. Returns the number of searches that ended without a call to make room.
    pub(super) fn open(&mut self, client: Client, search: OpenSearch) -> usize {
        if let Some(open) = self.0.get_mut(&client) {
            let oldest = if open.len() >= MAX_OPEN { open.pop_front() } else { None };
            open.push_back(search);
            return usize::from(oldest.is_some_and(|oldest| oldest.led_nowhere()));
        }
        let evicted = self.0.push(client, VecDeque::from([search]));
        evicted.map_or(0, |(_, open)| open.iter().filter(|search| search.led_nowhere()).count())
    }

    /// Matches a call with the searches before it; no consequences: it followed no search.
    pub(super) fn call(&mut self, client: &Client, tool: &ToolKey, at: i64) -> Vec<Consequence> {
        let Some(open) = self.0.get_mut(client) else { return Vec::new() };
        let mut fresh: Vec<_> = open.iter_mut().rev().filter(|search| is_fresh(search, at)).collect();
        let mut consequences = Vec::new();
        for search in &mut fresh {
            let place = search.found.iter().position(|found| found == tool);
            if let Some(place) = place.filter(|_| consequences.is_empty() || !search.called) {
                search.called = true;
                consequences.push(Consequence { search: search.id, rank: Some(place + 1) });
            }
        }
        if consequences.is_empty()
            && let Some(latest) = fresh.first_mut().filter(|search| !search.called)
        {
            latest.called = true;
            consequences.push(Consequence { search: latest.id, rank: None });
        }
        consequences
    }

    /// Closes the searches that get no more calls. Returns the number of searches without a call.
    pub(super) fn expire(&mut self, now: i64) -> usize {
        let mut led_nowhere = 0;
        let mut idle = Vec::new();
        for (client, open) in &mut self.0 {
            open.retain(|search| {
                let keeps = is_fresh(search, now);
                led_nowhere += usize::from(!keeps && search.led_nowhere());
                keeps
            });
            if open.is_empty() {
                idle.push(*client);
            }
        }
        for client in idle {
            self.0.pop(&client);
        }
        led_nowhere
    }
}

/// True within the window after a search. A clock that was set back closes no window.
fn is_fresh(search: &OpenSearch, now: i64) -> bool {
    now.saturating_sub(search.at) <= WINDOW_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::context_key::ContextKey;
    use crate::access::identity::PrincipalKey;

    fn client(number: u64) -> Client {
        Client { principal: PrincipalKey::Only, context: Some(ContextKey::Handle(number)) }
    }

    fn tool(name: &str) -> ToolKey {
        ("s".into(), name.into())
    }

    fn search(id: i64, at: i64, found: &[&str]) -> OpenSearch {
        let found = found.iter().map(|name| tool(name)).collect();
        OpenSearch { id: Some(id), at, found, called: false }
    }

    fn called(windows: &mut Windows, name: &str, at: i64) -> Vec<(i64, Option<usize>)> {
        let consequences = windows.call(&client(1), &tool(name), at).into_iter();
        consequences.map(|one| (one.search.unwrap(), one.rank)).collect()
    }

    #[test]
    fn a_call_belongs_to_the_searches_that_found_its_tool() {
        let mut windows = Windows::default();
        windows.open(client(1), search(1, 0, &["a", "b", "c"]));
        windows.open(client(1), search(2, 10, &["x"]));
        windows.open(client(1), search(3, 20, &["c", "a"]));
        assert_eq!(called(&mut windows, "a", 30), [(3, Some(2)), (1, Some(1))], "1 was worded again");
        assert_eq!(called(&mut windows, "c", 40), [(3, Some(1))], "1 has its call");
        assert_eq!(called(&mut windows, "z", 50), [], "the latest search has its call");
        windows.open(client(1), search(4, 60, &[]));
        assert_eq!(called(&mut windows, "z", 70), [(4, None)]);
        assert_eq!(called(&mut windows, "x", 80), [(2, Some(1))]);
        assert!(windows.call(&client(2), &tool("x"), 80).is_empty(), "another client");
    }

    #[test]
    fn searches_without_a_call_are_counted_once_at_their_end() {
        let mut windows = Windows::default();
        for id in 1..=5 {
            let ended = windows.open(client(1), search(id, id, &["a"]));
            assert_eq!(ended, usize::from(id == 5), "the fifth closes the first");
        }
        windows.open(client(2), search(6, 6, &[]));
        assert_eq!(called(&mut windows, "b", 7), [(5, None)]);
        assert_eq!(windows.expire(WINDOW_MS), 0, "all are open");
        assert_eq!(windows.expire(WINDOW_MS + 7), 3, "2, 3 and 4; 6 found nothing");
        assert_eq!(windows.expire(WINDOW_MS + 8), 0);
        assert_eq!(windows.0.len(), 0);
        assert_eq!(called(&mut windows, "a", WINDOW_MS + 9), []);
    }

    #[test]
    fn clients_are_bounded() {
        let mut windows = Windows::default();
        let most = MAX_CLIENTS.get() as u64;
        for number in 0..most {
            windows.open(client(number), search(1, 0, &["a"]));
        }
        assert_eq!(windows.open(client(most), search(1, 0, &["a"])), 1);
        assert_eq!(windows.0.len(), MAX_CLIENTS.get());
    }
}
