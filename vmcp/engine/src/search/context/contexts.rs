//! [`Contexts`]: the contexts of clients, in memory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use vmcp_backend::SessionId;
use vmcp_search::learning::LearningMode;

use crate::access::context_key::ContextKey;
use crate::access::identity::PrincipalKey;
use crate::telemetry::tool_metrics::ToolKey;

/// Contexts of this process, 1 to 3 KiB each; one more evicts the least recently used.
const MAX_CONTEXTS: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();
/// Contexts of one principal; one more evicts its own least recently used.
const MAX_CONTEXTS_PER_PRINCIPAL: usize = 5000;
/// Time after which an unchanged context is forgotten.
const LIFETIME: Duration = Duration::from_hours(24);
/// Changes that wait for the task that tells clients; beyond them, a client finds its new list when it asks.
const MAX_UNTOLD: usize = 1024;
/// Tools that a context remembers as found.
const MAX_FOUND: usize = 500;
/// Tools that a context remembers as called: the most that `retainRecentCalls` can ask for.
const MAX_RECENT: usize = 20;

/// Embedding of a query, and the model that made it.
#[derive(Debug, Clone)]
pub struct QueryEmbedding {
    /// Id of the model.
    pub model: Arc<str>,
    /// The vector, of unit length.
    pub vector: Arc<[f32]>,
}

/// The task that a client is busy with.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The task in plain words.
    pub query: Arc<str>,
    /// `None`: the query could not be embedded; nothing is chosen or learned.
    pub embedding: Option<QueryEmbedding>,
    /// True if uses of tools are learned.
    pub learns: bool,
    /// Way to learn from them.
    pub mode: LearningMode,
    /// True if the query's text is stored with learned pairs.
    pub stores_text: bool,
    /// Tools of the list that was chosen for this context and served.
    pub listed: HashSet<ToolKey>,
    /// Tools that searches within this context found.
    pub found: HashSet<ToolKey>,
    /// Tools that a search within this context found first.
    pub found_first: HashSet<ToolKey>,
    /// Tools of the client's latest calls, the newest first, also of the context before.
    pub recent: VecDeque<ToolKey>,
}

impl Context {
    /// Remembers a call of a tool.
    pub(crate) fn calls(&mut self, tool: ToolKey) {
        self.recent.retain(|known| *known != tool);
        self.recent.push_front(tool);
        self.recent.truncate(MAX_RECENT);
    }

    /// Remembers tools that a search found, best first.
    pub fn finds(&mut self, tools: impl IntoIterator<Item = ToolKey>) {
        let mut tools = tools.into_iter().peekable();
        if self.found_first.len() < MAX_FOUND {
            self.found_first.extend(tools.peek().cloned());
        }
        self.sees(tools);
    }

    /// Remembers tools that were found in another order than a search's.
    pub fn sees(&mut self, tools: impl IntoIterator<Item = ToolKey>) {
        let room = MAX_FOUND.saturating_sub(self.found.len());
        self.found.extend(tools.into_iter().take(room));
    }
}

#[derive(Debug)]
struct Entry {
    principal: PrincipalKey,
    set_at: Instant,
    context: Context,
}

#[derive(Debug)]
struct Table {
    entries: LruCache<ContextKey, Entry>,
    of_principal: HashMap<PrincipalKey, usize>,
}

/// The contexts of all clients of a process.
#[derive(Debug)]
pub struct Contexts {
    table: Mutex<Table>,
    changed: broadcast::Sender<SessionId>,
}

impl Default for Contexts {
    fn default() -> Self {
        let table = Table { entries: LruCache::sparse(MAX_CONTEXTS), of_principal: HashMap::new() };
        Contexts { table: Mutex::new(table), changed: broadcast::Sender::new(MAX_UNTOLD) }
    }
}

impl Contexts {
    /// Sets the context of a client in place of the one before. Tools that were listed and found before count
    /// no more; the latest calls stay. Returns false if the key is another principal's.
    pub fn set(&self, key: ContextKey, principal: PrincipalKey, mut context: Context) -> bool {
        let mut table = self.table.lock();
        if table.entries.peek(&key).is_some_and(|entry| entry.principal != principal) {
            return false;
        }
        if let Some(before) = table.entries.peek(&key) {
            context.recent.clone_from(&before.context.recent);
        }
        table.remove(key);
        table.make_room(principal);
        table.entries.put(key, Entry { principal, set_at: Instant::now(), context });
        *table.of_principal.entry(principal).or_default() += 1;
        true
    }

    /// Tells a session that its list of tools is another; a client without a session cannot be told.
    pub fn announce(&self, key: ContextKey) {
        if let ContextKey::Session(session) = key {
            // Fails only without a receiver.
            let _ = self.changed.send(session);
        }
    }

    /// Runs `work` on a client's context; `None` if it has none.
    pub fn with<T>(
        &self,
        key: ContextKey,
        principal: PrincipalKey,
        work: impl FnOnce(&mut Context) -> T,
    ) -> Option<T> {
        let mut table = self.table.lock();
        if table.entries.is_empty() {
            return None;
        }
        let entry = table.entries.get_mut(&key).filter(|entry| entry.principal == principal)?;
        if entry.set_at.elapsed() > LIFETIME {
            table.remove(key);
            return None;
        }
        Some(work(&mut entry.context))
    }

    /// Forgets the context of a session that ended.
    pub fn forget(&self, session: SessionId) {
        self.table.lock().remove(ContextKey::Session(session));
    }

    /// Watches for sessions whose list of tools is another.
    pub fn changes(&self) -> broadcast::Receiver<SessionId> {
        self.changed.subscribe()
    }
}

impl Table {
    fn remove(&mut self, key: ContextKey) {
        if let Some(entry) = self.entries.pop(&key) {
            self.released(entry.principal);
        }
    }

    fn released(&mut self, principal: PrincipalKey) {
        if let Some(count) = self.of_principal.get_mut(&principal) {
            *count -= 1;
            if *count == 0 {
                self.of_principal.remove(&principal);
            }
        }
    }

    /// Evicts one context of a principal at its share, or of any at the limit of the process.
    fn make_room(&mut self, principal: PrincipalKey) {
        let share = self.of_principal.get(&principal).copied().unwrap_or_default();
        let evicted = if share >= MAX_CONTEXTS_PER_PRINCIPAL {
            self.entries.iter().rev().find(|(_, entry)| entry.principal == principal).map(|(key, _)| *key)
        } else if self.entries.len() >= MAX_CONTEXTS.get() {
            self.entries.peek_lru().map(|(key, _)| *key)
        } else {
            None
        };
        if let Some(evicted) = evicted {
            self.remove(evicted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: PrincipalKey = PrincipalKey::Identity([1; 32]);
    const BOB: PrincipalKey = PrincipalKey::Identity([2; 32]);

    fn about(query: &str) -> Context {
        Context { query: query.into(), ..Context::default() }
    }

    fn query(contexts: &Contexts, key: ContextKey, principal: PrincipalKey) -> Option<String> {
        contexts.with(key, principal, |context| context.query.to_string())
    }

    #[test]
    fn each_client_has_its_own_context_and_no_other() {
        let contexts = Contexts::default();
        let (one, other) = (ContextKey::Handle(1), ContextKey::Handle(2));
        assert!(contexts.set(one, ALICE, about("files")) && contexts.set(other, ALICE, about("mail")));
        assert_eq!(query(&contexts, one, ALICE).as_deref(), Some("files"));
        assert_eq!(query(&contexts, other, ALICE).as_deref(), Some("mail"));
        assert_eq!(query(&contexts, one, BOB), None, "a handle is its principal's");
        assert!(!contexts.set(one, BOB, about("flights")));
        assert_eq!(query(&contexts, one, ALICE).as_deref(), Some("files"));
    }

    #[test]
    fn a_new_context_forgets_what_was_found_before() {
        let contexts = Contexts::default();
        let key = ContextKey::Handle(1);
        contexts.set(key, ALICE, about("files"));
        let tool: ToolKey = ("files".into(), "read".into());
        contexts.with(key, ALICE, |context| context.finds([tool.clone()]));
        assert_eq!(contexts.with(key, ALICE, |context| context.found.contains(&tool)), Some(true));
        contexts.set(key, ALICE, about("mail"));
        assert_eq!(contexts.with(key, ALICE, |context| context.found.is_empty()), Some(true));
    }

    #[test]
    fn the_latest_calls_outlive_a_change_of_the_context() {
        let contexts = Contexts::default();
        let key = ContextKey::Handle(1);
        let tool = |name: &str| -> ToolKey { ("files".into(), name.into()) };
        contexts.set(key, ALICE, about("files"));
        contexts.with(key, ALICE, |context| {
            for name in ["read", "write", "read"] {
                context.calls(tool(name));
            }
        });
        contexts.set(key, ALICE, about("mail"));
        let recent = contexts.with(key, ALICE, |context| context.recent.clone()).unwrap();
        assert_eq!(recent, ["read", "write"].map(tool));
        for number in 0..2 * MAX_RECENT {
            contexts.with(key, ALICE, |context| context.calls(tool(&number.to_string())));
        }
        assert_eq!(contexts.with(key, ALICE, |context| context.recent.len()), Some(MAX_RECENT));
    }

    #[test]
    fn a_context_knows_what_each_search_found_first() {
        let tool = |name: &str| -> ToolKey { ("files".into(), name.into()) };
        let mut context = about("files");
        context.finds(["read", "write"].map(tool));
        context.finds([]);
        context.finds(["list", "read"].map(tool));
        assert_eq!(context.found.len(), 3);
        assert_eq!(context.found_first, HashSet::from(["read", "list"].map(tool)));
        context.sees(["delete"].map(tool));
        assert_eq!((context.found.len(), context.found_first.len()), (4, 2));
    }

    #[test]
    fn one_principal_evicts_only_its_own() {
        let contexts = Contexts::default();
        contexts.set(ContextKey::Handle(u64::MAX), BOB, about("mail"));
        for number in 0..=MAX_CONTEXTS_PER_PRINCIPAL as u64 {
            contexts.set(ContextKey::Handle(number), ALICE, about("files"));
        }
        assert_eq!(query(&contexts, ContextKey::Handle(0), ALICE), None);
        assert!(query(&contexts, ContextKey::Handle(1), ALICE).is_some());
        assert!(query(&contexts, ContextKey::Handle(u64::MAX), BOB).is_some());
        assert_eq!(contexts.table.lock().entries.len(), MAX_CONTEXTS_PER_PRINCIPAL + 1);
    }

    #[test]
    fn a_handle_is_sixteen_digits() {
        let key = ContextKey::Handle(0xab);
        assert_eq!(key.handle().as_deref(), Some("00000000000000ab"));
        assert_eq!(ContextKey::of_handle("00000000000000ab"), Some(key));
        assert_eq!(ContextKey::of_handle("ab"), None);
        assert_eq!(ContextKey::of_handle("+0000000000000ab"), None);
    }
}
