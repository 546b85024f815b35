//! Tools that follow a tool within a session: [`Sessions`] observes successful calls, [`SequelBook`] has the
//! counts. The book is immutable and swapped whole, so that requests read it without a lock.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use vmcp_store::StoredSequels;

use super::Client;
use crate::telemetry::tool_metrics::ToolKey;

/// Pause after which a client's next call begins another session, in milliseconds: half an hour.
const PAUSE_MS: i64 = 30 * 60 * 1000;
/// Clients whose sessions are followed, at most 20 KiB each; one more evicts the least recently active.
const MAX_CLIENTS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// Tools and pairs of one session that are counted; further ones are left out.
const MAX_OF_SESSION: usize = 128;
/// Tools of all owners; of more, the ones whose last session is longest ago go.
pub(super) const MAX_TOOLS: usize = 5000;
/// Tools that follow one tool; one more takes the place of the least frequent.
const MAX_NEXT: usize = 16;
/// Sessions in which a tool must have followed.
const MIN_SESSIONS: u64 = 5;
/// Share of the tool's sessions in which another must have followed, as a divisor: one in five.
const MIN_SHARE: u64 = 5;

/// A tool, and the identity whose sessions count; `None` for clients without one.
pub(super) type SequelKey = (Option<Arc<str>>, ToolKey);

/// The tools that followed one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sequels {
    /// Sessions in which the tool succeeded.
    sessions: u64,
    /// Tools that succeeded next, with the number of sessions.
    next: Vec<(ToolKey, u64)>,
    /// Time of the last session, in milliseconds since the Unix epoch.
    last_at: i64,
}

/// The counts of all tools. A clone shares them.
#[derive(Debug, Clone, Default)]
pub(super) struct SequelBook(HashMap<SequelKey, Arc<Sequels>>);

impl SequelBook {
    /// Returns the tools that often followed a tool, the most frequent first.
    pub(super) fn often_followed_by(&self, owner: Option<&Arc<str>>, tool: &ToolKey) -> Vec<ToolKey> {
        let Some(sequels) = self.0.get(&(owner.cloned(), tool.clone())) else { return Vec::new() };
        let is_often = |count: u64| count >= MIN_SESSIONS && count * MIN_SHARE >= sequels.sessions;
        let mut often: Vec<_> = sequels.next.iter().filter(|(_, count)| is_often(*count)).collect();
        often.sort_by_key(|(_, count)| Reverse(*count));
        often.into_iter().map(|(tool, _)| tool.clone()).collect()
    }

    fn change(&mut self, key: SequelKey, at: i64) -> &mut Sequels {
        let sequels = Arc::make_mut(self.0.entry(key).or_default());
        sequels.last_at = at;
        sequels
    }

    /// Removes the tools whose last session is longest ago, if there are too many: a tenth, so that this is
    /// seldom.
    fn prune(&mut self) {
        if self.0.len() <= MAX_TOOLS {
            return;
        }
        let mut times: Vec<_> = self.0.values().map(|sequels| sequels.last_at).collect();
        times.sort_unstable();
        let oldest_kept = times.get(times.len() - MAX_TOOLS * 9 / 10).copied().unwrap_or_default();
        self.0.retain(|_, sequels| sequels.last_at >= oldest_kept);
    }

    /// Returns the rows of tools.
    pub(super) fn rows<'a>(&self, keys: impl IntoIterator<Item = &'a SequelKey>) -> Vec<StoredSequels> {
        let row = |key: &SequelKey| {
            let sequels = self.0.get(key)?;
            let (owner, (backend, tool)) = key;
            let next: Vec<(&str, &str, u64)> =
                sequels.next.iter().map(|((server, tool), count)| (&**server, &**tool, *count)).collect();
            Some(StoredSequels {
                owner: owner.as_deref().unwrap_or_default().to_owned(),
                backend: backend.to_string(),
                tool: tool.to_string(),
                sessions: sequels.sessions,
                next: serde_json::to_string(&next).ok()?,
                last_at: sequels.last_at,
            })
        };
        keys.into_iter().filter_map(row).collect()
    }
}

impl FromIterator<StoredSequels> for SequelBook {
    /// Makes the book of stored rows. A row that cannot be read is left out, and counted again.
    fn from_iter<I: IntoIterator<Item = StoredSequels>>(rows: I) -> SequelBook {
        let entry = |row: StoredSequels| {
            let StoredSequels { owner, backend, tool, sessions, next, last_at } = row;
            let owner = (!owner.is_empty()).then(|| owner.into());
            let next: Vec<(String, String, u64)> = serde_json::from_str(&next).ok()?;
            let next = next.into_iter().map(|(server, tool, count)| ((server.into(), tool.into()), count));
            let next = next.take(MAX_NEXT).collect();
            let key = (owner, (backend.into(), tool.into()));
            Some((key, Arc::new(Sequels { sessions, next, last_at })))
        };
        SequelBook(rows.into_iter().filter_map(entry).collect())
    }
}

impl Sequels {
    fn follow(&mut self, tool: &ToolKey) {
        if let Some((_, count)) = self.next.iter_mut().find(|(known, _)| known == tool) {
            *count += 1;
            return;
        }
        if self.next.len() >= MAX_NEXT
            && let Some(least) = (0..self.next.len()).min_by_key(|at| self.next.get(*at).map(|next| next.1))
        {
            self.next.swap_remove(least);
        }
        self.next.push((tool.clone(), 1));
    }
}

/// One session of a client.
#[derive(Debug, Default)]
struct Session {
    last: Option<ToolKey>,
    last_at: i64,
    tools: HashSet<ToolKey>,
    pairs: HashSet<(ToolKey, ToolKey)>,
}

/// The sessions of all clients.
#[derive(Debug)]
pub(super) struct Sessions(LruCache<Client, Session>);

impl Default for Sessions {
    fn default() -> Self {
        Sessions(LruCache::sparse(MAX_CLIENTS))
    }
}

impl Sessions {
    /// Takes note of a successful call: counts its tool, and the pair with the tool before, once a session.
    /// Adds the tools whose counts changed to `changed`.
    pub(super) fn succeed(
        &mut self,
        client: Client,
        tool: &ToolKey,
        at: i64,
        book: &mut SequelBook,
        changed: &mut BTreeSet<SequelKey>,
    ) {
        let session = self.0.get_or_insert_mut(client, Session::default);
        if at.saturating_sub(session.last_at) > PAUSE_MS {
            *session = Session::default();
        }
        session.last_at = at;
        let owner = client.principal.owner();
        if session.tools.len() < MAX_OF_SESSION && session.tools.insert(tool.clone()) {
            let key = (owner.clone(), tool.clone());
            book.change(key.clone(), at).sessions += 1;
            changed.insert(key);
        }
        if let Some(before) = session.last.replace(tool.clone()).filter(|before| before != tool)
            && session.pairs.len() < MAX_OF_SESSION
            && session.pairs.insert((before.clone(), tool.clone()))
        {
            let key = (owner, before);
            book.change(key.clone(), at).follow(tool);
            changed.insert(key);
        }
        book.prune();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::PrincipalKey;

    const ALICE: PrincipalKey = PrincipalKey::Identity([1; 32]);

    fn tool(name: &str) -> ToolKey {
        ("s".into(), name.into())
    }

    fn run(book: &mut SequelBook, principal: PrincipalKey, sessions: i64, tools: &[&str]) {
        let (mut followed, mut changed) = (Sessions::default(), BTreeSet::new());
        for session in 0..sessions {
            for name in tools {
                let client = Client { principal, context: None };
                followed.succeed(client, &tool(name), session * (PAUSE_MS + 1), book, &mut changed);
            }
        }
    }

    #[test]
    fn a_tool_that_followed_in_five_sessions_is_named() {
        let mut book = SequelBook::default();
        run(&mut book, ALICE, 4, &["a", "b", "a", "b"]);
        let owner = ALICE.owner();
        assert_eq!(book.often_followed_by(owner.as_ref(), &tool("a")), [], "once a session");
        run(&mut book, ALICE, 1, &["a", "b"]);
        assert_eq!(book.often_followed_by(owner.as_ref(), &tool("a")), [tool("b")]);
        assert_eq!(book.often_followed_by(owner.as_ref(), &tool("b")), [], "four sessions");
        assert_eq!(book.often_followed_by(None, &tool("a")), [], "of another owner");
        run(&mut book, ALICE, 21, &["a", "c"]);
        assert_eq!(book.often_followed_by(owner.as_ref(), &tool("a")), [tool("c")], "five of 26 is seldom");
    }

    #[test]
    fn the_book_survives_its_rows_and_is_bounded() {
        let mut book = SequelBook::default();
        run(&mut book, ALICE, 5, &["a", "b"]);
        let keys: Vec<_> = book.0.keys().cloned().collect();
        let again: SequelBook = book.rows(&keys).into_iter().collect();
        assert_eq!(again.0, book.0);
        for number in 0..=MAX_TOOLS {
            book.change((None, tool(&number.to_string())), i64::try_from(number).unwrap() + i64::MAX / 2);
        }
        book.prune();
        assert!(
            book.0.len() <= MAX_TOOLS
                && book.often_followed_by(ALICE.owner().as_ref(), &tool("a")).is_empty()
        );
        let names: Vec<_> = (0..40).map(|number| number.to_string()).collect();
        let mut sequels = Sequels::default();
        for name in &names {
            sequels.follow(&tool(name));
        }
        assert_eq!(sequels.next.len(), MAX_NEXT);
    }
}
