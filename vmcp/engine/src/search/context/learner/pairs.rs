//! The thread that learns: takes uses out of the queue several times a second, commits the new pairs as one
//! transaction, and publishes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use vmcp_search::learning::{LearnedPair, Pruning, confidence_after};
use vmcp_store::{StateStore, StoreError, StoredPair};

use super::{Entry, SharedPairs, ToolUse};
use crate::random::now_ms;
use crate::search::context::Learned;
use crate::telemetry::tool_metrics::ToolKey;

/// Time between two commits: a crash loses no more than the uses of this time.
const COMMIT_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two looks for pairs that have to go; too many pairs are pruned at once.
const PRUNE_INTERVAL: Duration = Duration::from_hours(1);
/// Bounds on the pairs; 5,000 of 384 dimensions are 8 MB, and scanned in less than a millisecond.
const BOUNDS: Pruning = Pruning { threshold: 5000, min_confidence: 0.1, unused_ms: 30 * 24 * 60 * 60 * 1000 };

/// Runs until the learner is dropped.
pub(super) fn run(dir: Option<&Path>, entries: &Receiver<Entry>, woken: &Receiver<()>, pairs: &SharedPairs) {
    let opened =
        StateStore::open_or_in_memory(dir, "what is learned is kept in memory only", "nothing is learned");
    let Some(store) = opened else { return };
    let mut writer = PairWriter { store, pairs, texts: BTreeMap::new() };
    writer.load();
    let mut prune_at = Instant::now();
    loop {
        let ends = woken.recv_timeout(COMMIT_INTERVAL) == Err(RecvTimeoutError::Disconnected);
        writer.take(entries);
        if ends || Instant::now() >= prune_at {
            prune_at = Instant::now() + PRUNE_INTERVAL;
            writer.prune();
        }
        if ends {
            return;
        }
    }
}

struct PairWriter<'a> {
    store: StateStore,
    pairs: &'a SharedPairs,
    /// Texts of queries that are to be stored with the next commit, by pair.
    texts: BTreeMap<String, Arc<str>>,
}

impl PairWriter<'_> {
    /// Publishes what the database has.
    fn load(&self) {
        match self.store.all_learned() {
            Ok(stored) => {
                let mut learned = Learned::default();
                for pair in stored {
                    learned.upsert(of_stored(pair));
                }
                self.pairs.store(Arc::new(learned));
            }
            Err(error) => tracing::warn!(%error, "learned pairs could not be read"),
        }
    }

    /// Empties the queue in order, and commits its uses.
    fn take(&mut self, entries: &Receiver<Entry>) {
        let mut waiting = Vec::new();
        for entry in entries.try_iter() {
            match entry {
                Entry::Use(used) => waiting.push(used),
                Entry::Adopt(pairs) => {
                    self.learn(std::mem::take(&mut waiting));
                    self.adopt(pairs);
                }
                Entry::Flush(answer) => {
                    self.learn(std::mem::take(&mut waiting));
                    // The caller may have gone.
                    let _ = answer.send(());
                }
            }
        }
        self.learn(waiting);
    }

    fn learn(&mut self, waiting: Vec<ToolUse>) {
        if waiting.is_empty() {
            return;
        }
        let mut learned = Learned::clone(&self.pairs.load());
        let mut changed = BTreeMap::new();
        for used in waiting {
            let pair = learned_pair(&learned, &used);
            let id = pair.id.clone();
            if learned.upsert(pair) {
                if used.stores_text {
                    self.texts.insert(id.clone(), used.query);
                }
                changed.extend(learned.get(&id).map(|pair| (id, Arc::clone(pair))));
            }
        }
        let texts = std::mem::take(&mut self.texts);
        let rows: Vec<_> = changed.values().map(|pair| stored(pair, texts.get(&pair.id))).collect();
        self.publish(learned, &rows);
    }

    /// Takes over pairs of another replica; the later use of a pair wins, and what corrects at either does so
    /// here.
    fn adopt(&self, pairs: Vec<LearnedPair<ToolKey>>) {
        let mut learned = Learned::clone(&self.pairs.load());
        let mut rows = Vec::new();
        for pair in pairs {
            let id = pair.id.clone();
            let known = learned.get(&id);
            let is_new = known.is_none_or(|known| known.last_used < pair.last_used);
            let corrects = pair.corrects || known.is_some_and(|known| known.corrects);
            if is_new && learned.upsert(LearnedPair { corrects, ..pair }) {
                rows.extend(learned.get(&id).map(|pair| stored(pair, None)));
            }
        }
        self.publish(learned, &rows);
    }

    /// Writes the changed pairs, and puts all in force. Too many are pruned at once: until the next hour, the
    /// pairs of one client could grow without bound.
    fn publish(&self, learned: Learned, changed: &[StoredPair]) {
        self.write(|store| store.put_learned(changed));
        let is_full = learned.len() > BOUNDS.threshold;
        self.pairs.store(Arc::new(learned));
        if is_full {
            self.prune();
        }
    }

    fn prune(&self) {
        let mut learned = Learned::clone(&self.pairs.load());
        let removed = learned.prune(BOUNDS, now_ms());
        if removed.is_empty() {
            return;
        }
        tracing::info!(removed = removed.len(), kept = learned.len(), "learned pairs were pruned");
        self.write(|store| store.delete_learned(&removed));
        self.pairs.store(Arc::new(learned));
    }

    /// Writes to the database; a failure is logged, and what was learned stays in memory.
    fn write(&self, work: impl FnOnce(&StateStore) -> Result<(), StoreError>) {
        if let Err(error) = work(&self.store) {
            tracing::warn!(%error, "learned pairs could not be written; they are in memory only");
        }
    }
}

/// Returns the pair after this use.
fn learned_pair(learned: &Learned, used: &ToolUse) -> LearnedPair<ToolKey> {
    let (backend, tool) = &used.tool;
    let id = StoredPair::id_of(used.owner.as_deref(), &used.query, backend, tool);
    let before = learned.get(&id).filter(|pair| pair.model == used.embedding.model);
    LearnedPair {
        confidence: confidence_after(before.map(|pair| pair.confidence), used.signal, used.mode),
        model: Arc::clone(&used.embedding.model),
        vector: Arc::clone(&used.embedding.vector),
        tool: used.tool.clone(),
        owner: used.owner.clone(),
        last_used: used.at,
        // Stays, for it may be the pair itself that made the tool the first.
        corrects: !used.was_first || before.is_some_and(|pair| pair.corrects),
        id,
    }
}

fn of_stored(pair: StoredPair) -> LearnedPair<ToolKey> {
    LearnedPair {
        owner: StoredPair::owner_of(&pair.id).map(Arc::from),
        id: pair.id,
        model: pair.model_id.into(),
        vector: pair.vector.into(),
        tool: (pair.backend.into(), pair.tool.into()),
        confidence: pair.confidence,
        last_used: pair.last_used_at,
        corrects: pair.corrects,
    }
}

fn stored(pair: &LearnedPair<ToolKey>, query: Option<&Arc<str>>) -> StoredPair {
    StoredPair {
        id: pair.id.clone(),
        backend: pair.tool.0.to_string(),
        tool: pair.tool.1.to_string(),
        model_id: pair.model.to_string(),
        vector: pair.vector.to_vec(),
        query: query.map(ToString::to_string),
        confidence: pair.confidence,
        last_used_at: pair.last_used,
        corrects: pair.corrects,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use vmcp_search::learning::{AskedQuery, LearningMode, Signal, TierWeights};

    use super::*;
    use crate::search::context::QueryEmbedding;

    #[test]
    fn a_pair_corrects_from_the_first_time_that_its_tool_was_not_found_first() {
        let used = |was_first| ToolUse {
            query: "open the notes".into(),
            stores_text: false,
            embedding: QueryEmbedding { model: "m".into(), vector: [1.0, 0.0].into() },
            tool: ("files".into(), "read".into()),
            owner: None,
            mode: LearningMode::Promote,
            signal: Signal::Searched,
            was_first,
            at: 0,
        };
        let mut learned = Learned::default();
        for (was_first, corrects) in [(true, false), (false, true), (true, true)] {
            let pair = learned_pair(&learned, &used(was_first));
            assert_eq!(pair.corrects, corrects);
            learned.upsert(pair);
        }
    }

    #[test]
    fn an_identity_owns_what_it_teaches_also_after_a_restart() {
        let used = |owner: Option<&str>| ToolUse {
            query: "open the notes".into(),
            stores_text: false,
            embedding: QueryEmbedding { model: "m".into(), vector: [1.0, 0.0].into() },
            tool: ("files".into(), "read".into()),
            owner: owner.map(Arc::from),
            mode: LearningMode::Promote,
            signal: Signal::Searched,
            was_first: false,
            at: 0,
        };
        let mut learned = Learned::default();
        for owner in [Some("a1"), Some("b2"), None] {
            let pair = learned_pair(&learned, &used(owner));
            let restored = of_stored(stored(&pair, None));
            assert_eq!(restored.owner.as_deref(), owner);
            learned.upsert(restored);
        }
        assert_eq!(learned.len(), 3);
        let asked = AskedQuery { model: "m", vector: &[1.0, 0.0], owner: Some("a1") };
        let near = learned.nearest(&asked, 9).into_iter().map(|(_, pair)| pair.owner.as_deref());
        assert_eq!(near.collect::<Vec<_>>(), [None, Some("a1")], "another's pair says nothing");
    }

    #[test]
    fn too_many_pairs_are_pruned_at_once_and_none_of_an_owner_with_few() {
        let now = now_ms();
        let used = |number: usize, owner: &str| ToolUse {
            query: format!("query {number}").into(),
            stores_text: false,
            embedding: QueryEmbedding { model: "m".into(), vector: [1.0, 0.0].into() },
            tool: ("files".into(), "read".into()),
            owner: Some(owner.into()),
            mode: LearningMode::Promote,
            signal: Signal::Searched,
            was_first: false,
            at: now,
        };
        let pairs = SharedPairs::default();
        let mut writer =
            PairWriter { store: StateStore::in_memory().unwrap(), pairs: &pairs, texts: BTreeMap::new() };
        let owned = |owner: &str| {
            let pairs = pairs.load_full();
            pairs.all().filter(|pair| pair.owner.as_deref() == Some(owner)).count()
        };
        writer.learn(vec![used(0, "quiet")]);
        writer.learn((0..BOUNDS.threshold).map(|number| used(number, "busy")).collect());
        assert_eq!((owned("quiet"), owned("busy")), (1, 4499));
        assert_eq!(writer.store.all_learned().unwrap().len(), 4500);

        let of_replica = (0..600).map(|number| learned_pair(&Learned::default(), &used(number, "remote")));
        writer.adopt(of_replica.collect());
        assert_eq!((owned("quiet"), owned("remote"), owned("busy")), (1, 600, 3899));
        assert_eq!(writer.store.all_learned().unwrap().len(), 4500);
    }

    #[test]
    fn pairs_without_use_for_a_month_go_at_the_start_and_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let store = StateStore::open(folder.path()).unwrap();
        let unused_for = |days: i64| StoredPair {
            id: format!("{days} days"),
            backend: "files".to_owned(),
            tool: "read".to_owned(),
            model_id: "m".to_owned(),
            vector: vec![1.0, 0.0],
            query: None,
            confidence: 1.5,
            last_used_at: now_ms() - days * 24 * 60 * 60 * 1000,
            corrects: true,
        };
        store.put_learned(&[unused_for(31), unused_for(29)]).unwrap();
        let stored = || store.all_learned().unwrap().into_iter().map(|pair| pair.id).collect::<Vec<_>>();
        let pairs = SharedPairs::default();
        let (wake, woken) = mpsc::channel();
        let (queue, entries) = mpsc::sync_channel(1);
        let (dir, shared) = (folder.path().to_owned(), Arc::clone(&pairs));
        let thread = std::thread::spawn(move || run(Some(&dir), &entries, &woken, &shared));
        let begun = Instant::now();
        while pairs.load().len() != 1 {
            assert!(begun.elapsed() < Duration::from_mins(1), "waited in vain: {:?}", stored());
            std::thread::park_timeout(Duration::from_millis(10));
        }
        assert_eq!(stored(), ["29 days"]);

        queue.send(Entry::Adopt(vec![of_stored(unused_for(40))])).unwrap();
        drop(wake);
        thread.join().unwrap();
        assert_eq!(stored(), ["29 days"]);
        assert_eq!(pairs.load().len(), 1);
    }

    /// Cosines of five tools' texts with a query, of which the last tool is the unlikely one.
    const BY_TEXT: [(&str, f32); 5] =
        [("db_query", 0.99), ("echo", 0.53), ("web_search", 0.11), ("file_write", 0.02), ("file_read", 0.01)];

    /// Returns the place of the unlikely tool among the five, once the pairs that are known have their say.
    fn rank(learned: &Learned, vector: &[f32]) -> usize {
        let by_use = learned.nearest(&AskedQuery { model: "m", vector, owner: None }, 30).into_iter();
        let by_use: Vec<_> = by_use.map(|(cosine, pair)| (&*pair.tool.1, cosine)).collect();
        let merged = vmcp_search::learning::merge(&BY_TEXT, &by_use, TierWeights::default(), 5);
        merged.iter().position(|(tool, _)| *tool == "file_read").unwrap() + 1
    }

    #[test]
    fn a_restart_keeps_the_rank_that_a_tool_has_by_its_use() {
        let folder = tempfile::tempdir().unwrap();
        let vector: Arc<[f32]> = [0.0, 0.05, 0.0, 0.95].into();
        let start = || {
            let pairs = SharedPairs::default();
            let writer = PairWriter {
                store: StateStore::open(folder.path()).unwrap(),
                pairs: &pairs,
                texts: BTreeMap::new(),
            };
            writer.load();
            (rank(&pairs.load(), &vector), pairs.load().len())
        };
        assert_eq!(start(), (5, 0), "without what was learned");
        let pairs = SharedPairs::default();
        let mut writer = PairWriter {
            store: StateStore::open(folder.path()).unwrap(),
            pairs: &pairs,
            texts: BTreeMap::new(),
        };
        writer.learn(vec![ToolUse {
            query: "query the database".into(),
            stores_text: false,
            embedding: QueryEmbedding { model: "m".into(), vector: Arc::clone(&vector) },
            tool: ("files".into(), "file_read".into()),
            owner: None,
            mode: LearningMode::Promote,
            signal: Signal::Searched,
            was_first: false,
            at: 0,
        }]);
        assert_eq!(rank(&pairs.load(), &vector), 2);
        drop(writer);
        assert_eq!(start(), (2, 1), "in the next process");
    }
}
